//! Failing devices: errors reach only the requests concerned, all others continue, nothing hangs or returns wrong data, and after the
//! following power cut all flushed data is there.

mod rig;

mod flushes;
mod histories;
mod journal;
mod opening;
mod requests;

//! Devices that fail: errors go to whom they concern, everybody else goes on, nothing hangs, nothing is wrong, and
//! after the power cut that follows all that was flushed is there.

mod rig;

mod flushes;
mod histories;
mod journal;
mod opening;
mod requests;

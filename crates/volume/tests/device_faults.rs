//! Devices that fail: errors go to whom they concern, everybody else goes on, nothing hangs, nothing is wrong, and
//! after the power cut that follows all that was flushed is there.

#![allow(clippy::unwrap_used)]

mod world;

#[path = "device_faults/rig.rs"]
mod rig;

#[path = "device_faults/flushes.rs"]
mod flushes;
#[path = "device_faults/histories.rs"]
mod histories;
#[path = "device_faults/journal.rs"]
mod journal;
#[path = "device_faults/opening.rs"]
mod opening;
#[path = "device_faults/requests.rs"]
mod requests;

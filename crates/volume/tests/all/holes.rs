//! One regression test for each hole that reading the engine's first edition showed. Each tells in its comment what went
//! wrong, and asks only what a host may ask: that data is there, right, and that requests end.

pub mod device;
pub mod rig;
pub mod seen;

mod alone;
mod away;
mod bands;
mod capacity_side;
mod collect;
mod destage;
mod disks;
mod features;
mod flushes;
mod growth;
mod index_room;
mod journal_end;
mod lost_devices;
mod memory;
mod reads;
mod space;
mod status;
mod summaries;
mod unarrived;
mod unreadable;
pub mod versions;

//! One regression test for each fault that a review of the engine's first version found. Each comment describes the fault; the tests check
//! only what a host may expect: data is there and right, and requests end.

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
mod rewritten;
mod space;
mod status;
mod summaries;
mod unarrived;
mod unmovable;
mod unreadable;
pub mod versions;

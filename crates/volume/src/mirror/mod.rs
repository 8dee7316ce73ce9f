//! A mirrored fast tier: several devices that hold the same, as one device to the engine.
//!
//! A write ends when all members have it. A member that fails a write is left behind, and no write or flush is answered before the labels
//! of all other devices of the pool say so ([`crate::layout::member_label`]): a later opening knows by them that this member is old. A read
//! that fails is answered by another member, and what could not be read is written again from there. What was read and is wrong the engine
//! reads again, from another member each time ([`forebay_block::Op::Read`]), and writes what it finds good to all. A member that replaces
//! another gets all writes from the beginning, is copied to in order, and is read from when it holds everything.

mod assembly;
mod belief;
mod copying;
mod device;
mod error;
mod flight;
mod former;
mod join;
mod labelling;
mod labels;
mod member;
mod members;
mod rebuild;
mod roster;
mod successors;
mod view;

pub use assembly::{Joined, new_geometry, new_mirror};
pub use belief::Unproven;
pub(crate) use belief::{is_believed, missing_ids};
pub use device::Mirror;
pub use error::JoinError;
pub(crate) use flight::Ranges;
pub use former::Former;
pub use join::{Candidate, Consent, clear_labels, former, join, read_label};
pub(crate) use labels::CapacityLabels;
pub(crate) use member::{Member, gone, numbers_in};
pub(crate) use successors::{Successors, Taken};
pub use view::{MemberState, MemberStatus, MirrorStatus, MirrorView};

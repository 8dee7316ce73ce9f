//! A capacity tier with parity: several devices as one to the engine, of which as many may be lost as there are blocks of parity in a row.
//!
//! A *row* is one block of 4 KiB at the same place of each member: blocks of data, and parity of them. The engine writes bands from their start to their
//! end, so that most rows are written whole, with their parity, at once. Of a row that is written in parts the parity goes to a log, with checksums of what
//! it covers, until the row is whole; what else lies in the row counts as zeros there. So a power cut within a write hurts nothing that was written beside it
//! before, also where a member is lost with it, and parity in a row's own place is never of data that is being changed. Whoever writes into a row of which
//! it is not known what lives in it has what lives put into the log first.
//!
//! Which member holds everything is in a label on each of them. A member that fails a write is left behind, and no write or flush is answered before the
//! others have the label that says so. What can be read wrongly is known to the engine alone, by its checksums: it asks for another reading.

mod array;
mod candidates;
mod chores;
mod code;
mod combination;
mod core;
mod doubt;
mod erasing;
mod filling;
mod follow;
mod found;
mod fronts;
mod jobs;
mod join;
mod labels;
mod look;
mod members;
mod mends;
mod open_rows;
mod pause;
mod pieces;
mod plan;
mod probing;
mod reading;
mod rebuilding;
mod refusal;
mod roster;
mod unflushed;
mod upkeep;
mod view;
mod writing;

pub use crate::layout::array_shape::{MEMBERS_MAX, Redundancy, RedundancyError, Shape};
pub use array::Array;
pub use join::{Joined, join, new_array};
pub use look::{former, read_label};
pub use plan::{ShapeError, plan_shape};
pub use refusal::JoinError;
pub use view::ArrayView;

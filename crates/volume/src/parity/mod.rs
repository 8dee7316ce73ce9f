//! A capacity tier with parity: several devices that are one to the engine, of which as many may be lost as a row has blocks of parity.
//!
//! A *row* is one block of 4 KiB at the same place of each member: blocks of data, and their parity. The engine writes bands from start to
//! end, so that most rows are written whole, with their parity, at once. While a row is written in parts, its parity goes to a log, with
//! checksums of the blocks that it covers, until the row is whole; the other blocks of the row count as zeros there. So a power cut during
//! a write damages nothing that was written beside it before, even where a member is lost with it, and the parity in a row's own place is
//! never of data that is being changed. Before a write into a row of unknown contents, what lives in the row goes into the log.
//!
//! A label on each member says which members hold everything. A member that fails a write is left behind, and no write or flush is answered
//! before the others have the label that says so. Only the engine can know, by its checksums, that something was read wrongly: it asks for
//! another reading.

mod array;
mod assembly;
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
mod judgement;
mod label_places;
mod labels;
mod look;
mod members;
mod mends;
mod open_rows;
mod overwriting;
mod parts;
mod pause;
mod pieces;
mod plan;
mod probing;
mod proving;
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
pub use assembly::Joined;
pub use join::join;
pub use look::{former, read_label};
pub use parts::new_array;
pub use plan::{ShapeError, plan_shape};
pub use refusal::JoinError;
pub use view::ArrayView;

//! Settings that are changed at run time, recorded before and put back after.
//!
//! A [`Plan`] says what a [`Profile`] would change, purely by reading. Before the first change a [`Record`] of it all lies durably
//! in a [`Store`], so that whoever comes after a crash can put it back; [`put`] carries out one step of it, either way.

mod carry;
mod files;
mod hold;
mod plan;
mod process;
mod record;
mod setting;
mod step;
mod store;

pub use carry::{Done, Held, Side, put, put_back, verify};
pub use hold::{Hold, HoldError};
pub use plan::{Left, Plan};
pub use record::{Record, RecordError, boot_id};
pub use setting::{Profile, SETTINGS, Setting};
pub use step::Step;
pub use store::{Store, StoreError};

//! Settings that are changed at run time, recorded before, and restored afterwards.
//!
//! A [`Plan`] determines what a [`Profile`] would change, by reading only. Before the first change, a [`Record`] of
//! all changes is stored durably in a [`Store`], so that a later process can restore the settings after a crash;
//! [`put`] performs one step of the plan in either direction.

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

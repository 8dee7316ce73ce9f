//! Formatting, opening and recovering a pool.

pub mod alone;
pub mod capacity;
pub(crate) mod checkpoints;
pub mod degraded;
mod disks;
mod durable;
mod fence;
pub mod format;
mod late;
mod leaves;
mod loaded;
pub mod lost;
pub mod members;
pub mod open;
pub mod opened;
mod opened_root;
mod policy_state;
mod present;
mod replay;
mod replayed;
mod report;
mod survey;
mod surveyor;
mod torn;
mod warm_list;
mod written;

pub use alone::{AloneError, AloneReport, open_alone, verify_alone};
pub use degraded::{DegradedReport, open_degraded};
pub use format::{FormatError, format};
pub use members::{MemberError, assemble, read_superblock};
pub use open::{open, salvage};
pub use policy_state::PolicyState;
pub use report::{OpenError, RecoveryReport};

//! Opens, formats and recovers the pool of a configuration.

mod access;
mod backend;
mod backing;
pub mod base;
pub mod capacity;
pub mod classes;
mod devices;
mod endurance;
pub mod fast;
mod format;
mod ids;
pub mod lifetimes;
mod memory;
mod missing;
mod offers;
mod open;
pub mod read_cache;
pub mod scrub;
pub mod stays;
mod takeover;
mod watched;

pub use backend::PoolBackend;
pub use backing::notes as backing_notes;
pub use devices::{
    clear_buckets, is_absent, is_missing, make_in_buckets, open_devices, open_target, refuse_while_served,
};
pub use forebay_export::server::monotonic_ns as now_ns;
pub use format::format;
pub use ids::Ids;
pub use memory::Budget;
pub use missing::explain_blank;
pub use offers::Offers;
pub use open::{Left, Opened, Opening, alone, disk_lines, explain, open, open_all, open_as, open_read_only};
pub use watched::{UNANSWERED, Watched, WatchedOne};

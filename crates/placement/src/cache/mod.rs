//! Which blocks of the capacity tier have copies on a faster tier: the policy of a read cache, and other policies for
//! comparison.
//!
//! Only blocks of the capacity tier are cached. A written block is staged on the fast tier or written to the capacity
//! tier directly; in both cases an older copy is worthless, and is removed.

mod arc;
mod belady;
mod ghosts;
mod index;
mod key;
mod lru;
mod nodes;
mod policy;
mod replacement;
mod runs;
mod s3_fifo;
mod s3_fifo_static;
mod sample;
mod sieve;
mod tiny_lfu;
mod two_tiers;

pub use belady::{Event, optimum_hits};
pub use key::Key;
pub use policy::Policy;
pub use replacement::Replacement;
pub use s3_fifo::{Admitted, Counts, S3Fifo, Seen, Warm};
pub use two_tiers::TwoTiers;

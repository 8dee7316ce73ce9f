//! Which blocks of the capacity tier have copies on a faster one: the policy of a read cache, and others that it is compared with.
//!
//! Only blocks of the capacity tier are cached. What is written is staged on the fast tier or written past it; in both cases
//! an older copy is worth nothing, and goes.

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

//! What can be said of a pool of Forebay's on its machine.

pub use crate::rules::pool::{POOL_RULES, PoolRule};
pub use crate::settings::pool::{Member, MemberQueue, Pool};

//! Rules about a Forebay pool, and the facts that they judge.

pub use crate::rules::pool::{POOL_RULES, PoolRule};
pub use crate::settings::pool::{Member, MemberQueue, Pool};

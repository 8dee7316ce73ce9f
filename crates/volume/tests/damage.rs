//! Devices that were damaged, truncated, exchanged or replaced by older copies of themselves: a clear error each, or
//! right data, or an error for just the blocks concerned. Never a panic, never wrong data, never an older version.

#![allow(clippy::unwrap_used)]

mod world;

#[path = "damage/harm.rs"]
mod harm;
#[path = "damage/judge.rs"]
mod judge;

#[path = "damage/members.rs"]
mod members;
#[path = "damage/ranges.rs"]
mod ranges;
#[path = "damage/scrub.rs"]
mod scrub;
#[path = "damage/service.rs"]
mod service;
#[path = "damage/structures.rs"]
mod structures;

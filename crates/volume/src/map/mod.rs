//! The map: disks, index pages held in memory, leaves paged through frames.

pub mod change;
pub mod frames;
pub mod index;
pub mod tiers;

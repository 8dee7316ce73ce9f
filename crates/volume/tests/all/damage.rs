//! Devices that were damaged, truncated, exchanged or replaced by older copies of themselves: a clear error each, or
//! right data, or an error for just the blocks concerned. Never a panic, never wrong data, never an older version.

mod harm;
mod judge;

mod members;
mod ranges;
mod scrub;
mod service;
mod structures;

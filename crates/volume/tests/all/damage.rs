//! Devices that are damaged, truncated, exchanged or replaced by older copies of themselves: a clear error, right data, or an error for
//! only the affected blocks. Never a panic, wrong data or an older version.

mod harm;
mod judge;

mod members;
mod ranges;
mod scrub;
mod service;
mod structures;

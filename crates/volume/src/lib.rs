//! The tiered volume, sans-I/O: mapping, journal, staging, bands, garbage collection, recovery.
#![forbid(unsafe_code)]

mod absent;
pub mod engine;
pub mod io;
mod journal;
pub mod layout;
mod map;
pub mod mirror;
mod overlay;
pub mod overwrite_watch;
pub mod parity;
pub mod pool;
mod readings;
pub mod recovery;
pub mod request;
mod runs;
mod space;
mod spare_copies;
pub mod verify;
mod virtual_time;

pub use engine::{AdminError, Engine, EngineOptions, Status};
pub use forebay_prism::HostHints;
pub use io::Devices;
pub use pool::Pool;
pub use request::{Completion, Extent, ExtentState, HintPart, HintParts, Op, Outcome, Request, RequestError};

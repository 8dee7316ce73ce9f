//! Capture: what a block device of this machine is asked to do, request by request, from two probes in the kernel.

mod error;
mod event;
mod probes;

pub use error::CaptureError;
pub use event::{Complete, Event, Issue, Issuer};
pub use probes::{ProbeCost, Probes, Watch};

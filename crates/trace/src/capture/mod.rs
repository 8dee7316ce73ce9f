//! Capture: records what a block device of this machine is asked to do, request by request, by probes in the kernel.
//!
//! The probes (`bpf/capture.bpf.c`) keep no state: they report each issue and completion. [`Probes`] reads their ring, [`Matcher`] converts
//! events to requests and counts depths, and [`Recorder`] writes these to files ([`crate::format::segments`]) and totals them.

mod disk;
mod error;
mod event;
mod files;
mod ftrace;
mod matcher;
mod output;
mod probes;
mod processes;
mod recorder;
mod totals;

pub use disk::{Disk, DiskStat, Target};
pub use error::CaptureError;
pub use event::{Complete, Event, Issue, Issuer};
pub use matcher::{Counts, Filter, Matched, Matcher, Range};
pub use output::{OutputOptions, process_name};
pub use probes::{DISKS_MAX, ProbeCost, Probes, Watch};
pub use processes::with_children;
pub use recorder::{RecordOptions, Recorder, Summary, Tracer, VolumeSummary};
pub use totals::{Latencies, OpTotals, Totals};

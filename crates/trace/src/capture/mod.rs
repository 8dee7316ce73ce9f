//! Capture: what a block device of this machine is asked to do, request by request, from probes in the kernel.
//!
//! The probes (`bpf/capture.bpf.c`) keep no state: they tell of an issue, a completion. [`Probes`] reads their ring, [`Matcher`]
//! makes requests of events and counts depths, and [`Recorder`] puts them into files ([`crate::format::segments`]) and sums.

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

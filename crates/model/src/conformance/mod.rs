//! The published tables, reproduced on the models.
//!
//! Half of the tests of a drive were used to fit its parameters and those of the hosts, which were then frozen; the rest
//! is held out. `published.toml` says which, and [`FREE`] names what was free.

mod closed;
mod latency;
pub mod prediction;
mod table;
#[cfg(test)]
mod tests;

pub use closed::{Figures, Pattern, Workload, closed_loop};
pub use latency::Latencies;
pub use table::{Behind, ConformanceError, Measure, Options, Relation, Row, Test, Use, published, run};

/// What was free in the fit of the P4800X and of the hosts of its two tables; `examples/fit_xpoint.rs` repeats it. All
/// other numbers of presets and profiles were set before and stayed.
pub const FREE: [&str; 18] = [
    "drive.controller_ns",
    "drive.commands",
    "drive.channel_read_ns",
    "drive.channel_write_ns",
    "drive.turnaround_ns",
    "drive.registers",
    "drive.die_read_recovery_ns",
    "drive.die_write_recovery_ns",
    "drive.refresh.length_ns",
    "drive.levelling.every_writes",
    "drive.levelling.length_ns",
    "linux-anandtech.between_ns",
    "linux-anandtech-sync.between_ns",
    "linux.long_ns",
    "windows-inbox.short_ns",
    "windows-inbox.long_ns",
    "windows-intel.short_ns",
    "windows-intel.long_ns",
];

//! Messages between coordinator and hosts: one line of JSON each.

use crate::measure::JobSource;
use forebay_bench::run::{Figures, MachineUse, TargetFacts};
use forebay_device::counters::Difference;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the protocol, raised with every change of a message.
pub const PROTOCOL: u32 = 4;
/// Version of the program: other versions may count differently.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Messages from the coordinator to a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToHost {
    /// First message: the work.
    Work(Box<Work>),
    /// Must be answered at once with the same number.
    Ping(u64),
    /// Prepares a group of jobs.
    Prepare(Group),
    /// Starts the prepared group at this time of the host's clock, in nanoseconds; none cancels it.
    Start(Option<u64>),
    /// Ends the run with the results so far.
    Stop,
    /// All groups are over: send the final message and end.
    Finish,
}

/// The work of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The target to measure.
    pub target: String,
    /// Whether the target's data may be lost.
    pub destroy_data: bool,
    /// The jobs.
    pub source: JobSource,
}

/// A group of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its number in the plan.
    pub number: usize,
    /// Length of an interval in nanoseconds.
    pub interval_ns: u64,
}

/// Messages from a host to the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromHost {
    /// First message, sent unasked.
    Hello(Hello),
    /// The answer to a ping.
    Pong(Pong),
    /// The host can do the work.
    Accepted,
    /// The group can begin; facts about the target for each job.
    Ready(Vec<Facts>),
    /// A worker's figures.
    Figures(Figures),
    /// The group is over.
    Over,
    /// The host has finished; final message.
    Done(Done),
    /// The host cannot continue, with the reason.
    Failed(String),
}

/// Introduces a host. Unknown fields are ignored, so that other versions can be recognised by their version fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// [`VERSION`].
    pub version: String,
    /// Version of the schema of results.
    pub schema_version: u32,
    /// The host's own name.
    pub node: String,
}

/// The answer to a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pong {
    /// Number of the ping.
    pub number: u64,
    /// The clock that the load runs by, in nanoseconds.
    pub run_ns: u64,
    /// The time of day in nanoseconds since 1970.
    pub unix_ns: u64,
}

/// Facts about a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    size_bytes: u64,
    logical_block_bytes: u32,
    description: String,
    notes: Vec<String>,
}

impl Facts {
    /// From the facts of the target, to be sent to the coordinator.
    pub fn of(facts: &TargetFacts) -> Self {
        Self {
            size_bytes: facts.size_bytes,
            logical_block_bytes: facts.logical_block_bytes,
            description: facts.description.clone(),
            notes: facts.notes.clone(),
        }
    }

    /// Back to facts, under the host's name in results.
    pub fn named(self, name: String) -> TargetFacts {
        TargetFacts {
            name: Some(name),
            size_bytes: self.size_bytes,
            logical_block_bytes: self.logical_block_bytes,
            description: self.description,
            notes: self.notes,
        }
    }
}

/// A host's final message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// The tool's own cost for each job, in nanoseconds per I/O; none where unknown.
    pub own_costs_ns: Vec<Option<f64>>,
    /// Activity of the machine while each job was measured.
    pub machines: Vec<Option<MachineUse>>,
    /// The drive's counters, where it has any.
    pub drive_counters: Option<DriveCounters>,
}

/// Counters of the drive over the whole run, as results have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveCounters {
    /// Counters by name.
    pub values: BTreeMap<String, CounterChange>,
    /// Counters that are left out, with the reason.
    pub left_out: Vec<String>,
}

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterChange {
    /// Value before the run.
    pub before: Option<u64>,
    /// Value after the run.
    pub after: Option<u64>,
    /// Change during the run.
    pub change: Option<i64>,
}

impl DriveCounters {
    /// From a difference of counters, to be sent to the coordinator.
    pub fn of(counters: &Difference) -> Self {
        let change = |(name, before, after): (&'static str, Option<u64>, Option<u64>)| {
            (name.to_owned(), CounterChange { before, after, change: counters.change(name) })
        };
        Self { values: counters.values().into_iter().map(change).collect(), left_out: counters.left_out().to_vec() }
    }
}

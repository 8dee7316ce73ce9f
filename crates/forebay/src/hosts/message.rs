//! What coordinator and hosts say to each other: a line of JSON each.

use crate::measure::JobSource;
use forebay_bench::run::{Figures, MachineUse, TargetFacts};
use forebay_device::counters::Difference;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of this way to talk: it changes with each message that does.
pub const PROTOCOL: u32 = 4;
/// The program's version: hosts of another one count otherwise, perhaps.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// From the coordinator to a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToHost {
    /// First of all: what will be done.
    Work(Box<Work>),
    /// To be answered at once, with the same number.
    Ping(u64),
    /// Makes a group of jobs ready.
    Prepare(Group),
    /// The group that is ready begins at this time of the host's clock, in nanoseconds; none: it does not begin.
    Start(Option<u64>),
    /// Ends the run with what is known.
    Stop,
    /// All groups are over: the rest that is known, and the end.
    Finish,
}

/// What a host will do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// What is measured.
    pub target: String,
    /// What it holds may be lost.
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

/// From a host to the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromHost {
    /// First of all, without being asked.
    Hello(Hello),
    /// The answer to a ping.
    Pong(Pong),
    /// The work can be done.
    Accepted,
    /// The group can begin; of each job what is known of the target.
    Ready(Vec<Facts>),
    /// A worker's figures.
    Figures(Figures),
    /// The group is over.
    Over,
    /// All is over.
    Done(Done),
    /// It cannot go on.
    Failed(String),
}

/// Who speaks. Fields that are not known are passed over: it is what other versions are recognised by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// [`VERSION`].
    pub version: String,
    /// Of results.
    pub schema_version: u32,
    /// The host's own name.
    pub node: String,
}

/// The answer to a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pong {
    /// The ping's.
    pub number: u64,
    /// The clock by which the load runs, in nanoseconds.
    pub run_ns: u64,
    /// The time of day, in nanoseconds since 1970.
    pub unix_ns: u64,
}

/// What is known of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    size_bytes: u64,
    logical_block_bytes: u32,
    description: String,
    notes: Vec<String>,
}

impl Facts {
    /// For the coordinator.
    pub fn of(facts: &TargetFacts) -> Self {
        Self {
            size_bytes: facts.size_bytes,
            logical_block_bytes: facts.logical_block_bytes,
            description: facts.description.clone(),
            notes: facts.notes.clone(),
        }
    }

    /// From a host, under its name in results.
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

/// What a host says at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// The tool's own cost for each job, in nanoseconds an I/O; none where it is not known.
    pub own_costs_ns: Vec<Option<f64>>,
    /// What the machine did while each job was measured.
    pub machines: Vec<Option<MachineUse>>,
    /// The drive's counters, where it has any.
    pub drive_counters: Option<DriveCounters>,
}

/// Counters of the drive over the whole run, as results have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveCounters {
    /// By name.
    pub values: BTreeMap<String, CounterChange>,
    /// What is not among them, and why.
    pub left_out: Vec<String>,
}

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterChange {
    /// Before the run.
    pub before: Option<u64>,
    /// After it.
    pub after: Option<u64>,
    /// What the run made of it.
    pub change: Option<i64>,
}

impl DriveCounters {
    /// For the coordinator.
    pub fn of(counters: &Difference) -> Self {
        let change = |(name, before, after): (&'static str, Option<u64>, Option<u64>)| {
            (name.to_owned(), CounterChange { before, after, change: counters.change(name) })
        };
        Self { values: counters.values().into_iter().map(change).collect(), left_out: counters.left_out().to_vec() }
    }
}

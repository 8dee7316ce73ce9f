//! What a rule says of a setting.

use serde::Serialize;

/// What kind of loss a finding is about; in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Data or the machine may come to harm.
    Safety,
    /// I/Os take longer, most of them or the slowest.
    CostsLatency,
    /// Less goes through.
    CostsThroughput,
    /// Worth knowing, or a matter of taste.
    Note,
}

impl Severity {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [Self::Safety, Self::CostsLatency, Self::CostsThroughput, Self::Note];

    /// As JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Safety => "safety",
            Self::CostsLatency => "costs-latency",
            Self::CostsThroughput => "costs-throughput",
            Self::Note => "note",
        }
    }

    /// It is more than a note.
    pub fn costs(self) -> bool {
        self != Self::Note
    }
}

/// A setting that costs something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is lost by it.
    pub severity: Severity,
    /// What it is set to.
    pub what: String,
    /// What that costs, and why.
    pub cost: String,
    /// Who says so.
    pub source: String,
    /// How to change it until the next start.
    pub now: String,
    /// How to change it for good.
    pub for_good: String,
    /// What the change costs in power, safety or else.
    pub price: String,
}

/// What came of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The setting costs something.
    Found(Box<Finding>),
    /// The setting is as it should be.
    Good(String),
    /// The setting could not be judged, and why.
    Unknown(String),
    /// The machine or device has no such setting.
    NotHere,
}

impl Outcome {
    pub(crate) fn good(what: impl Into<String>) -> Self {
        Self::Good(what.into())
    }

    pub(crate) fn found(finding: Finding) -> Self {
        Self::Found(Box::new(finding))
    }
}

//! The result of a rule about a setting.

use serde::Serialize;

/// The kind of loss that a finding describes, in the order of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Data or the machine may be damaged.
    Safety,
    /// I/Os take longer, most of them or the slowest.
    CostsLatency,
    /// Throughput is lower.
    CostsThroughput,
    /// Worth knowing, or a matter of preference.
    Note,
}

impl Severity {
    /// All severities, in order.
    pub const ALL: [Self; 4] = [Self::Safety, Self::CostsLatency, Self::CostsThroughput, Self::Note];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Safety => "safety",
            Self::CostsLatency => "costs-latency",
            Self::CostsThroughput => "costs-throughput",
            Self::Note => "note",
        }
    }

    /// Whether it is more than a note.
    pub fn costs(self) -> bool {
        self != Self::Note
    }
}

/// A setting that costs something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind of loss.
    pub severity: Severity,
    /// The present value, in words.
    pub what: String,
    /// Its cost, and the reason.
    pub cost: String,
    /// The source of this claim.
    pub source: String,
    /// How to change the setting until the next boot.
    pub now: String,
    /// How to change the setting permanently.
    pub for_good: String,
    /// What the change costs in power, safety or otherwise.
    pub price: String,
}

/// The outcome of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The setting costs something.
    Found(Box<Finding>),
    /// The setting is good; a description of it.
    Good(String),
    /// The setting could not be judged; the reason.
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

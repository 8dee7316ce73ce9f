//! All rules held against a machine.

use crate::finding::{Finding, Outcome, Severity};
use crate::lack::Reading;
use crate::machine::Machine;
use crate::measured::{Effect, Measured, Place};
use crate::rules::pool::POOL_RULES;
use crate::rules::{RULES, RuleOf};
use crate::settings::pool::Pool;
use serde::Serialize;

/// A finding of a rule.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Name of the rule.
    pub name: &'static str,
    /// The device, where it is about one; JSON has `null` where it is not.
    pub device: Option<String>,
    /// What was found.
    #[serde(flatten)]
    pub finding: Finding,
    /// What it costs was measured on this machine.
    #[serde(rename = "measured")]
    pub is_measured: bool,
    /// What a ladder has measured of it; none where it has not.
    pub effects: Vec<Effect>,
}

/// A rule that could not judge, or one that found nothing.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Name of the rule.
    pub name: &'static str,
    /// The device, where it is about one; JSON has `null` where it is not.
    pub device: Option<String>,
    /// Why it could not judge, or what is good.
    pub text: String,
}

/// What came of an audit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Worst first.
    pub findings: Vec<Entry>,
    /// What could not be read or judged.
    pub unknown: Vec<Verdict>,
    /// What is as it should be.
    pub good: Vec<Verdict>,
    /// Where what was measured was measured.
    #[serde(skip)]
    pub place: Option<Place>,
}

impl Report {
    /// The same with what a ladder has measured.
    #[must_use]
    pub fn with_measured(mut self, measured: &Measured) -> Self {
        self.place = Some(measured.place);
        for entry in &mut self.findings {
            entry.effects = measured.of(entry.name, entry.device.as_deref());
            entry.is_measured = !entry.effects.is_empty();
        }
        self
    }

    /// Findings of which a ladder has measured what they cost.
    pub fn measured(&self) -> usize {
        self.findings.iter().filter(|entry| entry.is_measured).count()
    }

    /// Findings that cost something.
    pub fn costs(&self) -> usize {
        self.findings.iter().filter(|entry| entry.finding.severity.costs()).count()
    }

    /// Findings of one severity.
    pub fn of(&self, severity: Severity) -> impl Iterator<Item = &Entry> {
        self.findings.iter().filter(move |entry| entry.finding.severity == severity)
    }

    /// The same with what is to be said of a pool.
    #[must_use]
    pub fn with_pool(mut self, pool: &Pool) -> Self {
        for rule in POOL_RULES {
            self.add(rule.name, None, (rule.judge)(pool));
        }
        self.findings.sort_by_key(|entry| entry.finding.severity);
        self
    }

    fn add(&mut self, name: &'static str, device: Option<&str>, outcome: Reading<Outcome>) {
        let device = device.map(str::to_owned);
        match outcome {
            Ok(Outcome::Found(finding)) => {
                let (is_measured, effects) = (false, Vec::new());
                self.findings.push(Entry { name, device, finding: *finding, is_measured, effects });
            }
            Ok(Outcome::Good(text)) => self.good.push(Verdict { name, device, text }),
            Ok(Outcome::Unknown(text)) => self.unknown.push(Verdict { name, device, text }),
            Ok(Outcome::NotHere) => {}
            Err(lack) => self.unknown.push(Verdict { name, device, text: lack.to_string() }),
        }
    }
}

/// Holds all rules against a machine and those of its devices that were read.
pub fn audit(machine: &Machine) -> Report {
    let mut report = Report::default();
    for rule in RULES {
        match rule.of {
            RuleOf::Machine(judge) => report.add(rule.name, None, judge(machine)),
            RuleOf::Device(judge) => {
                for device in &machine.devices {
                    report.add(rule.name, Some(&device.name), judge(machine, device));
                }
            }
        }
    }
    report.findings.sort_by_key(|entry| entry.finding.severity);
    report
}

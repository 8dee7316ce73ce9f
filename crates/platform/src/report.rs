//! Applies all rules to a machine.

use crate::finding::{Finding, Outcome, Severity};
use crate::lack::Reading;
use crate::machine::Machine;
use crate::measured::{Effect, Measured, Place};
use crate::rules::pool::POOL_RULES;
use crate::rules::{RULES, RuleOf};
use crate::settings::pool::Pool;
use serde::Serialize;

/// A finding, with the rule that made it.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Name of the rule.
    pub name: &'static str,
    /// Name of the device; `None` (`null` in JSON) for a finding about the machine.
    pub device: Option<String>,
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
    /// Whether its cost was measured on this machine.
    #[serde(rename = "measured")]
    pub is_measured: bool,
    /// The effects that a ladder has measured; empty if it has measured none.
    pub effects: Vec<Effect>,
}

/// The result of a rule that could not judge, or that found nothing.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Name of the rule.
    pub name: &'static str,
    /// Name of the device; `None` (`null` in JSON) for a result about the machine.
    pub device: Option<String>,
    /// The reason why it could not judge, or a description of the good setting.
    pub text: String,
}

/// The result of an audit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Findings, the worst first.
    pub findings: Vec<Entry>,
    /// Settings that could not be read or judged.
    pub unknown: Vec<Verdict>,
    /// Settings that are good.
    pub good: Vec<Verdict>,
    /// Where the measured effects were measured; `None` without any.
    #[serde(skip)]
    pub place: Option<Place>,
}

impl Report {
    /// Adds the effects that a ladder has measured.
    #[must_use]
    pub fn with_measured(mut self, measured: &Measured) -> Self {
        self.place = Some(measured.place);
        for entry in &mut self.findings {
            entry.effects = measured.of(entry.name, entry.device.as_deref());
            entry.is_measured = !entry.effects.is_empty();
        }
        self
    }

    /// Number of findings with measured effects.
    pub fn measured(&self) -> usize {
        self.findings.iter().filter(|entry| entry.is_measured).count()
    }

    /// Number of findings that cost something.
    pub fn costs(&self) -> usize {
        self.findings.iter().filter(|entry| entry.finding.severity.costs()).count()
    }

    /// The findings of one severity.
    pub fn of(&self, severity: Severity) -> impl Iterator<Item = &Entry> {
        self.findings.iter().filter(move |entry| entry.finding.severity == severity)
    }

    /// Adds the results of the rules about a pool.
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

/// Applies all rules to a machine and to those of its devices that were read.
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

//! The machine below a drive: its settings as the kernel shows them in files, what each costs, and how to change it.
//!
//! A [`Tree`] reads files below a root, which may come from somebody else. [`Machine::read`] takes the settings from it, and
//! [`audit`] holds them against rules. Nothing is written and nothing is measured: costs are quoted with their sources.
#![forbid(unsafe_code)]

mod capture;
mod finding;
mod lack;
mod machine;
mod render;
mod report;
mod rules;
mod settings;
mod tree;

pub use capture::{CaptureError, capture};
pub use finding::{Finding, Outcome, Severity};
pub use lack::{Lack, Reading};
pub use machine::{DeviceError, Machine, Wanted};
pub use render::text;
pub use report::{Entry, Report, Verdict, audit};
pub use rules::{RULES, Rule, RuleOf};
pub use settings::device::Device;
pub use tree::{Tree, TreeError};

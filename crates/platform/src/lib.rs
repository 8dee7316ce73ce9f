//! The machine under a drive: its settings as the kernel shows them in files, what each costs, and how to change it.
//!
//! A [`Tree`] reads files below a root, which another person may have made. [`Machine::read`] reads the settings from
//! it, and [`audit`] applies rules to them, which neither write nor measure: costs are quoted with their sources.
//! [`change`] changes settings that can be changed at run time, and restores them.
#![forbid(unsafe_code)]

mod capture;
/// Facts that drives report only when a command asks for them.
pub mod answers {
    pub use crate::settings::answers::{Answer, Answers, Ask, FOLDER, Health, PowerState, Stop, Transition};
}
pub mod change;
mod finding;
mod lack;
mod machine;
mod measured;
pub mod pool;
mod render;
mod report;
mod rules;
mod settings;
mod tree;

pub use capture::{CaptureError, capture};
pub use finding::{Finding, Outcome, Severity};
pub use lack::{Lack, Reading};
pub use machine::{DeviceError, Machine, Wanted};
pub use measured::{Effect, Fingerprint, Measured, MeasuredError, Place};
pub use render::text;
pub use report::{Entry, Report, Verdict, audit};
pub use rules::{RULES, Rule, RuleOf};
pub use settings::activity::{Activity, IdleTime};
pub use settings::device::Device;
pub use settings::services::meddlers;
pub use tree::{Content, Tree, TreeError};

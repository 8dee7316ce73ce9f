//! Spec sheets: a maker's promises, measured on the drive at hand. Too few samples never give a pass.
//!
//! A sheet ([`Spec`]) is read by [`Spec::load`] from a TOML file or from the sheets that are built in; [`check`] runs
//! what it asks and judges each promise; `table` writes the [`CheckReport`] for people, serde for programs.
//! [`mod@format`] is the reference of a sheet's keys, `docs/check.md` the guide.

mod check;
mod enough;
mod error;
mod figure;
pub mod format;
mod judged;
mod library;
mod looks;
mod measure;
mod parse;
mod report;
mod select;
mod sheet;
mod table;
#[cfg(test)]
mod tests;
mod verdict;
mod words;
mod written;

pub use check::{CheckError, CheckOptions, Conditioning, RUNTIME_NS, check, writes};
pub use error::SpecError;
pub use figure::Figure;
pub use measure::{Bound, Measure, Op, Unit};
pub use parse::MAX_SHEET_BYTES;
pub use report::{CheckReport, ConditionReport, LatencyCell, Outcome, PromiseReport, PublishedReport, RunReport};
pub use sheet::{Before, Condition, Drive, Promise, PublishedFigures, PublishedRow, Spec};
pub use table::{Part, parts};
pub use verdict::{Judgement, Verdict, judge};

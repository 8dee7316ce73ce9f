//! Verbs and options, in the groups of `forebay --help`. Every verb has an example in its help.
//!
//! What a verb does is its doc comment: the first line for lists, the paragraphs below for `--help` and manual pages.
//! `after_help` has what is shown as it stands: examples, tables, exit codes.

mod build;
mod measure;
mod overview;
mod pool;
mod record;

use crate::output::Format;
pub use build::{BuildVerb, SimulateOptions};
use clap::{Parser, Subcommand};
pub use measure::{ConformanceOptions, MeasureVerb};
pub use pool::{ConfigAction, DEFAULT_CONFIG, DemoOptions, PoolVerb};
pub use record::{RecordOptions, Source};

/// A tiered block device: a small fast SSD in front of a large cheap one, the right data on the right tier.
#[derive(Debug, Parser)]
#[command(
    name = "forebay",
    // As wide as results.
    term_width = crate::output::width(),
    version,
    about,
    propagate_version = true,
    help_template = overview::template(),
    after_help = "Examples:
  forebay demo              # see it work: no devices, no root
  forebay create pool.toml  # format the pool that pool.toml describes
  forebay serve pool.toml   # serve its disks by NBD until SIGINT or SIGTERM
  forebay status pool.toml  # what lies where, per class

Exit codes: 0 good; 1 a finding (a failed check, a damaged pool); 2 it could not be done."
)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
    /// Write results in this form; logs, progress and errors always go to stderr
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t = Format::Table,
        value_name = "FORMAT",
        help_heading = "Global options"
    )]
    pub output: Format,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    #[command(flatten)]
    Pool(PoolVerb),
    #[command(flatten)]
    Measure(MeasureVerb),
    #[command(flatten)]
    Build(BuildVerb),
}

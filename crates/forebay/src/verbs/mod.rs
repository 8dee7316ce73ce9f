//! The verbs, one file each.

mod analyze;
mod attach;
mod bench;
mod bench_abreast;
mod bench_hosts;
mod bench_result;
mod check;
mod class;
mod config;
mod convert;
mod create;
mod disk;
mod doctor;
mod evidence;
mod inspect;
mod manual;
mod models;
mod record;
mod replay;
mod report;
mod schema;
mod scrub;
mod serve;
mod simulate;
mod size;
mod status;
mod top;
mod verify;
mod verify_alone;

use crate::cli::{BuildVerb, Cli, MeasureVerb, PoolVerb, Verb};
use crate::output::Format;
pub use analyze::AnalyzeOptions;
use anyhow::Result;
pub use check::CheckOptions;
pub use class::ClassAction;
pub use convert::ConvertOptions;
pub use disk::DiskAction;
pub use doctor::DoctorOptions;
pub use evidence::{EvidenceAction, table as evidence_table};
pub use replay::ReplayOptions;
pub use report::ReportOptions;
pub use schema::asked as schema_asked;
pub use scrub::ScrubVerb;
pub use serve::STOP_WITH_PARENT;
pub use size::SizeOptions;
use std::time::Duration;

/// Runs the verb of the command line.
///
/// # Errors
/// What failed, or a [`forebay_daemon::finding::Finding`].
pub fn run(cli: Cli) -> Result<()> {
    match cli.verb {
        Verb::Pool(verb) => run_pool(verb, cli.output),
        Verb::Measure(verb) => run_measure(verb, cli.output),
        Verb::Build(verb) => run_build(verb, cli.output),
    }
}

fn run_pool(verb: PoolVerb, format: Format) -> Result<()> {
    match verb {
        PoolVerb::Demo(options) => crate::demo::run(&options, format),
        PoolVerb::Create { config, destroy_data } => create::run(&config, destroy_data, format),
        PoolVerb::Serve { config, opening, wait } => {
            serve::run(&config, opening.opening(), Duration::from_secs(wait), format)
        }
        PoolVerb::Status { config } => status::run(&config, format),
        PoolVerb::Top { config, interval, count } => top::run(&config, interval, count, format),
        PoolVerb::Class { config, action } => class::run(&config, action, format),
        PoolVerb::Evidence { config, action } => evidence::run(&config, action, format),
        PoolVerb::Disk { config, action } => disk::run(&config, action, format),
        PoolVerb::Scrub { config, action } => scrub::run(&config, action, format),
        PoolVerb::Attach { config, disk } => attach::attach(&config, disk, format),
        PoolVerb::Detach { config, disk } => attach::detach(&config, disk, format),
        PoolVerb::Inspect { path } => inspect::run(&path, format),
        PoolVerb::Verify { config, without_fast: false } => verify::run(&config, format),
        PoolVerb::Verify { config, without_fast: true } => verify_alone::run(&config, format),
        PoolVerb::Config { action } => config::run(&action, format),
    }
}

fn run_measure(verb: MeasureVerb, format: Format) -> Result<()> {
    match verb {
        MeasureVerb::Bench(options) => bench::run(&options, format),
        MeasureVerb::Check(options) => check::run(&options, format),
        MeasureVerb::Doctor(options) => doctor::run(&options, format),
        MeasureVerb::Record(options) => record::run(&options, format),
        MeasureVerb::Analyze(options) => analyze::run(&options, format),
        MeasureVerb::Size(options) => size::run(&options, format),
        MeasureVerb::Replay(options) => replay::run(&options, format),
        MeasureVerb::Convert(options) => convert::run(&options, format),
        MeasureVerb::Report(options) => report::run(&options, format),
        MeasureVerb::Models => models::list(format),
        MeasureVerb::Conformance(options) => models::conformance(&options, format),
    }
}

fn run_build(verb: BuildVerb, format: Format) -> Result<()> {
    match verb {
        BuildVerb::Simulate(options) => simulate::run(&options, format),
        BuildVerb::Completions { shell } => manual::completions(shell, format),
        BuildVerb::Man { folder } => manual::man(&folder, format),
    }
}

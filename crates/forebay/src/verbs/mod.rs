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

use crate::cli::{Cli, Verb};
pub use analyze::AnalyzeOptions;
use anyhow::Result;
pub use check::CheckOptions;
pub use class::ClassAction;
pub use convert::ConvertOptions;
pub use disk::DiskAction;
pub use doctor::DoctorOptions;
pub use evidence::{EvidenceAction, table as evidence_table};
use forebay_daemon::pool::Opening;
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
    let format = cli.output;
    match cli.verb {
        Verb::Demo(options) => crate::demo::run(&options, format),
        Verb::Create { config, destroy_data } => create::run(&config, destroy_data, format),
        Verb::Serve { config, salvage, without_fast, degraded, accept_loss, drop_members, wait } => {
            let opening = match drop_members {
                true => Opening::DropMembers,
                false => serve::opening(salvage, without_fast, degraded, accept_loss),
            };
            serve::run(&config, opening, Duration::from_secs(wait), format)
        }
        Verb::Status { config } => status::run(&config, format),
        Verb::Top { config, interval, count } => top::run(&config, interval, count, format),
        Verb::Class { config, action } => class::run(&config, action, format),
        Verb::Evidence { config, action } => evidence::run(&config, action, format),
        Verb::Disk { config, action } => disk::run(&config, action, format),
        Verb::Scrub { config, action } => scrub::run(&config, action, format),
        Verb::Attach { config, disk } => attach::attach(&config, disk, format),
        Verb::Detach { config, disk } => attach::detach(&config, disk, format),
        Verb::Inspect { path } => inspect::run(&path, format),
        Verb::Verify { config, without_fast: false } => verify::run(&config, format),
        Verb::Verify { config, without_fast: true } => verify_alone::run(&config, format),
        Verb::Bench(options) => bench::run(&options, format),
        Verb::Doctor(options) => doctor::run(&options, format),
        Verb::Replay(options) => replay::run(&options, format),
        Verb::Check(options) => check::run(&options, format),
        Verb::Models => models::list(format),
        Verb::Conformance(options) => models::conformance(&options, format),
        Verb::Simulate(options) => simulate::run(&options, format),
        Verb::Analyze(options) => analyze::run(&options, format),
        Verb::Size(options) => size::run(&options, format),
        Verb::Report(options) => report::run(&options, format),
        Verb::Convert(options) => convert::run(&options, format),
        Verb::Record(options) => record::run(&options, format),
        Verb::Config { action } => config::run(&action, format),
        Verb::Completions { shell } => manual::completions(shell, format),
        Verb::Man { folder } => manual::man(&folder, format),
    }
}

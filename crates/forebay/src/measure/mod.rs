//! Measurement from the command line: targets by name, protection of data, and results as text.

mod abreast;
mod beforehand;
mod block_layer;
mod diskspd_args;
mod experiments;
mod generated;
mod generated_plan;
mod hint_book;
mod host;
mod hosts;
mod interval;
mod job_source;
mod live;
mod machine;
mod named;
mod open;
mod options;
mod own_cost;
mod pool_intervals;
mod pool_queue;
mod probe;
mod safety;
mod scratch;
mod session;
pub mod signals;
mod table;
mod telemetry;
mod trace;
mod virtual_pool;
mod virtual_target;
mod wear;

pub use abreast::{Abreast, OfJob, by_job};
pub use beforehand::{check_new_files, check_outputs, idle_options};
pub use diskspd_args::rewrite;
pub use experiments::{Other, application, compare, condition, experiment, failed, list, report_table, show_report};
pub use generated::{PIECE_BYTES, set as set_counted};
pub use generated_plan::prepare as prepare_generated;
pub use hint_book::HintWriter;
pub use hosts::ModelledHosts;
pub use interval::{interval_of, interval_of_trace};
pub use job_source::{JobSource, from_settings};
pub use live::Live;
pub use named::Named;
pub use options::{BenchOptions, TelemetryOptions};
pub use session::{Session, SessionOptions, interval_of_jobs};
pub use table::job as job_table;
pub use telemetry::records_to_parquet;
pub use trace::TraceReader;
pub use wear::Wear;

/// Parses a time of the command line into nanoseconds.
///
/// # Errors
/// What is wrong with the time, with the option's name.
pub fn time_ns(option: &str, text: &str) -> anyhow::Result<u64> {
    forebay_block::size::parse_time_ns(text).map_err(|what| anyhow::anyhow!("{option} {text:?}: {what}"))
}

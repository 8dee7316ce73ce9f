//! `forebay check SPEC --target URI`.

use super::schema;
use crate::measure::{Session, SessionOptions, interval_of, time_ns};
use crate::output::{self, Format};
use anyhow::{Context, Result, bail};
use forebay_bench::spec::{self, CheckError, Conditioning, Outcome, Part, Spec};
use forebay_daemon::finding::finding;
use serde_json::json;

/// What is checked.
#[derive(Clone, Debug, clap::Args)]
pub struct CheckOptions {
    /// Spec sheet: a TOML file, or the name of a built-in one
    #[arg(required_unless_present = "list")]
    pub spec: Option<String>,
    /// What to measure: a path or a URI
    #[arg(long, value_name = "URI", required_unless_present = "list")]
    pub target: Option<String>,
    /// Name the built-in sheets
    #[arg(long)]
    pub list: bool,
    /// Allow overwriting data on the target
    #[arg(long)]
    pub destroy_data: bool,
    /// Longest time of each run (default: 10min); it ends early where all its promises are decided
    #[arg(long, value_name = "TIME")]
    pub runtime: Option<String>,
    /// Run for a tenth of the default time, for a first look
    #[arg(long, conflicts_with = "runtime")]
    pub quick: bool,
    /// Do not end runs early, so that the rows of the table have all their samples
    #[arg(long)]
    pub whole: bool,
    /// Check only promises with this in their name
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Run the tests of published rows too
    #[arg(long)]
    pub rows: bool,
    /// Leave out the conditioning that the sheet asks for
    #[arg(long)]
    pub skip_conditioning: bool,
    /// Print the JSON schema of results; needs nothing else
    #[arg(long)]
    pub schema: bool,
}

/// Checks a spec sheet.
///
/// # Errors
/// What could not run; a finding where a promise is broken.
pub fn run(options: &CheckOptions, format: Format) -> Result<()> {
    if options.schema {
        return schema::print("check");
    }
    if options.list {
        let names = Spec::builtin();
        return match format {
            Format::Json => output::json(json!({ "sheets": names })),
            Format::Table => output::text(&names.join("\n")),
        };
    }
    let name = options.spec.as_deref().context("SPEC is missing")?;
    let target = options.target.as_deref().context("--target is missing")?;
    let spec = Spec::load(name)?;
    let runtime_ns = options.runtime.as_deref().map(|text| time_ns("--runtime", text)).transpose()?;
    if runtime_ns == Some(0) {
        bail!(
            "--runtime 0s: nothing can be measured in no time; at least 1ns, and 8 intervals before anything is judged"
        );
    }
    let shortest_ns = spec
        .promises
        .iter()
        .filter(|promise| promise.own_end)
        .filter_map(|promise| promise.job.end.after_ns)
        .chain(runtime_ns)
        .min();
    let interval_ns = Some(interval_of(Some(shortest_ns.unwrap_or(spec::RUNTIME_NS))));
    let settings =
        SessionOptions { destroy_data: options.destroy_data, interval_ns, records: None, block_layer: false };
    let mut session = Session::new(target, settings)?;
    if session.is_virtual() && shortest_ns.is_none() {
        // Runs end by I/O counts, which may take only seconds on a fast drive.
        session.set_interval(interval_of(Some(0)));
    }
    // A target that cannot be opened is reported once, and not as the reason of every promise left out.
    session.target_bytes()?;
    let mut how = spec::CheckOptions {
        runtime_ns,
        conditioning: if options.skip_conditioning { Conditioning::Skip } else { Conditioning::AsSheet },
        only: options.only.clone(),
        rows: options.rows,
        whole: options.whole,
        quick: options.quick,
        allow_writes: true,
        virtual_time: session.is_virtual(),
        ..spec::CheckOptions::default()
    };
    let refusal = if spec::writes(&spec, &how) { session.may_write().err() } else { None };
    how.allow_writes = refusal.is_none();
    let report = match (spec::check(&mut session, &spec, &how), refusal) {
        (Err(error @ CheckError::NothingToCheck { .. }), Some(why)) => {
            bail!("{error}: {}", output::chain(&why));
        }
        (Ok(report), Some(why)) => {
            output::complain(format!("what writes is left out: {}", output::chain(&why)));
            report
        }
        (report, _) => report?,
    };
    match format {
        Format::Json => output::json(serde_json::to_value(&report)?)?,
        Format::Table => output::text(&report_text(&report))?,
    }
    session.close()?;
    match report.outcome {
        Outcome::Fail => Err(finding(format!("{target} breaks a promise of {name}"))),
        Outcome::Pass | Outcome::NotShown => Ok(()),
    }
}

/// A report as text.
fn report_text(report: &spec::CheckReport) -> String {
    let parts = spec::parts(report).into_iter().map(|part| match part {
        Part::Text(text) => text,
        Part::Table(table) => output::titled(&table),
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

//! `forebay bench`.

use super::bench_abreast;
use super::bench_hosts;
use super::bench_result::{Contents, Frame, verdict, write_files};
use super::schema;
use crate::hosts;
use crate::measure::BenchOptions;
use crate::measure::{self, JobSource, Named, Other, Session, SessionOptions, from_settings, job_table};
use crate::output::{self, Format};
use anyhow::{Result, bail};
use forebay_bench::job::model::{Arrival, Evidence, Job, Plan};
use forebay_bench::output::summary;
use forebay_bench::stats::compare::DIFFERENCE;
use forebay_daemon::finding::finding;
use forebay_device::counters::Difference;
use serde_json::{Value, json};
use std::path::Path;

/// Default number of rounds of a comparison.
const ROUNDS: u32 = 5;

/// Runs a load, an experiment or a comparison.
///
/// # Errors
/// What could not run; a finding where I/Os failed.
pub fn run(options: &BenchOptions, format: Format) -> Result<()> {
    if options.schema {
        return schema::print("bench");
    }
    if options.list {
        return show_list(format);
    }
    if options.follow {
        return hosts::follow();
    }
    if !options.host.is_empty() {
        return bench_hosts::run(options, format);
    }
    let [target, others @ ..] = options.target.as_slice() else {
        return match (&options.telemetry.records, &options.telemetry.parquet) {
            (Some(records), Some(parquet)) => convert(records, parquet, format),
            _ => bail!("--target is missing: a path or a URI, e.g. --target null:?size=1GiB"),
        };
    };
    let named = options.job.as_deref().filter(|path| !path.exists()).and_then(Named::parse);
    if !others.is_empty() {
        let times = options.target.len();
        bench_abreast::refuse_idle(options, named, |what| {
            format!("--target is given {times} times: {what} takes one target")
        })?;
    }
    measure::check_outputs(options)?;
    for note in measure::idle_options(options, named)? {
        output::complain(format!("note: {note}"));
    }
    if let Some(named @ (Named::PhotoIngest | Named::IndexRebuild)) = named {
        return measure::show_report(&measure::application(named, target, options)?, target, format);
    }
    let source = JobSource::read(options, named.is_some())?;
    let mut plan = source.plan(named.is_some(), &options.target)?;
    for note in &plan.notes {
        output::complain(format!("note: {note}"));
    }
    if !others.is_empty() {
        return bench_abreast::run(options, plan, format);
    }
    let settings =
        SessionOptions { block_layer: options.block_layer, ..options.telemetry.session(options.destroy_data)? };
    let mut session = Session::new(target, settings.clone())?;
    if options.block_layer && session.is_virtual() {
        bail!("--block-layer: {target} is measured in virtual time, where no kernel has part");
    }
    let mut base = plan.groups.first().and_then(|group| group.first()).cloned().unwrap_or_default();
    // Experiments and conditioning decide themselves when a run ends.
    base.steady = None;
    if base.pattern.is_fed() {
        if let Some(Named::Experiment(experiment)) = named {
            bail!("{experiment} has I/Os of its own: leave out generator");
        }
        // Conditioning has its own I/Os too.
        base = Job { pattern: Job::default().pattern, arrival: Arrival::Closed, ..base };
    }
    if let Some(Named::Experiment(experiment)) = named {
        if base.evidence != Evidence::None {
            bail!("evidence has no effect on {experiment}, whose I/Os come from no generator: leave it out");
        }
        let report = measure::experiment(&mut session, experiment, base, options)?;
        session.close()?;
        return measure::show_report(&report, target, format);
    }
    let shown = plan.notes.len();
    measure::prepare_generated(&session, &mut plan)?;
    plan.notes[shown..].iter().for_each(|note| output::complain(format!("note: {note}")));
    let other = other(&session, &settings, &source, &plan, options)?;
    session.check(&plan)?;
    if let Some(text) = &options.condition {
        let report = measure::condition(&mut session, text, base, options)?;
        output::complain(report.conditions.join("; "));
    }
    if let Some(other) = other {
        let rounds = options.rounds.unwrap_or(ROUNDS);
        let difference = match options.difference {
            None => DIFFERENCE,
            Some(percent) if percent > 0.0 && percent <= 1000.0 => 1.0 + percent / 100.0,
            Some(percent) => bail!("--difference {percent}: above 0 and at most 1000 percent"),
        };
        let levels = options.telemetry.compared()?;
        let how = (rounds, difference, levels);
        let report = match other {
            Against::Target(mut other) => {
                let report = measure::compare(&mut session, Other::Target(&mut other), &plan, how)?;
                other.close()?;
                report
            }
            Against::Settings(other) => measure::compare(&mut session, Other::Settings(&other), &plan, how)?,
        };
        session.close()?;
        return measure::show_report(&report, target, format);
    }
    run_plan(session, &plan, options, format)
}

/// The other side of a comparison.
enum Against {
    Target(Box<Session>),
    Settings(Plan),
}

/// The other side of a comparison, where there is one; opened and checked before anything runs.
fn other(
    session: &Session,
    settings: &SessionOptions,
    source: &JobSource,
    plan: &Plan,
    options: &BenchOptions,
) -> Result<Option<Against>> {
    if let Some(name) = &options.against {
        let other = Session::new(name, settings.clone())?;
        other.target_bytes()?;
        let mut of_other = plan.clone();
        measure::prepare_generated(&other, &mut of_other)?;
        of_other.notes[plan.notes.len()..].iter().for_each(|note| output::complain(format!("note: {name}: {note}")));
        other.check(plan)?;
        return Ok(Some(Against::Target(Box::new(other))));
    }
    if options.against_set.is_empty() {
        return Ok(None);
    }
    if options.job.is_some() || !options.diskspd.is_empty() {
        bail!("--against-set changes what --set says: give the job by --set");
    }
    // A key that both set keeps the value of the other side.
    let key = |setting: &str| setting.split('=').next().unwrap_or_default().trim().to_owned();
    let changed: Vec<String> = options.against_set.iter().map(|setting| key(setting)).collect();
    let kept = options.set.iter().filter(|setting| !changed.contains(&key(setting)));
    let settings: Vec<String> = kept.chain(&options.against_set).cloned().collect();
    let mut other = from_settings(&settings)?;
    source.apply(&mut other)?;
    measure::prepare_generated(session, &mut other)?;
    session.check(&other)?;
    Ok(Some(Against::Settings(other)))
}

fn run_plan(session: Session, plan: &Plan, options: &BenchOptions, format: Format) -> Result<()> {
    let reporting = options.telemetry.reporting()?;
    let (before, wear_before) = (session.counters(), session.wear());
    let results = session.run(plan, "")?;
    let counters = before.map(|before| Difference::between(&before, &before.read_again()));
    let wear = wear_before.zip(session.wear()).map(|(before, after)| after.since(&before));
    let own_costs = session.own_costs_ns(&results);
    session.measured();
    let not_started: Vec<&str> =
        plan.groups.iter().flatten().skip(results.len()).map(|job| job.name.as_str()).collect();
    let name = session.name().to_owned();
    let frame = Frame {
        target: name.clone(),
        notes: &plan.notes,
        not_started,
        counters: counters.as_ref(),
        wear: wear.as_ref(),
    };
    let show = || match format {
        Format::Json => {
            let jobs: Vec<Value> = results
                .iter()
                .zip(&own_costs)
                .map(|(result, own_cost)| summary::job(result, *own_cost, &reporting))
                .collect();
            output::json(frame.json(Contents { jobs, ..Contents::default() }))
        }
        Format::Table => {
            let tables: Vec<String> = results
                .iter()
                .zip(&own_costs)
                .map(|(result, own_cost)| job_table(&name, result, *own_cost, &reporting))
                .collect();
            frame.show_jobs(&tables)?;
            frame.show_counted()
        }
    };
    // After the result was shown, so that an unwritable file does not lose the result. The files are written even where the printed result
    // has no reader.
    let shown = show();
    options.telemetry.write_series(results.iter().map(|result| (name.as_str(), result)))?;
    write_files(&results, options)?;
    shown?;
    session.close()?;
    verdict(&results)
}

/// Converts the records of an earlier run, including one that was killed.
fn convert(records: &Path, to: &Path, format: Format) -> Result<()> {
    let summary = measure::records_to_parquet(records, to)?;
    match format {
        Format::Json => output::json(json!({
            "records": summary.records,
            "segments": summary.segments,
            "dropped": summary.dropped,
            "torn_tail_bytes": summary.torn_tail_bytes,
            "damaged_bytes": summary.damaged_bytes,
            "is_whole": summary.is_whole(),
            "has_footer": summary.footer.is_some(),
        })),
        Format::Table => output::text(&format!(
            "{} of {} written to {}; {} dropped by the run, {} bytes at the end and {} in the middle \
             could not be used",
            output::count(summary.records, "record"),
            output::count(summary.segments, "segment"),
            to.display(),
            summary.dropped,
            summary.torn_tail_bytes,
            summary.damaged_bytes
        )),
    }?;
    if summary.footer.is_none() {
        output::complain(format!(
            "note: {} has no footer: the run did not end. What it dropped or lost later is unknown",
            records.display()
        ));
    }
    // A kill can leave an incomplete end; damage in the middle has another cause.
    if summary.damaged_bytes > 0 {
        return Err(finding(format!("{} is damaged: {} bytes", records.display(), summary.damaged_bytes)));
    }
    Ok(())
}

fn show_list(format: Format) -> Result<()> {
    let names = measure::list();
    match format {
        Format::Json => {
            let list: Vec<Value> = names.iter().map(|(name, what)| json!({ "name": name, "what": what })).collect();
            output::json(json!({ "experiments": list }))
        }
        Format::Table => {
            let rows: Vec<Vec<String>> = names.into_iter().map(|(name, what)| vec![name, what.to_owned()]).collect();
            output::text(&output::table(&["name", "what it shows"], 2, &rows))
        }
    }
}

//! `forebay bench` with several targets: each job runs on all of them at the same time.

use super::bench_result::{Contents, Frame, counters_json, counters_rows, counters_table, verdict, write_files};
use crate::measure::{Abreast, BenchOptions, Named, OfJob, Session, Wear, job_table};
use crate::output::{self, Format};
use anyhow::{Result, bail};
use forebay_bench::job::model::Plan;
use forebay_bench::output::summary::{self, Reporting};
use forebay_bench::run::JobResult;
use forebay_device::counters::Difference;
use serde_json::{Value, json};

/// Target name of combined results in the time series.
pub(super) const TOGETHER: &str = "all together";

/// Figures of a target over the run.
struct OfTarget {
    name: String,
    counters: Option<Difference>,
    wear: Option<Wear>,
}

/// Runs the jobs of `plan` on all targets.
///
/// # Errors
/// What could not run; a finding where I/Os failed.
pub fn run(options: &BenchOptions, mut plan: Plan, format: Format) -> Result<()> {
    let reporting = options.telemetry.reporting()?;
    let targets = Abreast::new(&options.target, &options.telemetry.session(options.destroy_data)?)?;
    let shown = plan.notes.len();
    targets.prepare(&mut plan)?;
    plan.notes[shown..].iter().for_each(|note| output::complain(format!("note: {note}")));
    targets.check(&plan)?;
    let before: Vec<_> = targets.sessions().iter().map(|session| (session.counters(), session.wear())).collect();
    let found = targets.run(&plan)?;
    let after = targets.sessions().iter().zip(before).map(|(session, (counters, wear))| OfTarget {
        name: session.name().to_owned(),
        counters: counters.map(|before| Difference::between(&before, &before.read_again())),
        wear: wear.zip(session.wear()).map(|(before, after)| after.since(&before)),
    });
    let after: Vec<OfTarget> = after.collect();
    let shown = show(&targets.sessions()[0], &plan, &found, &after, &reporting, format);
    let (on_each, together) = split(found);
    let of_each = on_each.iter().zip(after.iter().cycle()).map(|(result, target)| (target.name.as_str(), result));
    options.telemetry.write_series(of_each.chain(together.iter().map(|result| (TOGETHER, result))))?;
    // fio combines several files of a job in its JSON.
    write_files(&together, options)?;
    shown?;
    targets.close()?;
    verdict(&on_each)
}

pub(super) fn split(found: Vec<OfJob>) -> (Vec<JobResult>, Vec<JobResult>) {
    let (mut all, mut together) = (Vec::new(), Vec::new());
    for of_job in found {
        all.extend(of_job.on_each);
        together.push(of_job.together);
    }
    (all, together)
}

/// Refuses options that have no meaning with several targets or hosts; `why` explains it for an option.
///
/// # Errors
/// The first such option.
pub fn refuse_idle(options: &BenchOptions, named: Option<Named>, why: impl FnOnce(&str) -> String) -> Result<()> {
    let one = [
        ("an experiment", named.is_some()),
        ("--against", options.against.is_some() || !options.against_set.is_empty()),
        ("--condition", options.condition.is_some()),
        ("--records", options.telemetry.records.is_some()),
        ("--block-layer", options.block_layer),
    ];
    match one.into_iter().find(|(_, given)| *given) {
        Some((what, _)) => bail!("{}", why(what)),
        None => Ok(()),
    }
}

fn show(
    session: &Session,
    plan: &Plan,
    found: &[OfJob],
    after: &[OfTarget],
    reporting: &Reporting,
    format: Format,
) -> Result<()> {
    let names: Vec<&str> = after.iter().map(|target| target.name.as_str()).collect();
    let not_started: Vec<&str> = plan.groups.iter().flatten().skip(found.len()).map(|job| job.name.as_str()).collect();
    // The tool's own cost is the same on each target.
    let costs = session.own_costs_ns(found.iter().filter_map(|of_job| of_job.on_each.first()));
    let frame = Frame { target: names.join(", "), notes: &plan.notes, not_started, counters: None, wear: None };
    match format {
        Format::Json => {
            let one = |result: &JobResult, cost: Option<f64>| summary::job(result, cost, reporting);
            let jobs =
                found.iter().zip(&costs).flat_map(|(of_job, cost)| of_job.on_each.iter().map(|each| one(each, *cost)));
            let together = found.iter().zip(&costs).map(|(of_job, cost)| one(&of_job.together, *cost));
            output::json(frame.json(Contents {
                jobs: jobs.collect(),
                together: Some(together.collect()),
                targets: Some(after.iter().map(OfTarget::json).collect()),
                ..Contents::default()
            }))
        }
        Format::Table => {
            let mut tables = Vec::new();
            for (of_job, cost) in found.iter().zip(&costs) {
                let each = of_job.on_each.iter().zip(&names);
                tables.extend(each.map(|(result, name)| job_table(name, result, *cost, reporting)));
                tables.push(job_table(
                    &format!("all {} targets together", names.len()),
                    &of_job.together,
                    *cost,
                    reporting,
                ));
            }
            frame.show_jobs(&tables)?;
            after.iter().try_for_each(OfTarget::show)
        }
    }
}

impl OfTarget {
    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "drive_counters": self.counters.as_ref().map(counters_json),
            "models": self.wear.as_ref().map(Wear::json),
        })
    }

    fn show(&self) -> Result<()> {
        let counters = self.counters.as_ref().and_then(|counters| counters_table(counters_rows(counters)));
        let tables = [counters, self.wear.as_ref().and_then(Wear::table)];
        tables.into_iter().flatten().try_for_each(|table| output::text(&format!("\n{}\n{table}", self.name)))
    }
}

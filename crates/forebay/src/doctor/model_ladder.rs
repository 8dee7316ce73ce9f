//! The ladder on a modelled drive: its rungs are the host profiles that were calibrated on the guide's own table.

use super::climbing::{LadderOptions, of_pass};
use crate::measure::ModelledHosts;
use crate::output;
use anyhow::{Context, Result};
use forebay_bench::experiment::{Climb, DriverError, Published, Report, Rung, ladder};
use forebay_model::conformance::{Measure, Test, published};

/// Prefix of the names of the rungs' tests in the table of published figures.
const PREFIX: &str = "ladder: ";
const CALIBRATED: &str = "CALIBRATED, NOT PREDICTED: the terms of these hosts were fitted to the guide's own figures for each rung, with the drive \
                          frozen. That they come out again says that the model holds together, nothing about another machine";

/// A rung of the guide: its name and its tests, one per load.
struct Step {
    name: String,
    tests: Vec<Test>,
}

fn steps() -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    for test in published()? {
        let Some((name, _)) = test.name.strip_prefix(PREFIX).and_then(|rest| rest.rsplit_once(": ")) else { continue };
        match steps.iter_mut().find(|step| step.name == name) {
            Some(step) => step.tests.push(test),
            None => steps.push(Step { name: name.to_owned(), tests: vec![test] }),
        }
    }
    Ok(steps)
}

/// Published figures of a test; `None` where it is of another drive.
fn figures(test: &Test, drive: &str) -> Option<Published> {
    (test.drive == drive).then(|| {
        let of = |measure, factor| test.published.get(&measure).map(|value| value * factor);
        Published { mean_ns: of(Measure::MeanUs, 1e3), p99_ns: of(Measure::P99Us, 1e3), iops: of(Measure::Iops, 1.0) }
    })
}

/// Measures the ladder.
///
/// # Errors
/// Errors of the models.
pub(super) fn climb(options: &LadderOptions, mut hosts: ModelledHosts) -> Result<Report> {
    let steps = steps()?;
    let drive = hosts.uri().name.clone();
    let own = hosts.uri().host.clone();
    let below_turbo = steps.iter().rposition(|step| !step.name.starts_with("turbo")).unwrap_or(0);
    let mut rungs: Vec<Rung> = Vec::new();
    // The hosts of each rung, one for each load.
    let mut of_rungs: Vec<Vec<String>> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        rungs.push(Rung {
            name: step.name.clone(),
            facts: vec![
                ("what", format!("the guide's host with {}", step.name)),
                ("cost", "calibrated on this very rung of the guide's ladder, not predicted".to_owned()),
                ("source", "Intel, Optane SSD DC P4800X performance evaluation guide, CentOS 7.3, fio 2.18".to_owned()),
            ],
            // The two rows without turbo are alternatives to each other.
            against: number.checked_sub(1).map(|below| below.min(below_turbo)),
            published: step.tests.iter().map(|test| figures(test, &drive)).collect(),
            missing: None,
        });
        of_rungs.push(step.tests.iter().map(|test| test.host.clone()).collect());
    }
    let jobs = options.jobs(true)?;
    if let Some(own) = own {
        rungs.push(Rung {
            name: format!("host {own}"),
            facts: vec![("what", format!("the host of the target's name, {own}, for reads and for writes"))],
            against: Some(0),
            ..Rung::default()
        });
        of_rungs.push(vec![own; jobs.len()]);
    }
    let conditions = vec![
        "a modelled drive in virtual time: the loads of the guide, below the hosts of its ladder".to_owned(),
        "the guide does not say whether its rungs add up; here each is its whole row".to_owned(),
    ];
    let mut notes = vec![CALIBRATED.to_owned()];
    if !steps.iter().flat_map(|step| &step.tests).any(|test| test.drive == drive) {
        notes.push(format!("the guide measured a P4800X: for {drive} there are no published figures of these rungs"));
    }
    let ladder_of = options.ladder(rungs, conditions, notes);
    ladder(&ladder_of, &mut |rung, pass, step| {
        let mut results = Vec::new();
        for (job, host) in jobs.iter().zip(&of_rungs[rung]) {
            if hosts.is_stopped() {
                return Ok(Climb::Ended);
            }
            let ran = hosts.run(host, &of_pass(job, pass), &format!("{step}: "));
            results.push(ran.map_err(|error| DriverError(output::chain(&error)))?);
        }
        Ok(Climb::Ran(results))
    })
    .context("the ladder of a modelled drive")
}

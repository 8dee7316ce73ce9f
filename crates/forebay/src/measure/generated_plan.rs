//! Plans with generator jobs, fitted to the target before anything runs.

use super::generated::{fit, selection, set};
use super::session::Session;
use super::trace::TraceReader;
use crate::output::{size, time};
use anyhow::{Context, Result, anyhow, bail};
use forebay_bench::job::model::{Evidence, Pattern, Plan};
use forebay_bench::replay::{Counts, survey};
use forebay_trace::generate;

/// Counts in advance what the generators of a plan will produce, and fits them to the target: completes the names of their patterns, and
/// sets the jobs' kinds and sizes to those that occur. Returns a note for each.
///
/// # Errors
/// A generator is not understood, or does not fit on the target.
pub fn prepare(session: &Session, plan: &mut Plan) -> Result<()> {
    for job in plan.groups.iter_mut().flatten() {
        let Pattern::Generated { name } = &job.pattern else {
            if job.evidence != Evidence::None {
                bail!("job {:?}: evidence is what a generator knows of its requests: give `generator` too", job.name);
            }
            plan.notes.extend(session.idle_settings(job));
            continue;
        };
        let about = || format!("job {:?}: generator {name:?}", job.name);
        let shape = session.shape()?;
        let name = match generate::fitted(name, shape.0, job.seed) {
            Some(fitted) => fitted.with_context(about)?,
            None => {
                let known: Vec<String> = generate::NAMES.iter().map(|(name, _)| format!("{name}:")).collect();
                bail!("{}: there is none; there are {}", about(), known.join(", "));
            }
        };
        let (fit, selection) = (fit(shape), selection(job));
        let mut reader = TraceReader::open(&name, None, None, session.stop()).with_context(about)?;
        let counts = survey(&mut reader, &selection, &fit).map_err(|error| anyhow!(error)).with_context(about)?;
        if counts.beyond > 0 {
            bail!(
                "{}: reaches to byte {} ({}), the target has {} ({}): take a larger target{}",
                about(),
                counts.reach_bytes,
                size(counts.reach_bytes),
                fit.target_bytes,
                size(fit.target_bytes),
                if is_least(&name) { "" } else { ", or leave its scale or records out, which then fit" },
            );
        }
        if counts.all_ios() == 0 {
            bail!("{}: gives no I/Os", about());
        }
        plan.notes.push(note(&job.name, &name, &counts));
        job.pattern = Pattern::Generated { name };
        set(job, &counts);
        plan.notes.extend(session.idle_settings(job));
    }
    Ok(())
}

/// Whether the name has the smallest scale that exists, so that leaving the scale out would not help.
fn is_least(name: &str) -> bool {
    generate::fitted(name.split_once('?').map_or(name, |(name, _)| name), 0, 1)
        .is_some_and(|least| least.is_ok_and(|least| scale_of(&least) == scale_of(name)))
}

fn scale_of(name: &str) -> Option<&str> {
    let (_, parameters) = name.split_once('?')?;
    parameters.split('&').find(|parameter| parameter.starts_with("scale=") || parameter.starts_with("records="))
}

fn note(job: &str, name: &str, counts: &Counts) -> String {
    format!(
        "job {job:?}: {name} gives {} requests over {}, up to byte {} ({}); {} were split and {} widened to blocks of the \
         target",
        counts.requests,
        time(counts.span_ns()),
        counts.reach_bytes,
        size(counts.reach_bytes),
        counts.split,
        counts.rounded,
    )
}

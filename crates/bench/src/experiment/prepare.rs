//! Brings the target into the state that an experiment needs.

use super::conditioning::{Conditioning, trim};
use super::figures::lasted_ns;
use super::session::{Halt, Session};
use super::text;
use crate::job::model::{End, Job};
use crate::run::per_second;

/// Time limit of each stage in a quick experiment, in nanoseconds.
const QUICK_NS: u64 = 10_000_000_000;

/// Bytes that are trimmed to find out whether the target can trim.
const REGION_PROBE_BYTES: u64 = 1 << 20;

/// Conditions the target as the user asked, or else as `standard` says.
pub(super) fn prepare(session: &mut Session<'_>, standard: Option<Conditioning>) -> Result<(), Halt> {
    let asked = session.options.conditioning;
    match asked.or(standard) {
        None => {
            session.condition("conditioning: none, the target is as it was found");
            session.note(
                "what was never written, or was trimmed, is read without the media: before reads mean anything, fill \
                 the target (conditioning sequential=1)",
            );
            Ok(())
        }
        Some(conditioning) => {
            if asked.is_some() && standard.is_some() && asked != standard {
                session.note("conditioned as asked, not as the method prescribes");
            }
            let done = apply(conditioning, session)?;
            session.condition(format!("conditioning: {done}"));
            Ok(())
        }
    }
}

/// Conditions the target, and returns a sentence about what was done.
pub(super) fn apply(conditioning: Conditioning, session: &mut Session<'_>) -> Result<String, Halt> {
    let mut done = Vec::new();
    let purge = conditioning.purge && can_trim(session)?;
    if conditioning.purge && !purge {
        done.push("NOT purged (the target cannot trim)".to_owned());
    }
    let base = Job { region: session.part(session.region.1), ..session.options.base.clone() };
    for stage in (Conditioning { purge, ..conditioning }).stages_on(&base, session.region) {
        let mut job = stage.job;
        if session.options.quick {
            job.end.after_ns = Some(QUICK_NS);
        }
        let wanted = job.end.after_passes.unwrap_or(1.0);
        let step = format!("conditioning: {}", stage.what);
        let result = session.one(&step, job)?;
        let reached = result.bytes() as f64 / stage.pass_bytes.max(1) as f64;
        // A pass ends with the last complete I/O, so slightly less than a pass may be reached.
        let cut = if reached < wanted * 0.999 { format!(", ONLY {reached:.2} passes") } else { String::new() };
        // If the stage may also have ended by time, its length is known only to an interval.
        let lasted = lasted_ns(&result, wanted * stage.pass_bytes as f64);
        let least = if lasted < result.duration_ns { "at least " } else { "" };
        let rate = text::megabytes(per_second(result.bytes(), lasted));
        done.push(format!("{} ({least}{rate} MB/s{cut})", stage.what));
    }
    if conditioning.fill_percent < 100 {
        done.push(format!("the first {} % of the region filled", conditioning.fill_percent));
    }
    Ok(if done.is_empty() { "none".to_owned() } else { done.join(", then ") })
}

/// Whether the target can trim. Tried once, with the first bytes of the region.
pub(super) fn can_trim(session: &mut Session<'_>) -> Result<bool, Halt> {
    if let Some(known) = session.can_trim {
        return Ok(known);
    }
    let len = session.region.1.min(REGION_PROBE_BYTES);
    let mut job = trim(&session.options.base, session.region.0, len, len).job;
    job.end = End { after_ios: Some(1), ..End::default() };
    let can = match session.probe("looking whether the target can trim", job)? {
        Ok(()) => true,
        Err(what) => {
            session.note(format!("the target cannot trim ({what}): it was not purged, and old data stays in it"));
            false
        }
    };
    session.can_trim = Some(can);
    Ok(can)
}

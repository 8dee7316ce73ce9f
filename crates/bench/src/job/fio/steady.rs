//! `steadystate` and related keys.

use super::reader::Reader;
use super::units;
use crate::job::error::{JobError, quote};
use crate::job::size::decimal;
use crate::job::steady::{Criterion, EVERY_NS, Figure, Limit, Rule, Steady};

const SECOND_NS: u64 = 1_000_000_000;

/// When the job counts as steady, and ends. As in fio, `steadystate_duration` enables it, and the criterion is `iops_slope:0.01%` unless
/// `steadystate` gives another (options.c; tried with fio 3.33).
pub fn steady(reader: &mut Reader<'_>, threads: u32) -> Result<Option<Steady>, JobError> {
    let base = reader.kb_base;
    let fixed = |figure: Figure, limit: &str| match figure {
        Figure::Iops => decimal(limit).ok_or_else(|| format!("{} is no number of I/Os a second", quote(limit))),
        Figure::Bandwidth => units::bytes(limit, base).map(|bytes| bytes as f64),
        Figure::Latency => units::time_ns(limit, 1000).map(|ns| ns as f64),
    };
    let given = match reader.text("steadystate")? {
        Some(text) => Some(Criterion::parse(text, fixed).map_err(|reason| reader.wrong("steadystate", reason))?),
        None => None,
    };
    let ramp_ns = reader.time_ns("steadystate_ramp_time", SECOND_NS)?.unwrap_or(0);
    let every_ns = reader.time_ns("steadystate_check_interval", SECOND_NS)?.unwrap_or(EVERY_NS);
    let Some(window_ns) = reader.time_ns("steadystate_duration", SECOND_NS)?.filter(|&ns| ns > 0) else {
        for key in ["steadystate", "steadystate_ramp_time", "steadystate_check_interval"] {
            if reader.has(key) {
                reader.note(format!("`{key}` has no effect without steadystate_duration, as in fio."));
            }
        }
        return Ok(None);
    };
    let (criterion, limit) =
        given.unwrap_or((Criterion { figure: Figure::Iops, rule: Rule::Slope }, Limit::Percent(0.01)));
    if reader.has("group_reporting") {
        reader.note(
            "`steadystate`: each job is judged by itself, its clones together; fio's with group_reporting judges all jobs \
             of the group together.",
        );
    } else if threads > 1 {
        reader
            .note("`steadystate`: the clones are judged together; fio without group_reporting judges each by itself.");
    }
    if criterion.figure == Figure::Latency {
        reader.note("`steadystate`: of total latencies; fio takes completion latencies.");
    }
    Ok(Some(Steady { criterion, limit, window_ns, ramp_ns, every_ns }))
}

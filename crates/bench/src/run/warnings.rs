//! Warnings about how a job runs, which the user needs for judging its figures.

use super::result::{JobResult, Partial};
use super::worker::WAKE_MARGIN_NS;
use crate::job::model::{Arrival, Job};
use forebay_block::WaitMethod;

/// Warnings about a job, known before it runs.
pub fn beforehand(job: &Job) -> Vec<String> {
    let mut warnings = Vec::new();
    let rate = match job.arrival {
        Arrival::Constant { iops } | Arrival::Poisson { iops } => Some(iops),
        Arrival::Throttled { iops, .. } => iops,
        Arrival::Closed | Arrival::Times { .. } | Arrival::Recorded { .. } => None,
    };
    let distance_ns = rate.map_or(f64::INFINITY, |iops| 1e9 * f64::from(job.threads) / iops);
    if job.wait == WaitMethod::Sleep && distance_ns < WAKE_MARGIN_NS as f64 {
        warnings.push(format!(
            "I/Os {:.0} us apart on each thread: too close to sleep between them, so that the threads spin, and the processor \
             time says so; more threads, or wait = \"spin\", make it plain",
            distance_ns / 1e3
        ));
    }
    // A thread that sleeps in a pause is woken by its other I/Os; a thread that computes is not.
    if job.think.is_some_and(|think| think.compute) && job.depth > 1 {
        warnings.push(format!(
            "think time that computes at depth {}: while a thread thinks it sees none of its other I/Os end, and their latencies have that \
             in them; threads = {} with depth = 1 keeps them apart",
            job.depth, job.depth
        ));
    }
    warnings
}

/// Warnings about a result.
pub fn afterwards(result: &JobResult) -> Vec<String> {
    [
        nothing_measured(result),
        backlog(result),
        below_the_limit(result),
        nothing_verified(result),
        beyond_the_end(result),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Warns where much of what the target served had been left waiting by the warm-up.
fn backlog(result: &JobResult) -> Option<String> {
    let (ios, all) = (result.rated_ios() - result.ios(), result.rated_ios());
    if all > 0 && ios == all {
        return Some(format!(
            "NO LATENCY WAS MEASURED: the warm-up left so many I/Os waiting that no other was submitted; rates are of these {ios}; \
             a lower rate, or warmup = \"0s\""
        ));
    }
    (ios > all / 100).then(|| {
        format!("{ios} I/Os that the warm-up had left waiting were served in the measured time: they count for rates, and for no latency")
    })
}

/// Warns where a rate that was asked for as a limit was not reached.
fn below_the_limit(result: &JobResult) -> Option<String> {
    let Arrival::Throttled { iops, bytes_per_second } = result.job.arrival else { return None };
    if !result.has_measured() || result.partial.is_some() {
        return None;
    }
    let is_below = |reached: f64, limit: f64| reached < 0.95 * limit;
    let (reached_iops, reached_bytes) = (result.iops(), result.bytes_per_second());
    match (iops, bytes_per_second) {
        // Of two limits one holds back the other.
        (Some(iops), Some(bytes)) if !is_below(reached_iops, iops) || !is_below(reached_bytes, bytes) => None,
        (Some(iops), _) if is_below(reached_iops, iops) => Some(format!(
            "{reached_iops:.0} of {iops:.0} I/Os a second: the target or the machine did not keep up with the rate"
        )),
        (None, Some(bytes)) if is_below(reached_bytes, bytes) => Some(format!(
            "{:.1} of {:.1} MB/s: the target or the machine did not keep up with the rate",
            reached_bytes / 1e6,
            bytes / 1e6
        )),
        _ => None,
    }
}

/// Warns where the last I/Os took far longer than the others.
fn beyond_the_end(result: &JobResult) -> Option<String> {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let beyond_ns = result.duration_ns - result.rated_ns;
    // The last I/Os may take as long as usual.
    (beyond_ns as f64 - 2.0 * result.service_mean_ns > result.rated_ns as f64 / 100.0).then(|| {
        format!(
            "the last I/Os ended {:.2} s behind the others: rates are of {:.2} s, and their latencies are in all percentiles",
            seconds(beyond_ns),
            seconds(result.rated_ns)
        )
    })
}

/// Why nothing was measured, if nothing was.
fn nothing_measured(result: &JobResult) -> Option<String> {
    if result.has_measured() {
        return None;
    }
    let job = &result.job;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let why = match (result.partial, result.open, &job.arrival) {
        (Some(Partial::Interrupted), ..) => "the run was ended before the first measured I/O was complete".to_owned(),
        (Some(Partial::GaveUp), ..) => "the target was given up before the measurement began".to_owned(),
        (Some(Partial::Lost), ..) => "the host was lost before the first figures came".to_owned(),
        (Some(Partial::Hung), ..) => "no I/O of the measurement ever came back".to_owned(),
        (None, Some(open), Arrival::Times { .. }) if open.scheduled == 0 => format!(
            "the trace was over before the measurement began: the warm-up takes its first {:.3} s; use warmup = \"0s\"",
            seconds(job.warmup_ns)
        ),
        (None, Some(open), _) if open.scheduled == 0 => format!(
            "the schedule has no I/O within the {:.3} s of measurement: a higher rate, or a longer run",
            seconds(job.end.after_ns.unwrap_or(0))
        ),
        (None, Some(_), _) => "the target was so slow that nothing of the schedule could be submitted".to_owned(),
        (None, None, _) => format!(
            "none began within the {:.3} s of measurement: an I/O takes longer than that; a longer run",
            seconds(job.end.after_ns.unwrap_or(0))
        ),
    };
    Some(format!("NO I/O WAS MEASURED: {why}"))
}

/// Warns where a job verifies and no data was judged.
fn nothing_verified(result: &JobResult) -> Option<String> {
    let judged = result.judged.filter(|_| result.has_verified_nothing())?;
    Some(match judged.read() {
        0 => "NOTHING WAS VERIFIED: nothing was read".to_owned(),
        read => format!(
            "NOTHING WAS VERIFIED: none of the {read} units read has a header of ours, and none was written in this run; \
             write them first with verify = true, by the same sizes and alignment"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::model::Think;

    #[test]
    fn what_the_figures_carry_is_said() {
        let at = |iops, threads| Job { arrival: Arrival::Poisson { iops }, threads, ..Job::default() };
        assert_eq!(beforehand(&at(6000.0, 1)), Vec::<String>::new());
        assert!(beforehand(&at(100_000.0, 2))[0].starts_with("I/Os 20 us apart on each thread"));
        assert_eq!(beforehand(&Job { wait: WaitMethod::Spin, ..at(100_000.0, 1) }), Vec::<String>::new());
        let think = Some(Think { time_ns: 1000, compute: true });
        assert_eq!(beforehand(&Job { think, depth: 1, ..Job::default() }), Vec::<String>::new());
        assert!(beforehand(&Job { think, depth: 4, ..Job::default() })[0].contains("threads = 4"));
        let asleep = Some(Think { time_ns: 1000, compute: false });
        assert_eq!(beforehand(&Job { think: asleep, depth: 4, ..Job::default() }), Vec::<String>::new());
    }
}

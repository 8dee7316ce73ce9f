//! What the user should know of how a job is run, because the figures carry it.

use super::worker::WAKE_MARGIN_NS;
use crate::job::model::{Arrival, Job};
use forebay_block::WaitMethod;

/// Remarks on a job, for its result.
pub fn remarks(job: &Job) -> Vec<String> {
    let mut remarks = Vec::new();
    let rate = match job.arrival {
        Arrival::Constant { iops } | Arrival::Poisson { iops } => Some(iops),
        Arrival::Throttled { iops, .. } => iops,
        Arrival::Closed | Arrival::Times { .. } => None,
    };
    let distance_ns = rate.map_or(f64::INFINITY, |iops| 1e9 * f64::from(job.threads) / iops);
    if job.wait == WaitMethod::Sleep && distance_ns < WAKE_MARGIN_NS as f64 {
        remarks.push(format!(
            "I/Os {:.0} us apart on each thread: too close to sleep between them, so that the threads spin, and the processor \
             time says so; more threads, or wait = \"spin\", make it plain",
            distance_ns / 1e3
        ));
    }
    if job.think.is_some() && job.depth > 1 {
        remarks.push(format!(
            "think time at depth {}: while a thread thinks it sees none of its other I/Os end, and their latencies have that \
             in them; threads = {} with depth = 1 keeps them apart",
            job.depth, job.depth
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::model::Think;

    #[test]
    fn what_the_figures_carry_is_said() {
        let at = |iops, threads| Job { arrival: Arrival::Poisson { iops }, threads, ..Job::default() };
        assert_eq!(remarks(&at(6000.0, 1)), Vec::<String>::new());
        assert!(remarks(&at(100_000.0, 2))[0].starts_with("I/Os 20 us apart on each thread"));
        assert_eq!(remarks(&Job { wait: WaitMethod::Spin, ..at(100_000.0, 1) }), Vec::<String>::new());
        let think = Some(Think { time_ns: 1000, compute: true });
        assert_eq!(remarks(&Job { think, depth: 1, ..Job::default() }), Vec::<String>::new());
        assert!(remarks(&Job { think, depth: 4, ..Job::default() })[0].contains("threads = 4"));
    }
}

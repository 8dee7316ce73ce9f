//! What the tool itself costs: the same load on nothing.

use anyhow::Result;
use forebay_bench::job::model::{Access, Arrival, End, Job, Region};
use forebay_bench::run::{Assignment, Opened, Settings, TargetFacts, TscClock, run};
use forebay_bench::telemetry::Recorder;
use forebay_block::WaitMethod;
use forebay_device::queue::NullQueue;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How long it is measured.
const MEASURED_NS: u64 = 200_000_000;
/// Records kept in memory where a run keeps them: the file is the spill thread's work, not the worker's.
const RECORDS: usize = 1 << 16;
/// Size that nothing claims.
const SIZE_BYTES: u64 = 1 << 40;

/// A job as the tool's own cost depends on it: two that are the same here cost the same.
pub fn essence(job: &Job) -> Job {
    Job {
        name: String::new(),
        threads: 1,
        region: Region::default(),
        arrival: Arrival::Closed,
        think: None,
        burst: None,
        verify: false,
        end: End { after_ns: Some(MEASURED_NS), ..End::default() },
        steady: None,
        warmup_ns: MEASURED_NS / 10,
        cooldown_ns: 0,
        start_delay_ns: 0,
        seed: 1,
        cpus: Vec::new(),
        wait: WaitMethod::Spin,
        access: Access::default(),
        ..job.clone()
    }
}

/// Nanoseconds of processor time per I/O on a target that completes at once, stamps, histograms and all, for a job's own
/// kinds, sizes, pattern and depth; with a record of each I/O where the run keeps them.
///
/// # Errors
/// Where the job cannot be run at all.
pub fn own_cost_ns(job: &Job, target_bytes: u64, is_recorded: bool) -> Result<f64> {
    let job = essence(job);
    let queue = NullQueue::new(job.depth, (job.max_io_bytes() as usize).max(512))?;
    let facts = TargetFacts {
        size_bytes: if target_bytes == 0 { SIZE_BYTES } else { target_bytes },
        logical_block_bytes: 512,
        ..TargetFacts::default()
    };
    let recorders = is_recorded.then(|| Recorder::ring(RECORDS)).into_iter().collect();
    let assignment = Assignment { job, opened: Opened { queues: vec![queue], facts }, recorders, replay: None };
    let stop = Arc::new(AtomicBool::new(false));
    let results = run(vec![assignment], &TscClock::new(), &Settings::default(), &stop, &mut |_| {})?;
    // Processor time: that others had the core meanwhile is no cost of the tool's.
    let (ios, cpu_ns) =
        results.first().map_or((0, 0), |result| (result.ios(), result.used.cpu_ns.0 + result.used.cpu_ns.1));
    Ok(if ios == 0 { 0.0 } else { cpu_ns as f64 / ios as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_bench::job::model::{Mix, Think};
    use forebay_block::OpKind;

    #[test]
    fn regression_what_costs_the_same_is_the_same() {
        let job = Job::default();
        let think = Some(Think { time_ns: 5, compute: true });
        let alike = Job { name: "b".to_owned(), threads: 4, seed: 9, think, wait: WaitMethod::Spin, ..job.clone() };
        assert_eq!(essence(&job), essence(&alike));
        for other in [Job { depth: 2, ..job.clone() }, Job { mix: Mix::only(OpKind::Write), ..job.clone() }] {
            assert_ne!(essence(&job), essence(&other));
        }
    }
}

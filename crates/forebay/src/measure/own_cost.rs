//! The tool's own cost: the same load on a null target.

use anyhow::Result;
use forebay_bench::job::model::{Access, Arrival, End, Job, Region};
use forebay_bench::run::{Assignment, Opened, Settings, TargetFacts, TscClock, run};
use forebay_bench::telemetry::Recorder;
use forebay_block::WaitMethod;
use forebay_device::queue::NullQueue;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Length of the measurement.
const MEASURED_NS: u64 = 200_000_000;
/// Records kept in memory where a run has records: writing the file is the work of the spill thread, not of the worker.
const RECORDS: usize = 1 << 16;
/// Size of the null target; no memory backs it.
const SIZE_BYTES: u64 = 1 << 40;

/// The part of a job that determines the tool's own cost: jobs with equal parts cost the same.
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

/// Nanoseconds of processor time per I/O on a target that completes immediately, including time stamps and histograms, with the job's own
/// kinds, sizes, pattern and depth; with a record of each I/O where the run keeps records.
///
/// # Errors
/// The job cannot run.
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
    // Processor time, so that time of other processes on the core does not count as the tool's cost.
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

//! What the tool itself costs: the same load on nothing.

use anyhow::Result;
use forebay_bench::job::model::{Arrival, End, Job, Region};
use forebay_bench::run::{Assignment, Opened, Settings, TargetFacts, TscClock, run};
use forebay_block::WaitMethod;
use forebay_device::queue::NullQueue;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How long it is measured.
const MEASURED_NS: u64 = 200_000_000;
/// Size that nothing claims.
const SIZE_BYTES: u64 = 1 << 40;

/// Nanoseconds of one thread per I/O on a target that completes at once, stamps, histograms and all, for a job's own
/// kinds, sizes, pattern and depth.
///
/// # Errors
/// Where the job cannot be run at all.
pub fn own_cost_ns(job: &Job, target_bytes: u64) -> Result<f64> {
    let job = Job {
        threads: 1,
        region: Region::default(),
        arrival: Arrival::Closed,
        think: None,
        burst: None,
        verify: false,
        end: End { after_ns: Some(MEASURED_NS), ..End::default() },
        warmup_ns: MEASURED_NS / 10,
        cooldown_ns: 0,
        start_delay_ns: 0,
        cpus: Vec::new(),
        wait: WaitMethod::Spin,
        ..job.clone()
    };
    let queue = NullQueue::new(job.depth, (job.max_io_bytes() as usize).max(512))?;
    let facts = TargetFacts {
        size_bytes: if target_bytes == 0 { SIZE_BYTES } else { target_bytes },
        logical_block_bytes: 512,
        ..TargetFacts::default()
    };
    let assignment = Assignment { job, opened: Opened { queues: vec![queue], facts }, recorders: Vec::new() };
    let stop = Arc::new(AtomicBool::new(false));
    let results = run(vec![assignment], &TscClock::new(), &Settings::default(), &stop, &mut |_| {})?;
    let (ios, duration) = results.first().map_or((0, 0), |result| (result.ios(), result.duration_ns));
    Ok(if ios == 0 { 0.0 } else { duration as f64 / ios as f64 })
}

//! Requests of this process in the block layer, measured by kernel probes: their time queued there and their time at the device.

use crate::output;
use anyhow::{Context, Result, bail};
use forebay_bench::run::{BlockUse, Tally};
use forebay_device::Target;
use forebay_trace::NOT_KNOWN;
use forebay_trace::capture::{self, Matched, RecordOptions, Recorder, Tracer};
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the probes' ring is emptied; it holds some 200,000 requests.
const TURN: Duration = Duration::from_millis(20);

/// Attached probes.
pub struct BlockWatch {
    /// The recorder's clock at `attached`. Requests use this clock, which started before the recorder had scanned all open files.
    attached: Instant,
    attached_ns: u64,
    counted: Arc<Counted>,
    thread: JoinHandle<Result<BlockUse>>,
}

/// Requests issued between these times count, in nanoseconds since the recorder's start.
struct Counted {
    begin_ns: AtomicU64,
    end_ns: AtomicU64,
}

impl BlockWatch {
    /// Attaches the probes; requests are counted from [`BlockWatch::begin`] on.
    ///
    /// # Errors
    /// The target has no drive below it, or the kernel does not allow the probes.
    pub fn start(target: &str) -> Result<Self> {
        let recorder = recorder(target)?;
        let (attached, attached_ns) = (Instant::now(), recorder.elapsed_ns());
        let never = || AtomicU64::new(u64::MAX);
        let counted = Arc::new(Counted { begin_ns: never(), end_ns: never() });
        let of_thread = counted.clone();
        let body = move || watch(recorder, &of_thread);
        let thread =
            std::thread::Builder::new().name("block-layer".to_owned()).spawn(body).context("no more threads")?;
        Ok(Self { attached, attached_ns, counted, thread })
    }

    fn now_ns(&self) -> u64 {
        self.attached_ns + self.attached.elapsed().as_nanos() as u64
    }

    /// Starts counting.
    pub fn begin(&self) {
        self.counted.begin_ns.store(self.now_ns(), Ordering::Relaxed);
    }

    /// Stops counting and returns the figures.
    ///
    /// # Errors
    /// The kernel or the system refused something meanwhile.
    pub fn finish(self) -> Result<BlockUse> {
        self.counted.end_ns.store(self.now_ns(), Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| bail!("its thread has died"))
    }
}

/// The block device of a target: the target itself, or that of its file system.
///
/// # Errors
/// There is none.
pub fn device(target: &str) -> Result<capture::Target> {
    let parsed: Target = target.parse()?;
    let path = parsed.path().with_context(|| format!("{target} is neither a block device nor a file on one"))?;
    let is_device = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
    Ok(if is_device { capture::Target::of_device(path)? } else { capture::Target::of_file(path)? })
}

fn recorder(target: &str) -> Result<Recorder> {
    let options = RecordOptions {
        targets: vec![device(target)?],
        processes: vec![std::process::id()],
        tracer: Tracer::Ebpf,
        measure_cost: true,
        ..RecordOptions::default()
    };
    Ok(Recorder::begin(options)?)
}

fn watch(mut recorder: Recorder, counted: &Counted) -> Result<BlockUse> {
    let (mut queued, mut device) = (Tally::new(), Tally::new());
    let mut is_over = false;
    // One more pass after the end: the ring still holds the last requests.
    while !std::mem::replace(&mut is_over, counted.end_ns.load(Ordering::Relaxed) != u64::MAX) {
        std::thread::sleep(TURN);
        let matched = recorder.turn()?;
        let times = counted.begin_ns.load(Ordering::Relaxed)..counted.end_ns.load(Ordering::Relaxed);
        let in_time = matched.iter().filter(|matched| times.contains(&matched.captured.request.issued_ns));
        in_time.for_each(|matched| count(matched, &mut queued, &mut device));
    }
    let summary = recorder.finish()?;
    let dropped = summary.dropped_requests + summary.dropped_completions;
    let all: u64 = summary.counts.requests.max(1);
    // The probes' time in proportion to the requests that were counted.
    let probes_ns = (summary.cost.time_ns as f64 * device.count() as f64 / all as f64) as u64;
    Ok(BlockUse { queued: queued.pack(), device: device.pack(), dropped, probes_ns })
}

fn count(matched: &Matched, queued: &mut Tally, device: &mut Tally) {
    let request = &matched.captured.request;
    if request.latency_ns != NOT_KNOWN {
        device.record(request.latency_ns);
        if request.queued_ns != NOT_KNOWN {
            queued.record(request.queued_ns);
        }
    }
}

/// The reason for missing figures, for a result.
pub fn why(error: &anyhow::Error) -> String {
    format!("the block layer: {}", output::chain(error))
}

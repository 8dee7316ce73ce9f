//! The three stamps of an I/O, on a target whose calls take time.

use super::*;

/// A target whose calls take time: 1 us to accept an I/O and 20 us to submit; if it is synchronous, the call takes all
/// of the I/O's time.
struct Costly {
    inner: Scripted,
    is_synchronous: bool,
    kicks: Arc<AtomicU64>,
}

impl Queue for Costly {
    fn slots(&self) -> u32 {
        self.inner.slots()
    }
    fn buffer_bytes(&self) -> usize {
        self.inner.buffer_bytes()
    }
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.inner.buffer(slot)
    }
    fn submit(&mut self, io: &Io) {
        self.inner.clock.sleep_ns(1_000);
        self.inner.submit(io);
        if self.is_synchronous {
            self.inner.clock.advance_to(self.inner.waiting[0].0);
        }
    }
    fn kick(&mut self) {
        self.kicks.fetch_add(1, Ordering::SeqCst);
        self.inner.clock.sleep_ns(20_000);
    }
    fn reap(&mut self, done: &mut Vec<Done>) {
        self.inner.reap(done);
    }
    fn wait(&mut self, timeout_ns: u64) {
        self.inner.wait(timeout_ns);
    }
    fn is_synchronous(&self) -> bool {
        self.is_synchronous
    }
    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }
}

fn run_on_costly(job: Job, is_synchronous: bool, script: Script) -> (JobResult, u64) {
    let (clock, kicks) = (VirtualClock::default(), Arc::new(AtomicU64::new(0)));
    let queue = Costly { inner: Scripted::new(&clock, job.depth, script), is_synchronous, kicks: kicks.clone() };
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let assignment =
        Assignment { job, opened: Opened { queues: vec![queue], facts }, recorders: Vec::new(), replay: None };
    let stop = Arc::new(AtomicBool::new(false));
    let mut results = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap();
    (results.pop().unwrap(), kicks.load(Ordering::SeqCst))
}

#[test]
fn each_latency_lies_between_its_own_two_stamps() {
    let close = |found: &Latencies, truth: u64| {
        assert!(found.min_ns().abs_diff(truth) < 500, "{} of {truth}", found.min_ns());
        assert!((found.mean_ns() - truth as f64).abs() < 500.0, "{} of {truth}", found.mean_ns());
    };
    for single_submission in [false, true] {
        // 1 us to accept and 20 us to submit; the target's 200 us begin when the I/O has been accepted.
        let (result, _) = run_on_costly(Job { single_submission, ..job(1, 0.2) }, false, fixed(200_000));
        let read = result.kind(OpKind::Read).unwrap();
        close(&read.submission, 21_000);
        close(&read.device, 180_000);
        close(&read.total, 201_000);
    }
    // If the call carries out the I/O, all of its time is the target's.
    let (result, _) = run_on_costly(job(1, 0.2), true, fixed(200_000));
    let read = result.kind(OpKind::Read).unwrap();
    assert!(read.submission.max_ns() < 500, "{}", read.submission.max_ns());
    close(&read.device, 201_000);
    close(&read.total, 201_000);
    // In an open loop that has fallen behind, waiting for a slot counts as submission latency.
    let open = Job { arrival: Arrival::Constant { iops: 10_000.0 }, warmup_ns: 0, ..job(1, 0.1) };
    let (result, _) = run_on_costly(open, false, fixed(200_000));
    let read = result.kind(OpKind::Read).unwrap();
    assert!(read.submission.max_ns() > 50_000_000, "{}", read.submission.max_ns());
    assert!((read.submission.mean_ns() + read.device.mean_ns() - read.total.mean_ns()).abs() < 1.0);
}

#[test]
fn single_submission_submits_each_io_alone() {
    // All four I/Os end at the same time, so the next four are ready together.
    let script = || -> Script { Box::new(|now, _| (1_000_000 - now % 1_000_000, None)) };
    let (batch, kicks) = run_on_costly(Job { single_submission: false, warmup_ns: 0, ..job(4, 0.2) }, false, script());
    assert!((batch.ios() / 4..=batch.ios() / 4 + 4).contains(&kicks), "{kicks} for {}", batch.ios());
    let (single, kicks) = run_on_costly(Job { single_submission: true, warmup_ns: 0, ..job(4, 0.2) }, false, script());
    assert!((single.ios()..=single.ios() + 4).contains(&kicks), "{kicks} for {}", single.ios());
}

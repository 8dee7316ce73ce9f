//! Loads that replay traces.

use super::*;
use crate::replay::{Feed, Fit, Recorded, Requests, Selection, SourceError, TraceSource};
use std::sync::Mutex;

struct Memory(Vec<Recorded>);

impl TraceSource for Memory {
    fn read(&mut self, into: &mut Vec<Recorded>) -> Result<bool, SourceError> {
        into.append(&mut self.0);
        Ok(false)
    }
}

/// A thousand requests at uneven distances up to a millisecond: three reads, a write, a flush, and so on.
fn trace() -> Vec<Recorded> {
    let mut at_ns = 5_000_000_000;
    (0..1000u64)
        .map(|number| {
            at_ns += number * 7919 % 1_000_000;
            let kind = [OpKind::Read, OpKind::Read, OpKind::Read, OpKind::WriteFua, OpKind::Flush][number as usize % 5];
            let len_bytes = if kind == OpKind::Flush { 0 } else { 4096 << (number % 3) };
            Recorded {
                at_ns,
                kind,
                offset_bytes: number << 14,
                len_bytes,
                flush_before: false,
                is_stand_in: false,
                hint: 0,
            }
        })
        .collect()
}

fn replayed(depth: u32, arrival: Arrival) -> Job {
    let kinds = [OpKind::Read, OpKind::WriteFua, OpKind::Flush];
    let mix = Mix { weights: kinds.map(|kind| (kind, 1)).to_vec(), flush_every: None };
    let size = SizeMix::fixed(16_384);
    let sizes = Sizes { read: size.clone(), write: size.clone(), trim: size };
    let pattern = Pattern::Replayed;
    Job { depth, arrival, mix, sizes, pattern, warmup_ns: 0, end: End::default(), ..Job::default() }
}

/// Runs the job; also returns when each I/O reached the target, and which one.
fn replay_on(job: Job, selection: Selection, mut script: Script) -> (JobResult, Vec<(u64, Io)>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let see = seen.clone();
    let script: Script = Box::new(move |now, io| {
        see.lock().unwrap().push((now, *io));
        script(now, io)
    });
    let clock = VirtualClock::default();
    let queue = Scripted::new(&clock, job.depth, script);
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let fit = Fit { target_bytes: 1 << 30, block_bytes: 512, piece_bytes: 16_384, wrap: false };
    let feed = Feed::new(Requests::new(Memory(trace()), selection, fit)).unwrap();
    let opened = Opened { queues: vec![queue], facts };
    let assignment = Assignment { job, opened, recorders: Vec::new(), replay: Some(feed.clone()) };
    let stop = Arc::new(AtomicBool::new(false));
    let mut results = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap();
    feed.close().unwrap();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (results.pop().unwrap(), seen)
}

/// What a request does to a target.
fn essence(kind: OpKind, offset_bytes: u64, len_bytes: u64) -> (OpKind, u64, u64) {
    if kind == OpKind::Flush { (kind, 0, 0) } else { (kind, offset_bytes, len_bytes) }
}

#[test]
fn a_replay_makes_each_request_once_at_its_time() {
    for scale in [1.0, 4.0] {
        let selection = Selection { scale, ..Selection::default() };
        let (result, seen) = replay_on(replayed(32, Arrival::Recorded { speed: scale }), selection, fixed(100_000));
        let trace = trace();
        let made: Vec<_> = seen.iter().map(|(_, io)| essence(io.kind, io.offset_bytes, io.len_bytes.into())).collect();
        let wanted: Vec<_> =
            trace.iter().map(|found| essence(found.kind, found.offset_bytes, found.len_bytes)).collect();
        assert_eq!(made, wanted);
        for (pair, recorded) in seen.windows(2).zip(trace.windows(2)) {
            let distance = (recorded[1].at_ns - recorded[0].at_ns) as f64 / scale;
            let error = ((pair[1].0 - pair[0].0) as f64 - distance).abs();
            // The tolerance is some readings of a clock that advances by 50 ns with each.
            assert!(error < 1_500.0, "{error} at {}", pair[1].0);
        }
        assert_eq!((result.ios(), result.partial, result.kinds.len()), (1000, None, 3));
        let (drift, open) = (result.drift.as_ref().unwrap(), result.open.unwrap());
        assert_eq!((drift.late.count(), drift.gap.count()), (1000, 999));
        assert!(drift.late.max_ns() < 1_500 && drift.gap.max_ns() < 1_500, "{drift:?}");
        assert_eq!((open.scheduled, open.issued, open.late, open.no_slot), (1000, 1000, 0, 0));
        let span_ns = (trace[999].at_ns - trace[0].at_ns) as f64 / scale;
        assert!((result.duration_ns as f64 - span_ns - 100_000.0).abs() < 3_000.0, "{}", result.duration_ns);
    }
}

#[test]
fn latency_of_a_replay_counts_from_the_recorded_time() {
    // From 100 ms to 200 ms the target, which has one slot, stands still.
    let stall: Script = Box::new(|now, _| {
        let in_run = now.saturating_sub(LEAD_NS + LEAD_PER_THREAD_NS);
        (if (100_000_000..200_000_000).contains(&in_run) { 200_000_000 - in_run } else { 10_000 }, None)
    });
    let (result, seen) = replay_on(replayed(1, Arrival::Recorded { speed: 1.0 }), Selection::default(), stall);
    assert_eq!((result.ios(), seen.len()), (1000, 1000));
    let total = result.total();
    assert!(total.max_ns() > 98_000_000, "{}", total.max_ns());
    let drift = result.drift.unwrap();
    assert!(drift.late.max_ns() > 90_000_000 && drift.gap.max_ns() > 90_000_000, "{drift:?}");
    assert!(result.open.unwrap().no_slot > 50, "{:?}", result.open);
}

#[test]
fn as_fast_as_possible_keeps_the_order_and_the_depth() {
    let (result, seen) = replay_on(replayed(4, Arrival::Closed), Selection::default(), fixed(100_000));
    let made: Vec<_> = seen.iter().map(|(_, io)| essence(io.kind, io.offset_bytes, io.len_bytes.into())).collect();
    assert!(made.into_iter().eq(trace().iter().map(|found| essence(found.kind, found.offset_bytes, found.len_bytes))));
    assert!(result.drift.is_none() && result.open.is_none() && result.partial.is_none());
    assert!((result.depth_mean / 4.0 - 1.0).abs() < 0.02, "{}", result.depth_mean);
    assert!((result.iops() / 40_000.0 - 1.0).abs() < 0.03, "{}", result.iops());
}

#[test]
fn a_job_that_replays_needs_a_trace() {
    let clock = VirtualClock::default();
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let opened = Opened { queues: vec![Scripted::new(&clock, 1, fixed(1))], facts };
    let assignment = Assignment { job: replayed(1, Arrival::Closed), opened, recorders: Vec::new(), replay: None };
    let stop = Arc::new(AtomicBool::new(false));
    let refusal = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap_err();
    assert!(refusal.to_string().contains("come from a trace"), "{refusal}");
}

//! Intervals and bursts.

use super::*;

/// Runs one worker on this thread with room for 1,000 intervals, so there is no coordinator that could lag.
fn drive(job: Job, clock: &VirtualClock, queue: impl Queue, interval_ns: u64) -> JobResult {
    use super::collect::Collector;
    let kinds: Vec<OpKind> = job.mix.kinds().collect();
    let window = Window::new(1_000_000, job.warmup_ns, job.end.after_ns, job.cooldown_ns);
    let mut pace = Pace::new(&job.arrival, 0, 1, 1, &[]);
    pace.begin_at(window.start_ns);
    let (to, messages) = channel();
    let (give, from) = channel();
    (0..1000).for_each(|_| give.send(Box::new(Share::new(0, &kinds, interval_ns))).unwrap());
    let parts = WorkerParts {
        worker: 0,
        queue,
        depth: job.depth,
        clock: clock.clone(),
        load: Load::Made { generator: Box::new(Generator::new(&job, (0, 1 << 30), 0).unwrap()), pace },
        bursts: Bursts::new(job.burst),
        think: job.think,
        content: None,
        window,
        budget: budget(&job, (0, 1 << 30), 1 << 30, 0),
        added_flush: job.mix.added_flush(),
        wait: job.wait,
        single_submission: job.single_submission,
        enough: Arc::default(),
        stop: Arc::new(AtomicBool::new(false)),
        ledger: Ledger::new(Box::new(Share::new(0, &kinds, interval_ns)), interval_ns, None, (to, from)),
    };
    Worker::new(parts).run();
    let mut collector = Collector::new(job, window, interval_ns);
    for message in messages {
        match message {
            Message::Share(share) => collector.add(0, &share),
            Message::End(end) => collector.end(0, *end),
        }
    }
    collector.finish(TargetFacts::default())
}

/// 1,000 reads of 8 KiB a second: one read in each millisecond.
fn one_a_millisecond(seconds: f64) -> Job {
    let size = SizeMix::fixed(8192);
    let sizes = Sizes { read: size.clone(), write: size.clone(), trim: size };
    Job { sizes, arrival: Arrival::Constant { iops: 1000.0 }, ..job(32, seconds) }
}

#[test]
fn intervals_hold_what_ended_in_them() {
    const SECOND: u64 = 1_000_000_000;
    let clock = VirtualClock::default();
    // 100 us in the first second of the measurement, 200 us in the next, 300 us in the third.
    let script: Script = Box::new(|now, _| (now.saturating_sub(11_000_000) / SECOND * 100_000 + 100_000, None));
    let result = drive(one_a_millisecond(2.5), &clock, Scripted::new(&clock, 32, script), SECOND);
    let rows: Vec<_> = result
        .intervals
        .iter()
        .map(|row| (row.begin_ns / SECOND, row.length_ns, row.ios, row.bytes, row.read.ios))
        .collect();
    let row = |at: u64, length_ns: u64, ios: u64| (at, length_ns, ios, ios * 8192, ios);
    assert_eq!(rows, [row(0, SECOND, 1000), row(1, SECOND, 1000), row(2, SECOND / 2, 500)]);
    assert!(result.intervals.iter().all(|row| row.read.bytes == row.bytes && row.write == Direction::default()));
    assert!(result.intervals.iter().all(|row| row.read.mean_ns() == row.latency_ns[0]));
    for (row, truth) in result.intervals.iter().zip([100_000, 200_000, 300_000]) {
        assert!(row.latency_ns.iter().all(|found| (truth..truth + 1000).contains(found)), "{row:?}");
    }
    // Each millisecond had one I/O; times that were not measured completely belong to no window.
    assert_eq!(result.bursts.len(), 4);
    for row in &result.bursts {
        assert_eq!((row.iops_min, row.iops_max), (1000.0, 1000.0), "{row:?}");
        assert_eq!((row.bytes_per_second_min, row.bytes_per_second_max), (8_192_000.0, 8_192_000.0), "{row:?}");
    }
    assert_eq!(result.kinds[0].blocks.samples(), result.ios());
}

#[test]
fn regression_rates_of_a_second_are_seen_by_short_intervals_too() {
    let clock = VirtualClock::default();
    let result = drive(one_a_millisecond(2.5), &clock, Scripted::new(&clock, 32, fixed(100_000)), 50_000_000);
    assert_eq!(result.intervals.len(), 50);
    let windows: Vec<u64> = result.bursts.iter().map(|row| row.window_ns / 1_000_000).collect();
    assert_eq!(windows, [1, 10, 100, 1000]);
    for row in &result.bursts {
        assert_eq!((row.iops_min, row.iops_max), (1000.0, 1000.0), "{row:?}");
    }
}

#[test]
fn the_slow_few_are_in_the_rows_and_in_the_bursts() {
    let clock = VirtualClock::default();
    let mut number = 0;
    // One I/O in fifty takes longer and ends together with one that began 5 ms later.
    let script: Script = Box::new(move |_, _| {
        number += 1;
        (if number % 50 == 0 { 5_100_000 } else { 100_000 }, None)
    });
    let result = drive(one_a_millisecond(2.0), &clock, Scripted::new(&clock, 32, script), 1_000_000_000);
    let [mean, median, p99, p999, max] = result.intervals[0].latency_ns;
    assert!((190_000..210_000).contains(&mean), "{mean}");
    assert!((100_000..101_000).contains(&median), "{median}");
    assert!([p99, p999, max].iter().all(|found| (5_090_000..5_110_000).contains(found)), "{p99} {p999} {max}");
    assert_eq!((result.bursts[0].iops_min, result.bursts[0].iops_max), (0.0, 2000.0));
}

#[test]
fn the_mean_of_a_row_is_of_total_latencies() {
    // One slot, and twice the load that it can serve: nearly all of the latency is waiting.
    let clock = VirtualClock::default();
    let result = drive(
        Job { warmup_ns: 0, ..one_a_millisecond(1.0) },
        &clock,
        Scripted::new(&clock, 1, fixed(2_000_000)),
        1_000_000_000,
    );
    assert!(result.intervals[0].latency_ns[0] > 200_000_000, "{:?}", result.intervals[0]);
}

#[test]
fn intervals_keep_their_grid_after_a_stall() {
    const TENTH: u64 = 100_000_000;
    let clock = VirtualClock::default();
    let mut number = 0;
    // A call that lasts for 150 ms, during which the worker does not look at the clock.
    let jump = clock.clone();
    let script: Script = Box::new(move |_, _| {
        number += 1;
        if number == 500 {
            jump.sleep_ns(150_000_000);
        }
        (100_000, None)
    });
    let result = drive(Job { warmup_ns: 0, ..job(1, 0.6) }, &clock, Scripted::new(&clock, 1, script), TENTH);
    // 500 I/Os in the first 50 ms; the stall ends at 200 ms; complete intervals follow.
    let after: Vec<u64> = result.intervals.iter().filter(|row| row.begin_ns >= 2 * TENTH).map(|row| row.ios).collect();
    assert!(after.iter().take(4).all(|ios| (980..=1001).contains(ios)), "{:?}", result.intervals);
}

#[test]
fn an_interval_is_closed_when_all_workers_have_left_it() {
    use super::collect::Collector;
    let mut collector =
        Collector::new(Job { threads: 2, ..job(1, 3.0) }, Window::new(0, 0, Some(3_000_000_000), 0), 1_000_000_000);
    for interval in 0..3 {
        for worker in 0..2 {
            let mut share = Share::new(worker, &[OpKind::Read], 1_000_000_000);
            (share.interval, share.late, share.no_slot) = (interval, 2, 3);
            share.fine[7].ios = 5;
            share.kinds[OpKind::Read as usize].as_mut().unwrap().ios = 5;
            collector.add(worker, &share);
        }
    }
    let result = collector.finish(TargetFacts::default());
    assert_eq!(result.intervals.iter().map(|row| row.ios).collect::<Vec<_>>(), [10, 10, 10]);
    assert_eq!(result.bursts[0].iops_max, 10_000.0);
}

/// Intervals left out I/Os begun in the warm-up: at a deep queue the first seconds had none, and the run seemed not to
/// be steady.
#[test]
fn regression_intervals_count_what_the_warm_up_began() {
    let clock = VirtualClock::default();
    let deep = Job { warmup_ns: 4_000_000_000, ..job(256, 10.0) };
    let result = drive(deep, &clock, Scripted::new(&clock, 256, super::overload::serial()), 500_000_000);
    let counts = result.counts(|row| row.ios);
    assert!(counts.len() >= 8, "{}", counts.len());
    let expected = 100.0 * result.interval_ns as f64 / 1e9;
    assert!(counts.iter().all(|&count| (count as f64 - expected).abs() <= 1.0), "{counts:?}");
    assert_eq!(crate::stats::steady::five_parts(&counts).map(|found| found.steady), Some(true));
    let first = &result.intervals[0];
    assert_eq!((first.read.ios, first.read.bytes, first.write), (first.ios, first.bytes, Direction::default()));
    assert!(first.latency_ns.iter().all(|&ns| ns.abs_diff(2_560_000_000) < 10_000_000), "{first:?}");
    assert_eq!(first.read.mean_ns() / 1_000_000, first.latency_ns[0] / 1_000_000);
    let interval = result.rate_interval(&counts, result.iops(), crate::stats::Confidence::P95).unwrap();
    assert!(interval.low > 98.0 && interval.high < 102.0, "{interval:?}");
    // Totals count only I/Os that began within the measurement.
    assert_eq!(result.kinds[0].total.count(), result.ios());
}

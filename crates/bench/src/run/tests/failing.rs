//! Targets that fail or never answer.

use super::*;

#[test]
fn errors_are_counted_located_and_kept_out_of_the_latencies() {
    let mut number = 0;
    let script: Script = Box::new(move |_, _| {
        number += 1;
        if number % 100 == 0 { (5_000_000, Some(IoErrorKind::Medium)) } else { (10_000, None) }
    });
    let result = run_on(job(1, 1.0), script);
    let read = result.kind(OpKind::Read).unwrap();
    assert!(read.errors > 100, "{}", read.errors);
    assert!(result.failures.count >= read.errors);
    assert_eq!(result.failures.first.len(), 16);
    assert!(read.total.max_ns() < 20_000);
    assert!(result.partial.is_none());
}

/// Times of failures counted from the beginning of the warm-up, those of intervals from its end.
#[test]
fn regression_times_of_failures_are_those_of_the_intervals() {
    let mut number = 0;
    let script: Script = Box::new(move |_, _| {
        number += 1;
        (1_000_000, (number == 5 || number == 35).then_some(IoErrorKind::Medium))
    });
    // A warm-up of 10 ms; each I/O takes 1 ms.
    let result = run_on(job(1, 0.1), script);
    let [early, late] = [0, 1].map(|at: usize| result.failures.first[at].at_ns);
    assert!((-5_000_000..-4_900_000).contains(&early), "{early}");
    assert!((25_000_000..25_100_000).contains(&late), "{late}");
}

#[test]
fn a_target_that_only_fails_is_given_up() {
    let result = run_on(job(4, 100.0), Box::new(|_, _| (1000, Some(IoErrorKind::Medium))));
    assert_eq!(result.partial, Some(Partial::GaveUp));
    assert!((1000..1010).contains(&result.failures.count));
    let gone = run_on(job(4, 100.0), Box::new(|_, _| (1000, Some(IoErrorKind::Gone))));
    assert_eq!(gone.partial, Some(Partial::GaveUp));
    assert!(gone.failures.count <= 8);
}

#[test]
fn an_io_that_never_returns_is_reported() {
    let mut number = 0;
    let script: Script = Box::new(move |_, _| {
        number += 1;
        (if number == 1000 { u64::MAX / 2 } else { 10_000 }, None)
    });
    let result = run_on(job(2, 1.0), script);
    assert_eq!((result.partial, result.hung), (Some(Partial::Hung), 1));
    assert!(result.ios() > 90_000);
}

/// The target hangs. The user waits for a second and ends the run: the result is there after 5 more seconds, not after 60.
#[test]
fn regression_the_user_does_not_wait_for_what_hangs() {
    let clock = VirtualClock::default();
    let stop = Arc::new(AtomicBool::new(false));
    let (ends, mut made) = (stop.clone(), 0);
    let script: Script = Box::new(move |_, _| {
        made += 1;
        ends.store(made >= 100, Ordering::SeqCst);
        (if made >= 100 { u64::MAX / 2 } else { 10_000_000 }, None)
    });
    let queue = Scripted::new(&clock, 1, script);
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let assignment = Assignment {
        job: job(1, 30.0),
        opened: Opened { queues: vec![queue], facts },
        recorders: Vec::new(),
        replay: None,
    };
    let result = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap().pop().unwrap();
    assert_eq!((result.partial, result.hung), (Some(Partial::Interrupted), 1));
    let lasted = clock.0.load(Ordering::SeqCst);
    assert!((6_000_000_000..7_000_000_000).contains(&lasted), "{lasted}");
}

#[test]
fn failed_ios_take_part_in_littles_law() {
    let mut number = 0;
    let script: Script = Box::new(move |_, _| {
        number += 1;
        if number % 100 == 0 { (5_000_000, Some(IoErrorKind::Medium)) } else { (10_000, None) }
    });
    let check = crate::output::summary::little(&run_on(job(1, 1.0), script));
    assert_eq!(check.verdict, crate::stats::little::Verdict::Holds, "{check:?}");
}

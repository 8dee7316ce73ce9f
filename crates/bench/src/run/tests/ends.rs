//! How jobs end, and what is measured until then.

use super::*;

#[test]
fn a_number_of_ios_or_bytes_or_passes_ends_a_job() {
    for (end, ios) in [
        (End { after_ios: Some(1001), ..End::default() }, 1001),
        (End { after_bytes: Some(4096 * 777), ..End::default() }, 777),
        // The duration is the time that the job took, not the time that it was allowed.
        (End { after_ios: Some(500), after_ns: Some(10_000_000_000), ..End::default() }, 500),
        (End { after_passes: Some(0.01), ..End::default() }, (1 << 30) / 4096 / 100 + 1),
    ] {
        let result = run_on(Job { end, warmup_ns: 0, ..job(4, 1.0) }, fixed(10_000));
        assert_eq!(result.ios(), ios, "{end:?}");
        let expected = ios as f64 * 10_000.0 / 4.0;
        assert!((result.duration_ns as f64 / expected - 1.0).abs() < 0.05, "{end:?}: {}", result.duration_ns);
    }
}

#[test]
fn threads_share_what_a_job_may_do() {
    let end = End { after_ios: Some(1001), after_bytes: Some(4096 * 1003), ..End::default() };
    let budgets: Vec<_> = workers_of(Job { threads: 4, end, ..job(2, 1.0) }).iter().map(|parts| parts.budget).collect();
    assert_eq!(budgets.iter().map(|&(ios, _)| ios).collect::<Vec<_>>(), [251, 250, 250, 250]);
    assert_eq!(budgets.iter().map(|&(_, bytes)| bytes).sum::<u64>(), 4096 * 1003);
}

/// Each thread had a part in bytes, and made one I/O more than that has: 258 of 256, and 102 of 100.
#[test]
fn regression_threads_share_bytes_in_whole_ios() {
    for (end, region_bytes, ios) in [
        (End { after_passes: Some(1.0), ..End::default() }, 1 << 20, 256),
        (End { after_bytes: Some(409_600), ..End::default() }, 1 << 30, 100),
        (End { after_bytes: Some(409_601), ..End::default() }, 1 << 30, 101),
    ] {
        for threads in [1, 3, 7] {
            let job = Job { threads, end, ..job(1, 1.0) };
            let made = |thread| budget(&job, (0, region_bytes), region_bytes, thread).1 / 4096;
            assert_eq!((0..threads).map(made).sum::<u64>(), ios, "{end:?} by {threads}");
        }
    }
}

/// A pass left blocks unwritten where each thread walked through a share of its own: what is left over of the I/Os went to the first threads, and of the region to
/// the last.
#[test]
fn regression_each_thread_makes_the_passes_of_its_own_share() {
    for (threads, region_bytes) in [(5, 64 << 20), (3, 64 << 20), (7, (64 << 20) + 4096)] {
        let end = End { after_ns: None, after_passes: Some(2.0), ..End::default() };
        let sizes = Sizes { write: SizeMix::fixed(1 << 20), ..Job::default().sizes };
        let pattern = Pattern::Sequential { per_thread: true };
        let job = Job { threads, pattern, end, mix: Mix::only(OpKind::Write), sizes, ..Job::default() };
        let mut written = vec![0; 64];
        for thread in 0..threads {
            let mut generator = Generator::new(&job, (0, region_bytes), thread).unwrap();
            for _ in 0..budget(&job, (0, region_bytes), region_bytes, thread).1 >> 20 {
                written[(generator.next().offset_bytes >> 20) as usize] += 1;
            }
        }
        assert_eq!(written, [2; 64], "{threads} threads");
    }
}

/// A last I/O went back to the begin of the region, where fio makes none (at the end of a file) or one that crosses the end of the size.
#[test]
fn regression_a_walk_leaves_out_what_is_shorter_than_an_io() {
    for (keys, file_bytes, ios) in [
        ("rw=read bs=4k", 1001 << 10, 250),
        ("rw=read bs=4k size=1001k", 1001 << 10, 250),
        ("rw=write bs=64k size=1000k loops=2", 16 << 20, 30),
    ] {
        let job = of_fio(keys);
        let region = job.region.resolve(file_bytes, 512).unwrap();
        let size_bytes = u64::from(job.one_size().unwrap());
        assert_eq!(budget(&job, region, file_bytes, 0).1 / size_bytes, ios, "{keys}");
    }
    let text = "[x]\nrw=write\nbs=64k\nsize=1000k\n";
    let notes = crate::job::fio::parse(text, "x.fio").unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("lets cross its end")), "{notes:?}");
}

#[test]
fn what_is_not_measured_takes_nothing_from_what_a_job_may_do() {
    // A thousand I/Os of the warm-up come first.
    for (end, ios) in [
        (End { after_ios: Some(1001), ..End::default() }, 1001),
        (End { after_bytes: Some(8192 * 777), ..End::default() }, 777),
    ] {
        let size = SizeMix::fixed(8192);
        let sizes = Sizes { read: size.clone(), write: size.clone(), trim: size };
        let result = run_on(Job { sizes, end, ..job(1, 1.0) }, fixed(10_000));
        assert_eq!((result.ios(), result.bytes()), (ios, ios * 8192), "{end:?}");
    }
}

#[test]
fn a_stall_at_the_end_is_not_cut_off() {
    let script: Script = Box::new(|now, _| (if now > 900_000_000 { 3_000_000_000 } else { 10_000 }, None));
    let result = run_on(job(4, 1.0), script);
    assert!(result.total().max_ns() >= 3_000_000_000);
    assert!(result.duration_ns > 3_000_000_000);
}

/// One I/O took 30 s at the end and lowered all rates, so a drive that had kept its promise during the whole run failed it.
#[test]
fn a_slow_io_at_the_end_is_not_taken_for_a_low_rate() {
    let mut was_slow = false;
    let script: Script = Box::new(move |now, _| {
        let slow = now > 11_900_000_000 && !std::mem::replace(&mut was_slow, now > 11_900_000_000);
        (if slow { 30_000_000_000 } else { 5_000_000 }, None)
    });
    let result = run_on(job(8, 12.0), script);
    assert!(result.duration_ns > 30_000_000_000 && result.total().max_ns() >= 30_000_000_000);
    assert!((1550.0..1650.0).contains(&result.iops()), "{}", result.iops());
    assert_eq!(result.counts(|row| row.ios).len(), 12);
    assert!(result.notes.iter().any(|warning| warning.contains("behind the others")));
}

/// fio's `iops` and `bw` referred to the time until the last completion, our rates to the time in which I/Os were intended: on a busy
/// machine the same result had two rates.
#[test]
fn regression_rates_in_fio_json_are_ours_also_where_an_io_is_slow_at_the_end() {
    let mut was_slow = false;
    let script: Script = Box::new(move |now, _| {
        let slow = now > 900_000_000 && !std::mem::replace(&mut was_slow, now > 900_000_000);
        (if slow { 30_000_000_000 } else { 5_000_000 }, None)
    });
    let result = run_on(job(8, 1.0), script);
    assert!(result.duration_ns > 20 * result.rated_ns);
    let document = crate::output::fio::document(std::slice::from_ref(&result), 0);
    let read = &document["jobs"][0]["read"];
    let number = |name: &str| read[name].as_f64().unwrap();
    assert_eq!(number("iops"), result.iops());
    let runtime_s = number("runtime") / 1000.0;
    assert!((number("total_ios") / runtime_s / number("iops") - 1.0).abs() < 0.002, "{read}");
    assert!((number("io_bytes") / runtime_s / number("bw_bytes") - 1.0).abs() < 0.002, "{read}");
    assert!((number("iops_mean") / number("iops") - 1.0).abs() < 0.1, "{read}");
}

#[test]
fn the_user_ends_a_run_with_what_is_known() {
    let clock = VirtualClock::default();
    let stop = Arc::new(AtomicBool::new(false));
    let (mut number, by_user) = (0, stop.clone());
    let script: Script = Box::new(move |_, _| {
        number += 1;
        by_user.fetch_or(number == 5000, Ordering::SeqCst);
        (10_000, None)
    });
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let opened = Opened { queues: vec![Scripted::new(&clock, 2, script)], facts };
    let job = Job { warmup_ns: 0, ..job(2, 100.0) };
    let assignment = Assignment { job, opened, recorders: Vec::new(), replay: None };
    let result = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap().pop().unwrap();
    assert_eq!(result.partial, Some(Partial::Interrupted));
    assert!((5000..5004).contains(&result.ios()), "{}", result.ios());
    // The duration is the time that the job ran, not the time that it was allowed.
    assert!((24_000_000..27_000_000).contains(&result.duration_ns), "{}", result.duration_ns);
}

#[test]
fn a_job_begins_late_and_cools_down_unmeasured() {
    const SECOND: u64 = 1_000_000_000;
    let first = Arc::new(AtomicU64::new(u64::MAX));
    let last = Arc::new(AtomicU64::new(0));
    let (earliest, latest) = (first.clone(), last.clone());
    let script: Script = Box::new(move |now, _| {
        earliest.fetch_min(now, Ordering::SeqCst);
        latest.fetch_max(now, Ordering::SeqCst);
        (100_000, None)
    });
    let result = run_on(Job { start_delay_ns: 3 * SECOND, cooldown_ns: SECOND, ..job(1, 1.0) }, script);
    assert!((9_980..=10_000).contains(&result.ios()), "{}", result.ios());
    assert!((SECOND..SECOND + 200_000).contains(&result.duration_ns), "{}", result.duration_ns);
    assert!((0.99..=1.0).contains(&result.depth_mean), "{}", result.depth_mean);
    let (first, last) = (first.load(Ordering::SeqCst), last.load(Ordering::SeqCst));
    assert!((3 * SECOND..3 * SECOND + 100_000_000).contains(&first), "{first}");
    assert!((5 * SECOND..5 * SECOND + 100_000_000).contains(&last), "{last}");
}

/// A job with these keys of fio.
fn of_fio(keys: &str) -> Job {
    let text = format!("[x]\n{}\n", keys.replace(' ', "\n"));
    crate::job::fio::parse(&text, "x.fio").unwrap().groups[0][0].clone()
}

/// The expected numbers are those of fio 3.33 on a file of 64 MiB, over all I/Os; of a walk without the last one, which crosses the end of the size there.
#[test]
fn regression_passes_are_of_whole_ios_where_those_of_fio_are() {
    let ios = |keys: &str, bs_kib: u64| {
        let job = of_fio(&format!("bs={bs_kib}k {keys}"));
        let region = job.region.resolve(64 << 20, 512).unwrap();
        budget(&job, region, 64 << 20, 0).1.div_ceil(bs_kib << 10) * u64::from(job.threads)
    };
    for (keys, bs_kib, expected) in [
        ("rw=randread size=1m", 24, 42),
        ("rw=randread size=1m loops=2", 24, 84),
        ("rw=randread size=1m numjobs=2", 24, 84),
        ("rw=randread size=1m io_size=2m", 24, 86),
        ("rw=randread size=1m io_size=500k", 24, 21),
        ("rw=randread size=1m norandommap", 24, 43),
        ("rw=read size=1m", 24, 43 - 1),
        ("rw=read size=1m io_size=500k", 24, 21),
        ("rw=randrw size=1m", 24, 42),
        ("rw=randread size=30%", 64, 307),
        ("rw=randread size=33%", 64, 337),
        ("rw=read size=30%", 64, 307),
        ("rw=randread size=30% io_size=40%", 64, 123),
    ] {
        assert_eq!(ios(keys, bs_kib), expected, "{keys}");
    }
}

/// The expected numbers are those of fio 3.33. A flush used to take the place of a write.
#[test]
fn regression_flushes_that_follow_writes_are_beside_the_number_of_ios() {
    for (keys, writes, reads, flushes) in [
        ("rw=write bs=4k size=4m fsync=4 number_ios=200", 200, 0, 49),
        ("rw=write:8k bs=4k size=4m fsync=16 ioengine=psync", 342, 0, 21),
        ("rw=write bs=4k size=400k fsync=10", 100, 0, 9),
        ("rw=randrw bs=4k size=16m number_ios=333 fsync=5", 333, 333, 0),
    ] {
        let result = run_on(Job { warmup_ns: 0, ..of_fio(keys) }, fixed(10_000));
        let of = |kind| result.kind(kind).map_or(0, |found| found.ios);
        if reads > 0 {
            assert_eq!(of(OpKind::Read) + of(OpKind::Write), writes, "{keys}");
        } else {
            assert_eq!((of(OpKind::Write), of(OpKind::Fsync)), (writes, flushes), "{keys}");
        }
    }
    // Flushes drawn from the mix count as other I/Os do.
    let mix = Mix { weights: vec![(OpKind::Write, 1), (OpKind::Flush, 1)], flush_every: None };
    let end = End { after_ios: Some(100), ..End::default() };
    assert_eq!(run_on(Job { mix, end, warmup_ns: 0, ..job(1, 1.0) }, fixed(10_000)).ios(), 100);
}

//! Rates of loads that fall behind, and the figures of Little's law.

use super::*;
use crate::output::summary;
use crate::stats::open_loop::Verdict;

#[test]
fn regression_the_rate_of_an_overload_is_what_was_submitted_in_its_time() {
    // Twice what the target can do: all I/Os are submitted, in twice the time.
    let open = Job { arrival: Arrival::Constant { iops: 1000.0 }, warmup_ns: 0, ..job(1, 5.0) };
    let result = run_on(open, fixed(2_000_000));
    let open = result.open.unwrap();
    let check = summary::open_loop(&result, &open);
    assert!((check.per_second / 500.0 - 1.0).abs() < 0.01, "{check:?}");
    assert!((check.per_second / result.iops() - 1.0).abs() < 0.01, "{} against {}", check.per_second, result.iops());
    assert!(matches!(check.verdict, Verdict::RateOff | Verdict::Missing { .. }), "{check:?}");
    // A schedule that was kept has the requested rate, however long its last I/O took.
    let open = Job { arrival: Arrival::Constant { iops: 1000.0 }, warmup_ns: 0, ..job(64, 5.0) };
    let result = run_on(open, fixed(50_000_000));
    let check = summary::open_loop(&result, &result.open.unwrap());
    assert_eq!((check.verdict, check.per_second), (Verdict::Kept, 1000.0));
}

#[test]
fn regression_a_reader_can_do_littles_sum() {
    for (arrival, depth) in [(Arrival::Closed, 4), (Arrival::Constant { iops: 1000.0 }, 1)] {
        let result = run_on(Job { arrival, warmup_ns: 0, ..job(depth, 2.0) }, fixed(2_000_000));
        let value = summary::job(&result, None, &summary::Reporting::default());
        let law = &value["littles_law"];
        let of = |name: &str| law[name].as_f64().unwrap_or_else(|| panic!("{name}: {law}"));
        let depth = of("completions_per_second") * of("time_in_flight_mean_ns") / 1e9;
        assert!((depth - of("implied_depth")).abs() < 1e-9, "{law}");
        assert!((depth / of("measured_depth") - 1.0 - of("deviation")).abs() < 1e-9, "{law}");
        assert!(
            (of("completions_per_second") - of("completions") / value["duration_s"].as_f64().unwrap()).abs() < 1e-6
        );
        // The depth that was wanted, in flight or waiting, follows from the mean of the reported percentiles.
        let total = value["total_latency_mean_ns"].as_f64().unwrap();
        assert_eq!(value["kinds"][0]["latency_ns"]["total"]["mean"], total);
        let wanted = value["depth"]["wanted_mean"].as_f64().unwrap();
        let product = value["iops"].as_f64().unwrap() * total / 1e9;
        assert!((wanted / product - 1.0).abs() < 0.005, "{wanted} of {product}");
        assert!(wanted >= value["depth"]["mean"].as_f64().unwrap() * 0.999, "{value}");
    }
}

#[test]
fn regression_where_nothing_was_measured_nothing_is_claimed() {
    // The first I/O takes longer than the whole run.
    let result = run_on(job(1, 0.005), fixed(900_000_000));
    assert!(!result.has_measured());
    assert!(result.notes.iter().any(|note| note.contains("NO I/O WAS MEASURED: none began")), "{:?}", result.notes);
    let value = summary::job(&result, None, &summary::Reporting::default());
    let law = &value["littles_law"];
    assert!(law["deviation"].is_null() && law["implied_depth"].is_null(), "{law}");
    assert!(value["cpu"]["user_ns_per_io"].is_null() && value["depth"]["wanted_mean"].is_null(), "{value}");
    let latency = &value["kinds"][0]["latency_ns"]["total"];
    assert!(latency["mean"].is_null() && latency["max"].is_null(), "{latency}");
    // A schedule without an I/O in the measured time.
    let slow = Job { arrival: Arrival::Constant { iops: 0.1 }, ..job(1, 1.0) };
    let notes = run_on(slow, fixed(10_000)).notes;
    assert!(notes.iter().any(|note| note.contains("the schedule has no I/O")), "{notes:?}");
}

/// A target that serves one I/O at a time in 10 ms each: 100 a second at any depth.
pub(super) fn serial() -> Script {
    let mut free_ns = 0;
    Box::new(move |now, _| {
        free_ns = free_ns.max(now) + 10_000_000;
        (free_ns - now, None)
    })
}

/// The rate was 61 a second, with 156 in flight: the time in which the last I/Os ended counted, but the I/Os in flight at the beginning did
/// not.
#[test]
fn regression_the_rate_of_a_deep_queue_is_that_of_its_window() {
    for depth in [1, 64, 256] {
        let result = run_on(Job { warmup_ns: 4_000_000_000, ..job(depth, 4.0) }, serial());
        assert!((result.iops() - 100.0).abs() < 1.0, "{} at depth {depth}", result.iops());
        assert!((result.depth_mean / f64::from(depth) - 1.0).abs() < 0.01, "{} of {depth}", result.depth_mean);
        assert!(result.depth_wanted().unwrap() < f64::from(depth) * 1.01, "{:?}", result.depth_wanted());
        assert!(result.notes.is_empty(), "{:?}", result.notes);
        let least = result.bursts.iter().find(|row| row.window_ns == 1_000_000_000).unwrap().iops_min;
        assert!(least > 98.0, "{least}");
    }
}

/// The last of a hundred I/Os took 5 s and was left out of the rate of a fixed amount of work.
#[test]
fn regression_a_fixed_amount_of_work_takes_as_long_as_it_takes() {
    let mut number = 0;
    let script: Script = Box::new(move |_, _| {
        number += 1;
        (if number == 100 { 5_000_000_000 } else { 10_000_000 }, None)
    });
    let end = End { after_ios: Some(100), ..End::default() };
    let result = run_on(Job { end, warmup_ns: 0, ..job(1, 1.0) }, script);
    assert!((result.iops() - 100.0 / 5.99).abs() < 0.1, "{}", result.iops());
    assert!(result.depth_wanted().unwrap() < 1.01, "{:?}", result.depth_wanted());
}

/// Twice what the target can do, all submitted in its time, without a warm-up: the rate was 133 a second, because I/Os that steadily ended
/// after the window counted as stragglers.
#[test]
fn regression_no_rate_is_above_what_ended_in_any_stretch() {
    for arrival in [Arrival::Constant { iops: 200.0 }, Arrival::Poisson { iops: 200.0 }] {
        for warmup_ns in [0, 1_000_000_000] {
            let result = run_on(Job { arrival: arrival.clone(), warmup_ns, ..job(2000, 4.0) }, serial());
            assert!((result.iops() - 100.0).abs() < 1.5, "{} with {arrival:?}, {warmup_ns}", result.iops());
            assert!(!result.notes.iter().any(|note| note.contains("behind the others")), "{:?}", result.notes);
        }
    }
    // A loop that was empty at its beginning had 108 a second.
    let result = run_on(Job { warmup_ns: 0, ..job(256, 4.0) }, serial());
    assert!((result.iops() - 100.0).abs() < 1.0, "{}", result.iops());
    // An I/O that really hangs does not lower the rate, and there is a warning.
    let mut number = 0;
    let script: Script = Box::new(move |_, _| {
        number += 1;
        (if number == 399 { 5_000_000_000 } else { 10_000_000 }, None)
    });
    let arrival = Arrival::Constant { iops: 100.0 };
    let result = run_on(Job { arrival, warmup_ns: 0, ..job(64, 4.0) }, script);
    assert!((result.iops() - 100.0).abs() < 1.0 && result.duration_ns > 8_900_000_000, "{}", result.iops());
    assert!(result.notes.iter().any(|note| note.contains("behind the others")), "{:?}", result.notes);
}

/// I/Os that the warm-up left waiting were served in the measured time and counted for no rate: 152,402 of 301,577, or 0 where they took
/// all of the time. In an overload the rate must be that of the closed loop, otherwise the requested one.
#[test]
fn regression_what_the_warm_up_left_waiting_counts_for_the_rate() {
    // Four at a time in 1 ms each: 4000 a second.
    let closed = run_on(Job { warmup_ns: 0, ..job(4, 2.0) }, fixed(1_000_000)).iops();
    assert!((closed / 4000.0 - 1.0).abs() < 0.005, "{closed}");
    for times in [0.5, 0.9, 1.1, 1.5, 2.0, 3.0, 5.0, 10.0] {
        for warmup_ns in [0, 100_000_000, 1_000_000_000] {
            // A Poisson schedule only slightly above the target's rate is below it at times.
            for poisson in [false, true].into_iter().filter(|poisson| !poisson || times != 1.1) {
                let iops = closed * times;
                let arrival = if poisson { Arrival::Poisson { iops } } else { Arrival::Constant { iops } };
                let result = run_on(Job { arrival, warmup_ns, ..job(4, 2.0) }, fixed(1_000_000));
                let which = format!("{times} times, warm-up {warmup_ns}, poisson {poisson}");
                let open = result.open.unwrap();
                let check = summary::open_loop(&result, &open);
                // A Poisson schedule has a random number of I/Os, not exactly the mean.
                let (wanted, near) = match (times < 1.0, poisson) {
                    (true, true) => (open.scheduled as f64 / 2.0, 0.02),
                    (true, false) => (iops, 0.01),
                    (false, _) => (closed, 0.01),
                };
                assert!((result.iops() / wanted - 1.0).abs() < near, "{} of {wanted}: {which}", result.iops());
                assert!((check.per_second / wanted - 1.0).abs() < near, "{check:?} of {wanted}: {which}");
                let depth = if times < 1.0 { result.depth_mean } else { 4.0 };
                assert!((result.depth_mean / depth - 1.0).abs() < 0.01, "{}: {which}", result.depth_mean);
                let law = summary::little(&result);
                assert_eq!(law.verdict, crate::stats::little::Verdict::Holds, "{law:?}: {which}");
                // Each interval has that rate.
                let counts = result.rated_intervals().filter(|row| row.begin_ns + row.length_ns <= 2_000_000_000);
                for row in counts.filter(|row| times > 1.2 && row.begin_ns > 0) {
                    let rate = crate::run::per_second(row.ios, row.length_ns);
                    assert!((rate / closed - 1.0).abs() < 0.02, "{rate}: {which}");
                }
                // Latencies are only those of I/Os intended in the measurement.
                assert_eq!((result.ios(), result.total().count()), (open.issued, open.issued), "{which}");
                assert_eq!(result.rated_ios(), open.issued + open.backlog, "{which}");
                assert_eq!(open.backlog > 8, warmup_ns > 0 && times > 1.0, "{open:?}: {which}");
                assert!(result.has_measured(), "{which}");
            }
        }
    }
}

/// A result during the run and the one at the end have the same rate.
#[test]
fn regression_an_overload_has_one_rate_wherever_it_is_looked_at() {
    let arrival = Arrival::Constant { iops: 8000.0 };
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (asked, closed) = (seen.clone(), 4000.0);
    let watch = crate::run::Watch::new(move |_, so_far| {
        asked.lock().unwrap().push(so_far().iops());
        false
    });
    let clock = VirtualClock::default();
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let opened = Opened { queues: vec![Scripted::new(&clock, 4, fixed(1_000_000))], facts };
    let job = Job { arrival, warmup_ns: 1_000_000_000, ..job(4, 2.0) };
    let assignment = Assignment { job, opened, recorders: Vec::new(), replay: None };
    let settings = Settings { watch, ..Settings::default() };
    let stop = Arc::new(AtomicBool::new(false));
    let result = run(vec![assignment], &clock, &settings, &stop, &mut |_| {}).unwrap().pop().unwrap();
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty());
    for rate in seen.iter().copied().chain([result.iops()]) {
        assert!((rate / closed - 1.0).abs() < 0.01, "{rate}: {seen:?}");
    }
}

/// The warm-up left so many I/Os waiting that no others were submitted: the result was "0 I/Os, 0.00 IOPS".
#[test]
fn regression_a_backlog_alone_has_a_rate_and_no_latency() {
    let arrival = Arrival::Constant { iops: 40_000.0 };
    let result = run_on(Job { arrival, warmup_ns: 1_000_000_000, ..job(4, 2.0) }, fixed(1_000_000));
    assert_eq!((result.ios(), result.total().count()), (0, 0));
    assert!((result.iops() / 4000.0 - 1.0).abs() < 0.01, "{}", result.iops());
    assert!(result.notes.iter().any(|note| note.starts_with("NO LATENCY WAS MEASURED")), "{:?}", result.notes);
    let value = summary::job(&result, None, &summary::Reporting::default());
    assert_eq!(value["open_loop"]["issued"], 0, "{value}");
    assert_eq!(value["open_loop"]["backlog"], value["kinds"][0]["backlog"], "{value}");
    assert_eq!(value["kinds"][0]["iops"], value["iops"], "{value}");
    assert!(value["total_latency_mean_ns"].is_null() && value["depth"]["wanted_mean"].is_null(), "{value}");
}

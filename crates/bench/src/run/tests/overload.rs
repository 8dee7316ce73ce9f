//! Rates of loads that fall behind, and what Little's law is made of.

use super::*;
use crate::output::summary;
use crate::stats::open_loop::Verdict;

#[test]
fn regression_the_rate_of_an_overload_is_what_was_submitted_in_its_time() {
    // Twice what the target can do: all of it is submitted, in twice the time.
    let open = Job { arrival: Arrival::Constant { iops: 1000.0 }, warmup_ns: 0, ..job(1, 5.0) };
    let result = run_on(open, fixed(2_000_000));
    let open = result.open.unwrap();
    let check = summary::open_loop(&result, &open);
    assert!((check.per_second / 500.0 - 1.0).abs() < 0.01, "{check:?}");
    assert!((check.per_second / result.iops() - 1.0).abs() < 0.01, "{} against {}", check.per_second, result.iops());
    assert!(matches!(check.verdict, Verdict::RateOff | Verdict::Missing { .. }), "{check:?}");
    // A schedule that was kept has the rate that was asked for, whatever its last I/O took.
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
        // And what was wanted, in flight or not, from the mean that the percentiles belong to.
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
    // Longer than all of the run.
    let result = run_on(job(1, 0.005), fixed(900_000_000));
    assert!(!result.has_measured());
    assert!(result.notes.iter().any(|note| note.contains("NO I/O WAS MEASURED: none began")), "{:?}", result.notes);
    let value = summary::job(&result, None, &summary::Reporting::default());
    let law = &value["littles_law"];
    assert!(law["deviation"].is_null() && law["implied_depth"].is_null(), "{law}");
    assert!(value["cpu"]["user_ns_per_io"].is_null() && value["depth"]["wanted_mean"].is_null(), "{value}");
    let latency = &value["kinds"][0]["latency_ns"]["total"];
    assert!(latency["mean"].is_null() && latency["max"].is_null(), "{latency}");
    // A schedule without an I/O in its time.
    let slow = Job { arrival: Arrival::Constant { iops: 0.1 }, ..job(1, 1.0) };
    let notes = run_on(slow, fixed(10_000)).notes;
    assert!(notes.iter().any(|note| note.contains("the schedule has no I/O")), "{notes:?}");
}

/// A target that does one I/O at a time, each in 10 ms: 100 a second, whatever the depth.
pub(super) fn serial() -> Script {
    let mut free_ns = 0;
    Box::new(move |now, _| {
        free_ns = free_ns.max(now) + 10_000_000;
        (free_ns - now, None)
    })
}

/// Its rate was 61 a second, with 156 in flight, as the time in which the last I/Os ended counted and those in flight at the begin did not.
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

/// One I/O of a hundred that was the last, and took 5 s, was left out of the rate of a fixed amount of work.
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

/// Twice what the target can do, all of it submitted in its time, without a warm-up: 133 a second, as what came steadily to the end
/// counted as stragglers.
#[test]
fn regression_no_rate_is_above_what_ended_in_any_stretch() {
    for arrival in [Arrival::Constant { iops: 200.0 }, Arrival::Poisson { iops: 200.0 }] {
        for warmup_ns in [0, 1_000_000_000] {
            let result = run_on(Job { arrival: arrival.clone(), warmup_ns, ..job(2000, 4.0) }, serial());
            assert!((result.iops() - 100.0).abs() < 1.5, "{} with {arrival:?}, {warmup_ns}", result.iops());
            assert!(!result.notes.iter().any(|note| note.contains("behind the others")), "{:?}", result.notes);
        }
    }
    // A loop that was empty at its begin: 108 a second.
    let result = run_on(Job { warmup_ns: 0, ..job(256, 4.0) }, serial());
    assert!((result.iops() - 100.0).abs() < 1.0, "{}", result.iops());
    // What really hangs makes the rate no lower, and is said.
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

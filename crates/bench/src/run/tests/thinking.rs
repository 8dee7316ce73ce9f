//! Think time at depths above one.

use super::*;
use crate::job::model::Think;

/// One in four I/Os takes 100 us, the others 10 us; a pause of a millisecond follows each. The pause belongs to its
/// slot alone and makes no other I/O slower.
#[test]
fn regression_a_pause_of_one_slot_is_not_in_the_latency_of_another() {
    let script = || -> Script {
        let mut number = 0;
        Box::new(move |_, _| {
            number += 1;
            (if number % 4 == 0 { 100_000 } else { 10_000 }, None)
        })
    };
    for wait in [WaitMethod::Sleep, WaitMethod::Spin, WaitMethod::Hybrid { spin_ns: 5_000 }] {
        let think = Some(Think { time_ns: 1_000_000, compute: false });
        let result = run_on(Job { think, wait, ..job(4, 1.0) }, script());
        let total = result.total();
        assert!(total.max_ns() < 102_000, "{wait}: {}", total.max_ns());
        assert!(total.quantile_ns(0.74) < 12_000, "{wait}: {}", total.quantile_ns(0.74));
        // Four slots, each with 32.5 us of I/O and a millisecond of rest.
        let expected = 4.0 * 1e9 / 1_032_500.0;
        assert!((result.iops() / expected - 1.0).abs() < 0.02, "{wait}: {}", result.iops());
        assert!(result.partial.is_none() && result.hung == 0);
    }
}

#[test]
fn the_longest_pause_is_no_hang_and_bursts_wait_for_it() {
    // The pause is longer than the time after which a thread gives up I/Os that hang.
    let think = Some(Think { time_ns: 90_000_000_000, compute: false });
    let end = End { after_ios: Some(6), ..End::default() };
    let result = run_on(Job { think, end, warmup_ns: 0, ..job(2, 1.0) }, fixed(10_000));
    assert_eq!((result.ios(), result.partial), (6, None));
    assert!((180_000_000_000..181_000_000_000).contains(&result.duration_ns), "{}", result.duration_ns);
    let burst = Some(crate::job::model::Burst { ios: 4, pause_ns: 1_000_000 });
    let think = Some(Think { time_ns: 100_000, compute: false });
    // Four slots at once, 10 us, and the pause of the burst, which is longer than a slot's think time.
    let result = run_on(Job { burst, think, ..job(4, 1.0) }, fixed(10_000));
    assert!((result.iops() / 3960.0 - 1.0).abs() < 0.02, "{}", result.iops());
}

#[test]
fn depths_at_issue_are_counted_in_fios_classes() {
    // All I/Os in flight end at the same time, and are submitted again one after the other.
    let together: Script = Box::new(|now, _| (1_000_000 - now % 1_000_000, None));
    let result = run_on(Job { warmup_ns: 0, ..job(70, 0.1) }, together);
    let rounds = result.ios() / 70;
    let of = |wanted: u64| wanted * rounds;
    // 1; 2 and 3; 4 to 7; 8 to 15; 16 to 31; 32 to 63; 64 to 70.
    assert_eq!(result.depth_levels, [of(1), of(2), of(4), of(8), of(16), of(32), of(7)]);
    let document = crate::output::fio::document(&[result], 0);
    let levels = &document["jobs"][0]["iodepth_level"];
    for (level, share) in [("1", 1.0), ("2", 2.0), ("4", 4.0), ("32", 32.0), (">=64", 7.0)] {
        assert!((levels[level].as_f64().unwrap() - share * 100.0 / 70.0).abs() < 1e-9, "{levels}");
    }
}

#[test]
fn think_time_and_bursts_make_pauses() {
    let think = Some(crate::job::model::Think { time_ns: 90_000, compute: true });
    let result = run_on(Job { think, ..job(1, 1.0) }, fixed(10_000));
    assert!((result.iops() / 10_000.0 - 1.0).abs() < 0.02, "{}", result.iops());
    let burst = Some(crate::job::model::Burst { ios: 10, pause_ns: 1_000_000 });
    let result = run_on(Job { burst, ..job(1, 1.0) }, fixed(10_000));
    assert!((result.iops() / 9_100.0 - 1.0).abs() < 0.05, "{}", result.iops());
    // Ten I/Os in 100 us, then a pause: the busiest millisecond has at most twenty.
    let millisecond = result.bursts[0];
    assert!((10_000.0..=20_000.0).contains(&millisecond.iops_max), "{millisecond:?}");
}

/// A pause of 1 ms after four I/Os of 3 ms each that are in flight together: 4 I/Os in 4 ms. If the pause began at
/// submission, the target would never be idle.
#[test]
fn regression_a_pause_begins_when_the_burst_is_over() {
    let burst = Some(crate::job::model::Burst { ios: 4, pause_ns: 1_000_000 });
    let result = run_on(Job { burst, ..job(8, 1.0) }, fixed(3_000_000));
    assert!((result.iops() / 1000.0 - 1.0).abs() < 0.02, "{}", result.iops());
    assert!((result.depth_mean - 3.0).abs() < 0.05, "{}", result.depth_mean);
}

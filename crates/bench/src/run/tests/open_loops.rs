//! Loads with a schedule, and whether target or tool makes an I/O late.

use super::*;

/// A target that answers in 20 us and stands still for 100 ms once a second.
fn stalling() -> Script {
    Box::new(|now, _| {
        let in_second = now % 1_000_000_000;
        (if in_second >= 900_000_000 { 1_000_000_000 - in_second + 20_000 } else { 20_000 }, None)
    })
}

#[test]
fn an_open_loop_sees_a_stall_as_its_users_do() {
    // At 1,000 a second, 100 I/Os of each second meet the stall, a tenth of all; they wait for 50 ms on average.
    let open = Job { arrival: Arrival::Constant { iops: 1000.0 }, ..job(256, 10.0) };
    let result = run_on(open, stalling());
    assert_eq!(result.ios(), 10_000);
    let open = result.open.unwrap();
    assert_eq!((open.scheduled, open.issued), (10_000, 10_000));
    let total = result.total();
    assert!((95_000_000..101_000_000).contains(&total.quantile_ns(0.999)), "{}", total.quantile_ns(0.999));
    assert!((85_000_000..95_000_000).contains(&total.quantile_ns(0.99)), "{}", total.quantile_ns(0.99));
    assert!((40_000_000..60_000_000).contains(&total.quantile_ns(0.95)), "{}", total.quantile_ns(0.95));
    assert!(total.quantile_ns(0.89) < 30_000, "{}", total.quantile_ns(0.89));
    // The closed loop submits only one I/O during each stall, and so its percentiles hide the stall.
    let closed = run_on(job(1, 10.0), stalling());
    assert!(closed.total().quantile_ns(0.999) < 30_000);
    assert!(closed.total().max_ns() > 95_000_000);
}

#[test]
fn an_open_loop_with_one_slot_counts_from_the_intended_start_too() {
    let open = Job { arrival: Arrival::Constant { iops: 1000.0 }, ..job(1, 10.0) };
    let result = run_on(open, stalling());
    assert_eq!(result.ios(), 10_000);
    let total = result.total();
    assert!((80_000_000..101_000_000).contains(&total.quantile_ns(0.99)), "{}", total.quantile_ns(0.99));
    // Device latencies are reported beside it: one in a thousand met the stall itself.
    let device = &result.kind(OpKind::Read).unwrap().device;
    assert!(device.quantile_ns(0.99) < 30_000, "{}", device.quantile_ns(0.99));
    assert!(result.open.unwrap().no_slot > 0);
}

#[test]
fn an_open_loop_that_is_too_fast_for_its_target_says_what_it_left_out() {
    // 1,000 a second on a target that takes 10 ms for each, one at a time: a tenth is served in time, and as many again afterwards.
    let open = Job { arrival: Arrival::Constant { iops: 1000.0 }, ..job(1, 5.0) };
    let result = run_on(open, fixed(10_000_000));
    let open = result.open.unwrap();
    assert_eq!(open.scheduled, 5000);
    assert!((900..1100).contains(&open.issued), "{}", open.issued);
    assert_eq!(result.ios(), open.issued);
    assert!(result.total().max_ns() > 8_000_000_000);
}

#[test]
fn lateness_of_the_tool_is_not_the_targets() {
    // The thread stands still for 5 ms while slots are free: four I/Os are submitted 4, 3, 2 and 1 ms late.
    let clock = VirtualClock::default();
    let (mut number, still) = (0, clock.clone());
    let script: Script = Box::new(move |_, _| {
        number += 1;
        if number == 500 {
            still.sleep_ns(5_000_000);
        }
        (10_000, None)
    });
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let opened = Opened { queues: vec![Scripted::new(&clock, 8, script)], facts };
    let open = Job { arrival: Arrival::Constant { iops: 1000.0 }, ..job(8, 1.0) };
    let assignment = Assignment { job: open, opened, recorders: Vec::new(), replay: None };
    let stop = Arc::new(AtomicBool::new(false));
    let result = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap().pop().unwrap();
    let open = result.open.unwrap();
    assert_eq!(open.no_slot, 0);
    assert!((4..=5).contains(&open.late), "{}", open.late);
    // If the target stands still and all slots are taken, the tool is not the cause.
    let slow = run_on(Job { arrival: Arrival::Constant { iops: 1000.0 }, ..job(1, 2.0) }, stalling());
    assert_eq!(slow.open.unwrap().late, 0);
}

#[test]
fn a_pause_may_be_slept() {
    let think = Some(crate::job::model::Think { time_ns: 90_000, compute: false });
    let result = run_on(Job { think, ..job(1, 1.0) }, fixed(10_000));
    assert!((result.iops() / 10_000.0 - 1.0).abs() < 0.02, "{}", result.iops());
}

#[test]
fn poisson_arrivals_come_at_their_rate() {
    let open = Job { arrival: Arrival::Poisson { iops: 20_000.0 }, ..job(64, 5.0) };
    let result = run_on(open, fixed(30_000));
    let open = result.open.unwrap();
    assert_eq!(open.scheduled, open.issued);
    let expected = 100_000.0;
    assert!((open.issued as f64 / expected - 1.0).abs() < 4.0 / expected.sqrt(), "{}", open.issued);
}

#[test]
fn threads_have_random_schedules_of_their_own() {
    let arrival = Arrival::Poisson { iops: 1000.0 };
    let mut begins: Vec<u64> =
        workers_of(Job { threads: 8, arrival, ..job(1, 1.0) }).iter().map(|parts| parts.load.due_ns()).collect();
    begins.sort_unstable();
    begins.dedup();
    assert_eq!(begins.len(), 8);
}

/// Cloning the clock for the first worker takes a second, as reading a long trace would.
#[derive(Default)]
struct SlowToPrepare(VirtualClock, Arc<AtomicBool>);

impl Clone for SlowToPrepare {
    fn clone(&self) -> Self {
        if !self.1.swap(true, Ordering::SeqCst) {
            self.0.sleep_ns(1_000_000_000);
        }
        Self(self.0.clone(), self.1.clone())
    }
}

impl Clock for SlowToPrepare {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn sleep_ns(&self, ns: u64) {
        self.0.sleep_ns(ns);
    }
}

#[test]
fn regression_slow_preparation_is_not_in_the_schedule() {
    let clock = SlowToPrepare::default();
    let queue = Scripted::new(&clock.0, 4, fixed(10_000));
    let facts = TargetFacts { size_bytes: 1 << 30, logical_block_bytes: 512, ..TargetFacts::default() };
    let job = Job { arrival: Arrival::Constant { iops: 1000.0 }, warmup_ns: 0, ..job(4, 0.5) };
    let assignment =
        Assignment { job, opened: Opened { queues: vec![queue], facts }, recorders: Vec::new(), replay: None };
    let stop = Arc::new(AtomicBool::new(false));
    let result = run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap().pop().unwrap();
    let open = result.open.unwrap();
    assert_eq!((open.scheduled, open.issued, open.late), (500, 500, 0));
    assert!(result.total().max_ns() < 20_000, "{}", result.total().max_ns());
}

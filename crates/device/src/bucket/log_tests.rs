//! The log against a simulated bucket that fails in all possible ways (`log_world_tests.rs`), and alone.

use super::job::{Answer, Failure, Job};
use super::log::{Limits, Log};
use super::log_world_tests::{LIMITS, SECTORS, World, bytes_of};
use forebay_block::{Buf, Op, Request, Vectored};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, len: u64, fua: bool },
    Zero { at: u64, len: u64 },
    Discard { at: u64, len: u64 },
    Read { at: u64, len: u64 },
    Flush,
    Answer,
    Late,
    Replaced,
    Replace { was_killed: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (0..SECTORS, 1..=12u64).prop_map(|(at, len)| (at, len.min(SECTORS - at)));
    let step = prop_oneof![
        10 => (range(), prop::bool::weighted(0.2)).prop_map(|((at, len), fua)| Step::Write { at, len, fua }),
        1 => range().prop_map(|(at, len)| Step::Zero { at, len }),
        2 => range().prop_map(|(at, len)| Step::Discard { at, len }),
        3 => range().prop_map(|(at, len)| Step::Read { at, len }),
        3 => Just(Step::Flush),
        16 => Just(Step::Answer),
        2 => Just(Step::Late),
        3 => Just(Step::Replaced),
        1 => any::<bool>().prop_map(|was_killed| Step::Replace { was_killed }),
    ];
    prop::collection::vec(step, 1..120)
}

fn live(steps: &[Step], seed: u64, may_fail: bool) {
    let mut world = World::new(seed);
    for step in steps {
        match *step {
            Step::Write { at, len, fua } => world.write(at, len, fua),
            Step::Zero { at, len } => world.zero(at, len),
            Step::Discard { at, len } => world.discard(at, len),
            Step::Read { at, len } => world.read(at, len),
            Step::Flush => world.flush(),
            Step::Answer => world.answer(may_fail),
            Step::Late => world.late(),
            Step::Replaced => world.go_on_replaced(),
            Step::Replace { was_killed } => world.replace(was_killed),
        }
        world.hear();
    }
    // Writes that waited for room may fail together with the put that they waited for. From here on there are no
    // faults, and nothing fails.
    world.settle();
    world.replace(true);
}

#[test]
fn regression_zeros_over_a_part_of_an_object_that_was_discarded_outlast_a_restart() {
    let steps = [
        Step::Write { at: 6, len: 7, fua: false },
        Step::Flush,
        Step::Answer,
        Step::Discard { at: 2, len: 10 },
        Step::Answer,
        Step::Zero { at: 0, len: 9 },
    ];
    (0..20).for_each(|seed| live(&steps, seed, false));
}

/// Submits a write of one sector to each of these units.
fn submit_writes(log: &mut Log, units: std::ops::Range<u64>) {
    for unit in units {
        let op = Op::Write { bufs: Vectored::One(Buf::copy_of(&bytes_of(1)).freeze()), fua: false };
        log.submit(Request { tag: unit, offset_bytes: unit * 4096, stream: 0, op });
    }
}

fn put_answer(job: &Job) -> Answer {
    let Job::Put { name, .. } = job else { panic!("{job:?}") };
    Answer::Put { sequence: name.sequence, result: Ok(()), is_repeated: false }
}

#[test]
fn regression_one_that_was_replaced_sends_nothing_more() {
    let limits = Limits { memory_bytes: 16 << 10, ..LIMITS };
    let mut log = Log::new(limits, 1, &[], &[]);
    submit_writes(&mut log, 0..1);
    log.submit(Request { tag: 100, offset_bytes: 0, stream: 0, op: Op::Flush });
    let puts = log.take_jobs();
    log.answer(put_answer(&puts[0]));
    assert!(matches!(log.take_jobs()[..], [Job::Look]));
    submit_writes(&mut log, 1..30);
    let puts = log.take_jobs();
    assert_eq!(puts.len(), 8, "memory runs short");
    log.answer(Answer::Look { result: Err(Failure::FENCED) });
    puts.iter().for_each(|put| log.answer(put_answer(put)));
    assert!(log.take_jobs().is_empty());
}

#[test]
fn regression_discards_are_remembered_no_longer_than_what_was_sent_before_them() {
    let mut log = Log::new(LIMITS, 1, &[], &[]);
    let mut in_flight: Option<Job> = None;
    for _ in 0..1000 {
        submit_writes(&mut log, 0..1);
        log.submit(Request { tag: 100, offset_bytes: 0, stream: 0, op: Op::Flush });
        log.submit(Request { tag: 101, offset_bytes: 8192, stream: 0, op: Op::Discard { len_bytes: 512 } });
        // One put is always in flight.
        let next = log.take_jobs().into_iter().find(|job| matches!(job, Job::Put { .. }));
        if let Some(before) = std::mem::replace(&mut in_flight, next) {
            log.answer(put_answer(&before));
        }
        assert!(log.holes() <= 4, "{}", log.holes());
    }
}

#[test]
fn regression_zeros_over_many_units_take_no_more_memory_than_there_is() {
    // An object of an earlier opening: other requests of that server may still be in flight.
    let name = "00000001-000000000001-0000000000000000-0000000200-zeros".parse().unwrap();
    let mut log = Log::new(LIMITS, 2, &[name], &[]);
    log.submit(Request { tag: 1, offset_bytes: 0, stream: 0, op: Op::WriteZeroes { len_bytes: 1000 * 4096 } });
    let (mut jobs, mut puts) = (log.take_jobs(), 0);
    while !jobs.is_empty() {
        assert!(log.held_bytes() <= LIMITS.memory_bytes, "{} bytes", log.held_bytes());
        let job = jobs.remove(0);
        puts += u64::from(matches!(job, Job::Put { .. }));
        log.answer(match job {
            Job::Put { .. } => put_answer(&job),
            Job::Look => Answer::Look { result: Ok(()) },
            Job::Delete { name } => Answer::Delete { sequence: name.sequence, is_gone: true },
            Job::Get { .. } => panic!("{job:?}"),
        });
        jobs.extend(log.take_jobs());
    }
    assert_eq!(log.done().len(), 1);
    log.submit(Request { tag: 2, offset_bytes: 0, stream: 0, op: Op::Flush });
    puts += log.take_jobs().iter().filter(|job| matches!(job, Job::Put { .. })).count() as u64;
    assert_eq!(puts, 1000);
}

#[test]
fn regression_zeros_where_nothing_was_are_written_at_once_however_many_they_are() {
    let mut log = Log::new(LIMITS, 1, &[], &[]);
    submit_writes(&mut log, 5..6);
    log.submit(Request { tag: 1, offset_bytes: 512, stream: 0, op: Op::WriteZeroes { len_bytes: 1 << 60 } });
    assert_eq!((log.done().len(), log.held_bytes()), (2, 0));
    assert!(log.take_jobs().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn nothing_durable_is_lost_whatever_the_store_does(steps in steps(), seed: u64) {
        live(&steps, seed, true);
    }

    #[test]
    fn a_good_store_is_enough(steps in steps(), seed: u64) {
        live(&steps, seed, false);
    }
}

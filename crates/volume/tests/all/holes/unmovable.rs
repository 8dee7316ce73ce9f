//! Bands out of which nothing can be moved any more.

use super::device::{Fate, Kind};
use super::rig::{BULK, CAPACITY, FAST, Rig, Setup, failed, findings, is_page_read};
use forebay_block::Random;
use forebay_volume::{EngineOptions, Op, RequestError};

/// Blocks of hosts, in more than a third of the bands.
const BLOCKS: u64 = 1600;
/// Blocks that are written together; the first of each lies in a sector that cannot be read, for so many of them.
const TOGETHER: u64 = 15;
const UNREADABLE: u64 = 80;
/// More writes than fit into the bands that are left, several times over.
const WRITES: u64 = 150_000;

/// Blocks that could not be read stayed behind in bands of which all else was moved away. Each of these bands was the best victim from then on, was tried again
/// every ten seconds, and held up all other jobs while that failed: with some fifty of them nothing else was collected any more, and hosts found no space in a pool
/// that was half empty.
#[test]
fn regression_bands_that_cannot_be_emptied_hold_up_no_others() {
    let mut rig = Rig::new(&Setup { capacity_bytes: 16 << 20, fast_bytes: 17 << 18, ..Setup::default() });
    for first in (0..BLOCKS).step_by(TOGETHER as usize) {
        rig.put_run(first, TOGETHER.min(BLOCKS - first), 1);
    }
    let bad: Vec<u64> = (0..UNREADABLE).map(|at| rig.find(CAPACITY, at * TOGETHER, 1)[0] + 1024).collect();
    rig.devices[CAPACITY]
        .rule(move |seen| failed(seen.kind == Kind::Read && bad.iter().any(|&sector| seen.covers(sector))));
    let mut random = Random::new(7);
    let mut in_flight = Vec::new();
    for number in 0..WRITES {
        let block = random.below(BLOCKS);
        // What cannot be read is not written anew.
        let block = if block.is_multiple_of(TOGETHER) { block + 1 } else { block };
        in_flight.push(rig.write_run(block, 1, number as u32 + 2, false, BULK));
        while in_flight.len() == 16 {
            rig.poll();
            in_flight.retain(|&token| match rig.answer(token) {
                None => true,
                Some(answer) => {
                    assert!(answer.is_ok(), "write {number}: {answer:?}");
                    false
                }
            });
        }
    }
}

/// Milliseconds until a write is answered, and whether it found space.
fn wait_for_space(rig: &mut Rig, block: u64) -> (u64, bool) {
    let token = rig.write_run(block, 1, 1 << 20, false, BULK);
    for waited_ms in 1..100_000 {
        rig.poll();
        match rig.answer(token) {
            None => {}
            Some(Ok(_)) => return (waited_ms, true),
            Some(Err(RequestError::NoSpace)) => return (waited_ms, false),
            Some(Err(error)) => panic!("{error}"),
        }
    }
    panic!("a write waits for ever");
}

/// Bands that a device could not read for a while were left alone for up to ten minutes after it was well again, and writes that waited for space meanwhile got an
/// answer only when each band had been tried.
#[test]
fn regression_an_outage_of_reads_is_over_when_the_device_is_well() {
    for (bands, of_each) in [(256, 10), (128, 12), (1024, 10)] {
        let setup =
            Setup { capacity_bytes: bands * (64 << 10), fast_bytes: 17 << 18, disk_bytes: 1 << 30, ..Setup::default() };
        let mut rig = Rig::new(&setup);
        let blocks = bands * of_each;
        for first in (0..blocks).step_by(TOGETHER as usize) {
            rig.put_run(first, TOGETHER.min(blocks - first), 1);
        }
        let mut random = Random::new(7);
        for number in 0..bands * TOGETHER {
            let token = rig.write_run(random.below(blocks), 1, number as u32 + 2, false, BULK);
            rig.wait(token).unwrap();
        }
        rig.devices[CAPACITY].rule(|seen| failed(seen.kind == Kind::Read));
        let (mut passed_ms, mut longest_ms) = (0, 0);
        while passed_ms < 100_000 {
            let (waited_ms, has_found) = wait_for_space(&mut rig, random.below(blocks));
            (passed_ms, longest_ms) = (passed_ms + waited_ms, longest_ms.max(waited_ms));
            if !has_found {
                rig.polls(100);
                passed_ms += 100;
            }
        }
        assert!(longest_ms < 20_000, "a write waited for {longest_ms} ms, of {bands} bands");
        rig.devices[CAPACITY].heal();
        let mut after_ms = 0;
        loop {
            let (waited_ms, has_found) = wait_for_space(&mut rig, random.below(blocks));
            after_ms += waited_ms;
            if has_found {
                break;
            }
            rig.polls(100);
            after_ms += 100;
        }
        assert!(after_ms < 20_000, "{after_ms} ms after the device was well, of {bands} bands");
    }
}

/// While few bands were free, and nothing could be moved out of those that were not full, all jobs tried these again and again: data that could have left the fast
/// tier did not, for as long as that was so.
#[test]
fn regression_bands_that_cannot_be_emptied_do_not_keep_data_on_the_fast_tier() {
    let base = Setup { capacity_bytes: 16 << 20, fast_bytes: 17 << 18, ..Setup::default() };
    let options = EngineOptions { destage_above_percent: 0, ..base.options.clone() };
    let mut rig = Rig::new(&Setup { options, ..base });
    let runs = (0..UNREADABLE).map(|at| at * TOGETHER);
    runs.clone().for_each(|first| rig.put_run(first, TOGETHER, 1));
    // All others are full then.
    runs.for_each(|first| rig.put_run(first + 1, TOGETHER - 1, 2));
    let bad: Vec<u64> = (0..UNREADABLE).map(|at| rig.find(CAPACITY, at * TOGETHER, 1)[0] + 1024).collect();
    rig.devices[CAPACITY]
        .rule(move |seen| failed(seen.kind == Kind::Read && bad.iter().any(|&sector| seen.covers(sector))));
    let mut next = UNREADABLE * TOGETHER;
    while rig.pool.engine.status().free_bands > 10 {
        rig.put_run(next, TOGETHER, 1);
        next += TOGETHER;
    }
    rig.pass_ms(60_000);
    // In no order, as a stream would not be staged.
    let staged = (0..100).map(|at| next + 37 * at % 100 * 3);
    staged.clone().for_each(|block| rig.put(block, 1, None));
    assert!(staged.clone().any(|block| rig.find(CAPACITY, block, 1).is_empty()));
    rig.pass_ms(5_000);
    let left = staged.filter(|&block| rig.find(CAPACITY, block, 1).is_empty()).count();
    let status = rig.pool.engine.status();
    assert!(
        left == 0,
        "{left} blocks are still on the fast tier; {} bands of {} are free",
        status.free_bands,
        status.bands
    );
}

/// Bands that hosts can fill after the blocks of one leaf, which lie in many bands, could not be read for a while, and so many of them were overwritten; and what
/// a verification finds.
fn filled_after_overwriting(overwritten: u64) -> (u64, Vec<String>) {
    let base = Setup { capacity_bytes: 16 << 20, fast_bytes: 17 << 18, disk_bytes: 1 << 30, ..Setup::default() };
    let options = EngineOptions { frames: Some(16), ..base.options.clone() };
    let mut rig = Rig::new(&Setup { options, ..base });
    // In each band a few, beside others that die.
    let others = 400 * 41;
    for band in 0..80 {
        rig.put_run(5 * band, 5, 1);
        rig.put_run(others + 10 * band, 10, 1);
    }
    (1..40).for_each(|leaf| rig.put(400 * leaf, 1, None));
    rig.checkpoint();
    // The leaf leaves memory.
    (1..40).for_each(|leaf| assert_eq!(rig.get(400 * leaf), Ok(1)));
    rig.devices[FAST].rule(|seen| match is_page_read(seen) {
        true => Fate::Misread(seen.offset_bytes + 2000),
        false => Fate::Good,
    });
    rig.put_run(0, overwritten, 2);
    rig.devices[FAST].heal();
    rig.put_run(others, 800, 1);
    let (begin, mut runs) = (others + 800, 0);
    loop {
        let token = rig.write_run(begin + runs * TOGETHER, TOGETHER, 1, false, BULK);
        match rig.wait(token) {
            Ok(_) => runs += 1,
            Err(RequestError::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!((0..overwritten).all(|block| rig.get(block) == Ok(2)));
    assert!((others..begin + runs * TOGETHER).all(|block| rig.get(block) == Ok(1)));
    let setup = rig.setup.clone();
    (runs, findings(&setup, &rig.cut(|_| false)))
}

/// Blocks of a leaf that could not be read were never given up where hosts wrote over them: up to 400 bands stayed in use for good, and were collected in vain again
/// and again.
#[test]
fn regression_bands_are_free_whose_leaf_was_overwritten_unread() {
    let (all, found) = filled_after_overwriting(400);
    assert_eq!(found, [""; 0]);
    let (half, _) = filled_after_overwriting(200);
    // With 400 blocks overwritten 80 bands are free, and the new versions fill 27; with 200 these are 40 and 14, as what else the leaf named is not known.
    let apart = all.saturating_sub(half);
    assert!(all > 180 && (14..34).contains(&apart), "{all} and {half} bands were filled");
}

/// Hosts that have filled an overcommitted pool find space at once after they have discarded most of what they had.
#[test]
fn there_is_space_at_once_where_hosts_have_discarded() {
    for seed in 0..6 {
        let mut rig = Rig::new(&Setup {
            capacity_bytes: 16 << 20,
            fast_bytes: 17 << 18,
            disk_bytes: 64 << 20,
            ..Setup::default()
        });
        let mut random = Random::new(seed);
        let mut refused = 0;
        while refused < 2000 {
            let token = rig.write_run(random.below(1000) * 16, 16, 1, false, None);
            refused += u32::from(rig.wait(token).is_err());
        }
        for first in (0..12_000).step_by(1000) {
            let token = rig.submit_to(rig.disk, first, 1000 * 4096, Op::Discard, false, None);
            rig.wait(token).unwrap();
        }
        for number in 0..100 {
            rig.pass_ms(20);
            let token = rig.write_run(number % 4 * 250, 250, 2, false, None);
            let answer = rig.wait(token);
            assert!(answer.is_ok(), "seed {seed}, write {number}: {answer:?}");
        }
    }
}

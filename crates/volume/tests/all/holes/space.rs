//! Space that is freed or not, and space in the journal.

use super::device::{Fate, Kind, Region};
use super::rig::{BLOCK, BULK, CAPACITY, FAST, Rig, Setup, failed, findings, has_data, held};
use forebay_block::{ClassId, Random};
use forebay_volume::layout::page::LEAF_ENTRIES;
use forebay_volume::{EngineOptions, Op};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The pool is full. A discard waits behind a write of zeros to the same range, a writer elsewhere waits for space. When the zeros were
/// written, the discard was queued behind the writer, which waited for the very space that the discard frees; after a while the writer
/// failed for lack of space.
#[test]
fn hole_11_a_woken_discard_behind_a_writer_that_waits_for_space() {
    let base = Setup::default().options;
    let options = EngineOptions { destage_above_percent: 75, ..base };
    let setup = Setup { fast_bytes: 3 << 20, capacity_bytes: 1 << 20, options, ..Setup::default() };
    let mut rig = Rig::new(&setup);
    let written = rig.fill(0);
    assert!(written > 300, "{written}");
    rig.flush();
    rig.devices[FAST].rule(|seen| held(seen.is(Kind::Write, Region::Journal)));
    let zeroes = rig.submit_to(rig.disk, 0, BLOCK as u64, Op::WriteZeroes { may_unmap: false }, false, None);
    rig.polls(5);
    let discard = rig.submit_to(rig.disk, 0, written / 2 * BLOCK as u64, Op::Discard, false, None);
    rig.polls(5);
    let writer = rig.write_run(written / 2, 32, 2, false, None);
    rig.polls(5);
    assert!([zeroes, discard, writer].iter().all(|&token| rig.answer(token).is_none()));
    rig.devices[FAST].heal();
    for (token, who) in [(zeroes, "zeros"), (discard, "discard"), (writer, "writer")] {
        let answer = rig.wait(token);
        assert!(answer.is_ok(), "{who}: {answer:?}");
    }
    assert_eq!((rig.get(0), rig.get(written / 2)), (Ok(0), Ok(2)));
}

/// The journal cannot be written, so the pool takes no more writes and is stopped cleanly. The slots of writes with lost records were still
/// marked as used in the last root, and nothing would ever have freed them.
#[test]
fn hole_11_b_a_lost_journal_batch_leaks_nothing() {
    let mut rig = Rig::new(&Setup::default());
    rig.put(0, 1, None);
    rig.put(1, 1, BULK);
    rig.flush();
    rig.devices[FAST].rule(|seen| failed(seen.is(Kind::Write, Region::Journal)));
    let failed = [rig.write_run(0, 8, 2, false, None), rig.write_run(8, 8, 2, false, BULK)];
    for token in failed {
        assert!(rig.wait(token).is_err());
    }
    assert!(rig.pool.engine.status().read_only.is_some());
    rig.devices[FAST].heal();
    rig.pool.close();
    let setup = rig.setup.clone();
    let devices = rig.cut(|_| false);
    assert_eq!(findings(&setup, &devices), [""; 0]);
    let mut rig = Rig::open(&setup, devices).unwrap();
    assert!(matches!(rig.get(0), Ok(1 | 2)) && matches!(rig.get(1), Ok(1 | 2)));
    rig.put(0, 3, None);
    let options = rig.setup.options.clone();
    let rig = rig.restart(options);
    assert_eq!(findings(&setup, &rig.cut(|_| false)), [""; 0]);
}

/// Hundreds of writes are in flight, their records share a few batches, and no checkpoint comes. Then the capacity device fails the data
/// writes one by one: each failure wrote a cancelling record in a batch of its own, without checking the space in the journal. It overwrote
/// its own start, which was durable.
#[test]
fn hole_11_d_cancel_records_when_the_journal_is_full() {
    // Large bands, so that many writes find space on the capacity tier.
    let setup = Setup { capacity_bytes: 16 << 20, band_bytes: 1 << 20, journal_bytes: 128 << 10, ..Setup::default() };
    let mut rig = Rig::new(&setup);
    rig.put(0, 1, None);
    rig.put(1, 1, BULK);
    rig.checkpoint();
    rig.put(0, 2, None);
    rig.put(1, 2, BULK);
    rig.flush();
    rig.devices[FAST].rule(|seen| held(seen.is(Kind::Write, Region::Root)));
    let turn = Arc::new(AtomicBool::new(false));
    let allowed = turn.clone();
    rig.devices[CAPACITY].rule(move |seen| match seen.is(Kind::Write, Region::Bands) && has_data(seen) {
        true if allowed.swap(false, Ordering::Relaxed) => Fate::Failed,
        is_data => held(is_data),
    });
    let tokens: Vec<u64> = (100..700).map(|block| rig.write(block, 3, BULK)).collect();
    rig.polls(50);
    // One of them fails, and then the next.
    for _ in 0..1000 {
        turn.store(true, Ordering::Relaxed);
        rig.polls(2);
    }
    let failed = tokens.iter().filter(|&&token| rig.answer(token).is_some_and(Result::is_err)).count();
    assert!(failed > 200, "{failed}");
    let mut rig = rig.crash();
    assert_eq!((rig.get(0), rig.get(1)), (Ok(2), Ok(2)));
    for block in 100..700 {
        assert!(matches!(rig.get(block), Ok(0 | 3)), "{:?}", rig.get(block));
    }
}

/// Leaves of the disks below.
const LEAVES: u64 = 330;

fn block_of(leaf: u64) -> u64 {
    leaf * LEAF_ENTRIES as u64
}

/// A pool with many leaves and `frames` frames.
fn of_many_leaves(frames: usize) -> Setup {
    let base = Setup::default();
    let options = EngineOptions { frames: Some(frames), ..base.options.clone() };
    let base = Setup { fast_bytes: 6 << 20, capacity_bytes: 32 << 20, band_bytes: 512 << 10, options, ..base };
    Setup { disk_bytes: block_of(LEAVES) * BLOCK as u64, ..base }
}

/// One block of each leaf is in a band, beside as many dead ones; old pages have freed their slots.
fn with_a_block_of_each_leaf(setup: &Setup) -> Rig {
    let mut rig = Rig::new(setup);
    for leaf in 0..LEAVES {
        [399, block_of(leaf)].into_iter().for_each(|block| rig.put(block, 1, BULK));
        rig.checkpoint();
    }
    let options = rig.setup.options.clone();
    rig.restart(options)
}

/// Permanent data takes all data slots of the fast tier: returns its blocks. A checkpoint precedes each of the first `checkpoints` blocks.
fn fill_fast_tier(rig: &mut Rig, checkpoints: usize) -> Vec<u64> {
    const METADATA: Option<ClassId> = Some(ClassId(1));
    let in_bands = |rig: &Rig| rig.pool.engine.status().capacity.live_bytes;
    let before = in_bands(rig);
    let mut filled = Vec::new();
    for block in (1..399).chain(401..800).chain(801..1200) {
        if filled.len() < checkpoints {
            rig.checkpoint();
        }
        rig.put(block, 1, METADATA);
        filled.push(block);
        if in_bands(rig) > before {
            return filled;
        }
    }
    panic!("{} blocks do not fill it", filled.len());
}

fn full_with_little_memory(checkpoints: usize) -> (Rig, Vec<u64>) {
    let mut rig = with_a_block_of_each_leaf(&of_many_leaves(64));
    let filled = fill_fast_tier(&mut rig, checkpoints);
    (rig, filled)
}

/// Recovery writes a page for each leaf in the journal, and the old page keeps its slot until the new root is durable. Slots were reserved
/// for leaves that hosts dirty; collections, which free no slots, named as many more as memory allows. On a full fast tier recovery failed
/// with "no free slot for a map page".
#[test]
fn slots_are_kept_for_the_leaves_that_collections_name() {
    let mut rig = with_a_block_of_each_leaf(&of_many_leaves(512));
    // And these nearly fill the bands.
    let mut runs = (3..LEAVES).map(|leaf| block_of(leaf) + 1);
    while rig.pool.engine.status().free_bands > 4 {
        rig.put_run(runs.next().unwrap(), 200, 1);
    }
    let filled = fill_fast_tier(&mut rig, 2000);
    rig.devices[FAST].rule(|seen| held(seen.is(Kind::Write, Region::Root)));
    let is_named = |rig: &mut Rig| !rig.pool.engine.describe().contains(" 0 named");
    // Until a collection has named leaves that it cannot change yet.
    for _ in 0..16 {
        rig.write_run(runs.next().unwrap(), 100, 1, false, BULK);
        rig.polls(LEAVES as usize);
        if is_named(&mut rig) {
            break;
        }
    }
    assert!(is_named(&mut rig), "{}", rig.pool.engine.describe());
    let mut rig = rig.crash();
    (0..LEAVES).for_each(|leaf| assert_eq!(rig.get(block_of(leaf)), Ok(1)));
    filled.into_iter().for_each(|block| assert_eq!(rig.get(block), Ok(1)));
}

/// A pool was filled with permanent data while it had little memory and few slots reserved for pages. With more memory, the journal named
/// more leaves than there were slots: no checkpoint could be written, and after a power cut the pool could not be opened.
#[test]
fn more_memory_over_a_full_fast_tier_names_no_more_than_there_are_slots_for() {
    let (rig, filled) = full_with_little_memory(2000);
    more_memory_takes_effect(rig.restart(of_many_leaves(512).options), filled);
}

/// The same where the last root was durable before the tier was full, so that recovery learns this from the journal.
#[test]
fn more_memory_over_a_fast_tier_that_the_journal_has_filled() {
    let (mut rig, filled) = full_with_little_memory(300);
    rig.flush();
    more_memory_takes_effect(Rig::open(&of_many_leaves(512), rig.cut(|_| false)).unwrap(), filled);
}

fn more_memory_takes_effect(mut rig: Rig, filled: Vec<u64>) {
    rig.devices[FAST].rule(|seen| held(seen.is(Kind::Write, Region::Root)));
    let tokens: Vec<u64> = (0..LEAVES).map(|leaf| rig.write(block_of(leaf), 2, BULK)).collect();
    rig.polls(300);
    let ended = tokens.iter().filter(|&&token| rig.answer(token).is_some()).count();
    assert!(ended > 10 && ended < 200, "{ended} writes ended");
    let mut rig = rig.crash();
    (0..LEAVES).for_each(|leaf| assert!(matches!(rig.get(block_of(leaf)), Ok(1 | 2))));
    // And it goes on.
    (0..LEAVES).for_each(|leaf| rig.put(block_of(leaf), 3, BULK));
    rig.flush();
    let mut rig = rig.crash();
    (0..LEAVES).for_each(|leaf| assert_eq!(rig.get(block_of(leaf)), Ok(3)));
    filled.into_iter().for_each(|block| assert_eq!(rig.get(block), Ok(1)));
}

/// Each failed checkpoint kept the slots of its index pages until a root was durable. On a full fast tier no slots were left after a while,
/// and no checkpoint could be written even when the device worked again.
#[test]
fn checkpoints_that_come_to_nothing_do_not_use_up_the_slots() {
    let (mut rig, _) = full_with_little_memory(2000);
    rig.devices[FAST].rule(|seen| failed(seen.is(Kind::Write, Region::Root)));
    rig.put(block_of(5), 2, BULK);
    rig.pool.engine.request_checkpoint(false);
    for _ in 0..300 {
        rig.pass_ms(1100);
    }
    let errors = rig.pool.engine.status().counters.checkpoint_errors;
    assert!(errors > 200, "{errors} attempts");
    rig.devices[FAST].heal();
    rig.pass_ms(1100);
    rig.checkpoint();
    rig.put(block_of(5), 3, BULK);
    rig.flush();
    assert_eq!(rig.crash().get(block_of(5)), Ok(3));
}

/// The slot of an unwritable page went to the next page in the next attempt, and so on: one bad sector failed a checkpoint for each page.
#[test]
fn one_bad_slot_fails_one_checkpoint() {
    let mut rig = Rig::new(&Setup::default());
    (0..20).for_each(|leaf| rig.put(block_of(leaf), 1, BULK));
    rig.checkpoint();
    (0..20).for_each(|leaf| rig.put(block_of(leaf), 2, BULK));
    let mut bad = None;
    rig.devices[FAST].rule(move |seen| {
        let is_page = seen.is(Kind::Write, Region::Slots) && !has_data(seen);
        failed(is_page && *bad.get_or_insert(seen.offset_bytes) == seen.offset_bytes)
    });
    rig.pool.engine.request_checkpoint(false);
    assert!(rig.until(|rig| !rig.pool.engine.checkpoint_pending()));
    assert_eq!(rig.pool.engine.status().counters.checkpoint_errors, 1);
}

/// The learned state of policies is written beside each root, and nothing depends on it. A bad sector there failed the last checkpoint, and
/// so made every stop unclean.
#[test]
fn regression_a_bad_sector_beside_the_root_makes_no_stop_unclean() {
    let mut rig = Rig::new(&Setup::default());
    (0..200).for_each(|block| rig.put(block, 1, None));
    let has_failed = Arc::new(AtomicBool::new(false));
    let seen_it = has_failed.clone();
    rig.devices[FAST].rule(move |seen| {
        let is_policy = seen.is(Kind::Write, Region::Root) && seen.bytes.starts_with(b"FBPS");
        seen_it.fetch_or(is_policy, Ordering::Relaxed);
        failed(is_policy)
    });
    assert!(rig.pool.close(), "{}", rig.pool.engine.describe());
    assert!(has_failed.load(Ordering::Relaxed), "nothing was learned");
}

/// Four collections read their bands while hosts write. Hosts could open the bands that the collections needed: each moved part of its
/// band, none was emptied, and no band was free any more. A pool four fifths full answered "no space".
#[test]
fn regression_hosts_do_not_take_the_space_that_collections_in_progress_need() {
    let base = Setup::default();
    let options = EngineOptions { frames: Some(512), ..base.options.clone() };
    let setup = Setup { capacity_bytes: 16 << 20, band_bytes: 256 << 10, disk_bytes: 16 << 20, options, ..base };
    let mut rig = Rig::new(&setup);
    // Four fifths of the 64 bands.
    let blocks = 64 * 63 * 8 / 10;
    (0..blocks).for_each(|block| rig.put(block, 0, BULK));
    let mut random = Random::new(1);
    for version in 1..120 {
        rig.devices[CAPACITY].rule(|seen| held(seen.is(Kind::Read, Region::Bands)));
        let mut tokens: Vec<u64> = Vec::new();
        for _ in 0..16 {
            tokens.extend((0..8).map(|_| rig.write(random.below(blocks), version, BULK)));
            rig.polls(2);
        }
        rig.devices[CAPACITY].heal();
        for token in tokens {
            let answer = rig.wait(token);
            assert!(answer.is_ok(), "round {version}: {answer:?}");
        }
    }
}

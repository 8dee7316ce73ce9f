//! Destage: what can happen to blocks on their way from the fast tier to a band.

use super::device::{Fate, Kind, Region, Seen};
use super::rig::{CAPACITY, FAST, Rig, Setup, classes, failed, findings, has_data, held, is_page_read, over};
use forebay_block::Buf;
use forebay_prism::{ClassChange, Compress};
use forebay_volume::{EngineOptions, Op};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Destages immediately.
fn destaging(options: &EngineOptions) -> EngineOptions {
    EngineOptions { destage_above_percent: 0, ..options.clone() }
}

/// A destage job takes block 0 and then waits for the page of another leaf. Meanwhile the block is overwritten and its slot is freed. The
/// job reads the slot, which still holds the old data, and writes it to a band. During that write the block is overwritten until its newest
/// data lies in the very slot that the job took it from. Returns the newest version.
fn a_slot_used_again_for_the_same_block(rig: &mut Rig) -> u32 {
    let taken = rig.find(FAST, 0, 1)[0];
    let mut first = None;
    rig.devices[FAST]
        .rule(move |seen| held(is_page_read(seen) && *first.get_or_insert(seen.offset_bytes) != seen.offset_bytes));
    rig.polls(20);
    rig.put(0, 2, None);
    rig.polls(5);
    rig.devices[CAPACITY].rule(|seen| held(seen.is(Kind::Write, Region::Bands)));
    rig.devices[FAST].heal();
    rig.polls(50);
    let mut version = 2;
    // Slots are given out in turn, each once per round. A protected slot never appears.
    while version < 1000 && rig.find(FAST, 0, version) != [taken] {
        version += 1;
        rig.put(0, version, None);
    }
    rig.devices[CAPACITY].heal();
    rig.polls(300);
    version
}

fn two_leaves_staged() -> Rig {
    let mut rig = Rig::new(&Setup::default());
    for block in [0, 1, 400, 401] {
        rig.put(block, 1, None);
    }
    let options = destaging(&rig.setup.options);
    rig.restart(options)
}

/// The sources of a destage job were protected only once all were gathered, and the map was compared by location alone. A block whose
/// newest data lies where the job took an older version counted as unchanged: the map then named the old data with the new checksum, and
/// every read failed.
#[test]
fn hole_03_source_slot_of_a_destage_used_again_before_all_were_gathered() {
    let mut rig = two_leaves_staged();
    let newest = a_slot_used_again_for_the_same_block(&mut rig);
    assert_eq!(rig.get(0), Ok(newest));
    for block in [1, 400, 401] {
        assert_eq!(rig.get(block), Ok(1));
    }
}

/// The same with a power cut: the record of the move carries the checksum of the moved data, and its replay silently returned the old data.
#[test]
fn hole_03_source_slot_of_a_destage_used_again_and_then_a_power_cut() {
    let mut rig = two_leaves_staged();
    let newest = a_slot_used_again_for_the_same_block(&mut rig);
    let mut rig = rig.crash();
    assert_eq!(rig.get(0), Ok(newest));
    for block in [1, 400, 401] {
        assert_eq!(rig.get(block), Ok(1));
    }
}

/// Data that hosts overwrote while a destage read it was still written to a band: wasted capacity, and 4 % of the moved data where files
/// are discarded about when they are due.
#[test]
fn regression_what_is_overwritten_while_it_is_read_is_not_moved() {
    let mut rig = two_leaves_staged();
    rig.devices[FAST].rule(|seen| held(seen.is(Kind::Read, Region::Slots) && has_data(seen)));
    rig.polls(20);
    rig.put(0, 2, None);
    rig.put(401, 2, None);
    rig.devices[FAST].heal();
    rig.polls(50);
    assert!(rig.find(CAPACITY, 0, 1).is_empty() && rig.find(CAPACITY, 401, 1).is_empty());
    assert!(!rig.find(CAPACITY, 1, 1).is_empty() && !rig.find(CAPACITY, 400, 1).is_empty(), "the others are");
    let mut rig = rig.crash();
    for (block, version) in [(0, 2), (1, 1), (400, 1), (401, 2)] {
        assert_eq!(rig.get(block), Ok(version));
    }
}

/// A stop did not wait for jobs in progress, and let others begin: their moves followed in the journal the root that says that nothing follows. Where
/// they could not be read, the next start gave them up and nobody learned of it.
#[test]
fn regression_nothing_follows_the_root_of_a_clean_stop() {
    let mut rig = two_leaves_staged();
    let is_frozen = Arc::new(AtomicBool::new(false));
    // The data of the job arrives once the root is being written, and the root takes a while: as long as the record of the moves may take.
    let (seen_by_bands, mut bands, mut roots) = (is_frozen.clone(), 0, 0);
    rig.devices[CAPACITY].rule(move |seen| {
        bands += usize::from(seen.is(Kind::Write, Region::Bands));
        held(seen.is(Kind::Write, Region::Bands) && !seen_by_bands.load(Ordering::Relaxed) && bands < 500)
    });
    rig.devices[FAST].rule(move |seen| {
        roots += usize::from(is_root_write(seen));
        is_frozen.fetch_or(is_root_write(seen), Ordering::Relaxed);
        held(is_root_write(seen) && roots < 500)
    });
    rig.polls(20);
    let (setup, is_clean) = (rig.setup.clone(), rig.pool.close());
    assert!(is_clean && !rig.find(CAPACITY, 0, 1).is_empty(), "a job was in progress");
    let devices = rig.cut(|_| false);
    let (_, report) = forebay_volume::recovery::open(&mut over(&devices), 1, &classes(), setup.options).unwrap();
    assert_eq!((report.clean, report.batches), (true, 0));
}

/// A job that compresses waits for no device: the stop did not wait for it, wrote a root that is not clean, and said that it had ended well.
#[test]
fn regression_a_stop_waits_for_a_job_that_compresses() {
    for polls in 0..40 {
        let mut rig = Rig::new(&Setup::default());
        for run in 0..8 {
            let mut bytes = Buf::zeroed(64 * 4096);
            bytes.fill(7);
            let token = rig.submit_to(rig.disk, 64 * run, bytes.len() as u64, Op::Write(bytes), false, None);
            rig.wait(token).unwrap();
        }
        let options = EngineOptions { job_blocks: 512, ..destaging(&rig.setup.options) };
        let mut rig = rig.restart(options);
        let change = ClassChange { compress: Some(Compress::Zstd(19)), ..ClassChange::default() };
        rig.pool.engine.prism_mut().table_mut().set("cold", change).unwrap();
        rig.pool.engine.classes_changed();
        rig.polls(polls);
        let (setup, is_clean) = (rig.setup.clone(), rig.pool.close());
        let devices = rig.cut(|_| false);
        let (_, report) = forebay_volume::recovery::open(&mut over(&devices), 1, &classes(), setup.options).unwrap();
        assert_eq!((is_clean, report.clean, report.batches), (true, true, 0), "after {polls} polls");
    }
}

/// Held, it prevents checkpoints, so that the journal will be replayed.
fn is_root_write(seen: &Seen<'_>) -> bool {
    seen.is(Kind::Write, Region::Root)
}

/// Jobs record their moves; the leaves that they must change have meanwhile left memory and cannot be read, and no checkpoint ends. More
/// leaves have a block than fit into memory.
fn moves_recorded_and_leaves_unreadable(rig: &mut Rig, of_page_reads: fn(&Seen<'_>) -> Fate) {
    rig.devices[FAST].rule(|seen| held(is_root_write(seen)));
    rig.devices[CAPACITY].rule(|seen| held(seen.is(Kind::Write, Region::Bands)));
    rig.pass_ms(1000);
    for leaf in (1..40).chain(1..40) {
        assert_eq!(rig.get(400 * leaf), Ok(1));
    }
    rig.devices[FAST].rule(move |seen| match is_page_read(seen) {
        true => of_page_reads(seen),
        false => held(is_root_write(seen)),
    });
    rig.devices[CAPACITY].heal();
    rig.polls(100);
}

/// A job has moved and recorded 64 blocks of a leaf; the leaf has meanwhile left memory, and its page is unreadable when the moves are
/// applied.
fn moves_recorded_whose_leaf_cannot_be_read(of_page_reads: fn(&Seen<'_>) -> Fate) -> Rig {
    let base = Setup::default().options;
    let setup = Setup { options: EngineOptions { frames: Some(16), job_blocks: 64, ..base }, ..Setup::default() };
    let mut rig = Rig::new(&setup);
    let token = rig.write_run(0, 64, 1, false, None);
    rig.wait(token).unwrap();
    for leaf in 1..40 {
        rig.put(400 * leaf, 1, None);
    }
    let options = destaging(&rig.setup.options);
    let mut rig = rig.restart(options);
    moves_recorded_and_leaves_unreadable(&mut rig, of_page_reads);
    assert!(!rig.find(CAPACITY, 0, 1).is_empty() && rig.get(0).is_err(), "moved, and the leaf cannot be read");
    rig
}

fn all_is_there(rig: &mut Rig) {
    let wrong: Vec<_> = (0..64).filter_map(|block| rig.get(block).err()).collect();
    assert!(wrong.is_empty(), "{} blocks are lost: {}", wrong.len(), wrong[0]);
    (1..40).for_each(|leaf| assert_eq!(rig.get(400 * leaf), Ok(1)));
}

/// Moves to an unreadable leaf were skipped as if the map had named other places: their bands counted as empty, were trimmed and reused.
/// But the journal contained the records, and recovery mapped the blocks to those bands.
#[test]
fn hole_10_moves_that_could_not_be_applied_and_then_a_power_cut() {
    let rig = moves_recorded_whose_leaf_cannot_be_read(|_| Fate::Failed);
    let setup = rig.setup.clone();
    let devices = rig.cut(|_| false);
    assert_eq!(findings(&setup, &devices), [""; 0]);
    all_is_there(&mut Rig::open(&setup, devices).unwrap());
}

/// The same, but the leaf becomes readable after a while.
#[test]
fn hole_10_moves_that_could_not_be_applied_for_a_while() {
    let mut rig = moves_recorded_whose_leaf_cannot_be_read(|_| Fate::Failed);
    rig.devices[FAST].rule(|seen| held(is_root_write(seen)));
    for _ in 0..20 {
        rig.pass_ms(1000);
    }
    all_is_there(&mut rig);
    let setup = rig.setup.clone();
    let devices = rig.cut(|_| false);
    assert_eq!(findings(&setup, &devices), [""; 0]);
    all_is_there(&mut Rig::open(&setup, devices).unwrap());
}

/// A leaf that was read wrongly, though the medium has it, got all of its blocks written as damaged: moves to it were applied although none concerned what it
/// seemed to hold.
#[test]
fn regression_moves_do_not_make_a_misread_leaf_damaged_for_good() {
    let misread = |seen: &Seen<'_>| Fate::Misread(seen.offset_bytes + 2000);
    for is_cut in [false, true] {
        let mut rig = moves_recorded_whose_leaf_cannot_be_read(misread);
        rig.devices[FAST].heal();
        rig.checkpoint();
        // The leaf leaves memory.
        (1..40).for_each(|leaf| assert_eq!(rig.get(400 * leaf), Ok(1)));
        if is_cut {
            rig = rig.crash();
        }
        all_is_there(&mut rig);
        let setup = rig.setup.clone();
        assert_eq!(findings(&setup, &rig.cut(|_| false)), [""; 0]);
    }
}

/// What recorded moves that could not be applied had been granted stayed in use until the next start: bands with it were neither collected nor freed.
#[test]
fn regression_bands_of_moves_that_could_not_be_applied_are_free_after_a_checkpoint() {
    let mut rig = moves_recorded_whose_leaf_cannot_be_read(|_| Fate::Failed);
    rig.devices[FAST].heal();
    rig.checkpoint();
    all_is_there(&mut rig);
    // Their band is filled, and then nothing is in any band any more.
    for first in (64..400).step_by(16) {
        rig.put_run(first, 16, 2);
        rig.pass_ms(100);
    }
    let token = rig.submit_to(rig.disk, 0, 400 * 40 * 4096, Op::Discard, false, None);
    rig.wait(token).unwrap();
    rig.flush();
    rig.checkpoint();
    rig.pass_ms(1000);
    let status = rig.pool.engine.status();
    let in_use = status.bands - status.free_bands;
    // Some are open.
    assert!(in_use <= 3, "{in_use} bands are in use, and hold nothing");
}

/// A pool with `frames` frames that destages small jobs, with a block staged in each of `leaves` leaves.
fn small_jobs_over(leaves: u64, frames: usize) -> Rig {
    let base = Setup::default().options;
    let setup = Setup { options: EngineOptions { frames: Some(frames), job_blocks: 16, ..base }, ..Setup::default() };
    let mut rig = Rig::new(&setup);
    (0..leaves).for_each(|leaf| rig.put(400 * leaf, 1, None));
    let options = destaging(&rig.setup.options);
    rig.restart(options)
}

/// Each job that could not read a leaf left it to recovery, beyond the limit of dirty leaves, and the next job named another leaf: recovery
/// needed more memory than the pool has. Simulated life 19791214302616.
#[test]
fn leaves_left_to_recovery_by_many_jobs_fit_into_memory() {
    let mut rig = small_jobs_over(40, 5);
    for _ in 0..20 {
        moves_recorded_and_leaves_unreadable(&mut rig, |_| Fate::Failed);
    }
    let moved = (0..40).filter(|leaf| !rig.find(CAPACITY, 400 * leaf, 1).is_empty()).count();
    assert!(moved > 1, "several jobs came as far as their leaves");
    let setup = rig.setup.clone();
    let mut rig = Rig::open(&setup, rig.cut(|_| false)).unwrap();
    (0..40).for_each(|leaf| assert_eq!(rig.get(400 * leaf), Ok(1)));
}

/// One misread of a source must not count as damage: the block is good and is destaged eventually.
#[test]
fn hole_06_a_misread_of_a_destage_does_no_damage() {
    let mut rig = two_leaves_staged();
    let place = rig.find(FAST, 1, 1)[0];
    let mut is_due = true;
    rig.devices[FAST].rule(move |seen| {
        let strikes = seen.kind == Kind::Read && seen.covers(place) && std::mem::take(&mut is_due);
        if strikes { Fate::Misread(place + 77) } else { Fate::Good }
    });
    let is_moved = rig.until(|rig| !rig.find(CAPACITY, 1, 1).is_empty());
    assert!(is_moved, "a block that was misread once is never moved");
    rig.flush();
    assert_eq!(rig.get(1), Ok(1));
    assert_eq!(rig.crash().get(1), Ok(1));
}

/// A sector of the fast tier became unreadable: the job that met it failed as a whole, and so did every later one. The other blocks of that
/// leaf must still leave the tier.
#[test]
fn hole_07_destage_beside_a_sector_that_cannot_be_read() {
    let mut rig = Rig::new(&Setup::default());
    let token = rig.write_run(0, 32, 1, false, None);
    rig.wait(token).unwrap();
    let bad = rig.find(FAST, 13, 1)[0] + 1024;
    let options = destaging(&rig.setup.options);
    let mut rig = rig.restart(options);
    rig.devices[FAST].rule(move |seen| failed(seen.kind == Kind::Read && seen.covers(bad)));
    for _ in 0..60 {
        rig.pass_ms(1000);
    }
    let staged: Vec<u64> = (0..32).filter(|&block| rig.find(CAPACITY, block, 1).is_empty()).collect();
    assert_eq!(staged, [13], "only the block that cannot be read stays where it is");
    assert!(rig.get(13).is_err());
    rig.put(13, 2, None);
    let mut rig = rig.crash();
    (0..32).for_each(|block| assert_eq!(rig.get(block), Ok(if block == 13 { 2 } else { 1 })));
}

/// An unreadable leaf goes to the end of the queue: otherwise it is always first, and no job reaches the others (planted bug 70).
#[test]
fn a_leaf_that_cannot_be_read_keeps_no_other_from_leaving() {
    let mut rig = small_jobs_over(12, 5);
    let is_first_leaf = |seen: &Seen<'_>| {
        seen.kind == Kind::Read && seen.bytes.starts_with(b"FBML") && seen.bytes.get(16..24) == Some(&[0; 8][..])
    };
    rig.devices[FAST].rule(move |seen| failed(is_first_leaf(seen)));
    let are_moved = rig.until(|rig| (1..12).all(|leaf| !rig.find(CAPACITY, 400 * leaf, 1).is_empty()));
    assert!(are_moved, "all others wait for a leaf that cannot be read");
    assert!(rig.find(CAPACITY, 0, 1).is_empty() && rig.get(0).is_err());
    rig.devices[FAST].heal();
    assert!(rig.until(|rig| !rig.find(CAPACITY, 0, 1).is_empty()), "it can be read again, and leaves");
    (0..12).for_each(|leaf| assert_eq!(rig.get(400 * leaf), Ok(1)));
}

/// A job could not name its leaves beside those of requests in progress and requested checkpoints repeatedly although nothing was dirty:
/// while a device took half a minute for a write, thousands of roots went to the fast tier. Simulated life 19791218310521.
#[test]
fn a_job_that_waits_for_requests_asks_for_no_checkpoint() {
    let mut rig = small_jobs_over(4, 8);
    rig.devices[CAPACITY].rule(|seen| held(seen.is(Kind::Write, Region::Bands)));
    rig.pass_ms(1000);
    // The leaf is dirty, so many requests may change it at once.
    rig.put(9, 1, None);
    let roots = Arc::new(AtomicUsize::new(0));
    let seen_roots = roots.clone();
    rig.devices[FAST].rule(move |seen| {
        seen_roots.fetch_add(usize::from(is_root_write(seen)), Ordering::Relaxed);
        held(seen.is(Kind::Write, Region::Journal))
    });
    let tokens: Vec<u64> = (10..20).map(|block| rig.write(block, 1, None)).collect();
    rig.polls(20);
    rig.devices[CAPACITY].heal();
    rig.polls(2000);
    assert!(tokens.iter().all(|&token| rig.answer(token).is_none()) && rig.find(CAPACITY, 0, 1).len() == 1);
    let roots = roots.load(Ordering::Relaxed);
    assert!(roots < 20, "{roots} writes of roots in two seconds in which nothing was changed");
    rig.devices[FAST].heal();
    tokens.into_iter().for_each(|token| drop(rig.wait(token).unwrap()));
    let is_moved = rig.until(|rig| rig.pool.engine.status().fast.live_bytes == 0);
    assert!(is_moved, "the job goes on when the requests have ended");
    (0..4).for_each(|leaf| assert_eq!(rig.get(400 * leaf), Ok(1)));
}

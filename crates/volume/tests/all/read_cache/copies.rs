//! Copies that are the last good data of their blocks.

use super::{cache, read_all, rig_of, setup};
use crate::holes::device::{Fate, Kind};
use crate::holes::rig::{BLOCK, CAPACITY, FAST, Setup, content, failed};
use forebay_block::Buf;
use forebay_prism::class::ClassChange;
use forebay_volume::{Op, Outcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Collects the band of a block that has rotted there, while reads of its copy go wrong so often at first. How often the copy was read, how many blocks were given
/// up as damaged, and what the block reads as, before a crash and behind it.
fn collected_with(bad_reads: u64) -> (u64, u64, [Result<u32, String>; 2]) {
    const BLOCKS: u64 = 120;
    let mut rig =
        rig_of(&Setup { capacity_bytes: 1 << 20, band_bytes: Setup::default().band_bytes, ..setup() }, BLOCKS);
    read_all(&mut rig, &(0..BLOCKS).filter(|block| block % 3 != 0).collect::<Vec<_>>());
    let place = rig.find(CAPACITY, 7, 1)[0];
    rig.devices[CAPACITY].forge(place, &[0; BLOCK]);
    let copy = rig.find(FAST, 7, 1)[0];
    let reads = Arc::new(AtomicU64::new(0));
    let counted = reads.clone();
    rig.devices[FAST].rule(move |seen| {
        if seen.kind != Kind::Read || !seen.covers(copy) {
            return Fate::Good;
        }
        let before = counted.fetch_add(1, Ordering::Relaxed);
        if before < bad_reads { Fate::Misread(copy + 77) } else { Fate::Good }
    });
    // Of each band a third is overwritten, again and again, until all were collected.
    for version in 2..30 {
        (0..BLOCKS).step_by(3).for_each(|block| rig.put(block, version, None));
    }
    let status = rig.pool.engine.status();
    assert!(status.classes.iter().any(|class| class.collected_bytes > 0), "nothing was ever collected");
    let reads = reads.load(Ordering::Relaxed);
    let change = ClassChange { read_cache: Some(false), ..ClassChange::default() };
    rig.pool.engine.prism_mut().table_mut().set("cold", change).unwrap();
    rig.pool.engine.classes_changed();
    rig.polls(50);
    assert_eq!(cache(&rig).held_blocks, 0);
    let before = rig.get(7);
    (reads, status.counters.damaged_moves, [before, rig.crash().get(7)])
}

/// A block rotted in its band while its copy was good. A collection of the band recorded permanent damage and dropped the copy.
#[test]
fn regression_a_collection_takes_the_copy_of_a_block_that_has_rotted() {
    assert_eq!(collected_with(0), (1, 0, [Ok(1), Ok(1)]));
}

/// On a device without a second copy, everything is read twice before it is given up, because one transfer may fail. The cached copy of a
/// rotten block was read only once before the block was given up.
#[test]
fn regression_a_copy_is_read_again_before_its_block_is_given_up() {
    assert_eq!(collected_with(1), (2, 0, [Ok(1), Ok(1)]));
    let (reads, damaged, read) = collected_with(u64::MAX);
    assert_eq!((reads, damaged), (2, 1), "{read:?}");
    assert!(read.iter().all(|read| read.as_ref().unwrap_err().contains("Damaged")), "{read:?}");
}

/// A write of a part of a block failed where the rest of it could not be read on the capacity tier: its copy, from which the block was read all the time, was not
/// asked.
#[test]
fn regression_a_write_of_a_part_takes_the_rest_from_the_copy() {
    for is_copy_good in [true, false] {
        let mut rig = rig_of(&setup(), 100);
        read_all(&mut rig, &[7]);
        let (place, copy) = (rig.find(CAPACITY, 7, 1)[0], rig.find(FAST, 7, 1)[0]);
        let device = if is_copy_good { CAPACITY } else { FAST };
        let bad = if is_copy_good { place } else { copy };
        rig.devices[device].rule(move |seen| failed(seen.kind == Kind::Read && seen.covers(bad)));
        let token = rig.submit_within(rig.disk, 7, 512, 512, Op::Write(Buf::zeroed(512)));
        rig.wait(token).unwrap();
        let token = rig.submit_within(rig.disk, 7, 0, 4096, Op::Read);
        let Ok(Outcome::Data(read)) = rig.wait(token) else { panic!("it cannot be read") };
        let mut expected = content(7, 1).to_vec();
        expected[512..1024].fill(0);
        assert!(read[..] == expected, "the rest of the block is as it was: {is_copy_good}");
    }
}

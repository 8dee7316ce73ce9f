//! What a scrub does where members do not answer for a while, and of several groups that have rotted.

use super::is_summary;
use super::rig::{Rig, Served, content};
use crate::mirror::disk::Fate;
use crate::world::request::compress_all;
use forebay_prism::Compress;
use forebay_volume::layout::scrub_record::{PARITY, ScrubState};
use std::collections::{BTreeMap, HashSet};

/// A closed pool with data in many bands, and the written data.
fn written(redundancy: &str) -> (Rig, BTreeMap<u64, u64>) {
    let rig = Rig::new(redundancy, 1);
    let mut served = rig.open();
    (0..1400).for_each(|block| served.write(block));
    served.checkpoint();
    let model = served.close();
    (rig, model)
}

/// A pass of a scrub, in which something is done when so much of the parity was compared, and undone some ticks later; so many more ticks it may take.
fn pass_disturbed(served: &mut Served, at: u64, ticks: u32, most: u32, disturb: impl Fn(bool)) {
    served.pool.engine.set_scrub_rate(16 << 20);
    served.pool.engine.start_scrub();
    let is_there = |served: &Served| {
        let record = served.pool.engine.scrub().record;
        record.disk == PARITY && record.block >= at
    };
    for _ in 0..100_000 {
        if is_there(served) {
            break;
        }
        served.ticks(1);
    }
    assert!(is_there(served));
    disturb(true);
    served.ticks(ticks);
    disturb(false);
    for _ in 0..most {
        if served.pool.engine.scrub().record.state == ScrubState::Idle {
            return;
        }
        served.ticks(1);
    }
    panic!("a scrub without an end: {:?}", served.pool.engine.scrub());
}

/// Bands whose comparison a member did not answer were passed over, and the pass ended well: that their parity was of something else nobody heard.
#[test]
fn regression_what_was_not_compared_is_compared_again() {
    // With a member that has much of the parity.
    for (redundancy, rotten) in [("2+1", 1), ("3+2", 4)] {
        let (rig, model) = written(redundancy);
        let data: HashSet<Vec<u8>> = model.iter().map(|(&block, &version)| content(block, version)).collect();
        assert!(rig.rot(rotten, rig.rows_at(), |block| !data.contains(block) && !is_summary(block)).len() > 50);
        let unfit = |ticks: u32| {
            let rig = rig.copy();
            let mut served = rig.open();
            pass_disturbed(&mut served, 64, ticks, 20_000, |is_away| {
                rig.members[0].set(if is_away { Fate::Away } else { Fate::Good });
            });
            served.pool.engine.status().counters.unfit_bands
        };
        let wanted = unfit(0);
        assert!(wanted > 2);
        assert_eq!(unfit(300), wanted, "{redundancy}");
    }
}

/// What lives in bands was moved, of one after the other, while a member could not be read for a moment.
#[test]
fn regression_a_band_is_compared_once_more_before_it_is_moved() {
    for (redundancy, fate) in [("2+1", Fate::BreaksReads), ("3+2", Fate::BreaksReads), ("2+1", Fate::Away)] {
        let (rig, _) = written(redundancy);
        let mut served = rig.open();
        pass_disturbed(&mut served, 64, 30, 20_000, |is_away| {
            rig.members.iter().for_each(|member| member.set(if is_away { fate } else { Fate::Good }));
        });
        assert_eq!(served.pool.engine.status().counters.unfit_bands, 0, "{redundancy}");
    }
}

/// Of rotten compressed blocks in several groups read at once, only one group was rewritten.
#[test]
fn regression_all_groups_that_rot_are_written_again() {
    let rig = Rig::new("2+1", 1);
    let mut served = rig.open();
    compress_all(&mut served.pool.engine, Compress::Lz4);
    // What is read at once lies in two groups: in each a block of the device that was written with a run of it.
    let mut next = 400;
    let mut write = |served: &mut Served, first: u64| {
        let before = rig.members[0].bytes().bytes.clone();
        served.write_run(first, 20);
        served.checkpoint();
        let inner = rig.members[0].bytes();
        let rows = (rig.rows_at()..before.len() - 4096).step_by(4096);
        let written: Vec<usize> = rows.filter(|&at| inner.bytes[at..at + 4096] != before[at..at + 4096]).collect();
        drop(inner);
        for _ in 0..15 {
            served.write_run(next, 20);
            next += 20;
        }
        served.checkpoint();
        written
    };
    let runs = [write(&mut served, 0), write(&mut served, 20)];
    let rotten: Vec<usize> = runs.iter().map(|written| written[1]).collect();
    let whole: Vec<u8> = rotten.iter().map(|&at| rig.members[0].bytes().bytes[at + 1000]).collect();
    rotten.iter().for_each(|&at| rig.members[0].bytes().bytes[at + 1000] ^= 0x20);
    assert_eq!(served.scrub().found, []);
    let read: Vec<u8> = rotten.iter().map(|&at| rig.members[0].bytes().bytes[at + 1000]).collect();
    assert_eq!(read, whole);
    let counters = served.pool.engine.status().counters;
    assert!(counters.mended_blocks > 0 && counters.capacity_mended_blocks == counters.mended_blocks, "{counters:?}");
}

/// What parity a scrub has found to be of something else is right when the next start ends, whatever was in memory alone.
#[test]
fn a_start_forgets_no_band_whose_parity_is_of_something_else() {
    for redundancy in ["2+1", "3+2"] {
        let (rig, model) = written(redundancy);
        let data: HashSet<Vec<u8>> = model.iter().map(|(&block, &version)| content(block, version)).collect();
        let rotten: usize = (0..rig.members.len())
            .map(|number| rig.rot(number, rig.rows_at(), |block| !data.contains(block) && !is_summary(block)).len())
            .sum();
        assert!(rotten > 200, "{rotten}");
        let mut served = rig.open();
        served.pool.engine.set_scrub_rate(64 << 20);
        served.pool.engine.start_scrub();
        for _ in 0..100_000 {
            if served.pool.engine.scrub().record.state == ScrubState::Idle {
                break;
            }
            served.ticks(1);
        }
        assert!(served.pool.engine.status().counters.unfit_bands > 4);
        served.checkpoint();
        drop(served);
        let mut served = rig.open();
        served.model = model;
        for _ in 0..2000 {
            if served.pool.engine.scrub().record.state == ScrubState::Idle {
                break;
            }
            served.ticks(10);
        }
        assert_eq!(served.pool.engine.scrub().record.state, ScrubState::Idle);
        served.check();
        served.checkpoint();
        served.close();
        assert_eq!(rig.verify(), [], "{redundancy}");
    }
}

/// After a start it was lost which parity a scrub pass could not compare because a member did not answer.
#[test]
fn regression_a_start_forgets_nothing_that_was_not_compared() {
    let (rig, _) = written("2+1");
    let mut served = rig.open();
    pass_disturbed(&mut served, 64, 8000, 20_000, |is_away| {
        rig.members[0].set(if is_away { Fate::BreaksReads } else { Fate::Good });
        rig.members[1].set(if is_away { Fate::Away } else { Fate::Good });
    });
    let uncompared = served.pool.engine.scrub().uncompared_blocks;
    assert!(uncompared > 0);
    served.checkpoint();
    served.close();
    assert_eq!(rig.open().pool.engine.scrub().uncompared_blocks, uncompared);
}

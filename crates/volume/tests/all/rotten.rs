//! Silent rot on one member of a capacity tier with parity, in structures that hosts do not read: they are read right from the other
//! members.

mod again;
mod cloned;
mod compared;
mod forged;
mod put_back;
mod recovered;
mod rig;
mod runs;

use crate::mirror::disk::Fate;
use crate::world::request::compress_all;
use forebay_block::Random;
use forebay_prism::Compress;
use forebay_volume::layout::member_label::{LABEL_BYTES, OFFSETS_BYTES};
use forebay_volume::layout::superblock::{Superblock, copy_offsets_bytes};
use forebay_volume::mirror::{Candidate, Consent, Joined, MemberState};
use forebay_volume::recovery::read_superblock;
use forebay_volume::{Devices, Op};
use rig::{Rig, classes, content, options, read};

fn is_summary(block: &[u8]) -> bool {
    block.starts_with(b"FBBS")
}

/// When the capacity tier was opened alone, only the first reading of each structure counted: summaries, pages, copies and roots that were
/// bad on one member counted as absent or lost.
#[test]
fn regression_rot_of_one_member_is_read_right_without_the_fast_tier() {
    for redundancy in ["2+1", "3+2"] {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        // Versions that were written over are in the bands, too.
        (0..700).chain(100..400).for_each(|block| served.write(block));
        served.checkpoint();
        (300..500).for_each(|block| served.write(block));
        let model = served.close();
        let (_, whole, findings) = rig.alone();
        assert_eq!(findings, []);
        assert_eq!((whole.pages_damaged, whole.disks[0].gone.blocks), (0, 0));
        for number in 0..rig.members.len() {
            let rotten = rig.copy();
            assert!(rotten.rot(number, 0, |_| true).len() > 300);
            let (mut pool, report, findings) = rotten.alone();
            assert_eq!(findings, [], "{redundancy}, member {number}");
            let counts = (report.checkpoint, report.summaries, report.summaries_absent, report.pages_damaged);
            assert_eq!(counts, (whole.checkpoint, whole.summaries, whole.summaries_absent, 0));
            assert_eq!((&report.disks, &report.warnings), (&whole.disks, &whole.warnings));
            for (&block, &version) in &model {
                let data = read(&mut pool, block).unwrap();
                assert!(data[..] == content(block, version)[..], "{redundancy}, member {number}, block {block}");
            }
        }
    }
}

/// A rotten summary blocked its group for ever: its live data was not collected, although the other members gave the summary.
#[test]
fn regression_a_rotten_summary_is_read_right_and_written_again_where_its_band_is_collected() {
    for redundancy in ["2+1", "3+2"] {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        (0..1800).for_each(|block| served.write(block));
        served.checkpoint();
        let rotten = rig.rot(0, rig.rows_at(), is_summary);
        assert!(rotten.len() > 3, "{rotten:?}");
        let mut random = Random::new(5);
        (0..6000).for_each(|_| served.write(random.below(1800)));
        let status = served.pool.engine.status();
        let collected = status.classes.iter().map(|class| class.collected_bytes).sum::<u64>();
        assert!(collected > 1 << 20, "{collected} bytes collected");
        assert_eq!(status.counters.summary_errors, 0);
        assert!(status.counters.mended_blocks > 0);
        served.check();
        served.close();
    }
}

/// To be changed, a page of tier locations was read twice from the same member; when it was bad, all its other entries were lost.
#[test]
fn regression_a_rotten_page_of_tiers_is_read_right_when_it_is_changed() {
    let rig = Rig::new("2+1", 1);
    let mut served = rig.open();
    for leaf in 0..4 {
        (0..30).for_each(|block| served.write(leaf * 400 + block));
    }
    served.checkpoint();
    let before = rig.copy().alone().1;
    for number in 0..rig.members.len() {
        let rotten = rig.rot(number, 0, |block| block.starts_with(b"FBTP"));
        assert!(!rotten.is_empty());
        served.write(1);
        served.checkpoint();
        let (_, report, findings) = rig.copy().alone();
        assert_eq!(findings, []);
        assert_eq!((report.pages_damaged, &report.disks), (0, &before.disks), "member {number}");
    }
}

/// All superblock copies on the first member had rotted: the pool could not be opened.
#[test]
fn regression_a_superblock_that_rots_on_one_member_is_read_of_another() {
    let rig = Rig::new("2+1", 1);
    rig.open().close();
    for number in 0..rig.members.len() {
        let rotten = rig.copy();
        let (array, view) = rotten.array(false);
        let mut devices = Devices::new(vec![array]).with_array(view);
        let mut inner = rotten.members[number].bytes();
        let copies = copy_offsets_bytes(inner.bytes.len() as u64);
        copies.iter().for_each(|&at| inner.bytes[at as usize + 40] ^= 1);
        drop(inner);
        assert!(read_superblock(&mut devices, 0).is_ok(), "member {number}");
    }
}

/// A copy at the end of a larger member, of a former pool with a higher epoch, outranked those of the present pool: its member was rebuilt
/// at each start, or the pool could not be opened.
#[test]
fn regression_a_superblock_of_a_former_pool_at_the_end_of_a_device_counts_for_nothing() {
    let rig = Rig::new("2+1", 1);
    rig.open().close();
    let device = &rig.members[0];
    let size_bytes = device.bytes().bytes.len() as u64;
    let read = || read_superblock(&mut Devices::new(vec![device.boxed()]), 0).unwrap();
    let (own, good) = read();
    let former = Superblock { pool: [7; 16], epoch: own.epoch + 40, ..own.clone() }.encode();
    let at = copy_offsets_bytes(size_bytes)[2] as usize;
    device.bytes().bytes[at..at + former.len()].copy_from_slice(&former);
    let (found, _) = read();
    assert_eq!((found.pool, found.epoch), (own.pool, own.epoch));
    assert!(good >= 2, "{good}");
}

/// Mirror labels on the capacity tier were read twice from the same member: with one rotten copy and a missing fast device, the pool could
/// not be opened.
#[test]
fn regression_a_label_of_the_mirror_that_rots_on_one_member_is_read_of_another() {
    let rig = Rig::new("2+1", 2);
    let join = |rig: &Rig, fast: &[usize]| {
        let (array, view) = rig.array(true);
        let mut capacity = Devices::new(vec![array]).with_array(view.clone());
        let candidate = |&number: &usize| Candidate {
            name: rig.fast[number].name.clone(),
            device: Ok(rig.fast[number].boxed()),
            contents: Vec::new(),
        };
        let joined = forebay_volume::mirror::join(
            fast.iter().map(candidate).collect(),
            &mut capacity,
            Some(&mut || [99; 16]),
            Consent::default(),
        );
        joined.map(|Joined { mirror, view: of_mirror, .. }| {
            let list = std::iter::once(Box::new(mirror) as Box<_>).chain(capacity.list).collect();
            (Devices::mirrored(list, of_mirror.clone()).with_array(view), of_mirror)
        })
    };
    let open = |(mut devices, _): (Devices, _)| {
        let (engine, _) = forebay_volume::recovery::open(&mut devices, 1, &classes(), options()).unwrap();
        forebay_volume::Pool::new(engine, devices)
    };
    assert!(open(join(&rig, &[0, 1]).unwrap()).close());
    for number in 0..rig.members.len() {
        let rotten = rig.copy();
        for at in OFFSETS_BYTES.map(|at| at as usize) {
            let mut inner = rotten.members[number].bytes();
            inner.bytes[at..at + LABEL_BYTES].iter_mut().step_by(7).for_each(|byte| *byte ^= 1);
        }
        let joined = join(&rotten, &[0]);
        assert!(joined.is_ok(), "member {number}: {:?}", joined.err());
        let joined = joined.unwrap();
        let states: Vec<MemberState> = joined.1.status().members.iter().map(|member| member.state).collect();
        assert_eq!(states, [MemberState::InSync, MemberState::Out]);
        assert!(open(joined).close());
    }
}

/// A scrub reads each copy of a mirrored fast tier. It read capacity-tier blocks of the same piece a second time as computed from the other
/// members; beside a rotten block that result was wrong, so the good block was "repaired", and the new parity made the rot permanent.
#[test]
fn regression_a_scrub_of_a_mirrored_pool_writes_no_good_block_again() {
    for redundancy in ["2+1", "3+2"] {
        let rig = Rig::new(redundancy, 2);
        let mut served = rig.open();
        (0..1200).step_by(20).for_each(|block| served.write_run(block, 20));
        (0..1200).step_by(30).for_each(|block| served.write_fast(block));
        served.checkpoint();
        rig.rot(0, rig.rows_at(), |_| true);
        served.pool.engine.start_scrub();
        served.ticks(2000);
        let counters = served.pool.engine.status().counters;
        assert!(counters.scrub_damaged_blocks == 0 && counters.mended_blocks > 0, "{redundancy}: {counters:?}");
        served.check();
    }
}

/// Rotten compressed blocks were read right from the other members but never rewritten: the next lost member made the loss permanent.
#[test]
fn regression_compressed_blocks_that_rot_are_written_again() {
    for redundancy in ["2+1", "3+2"] {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        compress_all(&mut served.pool.engine, Compress::Lz4);
        (0..1200).step_by(20).for_each(|block| served.write_run(block, 20));
        served.checkpoint();
        // Their groups become full: of one that is not yet nothing is written again.
        let early = rig.copy();
        (1200..1500).step_by(20).for_each(|block| served.write_run(block, 20));
        served.checkpoint();
        let packed = served.pool.engine.status().classes.iter().map(|class| class.stored_bytes).sum::<u64>();
        assert!(packed < 1500 * 3072, "{packed} bytes");
        let whole = rig.copy();
        // What begins as a compressed block of half its length does; where it is not written beside parity alone, which has the same.
        let is_lz4 = |head: &[u8]| head[3] >> 4 == 1 && matches!(head[3] & 15, 6..=9);
        let is_copied = |at: usize, block: &[u8]| {
            (1..rig.members.len()).any(|of| &whole.members[of].bytes().bytes[at..at + 4096] == block)
        };
        let first = rig.rows_at();
        let data: Vec<usize> = {
            let inner = early.members[0].bytes();
            let places = (first..inner.bytes.len() - 4096).step_by(4096);
            places
                .filter(|&at| is_lz4(&inner.bytes[at..at + 4]) && !is_copied(at, &inner.bytes[at..at + 4096]))
                .collect()
        };
        assert!(data.len() > 20, "{}", data.len());
        data.iter().for_each(|&at| rig.members[0].bytes().bytes[at + 1000] ^= 0x20);
        let status = served.scrub();
        assert_eq!(status.found, []);
        served.check();
        served.checkpoint();
        let model = served.close();
        for lost in 1..rig.members.len() {
            let rest = rig.copy();
            let mut served = rest.open_without(lost);
            served.model.clone_from(&model);
            served.check();
        }
    }
}

/// A compressed block spans two members, and one part has rotted: no reading was right, because the direct one has the rotten part, and the
/// computed one the other.
#[test]
fn regression_compressed_blocks_on_two_members_are_read_right_where_one_has_rotten() {
    for redundancy in ["2+1", "3+2", "16+1"] {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        compress_all(&mut served.pool.engine, Compress::Lz4);
        (0..1200).step_by(20).for_each(|block| served.write_run(block, 20));
        served.checkpoint();
        let model = served.close();
        // The last of them are those that are left out last.
        for number in rig.members.len().saturating_sub(5)..rig.members.len() {
            let rotten = rig.copy();
            let places = rotten.rot(number, rig.rows_at(), |_| true);
            assert!(places.len() > 40, "{redundancy}: {}", places.len());
            // In all of each block: what is computed of it is wrong in all as well.
            let mut inner = rotten.members[number].bytes();
            for at in places {
                inner.bytes[at..at + 4096].iter_mut().step_by(9).for_each(|byte| *byte ^= 0x11);
            }
            drop(inner);
            let mut served = rotten.open();
            served.model.clone_from(&model);
            served.check();
            let status = served.scrub();
            assert_eq!(status.found, [], "{redundancy}, member {number}");
            served.close();
        }
    }
}

/// Data that a single fast device could not read was requested as often as the parity tier behind it has readings; each attempt may take a
/// bad drive seconds.
#[test]
fn regression_a_fast_device_is_asked_twice_whatever_parity_lies_behind_it() {
    let rig = Rig::new("4+2", 1);
    let mut served = rig.open();
    served.write_fast(7);
    rig.fast[0].set(Fate::BreaksReads);
    let before = rig.fast[0].bytes().failures;
    assert!(served.ask(7, Op::Read).is_err());
    assert_eq!(rig.fast[0].bytes().failures - before, 2);
}

/// All blocks of a read were rewritten when one had rotted: beside a good one, another block of the same row was rotten, and parity was
/// computed from it. The scrub lost data that the other members had.
#[test]
fn regression_a_scrub_of_blocks_that_lie_in_different_rows_loses_nothing_of_a_rotten_member() {
    for redundancy in ["2+1", "3+2"] {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        // Neighbours on the disk are none on the devices.
        (0..1600).for_each(|at| served.write(at * 611 % 1600));
        served.checkpoint();
        let model = served.close();
        for number in 0..rig.members.len() {
            let rotten = rig.copy();
            assert!(rotten.rot(number, rig.rows_at(), |_| true).len() > 300);
            let mut served = rotten.open();
            served.model.clone_from(&model);
            for pass in 0..2 {
                let status = served.scrub();
                assert_eq!(status.found, [], "{redundancy}, member {number}, pass {pass}");
            }
            served.check();
            served.close();
        }
    }
}

/// A band with wrong parity and an unreadable summary was collected repeatedly without end, and delayed all other jobs more and more.
#[test]
fn regression_a_band_that_cannot_be_emptied_is_given_up_after_some_tries() {
    let rig = Rig::new("2+1", 1);
    let mut served = rig.open();
    (0..300).for_each(|block| served.write(block));
    served.checkpoint();
    let model = served.close();
    // One summary is damaged, and parity of its row: differently.
    let at = rig.rot(1, rig.rows_at(), is_summary)[0];
    let row = (at - rig.rows_at()) / 4096;
    rig.members[(row / 256 + 2) % 3].bytes().bytes[at + 2000] ^= 1;
    let mut served = rig.open();
    served.model = model;
    served.pool.engine.start_scrub();
    served.ticks(2000);
    assert!(served.pool.engine.status().counters.unfit_bands > 0);
    served.ticks(20_000);
    let errors = served.pool.engine.status().counters.summary_errors;
    assert!((1..20).contains(&errors), "{errors} times");
    served.check();
}

/// After a start a band was continued in the middle of a row, beside a silently rotten block; the new parity then covered the rot and the
/// data of a missing member could no longer be computed.
#[test]
fn regression_a_start_writes_nothing_beside_what_it_has_not_looked_at() {
    let redundancy = "3+2";
    for blocks in 21..24 {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        (0..blocks).for_each(|block| served.write(block));
        let model = served.close();
        // What the log has of the last row is not needed any more.
        rig.open().close();
        let last: Vec<Vec<u8>> = (blocks - 5..blocks).map(|block| content(block, 1)).collect();
        for rotten in 0..rig.members.len() {
            for lost in (0..rig.members.len()).filter(|lost| *lost != rotten) {
                let rig = rig.copy();
                rig.rot(rotten, rig.rows_at(), |block| last.iter().any(|data| data[..] == *block));
                let mut served = rig.open_without(lost);
                served.model.clone_from(&model);
                (100..104).for_each(|block| served.write(block));
                served.check();
                served.close();
            }
        }
    }
}

/// Compressed blocks beyond what parity repairs kept their band for ever: each collection found nothing to move, and none ended it.
#[test]
fn regression_a_band_with_compressed_blocks_that_cannot_be_mended_is_freed() {
    let rig = Rig::new("2+1", 1);
    let mut served = rig.open();
    compress_all(&mut served.pool.engine, Compress::Lz4);
    (0..2000).step_by(20).for_each(|block| served.write_run(block, 20));
    served.checkpoint();
    // On two of three members, of the first bands: neither has what the other lacks.
    let first = rig.rows_at();
    for number in 0..2 {
        let mut inner = rig.members[number].bytes();
        let blocks = inner.bytes[first..first + (1 << 20)].chunks_exact_mut(4096);
        blocks.filter(|block| !is_summary(block)).for_each(|block| block[1000] ^= 0x20);
    }
    // Three of four runs are written over and over: what the fourth left in each band is collected, or cannot be.
    let mut random = Random::new(5);
    for _ in 0..100 {
        let runs = (0..40).map(|_| random.below(100)).filter(|run| run % 4 != 0);
        runs.collect::<Vec<_>>().into_iter().for_each(|run| served.write_run(run * 20, 20));
        // Each band is left alone for 10 s after a try.
        served.ticks(1100);
    }
    let status = served.pool.engine.status();
    assert!(status.counters.damaged_moves > 0, "{:?}", status.counters);
}

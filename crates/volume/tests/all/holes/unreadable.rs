//! Unreadable sectors of the fast device: other evidence for the same data is used, and nothing is guessed.

use super::device::{Kind, Region, Scripted, Seen};
use super::rig::{BLOCK, FAST, Rig, Setup, failed, findings, held, is_page_read, superblock};
use forebay_block::Device;
use forebay_volume::layout::batch::BATCH_MAX_BYTES;
use forebay_volume::layout::superblock::Superblock;
use forebay_volume::layout::watermark::OFFSETS_BYTES;
use forebay_volume::recovery::{OpenError, salvage};
use forebay_volume::{Devices, EngineOptions, Op, Outcome, Pool};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub const SECTOR_BYTES: u64 = 512;

/// A pool after a power cut, with batches in its journal and a watermark.
pub fn cut() -> Vec<Scripted> {
    let mut rig = Rig::new(&Setup::default());
    (0..40).for_each(|block| rig.put(block, 1, None));
    rig.checkpoint();
    (0..40).for_each(|block| rig.put(block, 2, None));
    rig.flush();
    rig.pass_ms(2000);
    rig.polls(10);
    rig.cut(|_| true)
}

/// Opens such a pool with this byte of the fast device unreadable.
#[track_caller]
fn opens(place: impl Fn(&Superblock, &[Scripted]) -> u64) -> bool {
    let devices = cut();
    let at = place(&superblock(&devices), &devices);
    devices[FAST].rule(move |seen| failed(seen.kind == Kind::Read && seen.region != Region::Slots && seen.covers(at)));
    match Rig::open(&Setup::default(), devices) {
        Ok(mut rig) => {
            assert!((0..40).all(|block| rig.get(block) == Ok(2)), "old data");
            true
        }
        Err(error) => {
            assert!(error.to_string().contains("read"), "{error}");
            false
        }
    }
}

/// The second leaf is unreadable, and all of it is discarded: at first that may be an outage, later the pool does without it.
fn done_without(rig: &mut Rig) {
    assert!(!discard(rig, LEAF_BLOCKS, LEAF_BLOCKS));
    rig.pass_ms(11_000);
    assert!(discard(rig, LEAF_BLOCKS, LEAF_BLOCKS));
}

/// Where the last batch of the journal ends, on the device.
pub fn journal_end(superblock: &Superblock, devices: &[Scripted]) -> u64 {
    let (start, len) = (superblock.journal_offset_bytes, superblock.journal_len_bytes);
    let used = devices[FAST].bytes(|bytes| {
        let journal = &bytes[start as usize..(start + len) as usize];
        journal.chunks(SECTOR_BYTES as usize).rposition(|sector| sector.iter().any(|&byte| byte != 0)).unwrap()
    });
    start + (used as u64 + 1) * SECTOR_BYTES
}

/// One unreadable sector refused the opening even in a structure with two copies.
#[test]
fn regression_one_unreadable_copy_of_a_header_or_a_watermark_refuses_nothing() {
    for area in 0..2 {
        assert!(opens(|superblock, _| superblock.root_offsets_bytes[area]), "header of area {area}");
        let last = |superblock: &Superblock, _: &[Scripted]| {
            superblock.root_offsets_bytes[area] + superblock.root_len_bytes - 4096
        };
        opens(last);
    }
    for offset_bytes in OFFSETS_BYTES {
        assert!(opens(|_, _| offset_bytes), "watermark at {offset_bytes}");
    }
}

/// A watermark place that takes no writes caused the other one, the only evidence of the last flush, to be overwritten for ever.
#[test]
fn regression_a_watermark_place_that_takes_no_writes_is_left_alone() {
    for bad in OFFSETS_BYTES {
        let mut rig = Rig::new(&Setup::default());
        let writes = Arc::new(AtomicU64::new(0));
        let counted = writes.clone();
        rig.devices[FAST].rule(move |seen| {
            let is_watermark = seen.kind == Kind::Write && OFFSETS_BYTES.contains(&seen.offset_bytes);
            counted.fetch_add(u64::from(is_watermark), Ordering::Relaxed);
            failed(is_watermark && seen.offset_bytes == bad)
        });
        for version in 1..4 {
            rig.put(0, version, None);
            rig.flush();
            (0..20).for_each(|_| rig.pass_ms(1500));
            assert!(writes.swap(0, Ordering::Relaxed) <= 3, "{bad}, version {version}");
        }
    }
}

/// A durable batch may have been there; beyond the window none can have been.
#[test]
fn an_unreadable_sector_behind_the_journals_end_is_no_end() {
    for sectors in [0, 1, 5, 100] {
        assert!(!opens(|superblock, devices| journal_end(superblock, devices) + sectors * SECTOR_BYTES), "{sectors}");
    }
    assert!(!opens(|superblock, devices| journal_end(superblock, devices) - SECTOR_BYTES), "the last batch");
    let beyond = |superblock: &Superblock, devices: &[Scripted]| {
        let window_bytes = superblock.journal_len_bytes / 4 + BATCH_MAX_BYTES as u64;
        let at = journal_end(superblock, devices) + window_bytes;
        assert!(at < superblock.journal_offset_bytes + superblock.journal_len_bytes);
        at
    };
    assert!(opens(beyond));
}

/// Behind a clean stop there is nothing.
#[test]
fn after_a_clean_stop_an_unreadable_sector_of_the_journal_refuses_nothing() {
    for sectors in [0, 1, 5] {
        let mut rig = Rig::new(&Setup::default());
        rig.put(0, 1, None);
        assert!(rig.pool.close());
        let at = journal_end(&superblock(&rig.devices), &rig.devices) + sectors * SECTOR_BYTES;
        let devices = rig.cut(|_| true);
        devices[FAST].rule(move |seen| failed(seen.kind == Kind::Read && seen.covers(at)));
        assert_eq!(Rig::open(&Setup::default(), devices).unwrap().get(0), Ok(1));
    }
}

/// A durable write had bypassed the caches and survived the power cut although the batch before it did not. Its own batch was unreadable
/// and lay behind the place where the next one was looked for: the write was lost without an error (life 5497561154441).
#[test]
fn regression_a_durable_write_behind_a_lost_batch_is_not_given_up_as_it_cannot_be_read() {
    for is_unreadable in [false, true] {
        let setup = Setup { volatile_fast: true, ..Setup::default() };
        let mut rig = Rig::new(&setup);
        rig.checkpoint();
        rig.put(0, 1, None);
        let durable = rig.write_run(1, 1, 1, true, None);
        rig.wait(durable).unwrap();
        let at = journal_end(&superblock(&rig.devices), &rig.devices) - SECTOR_BYTES;
        let devices = rig.cut(|_| false);
        devices[FAST].rule(move |seen| failed(is_unreadable && seen.kind == Kind::Read && seen.covers(at)));
        match Rig::open(&setup, devices) {
            Ok(mut rig) => assert!(!is_unreadable && rig.get(1) == Ok(1)),
            Err(error) => assert!(is_unreadable && error.to_string().contains("read"), "{error}"),
        }
    }
}

/// An unreadable batch between two others was taken for one that was never written.
#[test]
fn regression_a_batch_before_another_is_not_given_up_as_it_cannot_be_read() {
    let mut rig = Rig::new(&Setup::default());
    rig.put(0, 1, None);
    rig.checkpoint();
    let before = journal_end(&superblock(&rig.devices), &rig.devices);
    // Neither tells of the other.
    rig.devices[FAST].rule(|seen| held(seen.kind == Kind::Write && seen.region == Region::Journal));
    let first = rig.write_run(0, 1, 2, true, None);
    rig.polls(20);
    let second = rig.write_run(1, 1, 2, true, None);
    rig.polls(20);
    rig.devices[FAST].heal();
    assert!(rig.wait(first).is_ok() && rig.wait(second).is_ok());
    let devices = rig.cut(|_| true);
    let at = before.next_multiple_of(SECTOR_BYTES);
    devices[FAST].rule(move |seen| failed(seen.kind == Kind::Read && seen.covers(at)));
    match Rig::open(&Setup::default(), devices) {
        Ok(mut rig) => panic!("{:?}", rig.get(0)),
        Err(error) => assert!(error.to_string().contains("read"), "{error}"),
    }
}

fn is_leaf_read(seen: &Seen<'_>) -> bool {
    is_page_read(seen) && seen.bytes.starts_with(b"FBML")
}

/// The contents of a map page were given up for good where the page was unreadable for a moment while the journal named it.
#[test]
fn regression_a_leaf_that_recovery_cannot_read_is_not_given_up() {
    let devices = cut();
    devices[FAST].rule(|seen| failed(is_leaf_read(seen)));
    let error = Rig::open(&Setup::default(), devices.clone()).err().unwrap();
    assert!(error.to_string().contains("lost for good"), "{error}");
    devices[FAST].heal();
    let mut rig = Rig::open(&Setup::default(), devices).unwrap();
    assert!((0..40).all(|block| rig.get(block) == Ok(2)));
    // Unless the user accepts that.
    let devices = rig.cut(|_| true);
    devices[FAST].rule(|seen| failed(is_leaf_read(seen)));
    let options = EngineOptions { accepts_loss: true, ..Setup::default().options };
    let mut rig = Rig::open(&Setup { options, ..Setup::default() }, devices).unwrap();
    assert!(rig.get(0).is_err());
}

const LEAF_BLOCKS: u64 = 400;

fn discard(rig: &mut Rig, first: u64, blocks: u64) -> bool {
    let token = rig.submit_to(rig.disk, first, blocks * BLOCK as u64, Op::Discard, false, None);
    rig.wait(token).is_ok()
}

fn can_write(rig: &mut Rig, block: u64) -> bool {
    let token = rig.write(block, 3, None);
    rig.wait(token).is_ok()
}

/// An opened pool with two leaves, the first of them in memory.
fn with_two_leaves() -> Rig {
    let mut rig = Rig::new(&Setup::default());
    (0..20).for_each(|block| rig.put(LEAF_BLOCKS + block, 1, None));
    rig.put(0, 1, None);
    let options = rig.setup.options.clone();
    let mut rig = rig.restart(options);
    assert_eq!(rig.get(0), Ok(1));
    rig
}

/// After one unreadable leaf, 400 blocks of a disk could be neither written nor discarded for ever.
#[test]
fn regression_a_leaf_that_cannot_be_read_can_be_discarded_whole() {
    let mut rig = with_two_leaves();
    rig.devices[FAST].rule(|seen| failed(is_page_read(seen)));
    assert!(!discard(&mut rig, LEAF_BLOCKS, LEAF_BLOCKS), "at once it may be an outage");
    rig.pass_ms(11_000);
    assert!(!can_write(&mut rig, LEAF_BLOCKS), "the others of the leaf may be there yet");
    assert!(!discard(&mut rig, LEAF_BLOCKS, LEAF_BLOCKS - 1));
    assert!(rig.get(LEAF_BLOCKS).is_err());
    assert!(discard(&mut rig, 0, 3 * LEAF_BLOCKS), "with its neighbours");
    for block in [0, LEAF_BLOCKS, LEAF_BLOCKS + 19] {
        assert_eq!(rig.get(block), Ok(0));
    }
    assert!(can_write(&mut rig, LEAF_BLOCKS + 5));
    rig.flush();
    rig.devices[FAST].heal();
    let mut rig = rig.crash();
    assert_eq!((rig.get(LEAF_BLOCKS + 5), rig.get(LEAF_BLOCKS + 6)), (Ok(3), Ok(0)));
}

/// After a crash such a leaf was read again although the discard covers all of it, and the pool was not opened.
#[test]
fn regression_a_leaf_that_was_discarded_whole_is_not_needed_after_a_crash() {
    let mut rig = with_two_leaves();
    rig.devices[FAST].rule(|seen| failed(is_leaf_read(seen)));
    done_without(&mut rig);
    assert!(can_write(&mut rig, LEAF_BLOCKS + 5));
    rig.flush();
    let devices = rig.cut(|_| true);
    let second = |seen: &Seen<'_>| is_leaf_read(seen) && seen.bytes[16..24] == 1u64.to_le_bytes();
    devices[FAST].rule(move |seen| failed(second(seen)));
    let mut rig = Rig::open(&Setup::default(), devices).unwrap();
    assert_eq!((rig.get(LEAF_BLOCKS + 5), rig.get(LEAF_BLOCKS + 6), rig.get(0)), (Ok(3), Ok(0), Ok(1)));
    // Of a partly discarded leaf the rest remains.
    rig.devices[FAST].heal();
    (0..20).for_each(|block| rig.put(LEAF_BLOCKS + block, 4, None));
    rig.checkpoint();
    assert!(discard(&mut rig, LEAF_BLOCKS, 10));
    rig.flush();
    let devices = rig.cut(|_| true);
    devices[FAST].rule(move |seen| failed(second(seen)));
    let refused = Rig::open(&Setup::default(), devices).map(|_| ());
    assert!(matches!(refused, Err(OpenError::Unread { .. })), "{refused:?}");
}

/// A leaf that was replaced stayed marked as unreadable for long: the next short outage counted as that at once.
#[test]
fn regression_a_leaf_that_was_done_without_is_waited_for_again() {
    let mut rig = Rig::new(&Setup { disk_bytes: 256 << 20, ..Setup::default() });
    (0..20).for_each(|block| rig.put(LEAF_BLOCKS + block, 1, None));
    let options = rig.setup.options.clone();
    let mut rig = rig.restart(options);
    rig.devices[FAST].rule(|seen| failed(is_page_read(seen)));
    done_without(&mut rig);
    rig.devices[FAST].heal();
    (0..20).for_each(|block| rig.put(LEAF_BLOCKS + block, 2, None));
    rig.checkpoint();
    // More leaves than there is memory for: it is on the device alone again.
    (2..80).for_each(|leaf| rig.put(leaf * LEAF_BLOCKS, 1, None));
    rig.checkpoint();
    (2..80).for_each(|leaf| _ = rig.get(leaf * LEAF_BLOCKS));
    let before = rig.pool.engine.status().counters.damaged_pages;
    rig.devices[FAST].rule(|seen| failed(is_page_read(seen)));
    assert!(!discard(&mut rig, LEAF_BLOCKS, LEAF_BLOCKS), "at once it may be an outage");
    assert_eq!(rig.pool.engine.status().counters.damaged_pages, before);
    rig.devices[FAST].heal();
    (0..20).for_each(|block| assert_eq!(rig.get(LEAF_BLOCKS + block), Ok(2)));
}

/// The places of such a leaf's blocks are unknown: their slots stay in use, which verification reports as its only finding.
#[test]
fn what_a_leaf_that_was_done_without_named_stays_in_use() {
    let mut rig = with_two_leaves();
    rig.devices[FAST].rule(|seen| failed(is_page_read(seen)));
    done_without(&mut rig);
    rig.devices[FAST].heal();
    (0..20).for_each(|block| rig.put(LEAF_BLOCKS + block, 2, None));
    rig.checkpoint();
    let setup = rig.setup.clone();
    let found = findings(&setup, &rig.cut(|_| true));
    assert!(found.len() == 1 && found[0].contains("20 slots") && found[0].contains("in use by nothing"), "{found:?}");
}

/// A device that returns after seconds has lost nothing.
#[test]
fn a_leaf_that_can_be_read_again_is_whole() {
    let mut rig = Rig::new(&Setup::default());
    (0..20).for_each(|block| rig.put(block, 1, None));
    let options = rig.setup.options.clone();
    let mut rig = rig.restart(options);
    rig.devices[FAST].rule(|seen| failed(is_page_read(seen)));
    for _ in 0..5 {
        assert!(!can_write(&mut rig, 0) && !discard(&mut rig, 0, LEAF_BLOCKS));
        rig.pass_ms(1500);
    }
    rig.devices[FAST].heal();
    (0..20).for_each(|block| assert_eq!(rig.get(block), Ok(1)));
    rig.pass_ms(60_000);
    let mut rig = rig.crash();
    (0..20).for_each(|block| assert_eq!(rig.get(block), Ok(1)));
}

/// A pool with an index page, about to be opened.
fn with_index_page() -> Vec<Scripted> {
    let mut rig = Rig::new(&Setup::default());
    (0..20).for_each(|block| rig.put(block, 1, None));
    assert!(rig.pool.close());
    rig.cut(|_| false)
}

/// One failed read of an index page refused the opening, while a misread was retried.
#[test]
fn regression_an_index_page_is_read_again_after_an_error() {
    let devices = with_index_page();
    let reads = Arc::new(AtomicU64::new(0));
    let count = reads.clone();
    devices[FAST].rule(move |seen| {
        let is_index = seen.kind == Kind::Read && seen.bytes.starts_with(b"FBMI");
        failed(is_index && count.fetch_add(1, Ordering::Relaxed) == 0)
    });
    let mut rig = Rig::open(&Setup::default(), devices).unwrap();
    assert!(reads.load(Ordering::Relaxed) > 1);
    (0..20).for_each(|block| assert_eq!(rig.get(block), Ok(1)));
}

/// With one lost index page nothing of the fast tier could be read, not even for salvage.
#[test]
fn regression_salvage_does_without_an_index_page() {
    for is_rotten in [true, false] {
        let devices = with_index_page();
        if is_rotten {
            let places = devices[FAST].bytes(|bytes| {
                let is_index = |at: &usize| bytes[*at..].starts_with(b"FBMI");
                (0..bytes.len()).step_by(BLOCK).filter(is_index).collect::<Vec<_>>()
            });
            places.iter().for_each(|&at| devices[FAST].forge(at as u64 + 2000, b"rotten"));
        } else {
            devices[FAST].rule(|seen| failed(seen.kind == Kind::Read && seen.bytes.starts_with(b"FBMI")));
        }
        let setup = Setup::default();
        let refused = Rig::open(&setup, devices.clone()).map(|_| ());
        assert!(matches!(refused, Err(OpenError::Index { .. } | OpenError::Io { .. })), "{refused:?}");
        let list = devices.iter().map(|device| Box::new(device.clone()) as Box<dyn Device>).collect();
        let mut over = Devices::new(list);
        let (engine, report) = salvage(&mut over, 1, &super::rig::classes(), setup.options.clone()).unwrap();
        assert_eq!(report.lost_pages, [("disk".to_owned(), 0)]);
        let disk = engine.disk_named("disk").unwrap().id;
        let mut pool = Pool::new(engine, over);
        let mut ask = |block| {
            pool.submit(super::rig::block_request(1, disk, block, Op::Read));
            let mut done = Vec::new();
            pool.run_until(&mut done, |_, done| !done.is_empty());
            done.pop().unwrap().result
        };
        // The disk has one index page: its range must not be shown as zeros.
        assert!(ask(0).is_err() && ask(5000).is_err());
        assert!(!matches!(ask(0), Ok(Outcome::Data(_))));
    }
}

//! Evidence about the end of the journal: durable batches that are missing, and unreadable parts.

use super::device::{Kind, Region, Scripted};
use super::rig::{FAST, Rig, Setup, failed, superblock};
use super::unreadable::{SECTOR_BYTES, cut, journal_end};
use forebay_block::Device;
use forebay_volume::layout::watermark::{OFFSETS_BYTES, Watermark};
use forebay_volume::recovery::{OpenError, salvage};
use forebay_volume::{Devices, EngineOptions};

/// A pool with an unflushed batch followed by durable writes, after a power cut that lost nothing; returns the place of the last batch.
fn behind_an_unflushed_batch(durable_writes: u64) -> (Setup, Vec<Scripted>, u64) {
    // Flushes are triggered by bytes: half a window, here 1 MiB.
    let setup = Setup { volatile_fast: true, fast_bytes: 64 << 20, journal_bytes: 8 << 20, ..Setup::default() };
    let mut rig = Rig::new(&setup);
    rig.checkpoint();
    rig.put(0, 1, None);
    for block in 1..=durable_writes {
        let durable = rig.write_run(block, 1, 1, true, None);
        rig.wait(durable).unwrap();
    }
    (0..3).for_each(|_| rig.pass_ms(1100));
    let pool = superblock(&rig.devices).pool;
    for at in OFFSETS_BYTES.map(|at| at as usize) {
        let mark = rig.devices[FAST].bytes(|bytes| Watermark::decode(&bytes[at..at + 4096], &pool)).unwrap();
        assert_eq!(mark.durable_beyond().count() as u64, durable_writes, "{mark:?}");
    }
    let at = journal_end(&superblock(&rig.devices), &rig.devices) - SECTOR_BYTES;
    (setup, rig.cut(|_| true), at)
}

/// Watermark blocks named a durable batch behind one that was not, but that was not compared with the end of the journal: when the batch
/// rotted, its writes were lost without an error. Beyond 64 such batches, the later ones had no evidence at all.
#[test]
fn regression_a_durable_batch_behind_one_that_is_not_is_missed_at_the_journals_end() {
    for durable_writes in [1, 3, 100] {
        let (setup, devices, at) = behind_an_unflushed_batch(durable_writes);
        let mut whole = Rig::open(&setup, devices.clone()).unwrap();
        assert_eq!(whole.get(durable_writes), Ok(1));
        let (setup, devices, _) = behind_an_unflushed_batch(durable_writes);
        devices[FAST].forge(at, b"rotten");
        let refused = Rig::open(&setup, devices).map(|mut rig| rig.get(durable_writes));
        assert!(matches!(refused, Err(OpenError::Journal { .. })), "{durable_writes}: {refused:?}");
    }
}

fn no_journal_can_be_read(devices: &[Scripted]) {
    devices[FAST].rule(|seen| failed(seen.kind == Kind::Read && seen.region == Region::Journal));
}

/// More than 64 unreadable sectors in the journal refused every kind of opening, even where the journal was empty.
#[test]
fn regression_a_journal_that_cannot_be_read_at_all_refuses_neither_a_stopped_pool_nor_salvage() {
    let setup = Setup::default();
    let mut rig = Rig::new(&setup);
    rig.put(0, 1, None);
    assert!(rig.pool.close());
    let devices = rig.cut(|_| true);
    no_journal_can_be_read(&devices);
    assert_eq!(Rig::open(&setup, devices).unwrap().get(0), Ok(1));

    // Nor does unreadable evidence, where there is nothing to prove.
    let mut rig = Rig::new(&setup);
    rig.put(0, 1, None);
    assert!(rig.pool.close());
    let devices = rig.cut(|_| true);
    devices[FAST].rule(|seen| failed(seen.kind == Kind::Read && OFFSETS_BYTES.contains(&seen.offset_bytes)));
    assert_eq!(Rig::open(&setup, devices).unwrap().get(0), Ok(1));

    let devices = cut();
    no_journal_can_be_read(&devices);
    let refused = Rig::open(&setup, devices.clone()).map(|_| ());
    assert!(matches!(refused, Err(OpenError::UnreadJournal { .. })), "{refused:?}");
    let list = devices.iter().map(|device| Box::new(device.clone()) as Box<dyn Device>).collect();
    salvage(&mut Devices::new(list), 1, &super::rig::classes(), setup.options.clone()).unwrap();
}

/// An unreadable sector behind the journal's end refused the pool for ever, because nothing rewrote it.
#[test]
fn regression_what_cannot_be_read_behind_the_journals_end_can_be_given_up() {
    let devices = cut();
    let at = journal_end(&superblock(&devices), &devices) + 5 * SECTOR_BYTES;
    devices[FAST].rule(move |seen| failed(seen.kind == Kind::Read && seen.covers(at)));
    let refused = Rig::open(&Setup::default(), devices.clone()).map(|_| ());
    assert!(matches!(refused, Err(OpenError::UnreadJournal { .. })), "{refused:?}");
    let options = EngineOptions { accepts_loss: true, ..Setup::default().options };
    let setup = Setup { options, ..Setup::default() };
    let mut rig = Rig::open(&setup, devices).unwrap();
    assert!((0..40).all(|block| rig.get(block) == Ok(2)));
    rig.put(0, 3, None);
    rig.flush();
    rig.devices[FAST].heal();
    assert_eq!(rig.crash().get(0), Ok(3));

    // Data known to be lost is not given up this way.
    let (_, devices, at) = behind_an_unflushed_batch(1);
    devices[FAST].forge(at, b"rotten");
    let refused =
        Rig::open(&Setup { volatile_fast: true, fast_bytes: 64 << 20, journal_bytes: 8 << 20, ..setup }, devices)
            .map(|_| ());
    assert!(matches!(refused, Err(OpenError::Journal { .. })), "{refused:?}");
}

/// A drive with 4 KiB sectors that accepts 512-byte writes reads a sector, changes part of it, and writes it back: a power cut meanwhile
/// may destroy the rest too. The journal put the next batch beside a flushed one, and flushed data was lost without an error.
#[test]
fn regression_a_batch_that_a_power_cut_stops_takes_none_with_it_that_was_flushed() {
    const PHYSICAL_BYTES: u64 = 4096;
    let after_the_cut = |journal_unit_bytes| {
        let setup = Setup { volatile_fast: true, journal_unit_bytes, ..Setup::default() };
        let mut rig = Rig::new(&setup);
        rig.put(0, 1, None);
        rig.flush();
        rig.put(1, 1, None);
        let at = journal_end(&superblock(&rig.devices), &rig.devices) - SECTOR_BYTES;
        let devices = rig.cut(|_| false);
        // The drive was in the middle of writing the batch.
        devices[FAST].forge(at / PHYSICAL_BYTES * PHYSICAL_BYTES, &[0x55; PHYSICAL_BYTES as usize]);
        Rig::open(&setup, devices).unwrap().get(0)
    };
    assert_eq!(after_the_cut(4096), Ok(1));
    assert_eq!(after_the_cut(512), Ok(0), "why the journal of such a drive is not written in 512 bytes");
}

//! Structures on the medium with correct checksums and impossible contents, as written by a bug of another version, a fuzzer or an
//! attacker. Opening must end soon, in little memory and without a panic: with a clear error, or with a pool in which written data is right
//! and stays in service.
//!
//! These tests forge the layout itself, so they follow the format. Each case runs in its own process with limits of memory and time,
//! because some of them killed the process.

mod alone;
mod area;

use crate::child::in_a_process;
use crate::holes::device::Scripted;
use crate::holes::rig::{BULK, FAST, Rig, Setup, findings, superblock};
use forebay_block::{ClassId, DiskId};
use forebay_volume::layout::batch::{BatchHeader, HEADER_BYTES, decode_batch, seal_batch};
use forebay_volume::layout::codec::Writer;
use forebay_volume::layout::moved::Moved;
use forebay_volume::layout::page::{SECTOR_GRAINS, Span};
use forebay_volume::layout::record::Record;
use forebay_volume::layout::root::{BandRoot, BandState, Root, RootBounds, RootHeader};
use forebay_volume::layout::root_blob;
use forebay_volume::layout::stored::Stored;
use forebay_volume::layout::stream::{Lifetime, Stream};
use forebay_volume::layout::watermark::{OFFSETS_BYTES, Watermark};
use forebay_volume::recovery::OpenError;

/// Such a pool needs less than half of it.
const MEMORY_LIMIT_KIB: u64 = 256 << 10;
const DISK: DiskId = DiskId(1);
/// The first block that was never written.
const UNUSED: u64 = 1000;

/// A pool after a power cut; some of its state is in the root, some in the journal.
fn served() -> Vec<Scripted> {
    let mut rig = Rig::new(&Setup::default());
    rig.put(1, 1, None);
    rig.put(2, 1, BULK);
    rig.checkpoint();
    rig.put(3, 1, None);
    rig.put(4, 1, BULK);
    rig.flush();
    rig.cut(|_| false)
}

/// The newest root: the offset of its area, its header, and the root.
fn root(devices: &[Scripted]) -> (u64, RootHeader, Root) {
    let superblock = superblock(devices);
    let read = |area: u64| {
        devices[FAST].bytes(|bytes| {
            let header = RootHeader::decode(&bytes[area as usize..][..4096], &superblock.pool)?;
            let blob = &bytes[area as usize + 4096..][..header.blob_len_bytes as usize];
            Some((area, header, root_blob::decode(blob, &RootBounds::of(&superblock)).ok()?))
        })
    };
    let roots = superblock.root_offsets_bytes.into_iter().filter_map(read);
    roots.filter(|(_, header, _)| header.superseded_by == 0).max_by_key(|(_, header, _)| header.checkpoint).unwrap()
}

/// Changes the newest root.
fn forge_root(devices: &[Scripted], change: impl FnOnce(&mut Root)) {
    let superblock = superblock(devices);
    let (area, old, mut root) = root(devices);
    change(&mut root);
    let blob = root_blob::encode(&root);
    let header = Root::header(&blob, old.checkpoint, (old.epoch, old.opening), old.counts_due).encode(&superblock.pool);
    devices[FAST].forge(area + 4096, &blob);
    for at in [area, area + superblock.root_len_bytes - 4096] {
        devices[FAST].forge(at, &header);
    }
}

/// Appends a batch with a changed header to the journal.
fn forge_batch(devices: &[Scripted], records: &[Record], change: impl FnOnce(&mut BatchHeader)) {
    let superblock = superblock(devices);
    let epoch = root(devices).1.epoch;
    let journal = superblock.journal_offset_bytes as usize;
    let len = superblock.journal_len_bytes as usize;
    let last = devices[FAST].bytes(|bytes| {
        let batches =
            (journal..journal + len).step_by(512).filter_map(|at| decode_batch(&bytes[at..], &superblock.pool));
        batches.map(|(header, _)| header).filter(|header| header.epoch == epoch).max_by_key(|header| header.batch)
    });
    let last = last.unwrap();
    let mut w = Writer::default();
    w.bytes.resize(HEADER_BYTES, 0);
    records.iter().for_each(|record| record.put(&mut w));
    let len_bytes = w.bytes.len().next_multiple_of(512);
    w.bytes.resize(len_bytes, 0);
    let mut header = BatchHeader {
        len_bytes: len_bytes as u32,
        records: records.len() as u16,
        position: last.position + u64::from(last.len_bytes),
        batch: last.batch + 1,
        durable: last.batch,
        exceptions: 0,
        first_sequence: last.first_sequence + u64::from(last.records),
        ..last
    };
    let at = superblock.journal_offset_bytes + header.position % superblock.journal_len_bytes;
    change(&mut header);
    seal_batch(&mut w.bytes, &header, &superblock.pool);
    devices[FAST].forge(at, &w.bytes);
}

fn forge_records(devices: &[Scripted], records: &[Record]) {
    forge_batch(devices, records, |_| {});
}

/// Opens the pool and, where that succeeds, uses it.
fn open_and_go_on(devices: Vec<Scripted>) {
    let setup = Setup::default();
    let mut rig = match Rig::open(&setup, devices) {
        Ok(rig) => rig,
        Err(error) => {
            println!("refused: {error}");
            assert!(!matches!(error, OpenError::Memory { .. }), "the operator is asked to buy memory: {error}");
            return;
        }
    };
    for block in 1..5 {
        assert_eq!(rig.get(block), Ok(1), "it was opened, and what was there is not");
    }
    if rig.pool.engine.status().read_only.is_some() {
        return;
    }
    for (block, tag) in [(10, None), (11, BULK), (2, None), (3, BULK)] {
        rig.put(block, 5, tag);
    }
    rig.flush();
    rig.checkpoint();
    let mut rig = rig.crash();
    for (block, version) in [(1, 1), (4, 1), (10, 5), (11, 5), (2, 5), (3, 5)] {
        assert_eq!(rig.get(block), Ok(version));
    }
}

fn survives(forge: fn(&[Scripted])) {
    in_a_process(MEMORY_LIMIT_KIB, || {
        let devices = served();
        forge(&devices);
        open_and_go_on(devices);
    });
}

macro_rules! hostile {
    ($($(#[$comment:meta])* $name:ident: $forge:expr;)*) => {
        $($(#[$comment])* #[test] fn $name() { survives($forge); })*
    };
}

/// A checkpoint counts the generation of its pages up, hundreds a second with a small journal. From 2^31 on no start opened the pool.
#[test]
fn regression_generations_of_pages_may_wrap() {
    let devices = served();
    forge_root(&devices, |root| root.generation = u32::MAX - 1);
    let setup = Setup::default();
    let mut rig = Rig::open(&setup, devices).unwrap();
    for version in 5..9 {
        rig.put(1, version, None);
        rig.checkpoint();
    }
    let devices = rig.cut(|_| false);
    assert!(root(&devices).2.generation < 8, "it has wrapped");
    assert_eq!(findings(&setup, &devices), [""; 0]);
    let mut rig = Rig::open(&setup, devices).unwrap();
    for (block, version) in [(1, 8), (2, 1), (3, 1), (4, 1)] {
        assert_eq!(rig.get(block), Ok(version));
    }
}

fn stream(class: u8, is_collected: bool) -> Stream {
    Stream { is_collected, group: 0, class: ClassId(class) }
}

fn write(block: u64, location: u64, blocks: usize) -> Record {
    Record::Write {
        disk: DISK,
        block,
        class: ClassId(5),
        location,
        generation: 1,
        lifetime: Lifetime::default(),
        stored: vec![Stored::whole(7); blocks],
    }
}

fn moved(block: u64, source: u64) -> Moved {
    let (source, stored) = (Span::whole(source), Stored { grains: 128, checksum: 1 });
    Moved { disk: DISK, block, source, origin: 1, checksum: 1, stored, class: ClassId(5), note: 0 }
}

/// Start of the capacity tier in grains.
fn capacity_grain(devices: &[Scripted]) -> u64 {
    superblock(devices).members[1].first_sector * SECTOR_GRAINS
}

hostile! {
    /// Without a forgery: everything that the cases change is valid before.
    a_whole_pool: |_| {};
    /// A harmless batch appended is found and replayed.
    a_harmless_batch: |devices| forge_records(devices, &[Record::Discard { disk: DISK, block: UNUSED, blocks: 8 }]);

    /// Four thousand million blocks: every leaf in the range was recorded, ten million of them.
    zeros_longer_than_any_disk: |devices| {
        forge_records(devices, &[Record::Zero { disk: DISK, block: UNUSED, blocks: u32::MAX }]);
    };
    discard_longer_than_any_disk: |devices| {
        forge_records(devices, &[Record::Discard { disk: DISK, block: UNUSED, blocks: u32::MAX }]);
    };
    damage_longer_than_any_disk: |devices| {
        forge_records(devices, &[Record::Damage { blocks: vec![moved(UNUSED, 128); 1000] }]);
    };
    reclass_longer_than_any_disk: |devices| {
        forge_records(devices, &[Record::Reclass { disk: DISK, block: UNUSED, blocks: u32::MAX, class: ClassId(1) }]);
    };
    /// Record of a disk that does not exist.
    zeros_of_no_disk: |devices| {
        forge_records(devices, &[Record::Zero { disk: DiskId(77), block: 0, blocks: u32::MAX }]);
    };
    /// The last block number overflows.
    zeros_at_the_end_of_all_numbers: |devices| {
        forge_records(devices, &[Record::Zero { disk: DISK, block: u64::MAX - 3, blocks: 10 }]);
    };
    a_write_at_the_end_of_all_numbers: |devices| {
        let location = capacity_grain(devices);
        forge_records(devices, &[write(u64::MAX, location, 3)]);
    };
    a_write_to_a_location_outside_the_pool: |devices| forge_records(devices, &[write(UNUSED, u64::MAX - 255, 4)]);
    a_write_to_no_location: |devices| forge_records(devices, &[write(UNUSED, 0, 1)]);
    a_write_to_half_a_block: |devices| {
        let location = capacity_grain(devices) + 128 * 300 + 3;
        forge_records(devices, &[write(UNUSED, location, 1)]);
    };
    /// The range begins in a band and ends beyond it.
    a_write_across_the_end_of_a_band: |devices| {
        let location = capacity_grain(devices) + 2048 * 20 + 128 * 10;
        forge_records(devices, &[write(UNUSED, location, 40)]);
    };
    a_write_across_the_end_of_the_pool: |devices| {
        let superblock = superblock(devices);
        let last = &superblock.members[superblock.members.len() - 1];
        forge_records(devices, &[write(UNUSED, (last.first_sector + last.sectors) * SECTOR_GRAINS - 256, 40)]);
    };
    a_move_out_of_the_pool: |devices| {
        let moved = vec![moved(UNUSED, u64::MAX - 127); 3];
        forge_records(devices, &[Record::Move { stream: stream(5, false), location: u64::MAX - 255, generation: 1, moved }]);
    };
    /// Unallocated places for existing blocks: the blocks are not where the record says.
    moves_and_damage_of_others: |devices| {
        let location = capacity_grain(devices) + 2048 * 20;
        let moved: Vec<Moved> = (0..10).map(|block| moved(block, 128 * block + 128)).collect();
        let damage = Record::Damage { blocks: moved.clone() };
        forge_records(devices, &[Record::Move { stream: stream(5, true), location, generation: 77, moved }, damage]);
    };
    more_moves_than_a_record_has: |devices| {
        let location = capacity_grain(devices);
        let moved = vec![moved(UNUSED, 128); 129];
        forge_records(devices, &[Record::Move { stream: stream(5, false), location, generation: 1, moved }]);
    };
    a_cancel_of_the_last_sequence: |devices| {
        forge_records(devices, &[Record::Cancel { sequence: u64::MAX }]);
    };
    /// The headers claim durable batches with numbers far in the future.
    a_watermark_at_the_end_of_all_numbers: |devices| forge_batch(devices, &[], |header| header.durable = u64::MAX);
    exceptions_at_the_end_of_all_numbers: |devices| {
        forge_batch(devices, &[], |header| (header.durable, header.exceptions) = (u64::MAX - 10, u64::MAX));
    };
    a_lazy_watermark_at_the_end_of_all_numbers: |devices| {
        let (_, header, _) = root(devices);
        let mark = Watermark { epoch: header.epoch, batch: u64::MAX, exceptions: vec![u64::MAX], serial: u64::MAX };
        let bytes = mark.encode(&superblock(devices).pool);
        OFFSETS_BYTES.iter().for_each(|&at| devices[FAST].forge(at, &bytes));
    };
    a_batch_with_the_last_number: |devices| forge_batch(devices, &[], |header| header.batch = u64::MAX);
    a_batch_with_the_last_sequence: |devices| {
        let record = Record::Zero { disk: DISK, block: UNUSED, blocks: 1 };
        forge_batch(devices, &[record.clone(), record], |header| header.first_sequence = u64::MAX);
    };

    /// A full open band: taking a block from it looped for ever.
    a_full_open_band: |devices| forge_root(devices, |root| {
        let free = root.bands.iter_mut().filter(|band| band.state == BandState::Free);
        for band in free.take(1) {
            *band = BandRoot { state: BandState::Open, stream: stream(9, false), written: 2048, generation: 1, ..BandRoot::default() };
        }
        for band in root.bands.iter_mut().filter(|band| band.state == BandState::Open) {
            band.written = 2048;
        }
    });
    an_open_band_written_beyond_its_end: |devices| forge_root(devices, |root| {
        let band = root.bands.iter_mut().find(|band| band.state == BandState::Open).unwrap();
        band.written = u32::MAX;
    });
    two_open_bands_of_one_stream: |devices| forge_root(devices, |root| {
        let open = *root.bands.iter().find(|band| band.state == BandState::Open).unwrap();
        let free = root.bands.iter_mut().filter(|band| band.state == BandState::Free);
        free.take(3).for_each(|band| *band = BandRoot { valid: 0, ..open });
    });
    counters_of_bands_at_the_end_of_all_numbers: |devices| forge_root(devices, |root| {
        root.band_clock = u64::MAX;
        for band in &mut root.bands {
            (band.generation, band.closed_at) = (u32::MAX, u64::MAX);
        }
    });
    bands_that_hold_more_than_they_can: |devices| forge_root(devices, |root| {
        root.bands.iter_mut().for_each(|band| band.valid = u32::MAX);
    });
    more_bands_than_there_are: |devices| forge_root(devices, |root| root.bands.resize(2000, BandRoot::default()));
    open_groups_of_no_band: |devices| forge_root(devices, |root| {
        let (_, group, entries) = root.open_groups[0].clone();
        root.open_groups.push((u32::MAX, group, entries.clone()));
        root.open_groups.push((62, group, entries));
    });
    an_open_group_beyond_its_band: |devices| forge_root(devices, |root| root.open_groups[0].1 = u32::MAX);
    an_open_group_longer_than_its_band: |devices| forge_root(devices, |root| {
        let entry = root.open_groups[0].2[0];
        root.open_groups[0].2.resize(5000, entry);
    });
    unapplied_sequences_without_order: |devices| forge_root(devices, |root| {
        root.unapplied = (0..100_000).rev().collect();
    });
    a_disk_of_all_numbers: |devices| forge_root(devices, |root| root.disks[0].size_bytes = u64::MAX);
    a_disk_that_no_memory_can_map: |devices| forge_root(devices, |root| root.disks[0].size_bytes = 1 << 62);
    a_journal_that_starts_at_the_end_of_all_numbers: |devices| forge_root(devices, |root| {
        root.journal_position = u64::MAX - 511;
    });
    a_batch_expected_at_the_end_of_all_numbers: |devices| forge_root(devices, |root| root.journal_batch = u64::MAX);
    sequences_at_the_end_of_all_numbers: |devices| forge_root(devices, |root| root.next_sequence = u64::MAX);
    statistics_at_the_end_of_all_numbers: |devices| forge_root(devices, |root| {
        for statistics in &mut root.stats {
            (statistics.fast_blocks, statistics.capacity_blocks, statistics.host_written_bytes) = (u64::MAX, u64::MAX, u64::MAX);
        }
    });
}

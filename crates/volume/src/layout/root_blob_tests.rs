//! Roots round-trip, keep sections that they do not know, and refuse what is impossible, by the name of the section.

use super::*;
use crate::layout::band_summary::{BandShape, ENTRIES_MAX, GROUP_BLOCKS, PACKED_TIMES_MAX, open_max};
use crate::layout::base::Base;
use crate::layout::page::LEAF_ENTRIES;
use crate::layout::plan::{PoolOptions, plan};
use crate::layout::root::{INDEX_PAGE_BYTES, UnwrittenGroup};
use crate::layout::scrub_record::{Pass, ScrubState};
use crate::layout::sections::{HEADER_BYTES, KeptSection};
use forebay_block::DiskId;

fn bounds() -> RootBounds {
    // Two groups, the second with one block of data fewer.
    RootBounds { shape: BandShape::new(127 * 4096), bands: 3, slots: 70, journal_sector_bytes: 512 }
}

fn root() -> Root {
    let entry = SummaryEntry { disk: DiskId(1), block: 5, origin: 41, ..SummaryEntry::none(128) };
    let page = |location| PageRef { location, stageable: 0, crc: 1, generation: 2 };
    Root {
        journal_position: 1024,
        journal_batch: 7,
        next_sequence: 50,
        unapplied: vec![3, 49],
        clean: true,
        generation: 4,
        disks: vec![DiskRoot {
            id: 1,
            name: "a".to_owned(),
            size_bytes: 2 * (LEAF_ENTRIES * INDEX_ENTRIES * 4096) as u64,
            base: Some(Base { blocks: 7, identity: 9 }),
            pages: vec![(0, page(128)), (1, page(128 * 70))],
        }],
        next_disk: 2,
        classes: vec![1, 2, 3],
        stats: vec![ClassStats { fast_blocks: 70, reclassed_out_bytes: 9, ..ClassStats::default() }],
        saved_bytes: 77,
        evidence: vec![4],
        band_clock: 6,
        bands: vec![
            BandRoot {
                state: BandState::Open,
                stream: Stream { is_collected: true, group: 5, class: ClassId(1) },
                valid: 128,
                blocks: 8,
                written: 65 * 128,
                generation: 1,
                closed_at: 0,
            },
            BandRoot {
                state: BandState::Closed,
                stream: Stream { is_collected: false, group: 0, class: ClassId(1) },
                valid: 125 * 128,
                blocks: 125,
                written: 127 * 128,
                generation: 3,
                closed_at: 6,
            },
            BandRoot::default(),
        ],
        open_groups: vec![(0, 1, vec![entry])],
        unwritten_groups: Vec::new(),
        slots: vec![u64::MAX, 0x3f],
        scrub: ScrubRecord {
            state: ScrubState::Paused,
            disk: 1,
            block: 77,
            pass: Pass { began_unix_s: 5, ended_unix_s: 0, good_blocks: 70, bad_blocks: 7, uncompared_blocks: 32 },
            last: Some(Pass { began_unix_s: 1, ended_unix_s: 3, good_blocks: 9, bad_blocks: 0, uncompared_blocks: 64 }),
        },
        kept: vec![KeptSection { tag: *b"XYZ1", shard: 3, payload: vec![9; 100] }],
    }
}

#[test]
fn roots_round_trip_with_the_sections_they_do_not_know() {
    let blob = encode(&root());
    let read = decode(&blob, &bounds()).unwrap();
    assert_eq!(read, root());
    assert_eq!(encode(&read), blob);
}

#[test]
fn a_scrub_that_cannot_be_was_none() {
    let mut root = root();
    let section = |payload: Vec<u8>| KeptSection { tag: *b"SCRB", shard: 0, payload };
    for payload in [vec![], vec![9; 82], vec![0xff; 82], vec![1; 11]] {
        root.scrub = ScrubRecord::default();
        root.kept = vec![section(payload)];
        let read = decode(&encode(&root), &bounds()).unwrap();
        assert_eq!((read.scrub, read.kept.len()), (ScrubRecord::default(), 0));
    }
}

#[test]
fn groups_whose_summary_is_not_written_round_trip_and_others_are_left_out() {
    let entry = SummaryEntry { disk: DiskId(1), block: 5, origin: 41, ..SummaryEntry::none(128) };
    let group = |band, generation, group| UnwrittenGroup { band, generation, group, entries: vec![entry; 3] };
    let read = |groups: Vec<UnwrittenGroup>| {
        let root = Root { unwritten_groups: groups, ..root() };
        decode(&encode(&root), &bounds()).unwrap().unwritten_groups
    };
    let good = vec![group(0, 1, 0), group(1, 3, 0), group(1, 3, 1)];
    assert_eq!(read(good.clone()), good);
    // Of another time of the band, and not complete, or not open any more.
    assert_eq!(read(vec![group(1, 2, 0), group(0, 1, 1), group(2, 0, 0), group(1, 3, 1)]), [group(1, 3, 1)]);
    for impossible in [group(3, 0, 0), group(1, 3, 2), group(1, 3, 1)] {
        assert_eq!(read(vec![group(1, 3, 1), impossible]), []);
    }
    assert_eq!(read((0..17).map(|_| group(1, 3, 0)).collect()), []);
    let long = UnwrittenGroup { entries: vec![SummaryEntry::none(128); 63], ..group(1, 3, 1) };
    assert_eq!(read(vec![long]), []);
}

#[test]
fn every_flipped_bit_is_seen() {
    let mut blob = encode(&root());
    let whole = decode(&blob, &bounds()).unwrap();
    for bit in 0..blob.len() * 8 {
        blob[bit / 8] ^= 1 << (bit % 8);
        // The tag of a section that is kept says nothing to this program.
        match decode(&blob, &bounds()) {
            Ok(other) => assert!(other != whole && other.kept[0].tag != *b"XYZ1", "bit {bit}"),
            Err(error) => assert_eq!(error.section.len(), 4),
        }
        blob[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn sections_that_cannot_be_are_refused_by_name() {
    let plain = encode(&root());
    let with = |tag: Tag, shard, flags| {
        let mut w = Writer::default();
        w.bytes.extend_from_slice(&plain);
        put_section(&mut w, (tag, shard, flags), |w| w.u8(1));
        decode(&w.bytes, &bounds()).map(|_| ()).unwrap_err()
    };
    assert_eq!(with(*b"NEW1", 0, 0), error(*b"NEW1", "it needs a newer program"));
    assert_eq!(with(*b"NEW1", 0, 3), error(*b"NEW1", "it needs a newer program"));
    assert_eq!(with(*b"XYZ1", 3, 1), error(*b"XYZ1", "it is there twice"));
    assert_eq!(with(SLOTS, 0, 0).section, "SLOT");
    assert_eq!(with(SHARD, 1, 0).section, "SHRD");
    // Cut off behind the last section that must be there it is a root of an older program, with a scrub or without, or of one where blocks were compressed.
    let with_saved = plain.len() - HEADER_BYTES - 100;
    let with_scrub = with_saved - HEADER_BYTES - 8;
    let known = with_scrub - HEADER_BYTES - 92;
    for cut in (0..plain.len()).filter(|cut| ![known, with_scrub, with_saved].contains(cut)) {
        assert!(decode(&plain[..cut], &bounds()).is_err(), "{cut}");
    }
}

/// A count of bytes that had come to 2^62 made a pool that no start opened.
#[test]
fn regression_counts_of_bytes_end_at_their_limit() {
    let mut root = root();
    root.stats[0].destaged_bytes = u64::MAX;
    let read = decode(&encode(&root), &bounds()).unwrap();
    assert_eq!(read.stats[0].destaged_bytes, COUNTER_LIMIT - 1);
}

type Harm = fn(&mut Root);

#[test]
fn what_cannot_be_in_the_pool_is_refused_by_the_name_of_its_section() {
    let cases: &[(&str, Harm)] = &[
        ("SHRD", |r| r.journal_position = 100),
        ("SHRD", |r| r.journal_batch = COUNTER_LIMIT),
        ("SHRD", |r| r.unapplied = vec![49, 3]),
        ("SHRD", |r| r.unapplied = vec![50]),
        ("DISK", |r| r.next_disk = 1),
        ("DISK", |r| r.disks[0].id = 0),
        ("DISK", |r| r.disks.push(r.disks[0].clone())),
        ("DISK", |r| r.disks[0].size_bytes = u64::MAX),
        ("DISK", |r| r.disks[0].size_bytes = 4096),
        ("DISK", |r| r.disks[0].pages[1].1.location = 128 * 71),
        ("DISK", |r| r.disks[0].pages[1].1.location = 128),
        ("DISK", |r| r.disks[0].pages[0].1.location = 0),
        ("DISK", |r| r.disks[0].pages[0].0 = 1),
        ("BOOK", |r| r.stats = vec![ClassStats::default(); 121]),
        ("BOOK", |r| r.stats[0].fast_blocks = 71),
        ("BOOK", |r| r.stats[0].capacity_blocks = 3 * 125 * 16 + 1),
        ("BAND", |r| r.bands.truncate(2)),
        ("BAND", |r| r.bands.push(BandRoot::default())),
        ("BAND", |r| r.bands[0].valid = 126 * 128),
        ("BAND", |r| r.bands[1].blocks = 125 * 16 + 1),
        ("BAND", |r| r.bands[0].written = 127 * 128),
        ("BAND", |r| r.bands[0].written = 63 * 128),
        ("BAND", |r| r.bands[1].written = 128 * 128),
        ("BAND", |r| r.bands[1].written = 4),
        ("BAND", |r| r.bands[1] = BandRoot { generation: 3, ..r.bands[0] }),
        ("BAND", |r| r.bands[1].closed_at = 7),
        ("OPEN", |r| r.open_groups[0].0 = 1),
        ("OPEN", |r| r.open_groups[0].0 = 3),
        ("OPEN", |r| r.open_groups[0].1 = 0),
        ("OPEN", |r| r.open_groups.push(r.open_groups[0].clone())),
        ("OPEN", |r| r.open_groups[0].2 = vec![SummaryEntry::none(128); 63]),
        ("OPEN", |r| r.open_groups[0].2[0].grains = 129),
        ("SLOT", |r| r.slots.truncate(1)),
        ("SLOT", |r| r.slots.push(0)),
    ];
    for (i, (section, harm)) in cases.iter().enumerate() {
        let mut bad = root();
        harm(&mut bad);
        match decode(&encode(&bad), &bounds()) {
            Err(error) => assert_eq!(error.section, *section, "case {i}: {error}"),
            Ok(_) => panic!("case {i} of {section} was taken"),
        }
    }
}

/// A class may have as many blocks on the capacity tier as compressed ones find room there: the root of a pool full of blocks that shrink to a grain or two was
/// refused by the next opening, as eight blocks of the pool for each of its own were the most that was let in.
#[test]
fn regression_a_tier_full_of_tiny_compressed_blocks_can_be_opened() {
    let mut full = root();
    full.stats[0].capacity_blocks = 3 * 125 * 16;
    assert_eq!(decode(&encode(&full), &bounds()).unwrap().stats[0].capacity_blocks, 3 * 125 * 16);
}

/// As many disks and index pages as are let in, with all else at its largest, fit into the area without leaving anything out.
#[test]
fn regression_what_is_let_in_is_within_the_root_area() {
    let geometry = |size_bytes| forebay_block::Geometry {
        size_bytes,
        logical_block_bytes: 512,
        optimal_band_bytes: None,
        volatile_cache: false,
        durable_writes: true,
        discards: false,
    };
    for (fast_bytes, capacity_bytes, disks) in
        [(8 << 20, 16 << 20, 3), (64 << 20, 1 << 30, 500), (2 << 30, 64 << 30, 1024)]
    {
        let options = PoolOptions {
            name: "p".to_owned(),
            band_bytes: None,
            journal_bytes: None,
            is_mirrored: false,
            bands_offset_bytes: None,
        };
        let capacity = [geometry(capacity_bytes)];
        let superblock = plan(&options, &geometry(fast_bytes), &capacity, [9; 16], &[[1; 16], [2; 16]]).unwrap();
        let bounds = RootBounds::of(&superblock);
        let entries = (bounds.shape.blocks().min(GROUP_BLOCKS) as usize - 1) * PACKED_TIMES_MAX as usize + 1;
        let entries = vec![SummaryEntry::none(1); entries.min(ENTRIES_MAX)];
        let page = PageRef { location: 128, stageable: 0, crc: 1, generation: 2 };
        // One that lies over a base has its name from before it is removed, and is removed.
        let name = |id: u16| format!("{}~removed-{id:05}", "n".repeat(50));
        let mut left = Root::bytes_for_disks(&superblock);
        let mut root = Root {
            unapplied: (0..2000).collect(),
            next_sequence: 2000,
            classes: vec![1; 280 << 10],
            stats: vec![ClassStats { capacity_blocks: 1, ..ClassStats::default() }; ClassId::LIMIT],
            saved_bytes: 1,
            evidence: vec![1; 64 << 10],
            bands: vec![BandRoot::default(); bounds.bands as usize],
            open_groups: (0..open_max(bounds.bands, false) + open_max(bounds.bands, true))
                .map(|band| (band as u32, 0, entries.clone()))
                .collect(),
            slots: vec![0; bounds.slots.div_ceil(64) as usize],
            ..Root::default()
        };
        for id in 1..=disks {
            let (name, base) = (name(id), Some(Base { blocks: 1, identity: 1 }));
            left -= DiskRoot::bytes_max(&name[..50]);
            root.disks.push(DiskRoot { id, name, size_bytes: 4096, base, pages: Vec::new() });
        }
        assert!(left / INDEX_PAGE_BYTES > capacity_bytes / (1 << 28), "{left}");
        root.disks[0].pages = (0..left / INDEX_PAGE_BYTES).map(|number| (number as u32, page)).collect();
        let bytes_max = superblock.root_len_bytes - 2 * 4096;
        let blob = encode_within(&root, bytes_max).unwrap();
        assert_eq!(blob, encode(&root), "something was left out");
        // Anything beyond that is left out where it does not fit.
        let group = UnwrittenGroup { band: 0, generation: 0, group: 0, entries };
        root.unwritten_groups = vec![group; 16];
        root.classes = vec![1; 310 << 10];
        let blob = encode_within(&root, bytes_max).unwrap();
        assert!(blob.len() as u64 <= bytes_max && blob.len() < encode(&root).len());
    }
}

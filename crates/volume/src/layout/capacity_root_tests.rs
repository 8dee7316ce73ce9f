use super::super::plan::{PoolOptions, plan};
use super::*;
use crate::layout::base::Base;
use forebay_block::{DiskId, Geometry};

fn superblock() -> Superblock {
    let options = PoolOptions {
        name: "p".to_owned(),
        band_bytes: Some(1 << 20),
        journal_bytes: None,
        is_mirrored: false,
        bands_offset_bytes: None,
    };
    let device = |size_bytes| Geometry {
        size_bytes,
        logical_block_bytes: 512,
        optimal_band_bytes: None,
        volatile_cache: true,
        durable_writes: true,
        discards: true,
    };
    plan(&options, &device(8 << 20), &[device(16 << 20), device(16 << 20)], [1; 16], &[[2; 16], [3; 16], [4; 16]])
        .unwrap()
}

fn root(superblock: &Superblock) -> CapacityRoot {
    let bands: u64 = superblock.members[1..].iter().map(|member| member.sectors / 2048).sum();
    let mut bands = vec![CapacityBand { generation: 7, groups: 0, is_free: true }; bands as usize];
    bands[0] = CapacityBand { generation: 9, groups: 1, is_free: false };
    bands[1] = CapacityBand { generation: 1, groups: 4, is_free: false };
    let entry = SummaryEntry { disk: DiskId(1), block: 5, origin: 11, ..SummaryEntry::none(128) };
    let page = |number, slot| TierPageRef { number, slot, crc: number ^ 0xabcd };
    CapacityRoot {
        next_sequence: 100,
        unapplied: vec![3, 98],
        disks_missing: 0,
        disks: vec![
            CapacityDisk {
                id: 1,
                name: "a".to_owned(),
                size_bytes: 1 << 30,
                base: None,
                unlisted_from: ALL_LISTED,
                pages: vec![page(0, 4), page(7, 2)],
            },
            CapacityDisk {
                id: 9,
                name: "b".to_owned(),
                size_bytes: 4096,
                base: Some(Base { blocks: 1, identity: 5 }),
                unlisted_from: 0,
                pages: Vec::new(),
            },
        ],
        bands,
        open_groups: vec![(0, 1, vec![entry; 5])],
    }
}

type Change = fn(&mut CapacityRoot);

#[test]
fn a_root_survives_its_bytes_and_nothing_impossible_is_taken() {
    let superblock = superblock();
    let area = superblock.capacity_area;
    let good = root(&superblock);
    let round_trip = |root: &CapacityRoot| CapacityRoot::decode(&root.encode(&area), &superblock);
    assert_eq!(round_trip(&good).as_ref(), Some(&good));
    let wrong: [(&str, Change); 11] = [
        ("a slot beyond the area", |root| root.disks[0].pages[0].slot = u32::MAX),
        ("the same slot twice", |root| root.disks[0].pages[1].slot = 4),
        ("pages without order", |root| root.disks[0].pages.reverse()),
        ("a page beyond its disk", |root| root.disks[0].pages[1].number = 21),
        ("the same disk twice", |root| root.disks[1].id = 1),
        ("no disk", |root| root.disks[1].id = 0),
        ("groups beyond the band", |root| root.bands[1].groups = 5),
        ("a free band that is written", |root| root.bands[1].is_free = true),
        ("an open group that is not the next", |root| root.open_groups[0].1 = 2),
        ("unapplied sequences of later", |root| root.unapplied[1] = 100),
        ("fewer bands", |root| root.bands.truncate(3)),
    ];
    for (what, change) in wrong {
        let mut bad = good.clone();
        change(&mut bad);
        assert_eq!(round_trip(&bad), None, "{what}");
    }
    let mut torn = good.encode(&area);
    torn[20] ^= 1;
    assert_eq!(CapacityRoot::decode(&torn, &superblock), None);
}

#[test]
fn what_the_area_has_no_room_for_is_counted() {
    let superblock = superblock();
    let area = superblock.capacity_area;
    let mut many = root(&superblock);
    let disk = CapacityDisk { name: "n".repeat(64), pages: Vec::new(), ..many.disks[1].clone() };
    many.disks = (1..2000).map(|id| CapacityDisk { id, ..disk.clone() }).collect();
    many.unapplied = (0..100).collect();
    let blob = many.encode(&area);
    assert!(blob.len() as u64 <= area.blob_bytes_max());
    let read = CapacityRoot::decode(&blob, &superblock).unwrap();
    assert!(read.disks.len() > 100, "{}", read.disks.len());
    assert_eq!(read.disks.len() + usize::from(read.disks_missing), 1999);
    many.next_sequence = 10_000;
    many.unapplied = (0..5000).collect();
    let read = CapacityRoot::decode(&many.encode(&area), &superblock).unwrap();
    assert_eq!((read.unapplied.len(), read.unapplied[0]), (UNAPPLIED_MAX, 5000 - UNAPPLIED_MAX as u64));
}

/// A sparsely written disk left no room for the disks behind it: they were missing where the fast tier was lost.
#[test]
fn regression_pages_of_one_disk_leave_others_their_place() {
    let superblock = superblock();
    let area = superblock.capacity_area;
    let mut many = root(&superblock);
    let disk = CapacityDisk { name: "n".repeat(64), pages: Vec::new(), ..many.disks[1].clone() };
    // As many as there is room for, and a few pages.
    let others = CapacityRoot { disks: Vec::new(), ..many.clone() }.encode(&area).len() as u64;
    let disks = (area.blob_bytes_max() - others) / (22 + 16 + 64);
    many.disks = (1..disks as u16).map(|id| CapacityDisk { id, ..disk.clone() }).collect();
    let page = |slot| TierPageRef { number: 2 * slot, slot, crc: 1 };
    (many.disks[0].size_bytes, many.disks[0].unlisted_from) = (1 << 50, ALL_LISTED);
    many.disks[0].pages = (0..area.slots() as u32).map(page).collect();
    let read = CapacityRoot::decode(&many.encode(&area), &superblock).unwrap();
    assert_eq!((read.disks.len(), read.disks_missing), (many.disks.len(), 0));
    let (first, listed) = (&read.disks[0], read.disks[0].pages.len());
    assert_eq!(first.pages, many.disks[0].pages[..listed]);
    assert!(listed < many.disks[0].pages.len(), "there was room for all");
    assert_eq!(first.unlisted_from, 2 * listed as u32);
}

#[test]
fn entries_have_the_size_that_the_area_counts_with() {}

#[test]
fn headers_are_those_of_their_pool() {
    let header = CapacityHeader { checkpoint: 5, epoch: 2, blob_len_bytes: 99, blob_crc: 7, generation: 3 };
    let bytes = header.encode(&[1; 16]);
    assert_eq!(CapacityHeader::decode(&bytes, &[1; 16]), Some(header));
    assert_eq!(CapacityHeader::decode(&bytes, &[2; 16]), None);
    let far = CapacityHeader { checkpoint: u64::MAX, ..header };
    assert_eq!(CapacityHeader::decode(&far.encode(&[1; 16]), &[1; 16]), None);
}

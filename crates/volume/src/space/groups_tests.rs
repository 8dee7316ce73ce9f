use super::*;
use crate::layout::band_summary::placed;
use crate::space::fitting::{Fit, Frontier, Wanted, fit};
use forebay_block::{ClassId, DiskId};
use proptest::prelude::*;

fn entry(grains: u16, block: u64) -> SummaryEntry {
    SummaryEntry { disk: DiskId(1), class: ClassId(0), note: 0, grains, checksum: 0, block, origin: 0 }
}

proptest! {
    /// Grants of one group, each of some blocks, are noted in any order, and some twice.
    #[test]
    fn every_entry_stands_at_its_grain(
        grants in prop::collection::vec((any::<bool>(), prop::collection::vec(16u8..127, 1..80)), 1..40),
        order in prop::collection::vec(any::<prop::sample::Index>(), 24),
    ) {
        let shape = BandShape::new(64 * 4096);
        let (mut at, mut lists) = (Frontier { group: 0, block: 0, entries: 0 }, Vec::new());
        for (is_packed, sizes) in grants {
            let wanted = if is_packed { Wanted::Packed(&sizes) } else { Wanted::Whole(sizes.len() as u32) };
            let Some(Fit { blocks, count, entries }) = fit(shape, at, wanted) else { continue };
            let sizes = sizes.into_iter().take(count as usize).map(|size| if is_packed { size.into() } else { 128u16 });
            let list = sizes.scan(at.block * 128, |next, size| {
                let place = *next;
                *next += u32::from(size);
                Some((place, entry(size, u64::from(place))))
            });
            lists.push(list.collect::<Vec<_>>());
            at = Frontier { block: at.block + blocks, entries: at.entries + entries, ..at };
        }
        let mut groups = Groups::default();
        for index in order {
            if let Some(list) = lists.get(index.index(lists.len())) {
                list.iter().for_each(|&(at, entry)| groups.note(shape, 3, at, entry));
                let noted = groups.entries((3, 0)).map_or(0, <[SummaryEntry]>::len);
                prop_assert!(noted <= at.entries, "{noted} of {}", at.entries);
            }
        }
        lists.iter().flatten().for_each(|&(at, entry)| groups.note(shape, 3, at, entry));
        let entries = groups.entries((3, 0)).unwrap();
        prop_assert!(entries.len() <= at.entries, "{} of {} that were promised", entries.len(), at.entries);
        prop_assert!(at.block <= shape.data_end(0, entries.len()), "its summary has room behind its data");
        let found: Vec<(u32, SummaryEntry)> = placed(entries).map(|(at, entry)| (at, *entry)).collect();
        let wanted: Vec<(u32, SummaryEntry)> = lists.into_iter().flatten().collect();
        prop_assert_eq!(found, wanted);
    }
}

#[test]
fn what_replaces_others_leaves_what_it_does_not_cover() {
    let mut entries = Vec::new();
    for at in 0..4 {
        place(&mut entries, 128 * at, entry(128, u64::from(at)));
    }
    place(&mut entries, 192, entry(128, 9));
    let lengths: Vec<(u16, bool)> = entries.iter().map(|e| (e.grains, e.is_known())).collect();
    assert_eq!(lengths, [(128, true), (64, false), (128, true), (64, false), (128, true)]);
    place(&mut entries, 70_000, entry(1, 1));
    let grains: u32 = entries.iter().map(|e| u32::from(e.grains)).sum();
    assert_eq!((grains, entries.len()), (70_001, 8));
}

fn complete(groups: &mut Groups, key: GroupKey, blocks: u64) {
    let shape = BandShape::new(64 * 4096);
    (0..blocks).for_each(|at| groups.note(shape, key.0, 128 * at as u32, entry(128, at)));
    groups.make_due(key);
    assert!(groups.begin(key).is_some());
    groups.written(key, true, true);
}

/// A summary in a volatile cache counts as on the device, except for the flush that is to cover it; where that flush fails, the summary is written
/// again.
#[test]
fn summaries_in_volatile_caches_are_kept_until_a_flush_covers_them() {
    let mut groups = Groups::default();
    complete(&mut groups, (1, 0), 5);
    let before = groups.arrived();
    complete(&mut groups, (2, 0), 5);
    assert!(groups.entries((1, 0)).is_none() && !groups.has_awaited(1) && groups.unwritten().is_empty());
    // The other one came after the flush began, or lies on another device.
    groups.flushed(before, |_| true);
    groups.flushed(u64::MAX, |band| band != 2);
    assert_eq!((groups.keys(), groups.unflushed), (vec![(2, 0)], 5));
    groups.doubt_unflushed();
    assert_eq!((groups.due(9), groups.unflushed), (vec![(2, 0)], 0));
    assert_eq!(groups.begin((2, 0)).map(<[SummaryEntry]>::len), Some(5));
    groups.written((2, 0), true, true);
    groups.forget(2);
    assert_eq!((groups.keys(), groups.due_count(), groups.unflushed), (Vec::new(), 0, 0));
}

/// A flush is wanted in time, and without one no more space is promised: by entries, of which groups of small bands have few.
#[test]
fn entries_that_wait_for_a_flush_are_bounded() {
    let mut groups = Groups::default();
    let (mut wanted_at, mut band) = (None, 0);
    while !groups.is_crowded() {
        complete(&mut groups, (band, 0), 60);
        band += 1;
        wanted_at = wanted_at.or(groups.crowded().map(|_| band));
    }
    assert_eq!((wanted_at, band), (Some(359), 717));
    assert_eq!(groups.crowded().unwrap().count(), 717);
    groups.flushed(u64::MAX, |_| true);
    assert!(!groups.is_crowded() && groups.crowded().is_none());
}

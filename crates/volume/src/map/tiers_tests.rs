//! Tests of the tier pages.

use super::*;
use forebay_block::DiskId;

fn tiers() -> Tiers {
    Tiers::new(CapacityArea { offset_bytes: 1 << 17, root_len_bytes: 8192, pages: 2 })
}

/// A leaf that maps something, with this sum.
fn leaf(sum: u64) -> LeafTiers {
    let mut page = vec![0; 4096];
    let entry = crate::layout::page::Entry::Data {
        span: crate::layout::page::Span::whole(8),
        class: forebay_block::ClassId(0),
    };
    crate::layout::page::set_leaf_entry(&mut page, 0, entry, 1);
    let mut tiers = LeafTiers::of(&page, |_| false);
    tiers.sum = sum;
    tiers
}

/// Writes what has changed; returns page and slot of each.
fn write(tiers: &mut Tiers, is_good: bool) -> Vec<(PageKey, u64)> {
    tiers.freeze(&BTreeSet::new());
    let mut written = Vec::new();
    while let Some(key) = tiers.next_changed(|_| true) {
        let page = match tiers.work(key) {
            Work::Read(_) => TierPage::empty(),
            Work::Make(page) => page,
        };
        if let Some((slot, page)) = tiers.place(key, page) {
            let (_, crc) = page.encode(DiskId(key.0), key.1);
            tiers.page_written(key, slot, crc, is_good);
            written.push((key, slot));
        }
    }
    written
}

#[test]
fn a_slot_that_a_durable_checkpoint_names_is_not_used_again_before_the_next_is_durable() {
    let mut tiers = tiers();
    tiers.leaf_written(1, 0, leaf(1));
    let first = write(&mut tiers, true);
    assert!(tiers.durable().is_empty());
    let mut seen = vec![first[0].1];
    // Failed attempts, more than there are slots.
    for attempt in 0..6 {
        tiers.leaf_written(1, 0, leaf(2 + attempt));
        let written = write(&mut tiers, attempt % 2 == 0);
        assert!(written.len() == 1 && written[0].1 != first[0].1, "{written:?}");
        seen.push(written[0].1);
    }
    assert_eq!(tiers.disk((1, "d", 1 << 30), None).pages.len(), 1);
    tiers.durable();
    assert_eq!(tiers.slots.free(), 3);
}

#[test]
fn what_does_not_fit_is_unknown_and_not_empty() {
    let mut tiers = tiers();
    for page in [0, 1, 7, 9] {
        tiers.leaf_written(1, page * PAGE_LEAVES as u64, leaf(page));
    }
    assert_eq!(write(&mut tiers, true).len(), 2);
    tiers.durable();
    let disk = tiers.disk((1, "d", 1 << 40), None);
    assert_eq!((disk.unlisted_from, disk.pages.len()), (7, 2));
    assert_eq!(tiers.work((1, 8)), Work::Make(TierPage::unknown()));
    assert_eq!(tiers.work((1, 3)), Work::Make(TierPage::empty()));
    // A leaf that maps nothing any more makes room.
    tiers.leaf_written(1, 0, LeafTiers::EMPTY);
    tiers.leaf_written(1, 8 * PAGE_LEAVES as u64, leaf(3));
    assert_eq!(write(&mut tiers, true).len(), 1);
    let disk = tiers.disk((1, "d", 1 << 40), None);
    assert_eq!(disk.pages.iter().map(|page| page.number).collect::<Vec<_>>(), [1, 8]);
    // The root is lost: nothing is known any more of what was not written since.
    let mut again = Tiers::new(tiers.area);
    again.load(None, [1].into_iter());
    assert_eq!(again.work((1, 0)), Work::Make(TierPage::unknown()));
}

#[test]
fn a_band_waits_for_a_checkpoint_that_began_after_it_was_freed() {
    let mut tiers = tiers();
    tiers.pin(3);
    tiers.freeze(&BTreeSet::new());
    tiers.pin(4);
    assert_eq!((tiers.pinned(), tiers.durable()), (2, vec![3]));
    tiers.freeze(&BTreeSet::new());
    assert_eq!((tiers.durable(), tiers.pinned()), (vec![4], 0));
}

/// A failed attempt had written all pages: the next one found no slot, and dropped the pages.
#[test]
fn pages_of_an_attempt_that_came_to_nothing_are_written_in_their_place_again() {
    let mut tiers = tiers();
    let both = [0, PAGE_LEAVES as u64];
    both.iter().for_each(|&number| tiers.leaf_written(1, number, leaf(1)));
    write(&mut tiers, true);
    tiers.durable();
    for attempt in 2..5 {
        both.iter().for_each(|&number| tiers.leaf_written(1, number, leaf(attempt)));
        assert_eq!(write(&mut tiers, true).len(), 2);
        let disk = tiers.disk((1, "d", 1 << 40), None);
        assert_eq!((disk.unlisted_from, disk.pages.len()), (ALL_LISTED, 2), "attempt {attempt}");
    }
    // A page written in its own place may be lost: then it is unknown, and not empty.
    tiers.leaf_written(1, 0, leaf(5));
    assert_eq!(write(&mut tiers, false).len(), 1);
    assert_eq!(tiers.work((1, 0)), Work::Make(TierPage::empty()));
    tiers.freeze(&BTreeSet::new());
    assert_eq!(tiers.next_changed(|_| true), Some((1, 0)));
    let (_, page) = tiers.place((1, 0), TierPage::empty()).unwrap();
    assert_eq!(page.leaves[0], Some(leaf(5)));
    assert!(page.leaves[1..].iter().all(Option::is_none));
}

/// Checkpoints without the capacity tier keep no more than they may, and what they do not keep is unknown.
#[test]
fn leaves_that_wait_for_too_long_are_forgotten() {
    let mut tiers = tiers();
    tiers.leaf_written(1, 0, leaf(1));
    write(&mut tiers, true);
    tiers.durable();
    (0..40).for_each(|number| tiers.leaf_written(1, number, leaf(number + 2)));
    tiers.pin(7);
    tiers.freeze(&BTreeSet::new());
    assert_eq!(tiers.durable_without(20), vec![7]);
    tiers.freeze(&BTreeSet::new());
    let keys: Vec<PageKey> = std::iter::from_fn(|| tiers.next_changed(|_| true)).collect();
    assert_eq!(keys, [(1, 0), (1, 1)]);
    let (_, page) = tiers.place((1, 0), TierPage::empty()).unwrap();
    let known: Vec<usize> = (0..PAGE_LEAVES).filter(|&at| page.leaves[at].is_some()).collect();
    assert_eq!(known, (0..10).collect::<Vec<_>>());
}

/// Where this side could not be written, pages that a failed flush had covered were not written again, and named by the next root as if they had been.
#[test]
fn regression_pages_that_a_failed_flush_covered_are_written_again() {
    let mut tiers = tiers();
    tiers.leaf_written(1, 0, leaf(1));
    let [(key, slot)] = write(&mut tiers, true)[..] else { panic!("one page") };
    assert_eq!(write(&mut tiers, true), [], "nothing has changed");
    tiers.doubt_undurable();
    assert_eq!(tiers.work(key), Work::Read(slot), "what it says is known from itself");
    tiers.freeze(&BTreeSet::new());
    assert_eq!(tiers.next_changed(|_| true), Some(key), "it is not written again");
    let mut read = TierPage::empty();
    read.leaves[0] = Some(leaf(1));
    let (again, page) = tiers.place(key, read.clone()).unwrap();
    assert!(again != slot && page == read);
    tiers.page_written(key, again, page.encode(DiskId(1), 0).1, true);
    assert_eq!(write(&mut tiers, true), []);
    // What a durable root names has reached the medium.
    tiers.durable();
    tiers.doubt_undurable();
    assert_eq!(write(&mut tiers, true), []);
}

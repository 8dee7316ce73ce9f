use super::*;
use proptest::prelude::*;

fn entry(grains: u16, block: u64) -> SummaryEntry {
    let (disk, class) = (DiskId(1), ClassId(119));
    SummaryEntry { disk, class, note: 7, grains, checksum: 1, block, origin: COUNTER_LIMIT - 1 }
}

const NAME: SummaryName = SummaryName { band: 5, group: 3, generation: 2 };

fn round_trip(entries: &[SummaryEntry], group_grains: u32) -> Option<Vec<SummaryEntry>> {
    let bytes = encode(&[1; 16], NAME, 9, entries);
    let decoded = decode(&[1; 16], NAME, group_grains, &bytes);
    let first = &bytes[bytes.len() - PAGE_BYTES..];
    if bytes.len() > PAGE_BYTES {
        let pages = (bytes.len() / PAGE_BYTES) as u32;
        assert_eq!(
            decode(&[1; 16], NAME, group_grains, first),
            Some(Summary::Longer { pages, generation: NAME.generation })
        );
    }
    decoded?.whole()
}

proptest! {
    #[test]
    fn summaries_of_any_lengths_round_trip(lengths in proptest::collection::vec(16u16..=128, 0..=ENTRIES_MAX)) {
        let entries: Vec<_> = lengths.iter().map(|&grains| entry(grains, (1 << 48) - 1)).collect();
        let grains: u32 = lengths.iter().map(|&grains| u32::from(grains)).sum();
        prop_assert_eq!(round_trip(&entries, grains), Some(entries.clone()));
        let mut next = 0;
        for (at, entry) in placed(&entries) {
            prop_assert_eq!(at, next);
            next += u32::from(entry.grains);
        }
        if grains > 0 {
            prop_assert_eq!(round_trip(&entries, grains - 1), None, "more than the group holds");
        }
    }

    /// A page of another writing or another place, or a damaged one, is no part of this summary.
    #[test]
    fn pages_of_two_writings_are_no_summary(more in 1..=ENTRIES_MAX - PAGE_ENTRIES, other in 0..5u8) {
        let count = PAGE_ENTRIES + more;
        let entries: Vec<_> = (0..count as u64).map(|block| entry(16, block)).collect();
        let mut bytes = encode(&[1; 16], NAME, 9, &entries);
        let elsewhere = SummaryName { generation: 3, ..NAME };
        let another = match other {
            0 => encode(&[1; 16], NAME, 8, &entries),
            1 => encode(&[1; 16], elsewhere, 9, &entries),
            2 => encode(&[2; 16], NAME, 9, &entries),
            3 => encode(&[1; 16], NAME, 9, &entries[..count - 1]),
            _ => vec![0; bytes.len()],
        };
        // The page before the first, which is the last.
        let at = bytes.len() - 2 * PAGE_BYTES;
        let from = another.len().saturating_sub(2 * PAGE_BYTES);
        bytes[at..at + PAGE_BYTES].copy_from_slice(&another[from..from + PAGE_BYTES]);
        prop_assert_eq!(decode(&[1; 16], NAME, 64 * 128, &bytes), None);
    }

    #[test]
    fn every_block_of_a_band_is_data_or_one_summary(blocks in 2u32..400, row in 2u32..=16) {
        let shape = BandShape::new(u64::from(blocks) * 4096);
        let is_summary = |block: u32| shape.summary_block(shape.group_of(block)) == block;
        let data = (0..blocks).filter(|&block| !is_summary(block)).count() as u32;
        prop_assert_eq!(data, shape.data_blocks());
        prop_assert_eq!(data, blocks - blocks.div_ceil(64));
        for block in 0..=blocks {
            let left = (block..blocks).filter(|&block| !is_summary(block)).count() as u32;
            prop_assert_eq!(shape.data_left(block), left);
            let next = (block..blocks).find(|&block| !is_summary(block)).unwrap_or(blocks);
            prop_assert_eq!(shape.skip_summary(block), next);
        }
        for block in (0..blocks).filter(|&block| !is_summary(block)) {
            prop_assert_eq!(shape.next_row(block, 1), block);
            let next = shape.next_row(block, row);
            prop_assert!(!(block..=next).any(is_summary) && (next == block || next.is_multiple_of(row)));
            let is_passed = |at: u32| at.is_multiple_of(row) || is_summary(at);
            prop_assert!((block + 1..next).all(|at| !is_passed(at)));
        }
        let sum: u32 = (0..shape.groups()).map(|group| shape.group_grains(group)).sum();
        prop_assert_eq!(sum, data * 128);
    }
}

#[test]
fn summaries_of_others_and_impossible_entries_are_refused() {
    let page = encode(&[1; 16], NAME, 9, &[entry(128, 1)]);
    for other in
        [SummaryName { band: 4, ..NAME }, SummaryName { group: 4, ..NAME }, SummaryName { generation: 3, ..NAME }]
    {
        assert!(decode(&[1; 16], other, 8064, &page).is_none());
    }
    assert!(decode(&[2; 16], NAME, 8064, &page).is_none());
    for bad in [
        entry(0, 1),
        entry(129, 1),
        SummaryEntry { class: ClassId(120), ..entry(128, 1) },
        SummaryEntry { origin: COUNTER_LIMIT, ..entry(128, 1) },
        SummaryEntry { checksum: 1 << CHECKSUM_BITS, ..entry(127, 1) },
    ] {
        assert_eq!(round_trip(&[bad], 8064), None, "{bad:?}");
    }
    let whole = SummaryEntry { checksum: 1 << CHECKSUM_BITS, ..entry(128, 1) };
    assert_eq!(round_trip(&[whole], 8064), Some(vec![whole]));
}

#[test]
fn data_ends_before_the_pages_of_the_summary() {
    let shape = BandShape::new(100 * 4096);
    assert_eq!(
        [0, 1, 168, 169, 336, 337, 504, 505, 1008, 9999].map(|entries| shape.data_end(0, entries)),
        [63, 63, 63, 62, 62, 61, 61, 60, 58, 58]
    );
    assert_eq!(shape.data_end(1, 400), 97);
    assert_eq!(BandShape::new(65 * 4096).data_end(1, 400), 64, "a group that is a summary alone");
}

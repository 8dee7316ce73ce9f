use super::*;

#[test]
fn entries_round_trip_at_the_edges() {
    let mut page = vec![0u8; PAGE_BYTES];
    let data = Entry::Data { span: Span::whole(GRAINS_MAX - BLOCK_GRAINS), class: ClassId(119) };
    set_leaf_entry(&mut page, 0, data, 7);
    set_leaf_entry(&mut page, 399, Entry::Zero, 9);
    set_leaf_entry(&mut page, 398, Entry::Damaged, 0);
    assert_eq!(leaf_entry(&page, 0), (data, 7));
    assert_eq!(leaf_entry(&page, 1), (Entry::Unmapped, 0));
    assert_eq!(leaf_entry(&page, 398).0, Entry::Damaged);
    assert_eq!(leaf_entry(&page, 399), (Entry::Zero, 9));
    let name = PageName { disk: DiskId(3), number: 5, generation: 2 };
    let crc = seal_leaf(&mut page, name);
    assert!(is_leaf(&page, name, crc));
    assert!(!is_leaf(&page, PageName { number: 6, ..name }, crc));
    page[4095] ^= 1;
    assert!(!is_leaf(&page, name, crc));
    assert_eq!(leaf_entry(&page, 0), (data, 7), "the header does not overlap the entries");
}

#[test]
fn spans_of_every_length_round_trip() {
    let mut page = vec![0u8; PAGE_BYTES];
    for grains in 1..=128 {
        for location in [0, 1, 7, 127, 128, 1 << 39, GRAINS_MAX - 1] {
            let span = Span { location, grains };
            assert_eq!(Span::unpack(span.pack()), Some(span));
            let bytes_each = GRAIN_BYTES;
            let len_bytes = usize::from(grains) * bytes_each;
            assert_eq!(Window::of(span, 1), Window { first: location, len_bytes });
            let window = Window::of(span, BLOCK_GRAINS);
            assert!(
                window.first.is_multiple_of(BLOCK_GRAINS)
                    && window.len_bytes.is_multiple_of(4096)
                    && window.len_bytes <= 8192
            );
            let bytes: Vec<u8> = (0..=255u8).flat_map(|grain| [grain; GRAIN_BYTES]).take(window.len_bytes).collect();
            let stored = window.stored(span, &bytes).unwrap();
            assert_eq!(stored.len(), len_bytes);
            assert_eq!(window.first + u64::from(stored[0]), location);
            if (1..128).contains(&grains) {
                let (entry, checksum) = (Entry::Data { span, class: ClassId(119) }, (1 << CHECKSUM_BITS) - 1);
                set_leaf_entry(&mut page, 7, entry, checksum);
                assert_eq!(leaf_entry(&page, 7), (entry, checksum));
                assert_eq!((leaf_entry(&page, 6).0, leaf_entry(&page, 8).0), (Entry::Unmapped, Entry::Unmapped));
            }
        }
    }
    assert_eq!(Span::unpack(1 << SPAN_BITS), None);
    assert_eq!(Span::whole(128), Span { location: 128, grains: 128 });
}

#[test]
fn entries_that_no_program_writes_are_damage() {
    let code = CODE_DATA << CODE_SHIFT;
    assert_eq!(Entry::unpack(code | 1 << 35, 0).0, Entry::Damaged, "beyond 128 TiB");
    assert_eq!(Entry::unpack(code | PACKED_BIT, 0).0, Entry::Damaged, "without a length");
    for reserved in 3..8 {
        assert_eq!(Entry::unpack(reserved << CODE_SHIFT, 0).0, Entry::Damaged);
    }
}

#[test]
fn clocks_tell_when_neighbours_are_due() {
    let mut page = vec![0u8; PAGE_BYTES];
    set_due(&mut page, 0, 10);
    set_due(&mut page, 399, 12);
    set_due(&mut page, 8, 100);
    let name = PageName { disk: DiskId(1), number: 0, generation: 9 };
    let crc = seal_leaf(&mut page, name);
    assert!(is_leaf(&page, name, crc));
    let epochs = [0, 7, 8, 16, 392, 399].map(|i| due_epoch(&page, i));
    assert_eq!(epochs, [10, 10, 100, 0, 12, 12]);
    set_due(&mut page, 16, 1000);
    assert_eq!([0, 8, 16].map(|i| due_epoch(&page, i)), [745, 745, 1000], "an age has one byte");
    set_due(&mut page, 16, 900);
    set_due(&mut page, 24, 10);
    let epochs = [8, 16, 24].map(|i| due_epoch(&page, i));
    assert_eq!(epochs, [745, 900, 745], "what is due before others need not be written before them");
    limit_due(&mut page, 1000);
    assert_eq!(due_epoch(&page, 16), 900);
    limit_due(&mut page, 999);
    assert_eq!([8, 16, 24].map(|i| due_epoch(&page, i)), [999; 3]);
    assert_eq!(leaf_entry(&page, 0), (Entry::Unmapped, 0), "the clocks do not overlap the entries");
}

#[test]
fn index_pages_round_trip() {
    let name = PageName { disk: DiskId(1), number: 0, generation: 9 };
    let mut page = vec![0u8; PAGE_BYTES];
    let last = PageRef { location: GRAINS_MAX - BLOCK_GRAINS, stageable: 400, crc: 3, generation: 4 };
    let all = (0..INDEX_ENTRIES).map(|i| if i == 249 { last } else { PageRef::default() });
    let crc = encode_index(name, all, &mut page);
    let decoded = decode_index(&page, name, crc).unwrap();
    assert_eq!((decoded[0], decoded[249]), (PageRef::default(), last));
    assert!(decode_index(&page, name, crc ^ 1).is_none());
}

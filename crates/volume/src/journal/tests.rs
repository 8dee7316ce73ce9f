//! Where batches begin and end.

use super::*;
use crate::layout::record::Record;
use forebay_block::DiskId;

/// Place and length in bytes of a batch with one record, checked to be readable.
fn seal_one(journal: &mut Journal, fua: bool) -> (u64, usize) {
    journal.append(|out| Record::Zero { disk: DiskId(1), block: 7, blocks: 1 }.put(out));
    journal.join(0);
    if fua {
        journal.make_durable();
    }
    let sealed = journal.seal(false).unwrap();
    let (header, records) = batch::decode_batch(&sealed.bytes, &Id::default()).unwrap();
    assert_eq!((header.batch, records.len(), sealed.fua), (sealed.batch, 1, fua));
    (sealed.offset_bytes, sealed.bytes.len())
}

fn journal(len_bytes: u64) -> Journal {
    let geometry = JournalGeometry { offset_bytes: 1 << 20, len_bytes, sector_bytes: 512 };
    Journal::new(geometry, Id::default(), 1, 0, 1, 1)
}

#[test]
fn a_batch_past_the_cache_ends_with_its_page_and_others_with_their_sector() {
    let start = 1 << 20;
    let mut wide = journal(1 << 20);
    assert_eq!(seal_one(&mut wide, false), (start, 512));
    assert_eq!(seal_one(&mut wide, true), (start + 512, 3584));
    assert_eq!(seal_one(&mut wide, true), (start + 4096, 4096));
    assert_eq!(seal_one(&mut wide, false), (start + 8192, 512));
    // No batch of a journal so small is longer than a page.
    let mut small = journal(128 << 10);
    assert_eq!(seal_one(&mut small, true), (start, 512));
}

#[test]
fn what_is_accepted_fits_whatever_is_padded() {
    for len_bytes in [128 << 10, 256 << 10, 1 << 20] {
        let mut journal = journal(len_bytes);
        while journal.accepts(48, false) {
            seal_one(&mut journal, true);
        }
        assert!(journal.unflushed_bytes() <= journal.window_bytes());
        assert!(journal.used_bytes() > 0 && journal.used_bytes() <= journal.len_bytes());
    }
}

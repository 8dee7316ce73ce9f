//! A scrub reads the pages of the map from each copy that the fast device has. Pages that are held in memory would otherwise not be missed until the other
//! copies are lost, or the pool is opened again.

use super::map::Map;
use super::outbox::{Outbox, PageCopies, Pending};
use crate::layout::page::{INDEX_ENTRIES, PAGE_BYTES, PageName, PageRef, decode_index, is_leaf};
use crate::readings::good;
use forebay_block::{Buf, DiskId, IoError, IoErrorKind, Op, Vectored};

/// What the map names for a page now.
fn named(disk: DiskId, number: u64, is_index: bool, map: &Map) -> Option<PageRef> {
    let disk = map.disk(disk)?;
    let reference = match is_index {
        true => disk.pages.get(number as usize)?.as_ref()?.reference,
        false => disk.leaf(number).0,
    };
    (reference.location != 0).then_some(reference)
}

/// A page that no reading gives.
pub(crate) struct Unreadable {
    pub disk: DiskId,
    pub number: u64,
    pub is_index: bool,
    reference: PageRef,
}

impl Unreadable {
    /// Whether memory has the leaf as it was written. It has not where the leaf was read as something else before: it counts as damaged then until somebody can
    /// read it.
    pub fn is_in(&self, page: &[u8]) -> bool {
        let name = PageName { disk: self.disk, number: self.number, generation: self.reference.generation };
        is_leaf(page, name, self.reference.crc)
    }
}

/// Begins with a leaf, and in front of it with its index page, where the leaf is the first of that page, or would be if the page had any. A leaf that is not in
/// memory and has only one copy is left out: it is read with what it maps.
pub(crate) fn begin(disk: DiskId, leaf: u64, map: &Map, outbox: &mut Outbox) {
    let is_compared = map.setup.copies > 1 || map.in_memory(disk, leaf).is_some();
    let entries = INDEX_ENTRIES as u64;
    let first = map.disk(disk).and_then(|disk| disk.next_leaf(leaf / entries * entries));
    let is_bare = leaf.is_multiple_of(entries) && first.is_none_or(|first| first / entries > leaf / entries);
    let index = (first == Some(leaf) || is_bare).then_some((leaf / entries, true));
    for (number, is_index) in index.into_iter().chain(is_compared.then_some((leaf, false))) {
        if let Some(reference) = named(disk, number, is_index, map) {
            let copies = PageCopies {
                disk,
                number,
                is_index,
                reference,
                attempt: 0,
                good: None,
                has_bad: false,
                is_away: false,
            };
            send(Box::new(copies), map, outbox);
        }
    }
}

fn send(copies: Box<PageCopies>, map: &Map, outbox: &mut Outbox) {
    if let Some((device, offset_bytes)) = map.setup.extents.place(copies.reference.location) {
        // A copy that cannot be read is bad: another one must not answer for it.
        let op = Op::Read { bufs: Vectored::One(Buf::new(PAGE_BYTES)), attempt: copies.attempt | Op::ALONE };
        outbox.send(device, offset_bytes, 0, op, Pending::ScrubPage(copies));
    }
}

/// A copy was read. When all were, bad ones are written again, where the map still names the page. Returns the page where no copy is good.
pub(crate) fn read(
    mut copies: Box<PageCopies>,
    read: (Result<(), IoError>, Option<Vectored<Buf>>),
    map: &Map,
    outbox: &mut Outbox,
) -> Option<Unreadable> {
    let PageCopies { disk, number, is_index, reference, .. } = *copies;
    let name = PageName { disk, number, generation: reference.generation };
    let is_good = |bytes: &Buf| match is_index {
        true => decode_index(bytes, name, reference.crc).is_some(),
        false => is_leaf(bytes, name, reference.crc),
    };
    copies.is_away |= read.0.as_ref().is_err_and(|error| error.kind != IoErrorKind::Medium);
    match good(read.0, read.1).filter(is_good) {
        Some(bytes) => copies.good = Some(bytes),
        None => copies.has_bad = true,
    }
    copies.attempt += 1;
    // One transfer may go wrong, so a page without a good copy is read again.
    let is_read_again = copies.good.is_none() && copies.attempt < map.setup.read_attempts(0);
    if copies.attempt < map.setup.copies || is_read_again {
        send(copies, map, outbox);
        return None;
    }
    let is_same = |now: PageRef| {
        (now.location, now.crc, now.generation) == (reference.location, reference.crc, reference.generation)
    };
    if !copies.has_bad || !named(disk, number, is_index, map).is_some_and(is_same) {
        return None;
    }
    let Some(good) = copies.good else {
        return Some(Unreadable { disk, number, is_index, reference }).filter(|_| !copies.is_away);
    };
    outbox.mend(&map.setup, reference.location, good);
    None
}

//! Mends: writes again what was wrong at one place and was read well at another.

use super::piece::{NOWHERE, Piece, PieceKind};
use crate::engine::map::Map;
use crate::engine::mend_groups;
use crate::engine::outbox::Outbox;
use crate::engine::setup::Setup;
use crate::layout::page::{Entry, LEAF_ENTRIES, Span, leaf_entry};
use crate::space::bands::Bands;
use forebay_block::{BLOCK_BYTES as BLOCK, Buf};
use smallvec::SmallVec;

/// Writes the blocks of a piece that were wrong, and were read well at last, to where they lie, and nothing else: of what lies beside
/// them in a row, parity may be all that is left. Only blocks that the map still names are written: other space may have been given to
/// others. A later write of a host to the same place reaches the device later, as mirrors and parity arrays keep the order of writes
/// that overlap.
pub(super) fn mend(piece: &Piece, map: &Map, setup: &Setup, bands: &Bands, outbox: &mut Outbox) {
    let (Some(leaf), Some(data)) = (map.in_memory(piece.disk, piece.leaf), piece.buf.as_deref()) else { return };
    let read = piece.spans.iter().zip(&piece.checksums).zip(data.chunks_exact(BLOCK));
    for (at, ((span, checksum), block)) in (usize::from(piece.first)..LEAF_ENTRIES).zip(read) {
        let (entry, named) = leaf_entry(&leaf.page, at);
        let is_there = matches!(entry, Entry::Data { span: there, .. } if there == *span) && named == *checksum;
        let number = (at - usize::from(piece.first)) as u16;
        if is_there && span.is_whole() && piece.wrong.contains(&number) {
            outbox.mend(setup, span.location, Buf::copy_of(block));
        } else if is_there && !span.is_whole() && piece.wrong_groups.contains(&number) {
            // Compressed blocks share blocks of the device, so their group is mended as a whole.
            mend_groups::begin(span.location, most_groups(piece), (setup, bands), outbox);
        }
    }
}

/// Blocks of a piece, not compressed, that were wrong where they lie.
pub(super) fn wrong_of(right: &[bool], spans: &[Span]) -> SmallVec<[u16; 4]> {
    let is_wrong =
        |(_, (is_right, span)): &(usize, (&bool, &Span))| !**is_right && **span != NOWHERE && span.is_whole();
    right.iter().zip(spans).enumerate().filter(is_wrong).map(|(at, _)| at as u16).collect()
}

/// Begins to mend the compressed blocks of a piece that no single reading gives: its blocks may be wrong in different ways. Each group is mended by itself, for
/// whoever reads it next.
pub(super) fn mend_groups_of(piece: &Piece, setup: &Setup, bands: &Bands, outbox: &mut Outbox) {
    for span in piece.spans.iter().filter(|span| **span != NOWHERE && !span.is_whole()) {
        mend_groups::begin(span.location, most_groups(piece), (setup, bands), outbox);
    }
}

/// How many groups may be mended at once. A scrub has no limit: nobody else may ever read what it has read.
fn most_groups(piece: &Piece) -> usize {
    if matches!(piece.kind, PieceKind::Scrub) { usize::MAX } else { mend_groups::AT_ONCE }
}

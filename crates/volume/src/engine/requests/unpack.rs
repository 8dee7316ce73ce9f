//! Unpacks compressed blocks that were read.

use crate::engine::Engine;
use crate::layout::packed::is_stored;
use crate::layout::page::Window;
use crate::readings::single;
use crate::request::RequestError;
use forebay_block::{BLOCK_BYTES as BLOCK, Buf, Vectored};

impl Engine {
    /// A run of compressed blocks was read, with what lies around them.
    pub(super) fn packed_read_done(
        &mut self,
        (id, part): (u32, u16),
        error: Option<RequestError>,
        bufs: Option<Vectored<Buf>>,
    ) {
        let Some(piece) = self.requests.pieces.get_mut(id as usize) else {
            return;
        };
        let (disk, base) = (piece.disk, piece.block());
        if let Some((first, Some(blocks))) = piece.parts.get_mut(usize::from(part)) {
            let first = usize::from(*first);
            let run = first..first + blocks.len() / BLOCK;
            let bytes = single(bufs).unwrap_or_else(Buf::empty);
            let spans = piece.spans.get(run.clone()).unwrap_or_default();
            let ends = spans.first().zip(spans.last());
            let around = ends.map_or_else(Window::default, |(&a, &b)| Window::around(a, b, self.setup.unit_grains));
            let mut bad = None;
            for ((at, span), block) in run.zip(spans).zip(blocks.chunks_exact_mut(BLOCK)) {
                let address = base + at as u64;
                let stored = around.stored(*span, &bytes).filter(|_| error.is_none());
                let named = piece.checksums.get(at).copied();
                let is_named = |stored: &[u8]| named.is_some_and(|named| is_stored(disk, address, stored, named));
                let is_good = stored.is_some_and(|stored| is_named(stored) && self.packing.unpack(stored, block));
                if !is_good {
                    piece.wrong_packed.push(at as u16);
                    bad.get_or_insert(RequestError::Damaged { disk, offset_bytes: address * BLOCK as u64 });
                }
            }
            piece.error = error.or(bad).or(piece.error.take());
        }
        self.read_part_done(id);
    }
}

//! Compresses what a write sends straight to a band.

use super::piece::Piece;
use crate::engine::packing::Packing;
use crate::layout::page::{BLOCK_GRAINS, GRAIN_BYTES};
use forebay_block::{BLOCK_BYTES as BLOCK, ClassId};
use forebay_prism::Compress;

/// A host waits for this: higher levels of Zstandard would be clearly slower than a QLC drive.
const LEVEL_MAX: u8 = 3;
/// Where less than this part of the blocks would be saved, all of them are stored uncompressed.
const WORTH_PART: usize = 16;

/// Compresses blocks of a piece, from number `from` on. Returns the grains that each takes, 128 for those that stay uncompressed; empty where all stay so.
pub(crate) fn sizes(
    (packing, class, compress): (&mut Packing, ClassId, Compress),
    piece: &mut Piece,
    from: usize,
    data: &[u8],
) -> Vec<u8> {
    let compress = match compress {
        Compress::Off => return Vec::new(),
        Compress::Zstd(level) => Compress::Zstd(level.min(LEVEL_MAX)),
        Compress::Lz4 => Compress::Lz4,
    };
    piece.packed.resize(usize::from(piece.blocks), None);
    let (disk, first) = (piece.disk, piece.block() + from as u64);
    let forms = (first..).zip(piece.packed.iter_mut().skip(from));
    let mut sizes: Vec<u8> = forms
        .zip(data.chunks_exact(BLOCK))
        .map(|((address, form), block)| {
            // A write that waited for space has compressed the block already.
            if form.is_none() {
                *form = packing.pack((class, compress), (disk, address), block);
            }
            form.as_ref().map_or(BLOCK_GRAINS as u8, |form| (form.len() / GRAIN_BYTES) as u8)
        })
        .collect();
    let runs = sizes.chunk_by_mut(|before, after| is_packed(*before) == is_packed(*after));
    let mut saved = 0;
    for run in runs.filter(|run| is_packed(run[0])) {
        let grains: usize = run.iter().map(|&size| usize::from(size)).sum();
        let saves = run.len() - grains.div_ceil(BLOCK_GRAINS as usize);
        if saves == 0 {
            run.fill(BLOCK_GRAINS as u8);
        }
        saved += saves;
    }
    if saved * WORTH_PART < sizes.len() {
        return Vec::new();
    }
    piece.sizes.resize(usize::from(piece.blocks), BLOCK_GRAINS as u8);
    piece.sizes.iter_mut().skip(from).zip(&sizes).for_each(|(known, &size)| *known = size);
    sizes
}

/// Whether a block of so many grains is compressed.
fn is_packed(grains: u8) -> bool {
    u64::from(grains) < BLOCK_GRAINS
}

//! Compressing what a write sends straight to a band.

use super::piece::Piece;
use crate::engine::packing::Packing;
use crate::layout::page::BLOCK_SECTORS;
use forebay_block::{ClassId, SECTOR_BYTES};
use forebay_prism::Compress;

const BLOCK: usize = 4096;
/// A host waits for this, so no higher level of Zstandard is used than one that a QLC drive is hardly faster than.
const LEVEL_MAX: u8 = 3;
/// Where less than this part of the blocks would be saved they are all stored as they are.
const WORTH_PART: usize = 8;

/// Compresses blocks of a piece, from number `from` on; the sectors that each takes, 8 for those that stay as they are. Empty:
/// all stay so.
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
    let forms = piece.packed.iter_mut().skip(from);
    let mut sizes: Vec<u8> = forms
        .zip(data.chunks_exact(BLOCK))
        .map(|(form, block)| {
            // A write that waited for space has compressed it already.
            if form.is_none() {
                *form = packing.pack(class, compress, block);
            }
            form.as_ref().map_or(BLOCK_SECTORS as u8, |form| (form.len() / SECTOR_BYTES) as u8)
        })
        .collect();
    let runs = sizes.chunk_by_mut(|before, after| is_packed(*before) == is_packed(*after));
    let mut saved = 0;
    for run in runs.filter(|run| is_packed(run[0])) {
        let sectors: usize = run.iter().map(|&size| usize::from(size)).sum();
        let saves = run.len() - sectors.div_ceil(BLOCK_SECTORS as usize);
        if saves == 0 {
            run.fill(BLOCK_SECTORS as u8);
        }
        saved += saves;
    }
    if saved * WORTH_PART < sizes.len() {
        return Vec::new();
    }
    piece.sizes.resize(usize::from(piece.blocks), BLOCK_SECTORS as u8);
    piece.sizes.iter_mut().skip(from).zip(&sizes).for_each(|(known, &size)| *known = size);
    sizes
}

/// Whether a block of so many sectors is compressed.
fn is_packed(sectors: u8) -> bool {
    u64::from(sectors) < BLOCK_SECTORS
}

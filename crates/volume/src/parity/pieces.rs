//! Buffers of a read that was cut into pieces, as they were asked for.

use super::jobs::Piece;
use forebay_block::{Buf, Vectored};

/// Pieces in their order as buffers of these lengths.
pub(super) fn whole(pieces: Vec<Piece>, lens: Vec<usize>, is_single: bool) -> Vectored<Buf> {
    let mut pieces = pieces.into_iter();
    let mut bufs = Vec::with_capacity(lens.len());
    for len in lens {
        let mut parts = Vec::new();
        let mut left = len;
        while left > 0 {
            let Some(piece) = pieces.next() else { break };
            left -= piece.len;
            parts.push(piece.buf.unwrap_or_else(|| Buf::zeroed(piece.len)));
        }
        bufs.push(joined(parts, len));
    }
    match (is_single, bufs.pop()) {
        (true, Some(one)) => Vectored::One(one),
        (_, last) => {
            bufs.extend(last);
            Vectored::Many(bufs)
        }
    }
}

/// Parts as one buffer: those of one allocation without a copy.
fn joined(parts: Vec<Buf>, len: usize) -> Buf {
    let mut parts = parts.into_iter();
    let Some(mut whole) = parts.next() else { return Buf::new(len) };
    let mut others = Vec::new();
    for part in parts {
        if !others.is_empty() {
            others.push(part);
        } else if let Err(part) = whole.try_join(part) {
            others.push(part);
        }
    }
    if others.is_empty() {
        return whole;
    }
    let mut all = Buf::new(len);
    let mut at = 0;
    for part in std::iter::once(&whole).chain(&others) {
        all[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    all
}

/// Buffers of these lengths: those of a request that a member was left behind with are gone.
pub(super) fn new_bufs(lens: &[usize]) -> Vectored<Buf> {
    match lens {
        [one] => Vectored::One(Buf::new(*one)),
        several => Vectored::Many(several.iter().map(|&len| Buf::new(len)).collect()),
    }
}

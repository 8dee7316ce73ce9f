//! Splits requests into sectors, and joins sectors into requests.

use forebay_block::{Buf, Op, SharedBuf, Vectored};
use forebay_proof::cache::Version;

/// Longest request that is joined from sectors, in bytes.
const PIECE_MAX_BYTES: usize = 256 << 10;

/// The content of a sector after an operation.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Written bytes, one sector long.
    Data(SharedBuf),
    /// Zeros from a write-zeroes.
    Zeroes,
    /// Discarded; reads as zeros here.
    Discarded,
}

impl Content {
    /// Copies the sector's bytes.
    pub(super) fn copy_to(&self, into: &mut [u8]) {
        match self {
            Self::Data(bytes) => into.copy_from_slice(bytes),
            Self::Zeroes | Self::Discarded => into.fill(0),
        }
    }
}

/// Adjacent sectors of one kind of content as one operation.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) offset_bytes: u64,
    pub(super) op: Op,
    /// Sectors that the operation settles, each with its operation number.
    pub(super) settles: Vec<(u64, u64)>,
}

/// Splits the buffers of a write into units. Only a unit that spans two buffers is copied.
pub(super) fn cut(bufs: &Vectored<SharedBuf>, unit_bytes: usize) -> Vec<SharedBuf> {
    let mut units = Vec::new();
    let mut partial: Vec<u8> = Vec::new();
    for buf in bufs.as_slice() {
        let mut at = 0;
        if !partial.is_empty() {
            at = (unit_bytes - partial.len()).min(buf.len());
            partial.extend_from_slice(&buf[..at]);
            if partial.len() == unit_bytes {
                units.push(Buf::copy_of(&partial).freeze());
                partial.clear();
            }
        }
        while buf.len() - at >= unit_bytes {
            units.push(buf.slice(at, unit_bytes));
            at += unit_bytes;
        }
        partial.extend_from_slice(&buf[at..]);
    }
    units
}

/// Copies the sectors in `overlay` over buffers that were read at `offset_bytes`.
pub(super) fn lay_over(bufs: &mut Vectored<Buf>, offset_bytes: u64, overlay: &[(u64, Content)], unit_bytes: u64) {
    let mut bytes = vec![0; unit_bytes as usize];
    for (sector, content) in overlay {
        content.copy_to(&mut bytes);
        scatter(bufs.as_mut_slice(), (sector * unit_bytes - offset_bytes) as usize, &bytes);
    }
}

fn scatter(bufs: &mut [Buf], mut at: usize, mut bytes: &[u8]) {
    for buf in bufs {
        if at >= buf.len() {
            at -= buf.len();
            continue;
        }
        let count = bytes.len().min(buf.len() - at);
        buf[at..at + count].copy_from_slice(&bytes[..count]);
        bytes = &bytes[count..];
        at = 0;
        if bytes.is_empty() {
            return;
        }
    }
}

/// Joins adjacent sectors, given in ascending order, into operations on the inner device.
pub(super) fn coalesce(
    versions: Vec<(u64, Version<Content>)>,
    unit_bytes: u64,
    discards: bool,
    fua: bool,
) -> Vec<Piece> {
    let sectors_max = (PIECE_MAX_BYTES / unit_bytes as usize).max(1);
    let mut pieces = Vec::new();
    let mut versions = versions.into_iter().peekable();
    while let Some((start, first)) = versions.next() {
        let kind = std::mem::discriminant(&first.content);
        let mut settles = vec![(start, first.id)];
        let mut data = Vec::new();
        let discarded = matches!(first.content, Content::Discarded);
        data.extend(bytes_of(first.content));
        while settles.len() < sectors_max {
            let next_sector = start + settles.len() as u64;
            let joins = |(sector, version): &(u64, Version<Content>)| {
                *sector == next_sector && std::mem::discriminant(&version.content) == kind
            };
            let Some((sector, version)) = versions.next_if(joins) else { break };
            settles.push((sector, version.id));
            data.extend(bytes_of(version.content));
        }
        let len_bytes = settles.len() as u64 * unit_bytes;
        let op = if !data.is_empty() {
            Op::Write { bufs: join(&data), fua }
        } else if discarded && discards {
            Op::Discard { len_bytes }
        } else {
            Op::WriteZeroes { len_bytes }
        };
        pieces.push(Piece { offset_bytes: start * unit_bytes, op, settles });
    }
    pieces
}

fn bytes_of(content: Content) -> Option<SharedBuf> {
    match content {
        Content::Data(bytes) => Some(bytes),
        Content::Zeroes | Content::Discarded => None,
    }
}

/// Joins many buffers into one. It copies, but a vector of 512-byte pieces would exceed what the kernel accepts.
fn join(parts: &[SharedBuf]) -> Vectored<SharedBuf> {
    if let [one] = parts {
        return Vectored::One(one.clone());
    }
    let mut whole = Buf::new(parts.iter().map(|part| part.len()).sum());
    let mut at = 0;
    for part in parts {
        whole[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    Vectored::One(whole.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_may_span_buffers() {
        let parts = [700usize, 100, 1248].map(|len| {
            let mut buf = Buf::new(len);
            buf.fill(len as u8);
            buf.freeze()
        });
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
        let units = cut(&Vectored::Many(parts.to_vec()), 512);
        assert_eq!(units.len(), 4);
        assert_eq!(units.iter().flat_map(|unit| unit.to_vec()).collect::<Vec<u8>>(), whole);
    }

    #[test]
    fn only_adjacent_sectors_of_like_content_join() {
        let data = |byte: u8| Content::Data(Buf::copy_of(&[byte; 512]).freeze());
        let versions = vec![
            (3, Version { id: 1, content: data(1) }),
            (4, Version { id: 2, content: data(2) }),
            (5, Version { id: 2, content: Content::Zeroes }),
            (7, Version { id: 2, content: Content::Zeroes }),
            (8, Version { id: 3, content: Content::Discarded }),
        ];
        let pieces = coalesce(versions, 512, true, false);
        let shape: Vec<(u64, usize)> = pieces.iter().map(|p| (p.offset_bytes / 512, p.settles.len())).collect();
        assert_eq!(shape, [(3, 2), (5, 1), (7, 1), (8, 1)]);
        assert!(matches!(pieces[3].op, Op::Discard { len_bytes: 512 }));
    }
}

//! The parts in which a piece was read, as one buffer again.

use forebay_block::Buf;

const BLOCK: usize = 4096;

/// Parts by the block of the piece with which they begin, as one buffer of at least `len_bytes`. They are of one allocation and in order, unless a device has
/// answered in another buffer, as one of several does that has read for another, or with none: then what is there is copied.
pub(super) fn joined(parts: impl IntoIterator<Item = (u16, Option<Buf>)>, len_bytes: usize) -> Buf {
    let mut whole: Option<Buf> = None;
    let mut others = Vec::new();
    for (first, buf) in parts {
        let at = usize::from(first) * BLOCK;
        match (&mut whole, buf) {
            (None, Some(buf)) if at == 0 => whole = Some(buf),
            (Some(whole), Some(buf)) if whole.len() == at => {
                if let Err(buf) = whole.try_join(buf) {
                    others.push((at, buf));
                }
            }
            (_, Some(buf)) => others.push((at, buf)),
            (_, None) => {}
        }
    }
    match whole {
        Some(whole) if others.is_empty() && whole.len() >= len_bytes => whole,
        first => {
            let mut all = Buf::zeroed(len_bytes);
            for (at, part) in first.into_iter().map(|part| (0, part)).chain(others) {
                let end = (at + part.len()).min(len_bytes);
                if let Some(to) = all.get_mut(at..end) {
                    to.copy_from_slice(&part[..end - at]);
                }
            }
            all
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(count: usize) -> Buf {
        let mut buf = Buf::zeroed(count * BLOCK);
        buf.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / BLOCK) as u8 + 1);
        buf
    }

    fn cut(mut buf: Buf, at: &[usize]) -> Vec<(u16, Option<Buf>)> {
        let mut parts: Vec<_> =
            at.iter().rev().map(|&first| (first as u16, Some(buf.split_off(first * BLOCK)))).collect();
        parts.push((0, Some(buf)));
        parts.reverse();
        parts
    }

    /// Parts that came in other buffers were left out, and the host got an error for a read that had succeeded.
    #[test]
    fn regression_parts_in_other_buffers_are_parts() {
        let wanted = blocks(9);
        for foreign in [&[][..], &[0], &[1], &[2], &[0, 1, 2]] {
            let mut parts = cut(blocks(9), &[2, 5]);
            for &part in foreign {
                parts[part].1 = parts[part].1.take().map(|buf| Buf::copy_of(&buf));
            }
            assert!(joined(parts, 9 * BLOCK)[..] == wanted[..], "{foreign:?}");
        }
        // Of what is not there nothing is known; it is there to be read again.
        for missing in 0..3 {
            let mut parts = cut(blocks(9), &[2, 5]);
            let (first, gone) = (usize::from(parts[missing].0), parts[missing].1.take().unwrap());
            let found = joined(parts, 9 * BLOCK);
            let is_gone = |at: usize| (first * BLOCK..first * BLOCK + gone.len()).contains(&at);
            assert!(found.len() == 9 * BLOCK && (0..found.len()).all(|at| is_gone(at) || found[at] == wanted[at]));
        }
    }
}

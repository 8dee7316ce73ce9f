//! Joins the parts in which something was read.

use forebay_block::Buf;

/// Joins parts, each with the byte at which it begins, in order, to one buffer of at least `len_bytes`. Parts of one allocation are joined in place. Where a
/// device has answered in another buffer, as one of several devices does that has read for another, or where a part is missing, the parts that are there are
/// copied.
pub(super) fn joined(parts: impl IntoIterator<Item = (usize, Buf)>, len_bytes: usize) -> Buf {
    let mut whole = None;
    let mut others = Vec::new();
    for (at, part) in parts {
        match &mut whole {
            None if at == 0 => whole = Some(part),
            Some(whole) if whole.len() == at => others.extend(whole.try_join(part).err().map(|part| (at, part))),
            _ => others.push((at, part)),
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

    const BLOCK: usize = 4096;

    fn blocks(count: usize) -> Buf {
        let mut buf = Buf::zeroed(count * BLOCK);
        buf.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / BLOCK) as u8 + 1);
        buf
    }

    fn cut(mut buf: Buf, at: &[usize]) -> Vec<(usize, Buf)> {
        let mut parts: Vec<_> = at.iter().rev().map(|&at| (at * BLOCK, buf.split_off(at * BLOCK))).collect();
        parts.push((0, buf));
        parts.reverse();
        parts
    }

    /// Parts that came in other buffers were left out, and the host got an error for a read that had succeeded.
    #[test]
    fn regression_parts_in_other_buffers_are_parts() {
        let wanted = blocks(9);
        for foreign in [&[][..], &[0], &[1], &[2], &[0, 1, 2]] {
            let mut parts = cut(blocks(9), &[2, 5]);
            foreign.iter().for_each(|&part| parts[part].1 = Buf::copy_of(&parts[part].1));
            assert!(joined(parts, 9 * BLOCK)[..] == wanted[..], "{foreign:?}");
        }
        // Nothing is known of a missing part; the buffer has room for it, so that it can be read again.
        for missing in 0..3 {
            let mut parts = cut(blocks(9), &[2, 5]);
            let (begin, gone) = parts.remove(missing);
            let found = joined(parts, 9 * BLOCK);
            let is_gone = |at: usize| (begin..begin + gone.len()).contains(&at);
            assert!(found.len() == 9 * BLOCK && (0..found.len()).all(|at| is_gone(at) || found[at] == wanted[at]));
        }
    }
}

//! The letters of a request's operation: `RWBS` of blkparse and of the kernel's block events (`blk_fill_rwbs` in kernel/trace/blktrace.c,
//! `fill_rwbs` in blktrace's blkparse_fmt.c).

use super::fields::Bad;
use crate::{Flags, Op};

/// Operation and flags by the letters of a request with `len_bytes` bytes.
pub(super) fn parse(letters: &[u8], len_bytes: u64) -> Result<(Op, Flags), Bad> {
    let (has_flush, rest) = match letters {
        [b'F', b'R' | b'W' | b'D' | b'N', ..] => (true, &letters[1..]),
        _ => (false, letters),
    };
    let (op, modifiers) = match rest {
        [b'W' | b'N', modifiers @ ..] if has_flush && len_bytes == 0 => (Op::Flush, modifiers),
        [b'F', modifiers @ ..] => (Op::Flush, modifiers),
        [b'W', modifiers @ ..] => (Op::Write, modifiers),
        [b'R', modifiers @ ..] => (Op::Read, modifiers),
        [b'D', b'E', modifiers @ ..] | [b'D', modifiers @ ..] => (Op::Discard, modifiers),
        _ => return Err("the letters tell no operation"),
    };
    let mut flags = if has_flush && op != Op::Flush { Flags::PREFLUSH } else { Flags::default() };
    for letter in modifiers {
        flags = flags.with(match letter {
            b'F' if op == Op::Flush => Flags::default(),
            b'F' => Flags::FUA,
            b'A' => Flags::READ_AHEAD,
            b'S' => Flags::SYNC,
            b'M' => Flags::META,
            // A barrier of kernels before 2.6.37: earlier requests complete first, and it is durable when it completes.
            b'B' => Flags::PREFLUSH.with(Flags::FUA),
            // An atomic write.
            b'U' => Flags::default(),
            _ => return Err("a letter of the operation is not known"),
        });
    }
    Ok((op, flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters() {
        let sync_meta = Flags::SYNC.with(Flags::META);
        for (letters, bytes, wanted) in [
            (&b"R"[..], 4096, Some((Op::Read, Flags::default()))),
            (b"RA", 4096, Some((Op::Read, Flags::READ_AHEAD))),
            (b"WSM", 4096, Some((Op::Write, sync_meta))),
            (b"WBS", 4096, Some((Op::Write, Flags::PREFLUSH.with(Flags::FUA).with(Flags::SYNC)))),
            (b"WFS", 4096, Some((Op::Write, Flags::FUA.with(Flags::SYNC)))),
            (b"FWFS", 4096, Some((Op::Write, Flags::PREFLUSH.with(Flags::FUA).with(Flags::SYNC)))),
            (b"FWS", 0, Some((Op::Flush, Flags::SYNC))),
            (b"FN", 0, Some((Op::Flush, Flags::default()))),
            (b"F", 0, Some((Op::Flush, Flags::default()))),
            (b"FF", 0, Some((Op::Flush, Flags::default()))),
            (b"D", 4096, Some((Op::Discard, Flags::default()))),
            (b"DES", 4096, Some((Op::Discard, Flags::SYNC))),
            (b"N", 4096, None),
            (b"", 0, None),
            (b"WX", 0, None),
        ] {
            assert_eq!(parse(letters, bytes).ok(), wanted, "{}", letters.escape_ascii());
        }
    }
}

//! Reads the lines of a text in chunks.

use crate::TraceError;
use memchr::memchr;
use std::io::{ErrorKind, Read};
use std::ops::Range;

/// A longer line is a fault; it is skipped.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;
/// The byte order mark in UTF-8, which some programs write at the beginning.
pub(super) const BYTE_ORDER_MARK: [u8; 3] = *b"\xef\xbb\xbf";
const CHUNK_BYTES: usize = 256 << 10;
/// A line longer than this means that the file is no text, and may be endless.
const SKIPPED_BYTES_MAX: u64 = 1 << 30;

/// One line without its line end.
pub(super) struct Line<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// The byte at which it begins.
    pub offset_bytes: u64,
    /// The text; `None` if it is longer than [`LINE_BYTES_MAX`].
    pub bytes: Option<&'a [u8]>,
}

/// The place of a line.
struct Found {
    /// The byte at which it begins.
    offset_bytes: u64,
    /// The range in the chunk; `None` if the line is too long.
    range: Option<Range<usize>>,
}

/// Reads lines.
pub(super) struct Lines<R> {
    from: R,
    /// Name of the format, for errors.
    format: &'static str,
    chunk: Box<[u8]>,
    /// The part of the chunk that was read and not yet passed on.
    filled: Range<usize>,
    /// Byte of the text at which the chunk begins.
    offset_bytes: u64,
    number: u64,
    is_over: bool,
}

impl<R: Read> Lines<R> {
    pub fn new(from: R, format: &'static str) -> Self {
        Self {
            from,
            format,
            chunk: vec![0; CHUNK_BYTES].into_boxed_slice(),
            filled: 0..0,
            offset_bytes: 0,
            number: 0,
            is_over: false,
        }
    }

    /// The next line; `None` at the end.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        let found = match self.end_of_line(0) {
            Some(end) => {
                Found { offset_bytes: self.offset_bytes + self.filled.start as u64, range: Some(self.take(end)) }
            }
            None => match self.next_beyond_chunk()? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        self.number += 1;
        let bytes = found.range.filter(|range| range.len() <= LINE_BYTES_MAX).map(|range| {
            let bytes = &self.chunk[range];
            let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            if self.number == 1 { bytes.strip_prefix(&BYTE_ORDER_MARK).unwrap_or(bytes) } else { bytes }
        });
        Ok(Some(Line { number: self.number, offset_bytes: found.offset_bytes, bytes }))
    }

    /// Index in the chunk at which the line ends, searched after its first `searched` bytes.
    #[inline]
    fn end_of_line(&self, searched: usize) -> Option<usize> {
        let from = self.filled.start + searched;
        memchr(b'\n', &self.chunk[from..self.filled.end]).map(|at| from + at)
    }

    /// Takes the line that ends at `end`.
    fn take(&mut self, end: usize) -> Range<usize> {
        let range = self.filled.start..end;
        self.filled.start = (end + 1).min(self.filled.end);
        range
    }

    /// Reads a line whose end is not in the chunk yet.
    #[cold]
    fn next_beyond_chunk(&mut self) -> Result<Option<Found>, TraceError> {
        let offset_bytes = self.offset_bytes + self.filled.start as u64;
        let mut is_too_long = false;
        loop {
            let searched = self.filled.len();
            if searched > LINE_BYTES_MAX {
                is_too_long = true;
                self.filled.start = self.filled.end;
                if self.offset_bytes + self.filled.end as u64 - offset_bytes > SKIPPED_BYTES_MAX {
                    let what = format!("line {} has no end within {SKIPPED_BYTES_MAX} bytes", self.number + 1);
                    return Err(TraceError::Malformed { format: self.format, what, offset_bytes });
                }
            }
            if self.is_over {
                let has_rest = is_too_long || !self.filled.is_empty();
                let range = self.take(self.filled.end);
                return Ok(has_rest.then_some(Found { offset_bytes, range: (!is_too_long).then_some(range) }));
            }
            let searched = self.filled.len();
            self.fill()?;
            if let Some(end) = self.end_of_line(searched) {
                let range = self.take(end);
                return Ok(Some(Found { offset_bytes, range: (!is_too_long).then_some(range) }));
            }
        }
    }

    /// Moves the rest to the front, and reads once.
    fn fill(&mut self) -> Result<(), TraceError> {
        self.chunk.copy_within(self.filled.clone(), 0);
        self.offset_bytes += self.filled.start as u64;
        self.filled = 0..self.filled.len();
        loop {
            match self.from.read(&mut self.chunk[self.filled.end..]) {
                Ok(read) => {
                    self.is_over = read == 0;
                    self.filled.end += read;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset_bytes = self.offset_bytes + self.filled.end as u64;
                    return Err(TraceError::Read { offset_bytes, source });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a few bytes at a time.
    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let take = self.1.min(self.0.len()).min(into.len());
            into[..take].copy_from_slice(&self.0[..take]);
            self.0 = &self.0[take..];
            Ok(take)
        }
    }

    fn all(text: &[u8], step: usize) -> Vec<(u64, u64, Option<Vec<u8>>)> {
        let mut lines = Lines::new(Dribble(text, step), "lines");
        let mut out = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            out.push((line.number, line.offset_bytes, line.bytes.map(<[u8]>::to_vec)));
        }
        out
    }

    #[test]
    fn last_line_needs_no_end() {
        let found = all(b"a\r\n\nbc", 2);
        assert_eq!(found, [(1, 0, Some(b"a".to_vec())), (2, 3, Some(vec![])), (3, 4, Some(b"bc".to_vec()))]);
    }

    #[test]
    fn long_lines_are_reported_and_passed() {
        for long in [LINE_BYTES_MAX + 1, CHUNK_BYTES - 1, CHUNK_BYTES, 3 * CHUNK_BYTES + 17] {
            for step in [4099, 1 << 20] {
                let mut text = b"first\n".to_vec();
                text.resize(text.len() + long, b'x');
                text.extend_from_slice(b"\nlast");
                let found = all(&text, step);
                assert_eq!(found.len(), 3, "{long} {step}");
                assert_eq!(found[1], (2, 6, None));
                assert_eq!(found[2], (3, 7 + long as u64, Some(b"last".to_vec())));
                text.truncate(6 + long);
                assert_eq!(all(&text, step)[1..], [(2, 6, None)]);
            }
        }
    }

    /// `/dev/zero`, named as a text, was read forever.
    #[test]
    fn regression_a_line_without_end_ends_the_trace() {
        let mut lines = Lines::new(b"first\n".chain(std::io::repeat(0)), "msr");
        assert_eq!(lines.next().unwrap().unwrap().number, 1);
        let error = lines.next().err().unwrap().to_string();
        assert!(error.contains("line 2 has no end within") && error.ends_with("at byte 6"), "{error}");
    }

    #[test]
    fn longest_line_is_kept() {
        let text = vec![b'x'; LINE_BYTES_MAX];
        assert_eq!(all(&text, 1000), [(1, 0, Some(text.clone()))]);
    }

    proptest! {
        #[test]
        fn same_lines_however_the_bytes_come(text in "[a\n\r]{0,200}", step in 1_usize..50) {
            let found: Vec<_> = all(text.as_bytes(), step).into_iter().map(|(.., bytes)| bytes.unwrap()).collect();
            let wanted: Vec<_> = text
                .split_terminator('\n')
                .map(|line| line.strip_suffix('\r').unwrap_or(line).as_bytes().to_vec())
                .collect();
            prop_assert_eq!(found, wanted);
        }
    }
}

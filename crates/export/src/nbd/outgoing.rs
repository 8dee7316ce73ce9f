//! Bytes to be sent to the client. Headers are gathered in one arena, payloads stay in their own buffers, and
//! scatter-gather sends both without a copy.

use forebay_block::Buf;
use std::collections::VecDeque;
use std::io::IoSlice;

/// The arena is compacted when this many bytes at its front were sent, so that it does not grow for a client that
/// always has some replies waiting.
const COMPACT_BYTES: usize = 64 << 10;

#[derive(Debug)]
enum Segment {
    /// This many bytes of the arena, behind those of the segments before.
    Head(usize),
    Data(Buf),
}

/// Queue of bytes to send.
#[derive(Debug, Default)]
pub struct Outgoing {
    segments: VecDeque<Segment>,
    /// Bytes of the first segment that were sent.
    front_sent: usize,
    arena: Vec<u8>,
    /// Offset in the arena of the first head segment.
    arena_start: usize,
    data_bytes: usize,
}

impl Outgoing {
    /// Count of all waiting bytes.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.head_bytes() + self.data_bytes - if self.front_is_data() { self.front_sent } else { 0 }
    }

    /// Count of waiting bytes of headers and small replies.
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        self.arena.len() - self.arena_start - if self.front_is_data() { 0 } else { self.front_sent }
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    fn front_is_data(&self) -> bool {
        matches!(self.segments.front(), Some(Segment::Data(_)))
    }

    /// Appends a copy of bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.arena.extend_from_slice(bytes);
        match self.segments.back_mut() {
            Some(Segment::Head(len)) => *len += bytes.len(),
            _ => self.segments.push_back(Segment::Head(bytes.len())),
        }
    }

    /// Appends a payload, without a copy.
    pub fn put_data(&mut self, data: Buf) {
        if !data.is_empty() {
            self.data_bytes += data.len();
            self.segments.push_back(Segment::Data(data));
        }
    }

    /// Fills `slices` with the bytes to be sent next. Returns how many slices are used; 0 where nothing waits.
    pub fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut arena_at = self.arena_start;
        let mut skip = self.front_sent;
        let mut used = 0;
        for (segment, slice) in self.segments.iter().zip(slices) {
            let bytes = match segment {
                Segment::Head(len) => {
                    let bytes = &self.arena[arena_at..arena_at + len];
                    arena_at += len;
                    bytes
                }
                Segment::Data(data) => &data[..],
            };
            *slice = IoSlice::new(&bytes[skip..]);
            skip = 0;
            used += 1;
        }
        used
    }

    /// Removes the first `count` bytes, which were sent; at most [`Outgoing::pending_bytes`].
    pub fn sent(&mut self, count: usize) {
        let mut left = count;
        while let Some(front) = self.segments.front() {
            let len = match front {
                Segment::Head(len) => *len,
                Segment::Data(data) => data.len(),
            };
            if left < len - self.front_sent {
                self.front_sent += left;
                break;
            }
            left -= len - self.front_sent;
            self.front_sent = 0;
            match self.segments.pop_front() {
                Some(Segment::Head(len)) => self.arena_start += len,
                Some(Segment::Data(data)) => self.data_bytes -= data.len(),
                None => {}
            }
        }
        if self.segments.is_empty() {
            self.arena.clear();
            self.arena_start = 0;
        } else if self.arena_start >= COMPACT_BYTES {
            self.arena.drain(..self.arena_start);
            self.arena_start = 0;
        }
    }

    /// Drops everything, for a client that has gone.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However the socket splits the bytes, they arrive once and in order.
        #[test]
        fn partial_sends_lose_and_repeat_nothing(
            pieces in proptest::collection::vec((any::<bool>(), 0usize..9000), 1..40),
            cuts in proptest::collection::vec(1usize..20_000, 1..200),
        ) {
            let mut out = Outgoing::default();
            let mut expected = Vec::new();
            let mut got = Vec::new();
            let mut cuts = cuts.into_iter().cycle();
            for (number, (is_data, len)) in pieces.into_iter().enumerate() {
                let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + number) as u8).collect();
                expected.extend_from_slice(&bytes);
                if is_data { out.put_data(Buf::copy_of(&bytes)) } else { out.put(&bytes) }
                if number % 3 == 2 {
                    send(&mut out, cuts.next().unwrap(), &mut got);
                }
                prop_assert_eq!(out.pending_bytes(), expected.len() - got.len());
            }
            while !out.is_empty() {
                send(&mut out, cuts.next().unwrap(), &mut got);
                prop_assert_eq!(out.pending_bytes(), expected.len() - got.len());
            }
            prop_assert_eq!(got, expected);
            prop_assert_eq!((out.data_bytes, out.arena.len(), out.head_bytes()), (0, 0, 0));
        }
    }

    fn send(out: &mut Outgoing, cut: usize, got: &mut Vec<u8>) {
        let mut slices = [IoSlice::new(&[]); 4];
        let used = out.gather(&mut slices);
        let offered: Vec<u8> = slices[..used].iter().flat_map(|slice| slice.to_vec()).collect();
        let taken = cut.min(offered.len());
        got.extend_from_slice(&offered[..taken]);
        out.sent(taken);
    }
}

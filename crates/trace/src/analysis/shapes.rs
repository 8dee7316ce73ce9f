//! Sizes, alignment, sequence.

use super::histogram::Histogram;
use super::lengths::Lengths;
use crate::Request;

/// Streams that are followed at a time, of each direction.
const STREAMS: usize = 32;

/// Sizes and alignment of the requests of one direction, and how sequential they are.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    /// Bytes of a request.
    pub sizes: Lengths,
    /// Requests whose offset and length are multiples of 4 KiB, of 512 bytes, and of neither.
    pub aligned_4k: u64,
    /// Of 512 bytes but not of 4 KiB.
    pub aligned_512: u64,
    /// Of neither.
    pub unaligned: u64,
    /// Requests that go on where one of the last streams ended.
    pub sequential: u64,
    /// Their bytes.
    pub sequential_bytes: u64,
    /// Lengths of streams in bytes, of two requests or more.
    pub runs: Histogram,
    /// Where the streams end, apart from the rest so that one look goes through all of them.
    ends_bytes: [u64; STREAMS],
    streams: [Stream; STREAMS],
    /// Numbers of the streams, the one with the last request first.
    recent: Recent,
}

/// Which of several was used longest ago.
#[derive(Clone, Copy, Debug)]
struct Recent([u8; STREAMS]);

impl Default for Recent {
    fn default() -> Self {
        Self(std::array::from_fn(|at| at as u8))
    }
}

impl Recent {
    fn use_it(&mut self, which: usize) {
        let at = self.0.iter().position(|&known| usize::from(known) == which).unwrap_or(STREAMS - 1);
        self.0.copy_within(..at, 1);
        self.0[0] = which as u8;
    }

    fn use_oldest(&mut self) -> usize {
        let oldest = self.0[STREAMS - 1];
        // All but the last, and so a length that is known: two moves between registers.
        self.0.copy_within(..STREAMS - 1, 1);
        self.0[0] = oldest;
        usize::from(oldest)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    volume: u32,
    len_bytes: u64,
    /// 0: there is none.
    requests: u64,
}

impl Shapes {
    /// Notes a request.
    pub fn note(&mut self, request: &Request) {
        self.sizes.add(request.len_bytes);
        let both = request.offset_bytes | request.len_bytes;
        match both.trailing_zeros() {
            12.. => self.aligned_4k += 1,
            9.. => self.aligned_512 += 1,
            _ => self.unaligned += 1,
        }
        // All of them in one go, without a branch for each: this is done for every request.
        let mut ends_here = self
            .ends_bytes
            .iter()
            .zip(0..)
            .fold(0_u32, |mask, (&end_bytes, at)| mask | u32::from(end_bytes == request.offset_bytes) << at);
        while ends_here != 0 {
            let at = ends_here.trailing_zeros() as usize;
            let stream = &mut self.streams[at];
            if stream.volume == request.volume && stream.requests > 0 {
                stream.len_bytes = stream.len_bytes.saturating_add(request.len_bytes);
                stream.requests += 1;
                self.ends_bytes[at] = request.end_bytes();
                self.recent.use_it(at);
                self.sequential += 1;
                self.sequential_bytes = self.sequential_bytes.saturating_add(request.len_bytes);
                return;
            }
            ends_here &= ends_here - 1;
        }
        // The one that was longest without a request makes room.
        let oldest = self.recent.use_oldest();
        self.ends_bytes[oldest] = request.end_bytes();
        let fresh = Stream { volume: request.volume, len_bytes: request.len_bytes, requests: 1 };
        let old = std::mem::replace(&mut self.streams[oldest], fresh);
        self.end(old);
    }

    fn end(&mut self, stream: Stream) {
        if stream.requests > 1 {
            self.runs.add(stream.len_bytes);
        }
    }

    /// Ends the streams that go on.
    pub fn finish(&mut self) {
        std::mem::take(&mut self.streams).into_iter().for_each(|stream| self.end(stream));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;

    #[test]
    fn regression_a_stream_goes_on_among_single_requests() {
        let mut shapes = Shapes::default();
        for at in 0..200 {
            shapes.note(&Request::new(0, Op::Write, at * 4096, 4096));
            shapes.note(&Request::new(0, Op::Write, (1 << 40) + at * 40_960, 4096));
        }
        shapes.finish();
        assert_eq!((shapes.sequential, shapes.runs.count(), shapes.runs.max()), (199, 1.0, 200 * 4096));
    }

    #[test]
    fn volumes_have_streams_of_their_own() {
        let mut shapes = Shapes::default();
        shapes.note(&Request::new(0, Op::Read, 0, 4096));
        shapes.note(&Request { volume: 1, ..Request::new(0, Op::Read, 4096, 4096) });
        assert_eq!(shapes.sequential, 0);
    }

    #[test]
    fn interleaved_streams_are_seen() {
        let mut shapes = Shapes::default();
        for at in 0..10 {
            for stream in 0..3 {
                shapes.note(&Request::new(0, Op::Read, (stream << 30) + at * 8192, 8192));
            }
        }
        shapes.note(&Request::new(0, Op::Read, 5, 100));
        shapes.note(&Request::new(0, Op::Read, 512, 512));
        shapes.finish();
        assert_eq!((shapes.sequential, shapes.sequential_bytes), (27, 27 * 8192));
        assert_eq!((shapes.aligned_4k, shapes.aligned_512, shapes.unaligned), (30, 1, 1));
        assert_eq!((shapes.runs.count(), shapes.runs.max()), (3.0, 81920));
    }
}

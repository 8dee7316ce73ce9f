//! Sizes, alignment and sequentiality of requests.
//!
//! A run is what rules mean by `sequential`: each of its requests begins where the one before ended. A volume has eight runs at a time; a
//! new one replaces the run that has had no request for longest. Chance makes runs too: of random requests to 64 blocks, a fifth continue
//! one. But it makes no long ones: only runs of eight or more count, and at most two percent of random requests, to any number of blocks,
//! belong to such runs.

use super::histogram::Histogram;
use super::lengths::Lengths;
use crate::Request;
use crate::hash::Seed;
use std::collections::HashMap;

/// Runs that are followed at a time, for each volume and direction.
const RUNS: usize = 8;
/// Number of requests from which a run is sequential.
const SEQUENTIAL_MIN: u64 = 8;
/// Most volumes with runs, for each direction, at about 300 bytes each; with one more, all runs begin anew.
const VOLUMES_MAX: usize = 1 << 16;

/// Sizes, alignment and sequentiality of the requests of one direction.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    /// Lengths in bytes.
    pub sizes: Lengths,
    /// Number of requests whose offset and length are multiples of 4 KiB.
    pub aligned_4k: u64,
    /// Number of requests whose offset and length are multiples of 512 bytes but not of 4 KiB.
    pub aligned_512: u64,
    /// Number of requests that are multiples of neither.
    pub unaligned: u64,
    /// Number of requests in runs of eight or more.
    pub sequential: u64,
    /// Bytes of these requests.
    pub sequential_bytes: u64,
    /// Lengths of these runs in bytes.
    pub runs: Histogram,
    /// Index of each volume's runs.
    places: HashMap<u32, usize, Seed>,
    volumes: Vec<Runs>,
    /// The volume of the last request, and its index.
    last: Option<(u32, usize)>,
}

/// The runs of a volume. Their ends are stored separately, so that one scan goes through all of them.
#[derive(Clone, Debug, Default)]
struct Runs {
    ends_bytes: [u64; RUNS],
    runs: [Run; RUNS],
    recent: Recent,
}

/// Numbers of the runs, a byte each; the run with the latest request is the lowest byte.
#[derive(Clone, Copy, Debug)]
struct Recent(u64);

impl Default for Recent {
    fn default() -> Self {
        Self(u64::from_le_bytes(std::array::from_fn(|at| at as u8)))
    }
}

impl Recent {
    fn numbers(self) -> [u8; RUNS] {
        self.0.to_le_bytes()
    }

    /// Makes the run with the oldest request the latest; returns its number.
    fn use_oldest(&mut self) -> usize {
        self.0 = self.0.rotate_left(u8::BITS);
        usize::from(self.0 as u8)
    }

    /// Makes the run that `before` others precede the latest; returns its number.
    fn use_after(&mut self, before: usize) {
        let bits = before as u32 * u8::BITS;
        let (number, newer) = (self.0 >> bits & u64::from(u8::MAX), self.0 & ((1 << bits) - 1));
        let older = self.0 & u64::MAX << bits << u8::BITS;
        self.0 = older | newer << u8::BITS | number;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    len_bytes: u64,
    /// Number of requests; 0 if there is no run.
    requests: u64,
}

impl Shapes {
    /// Counts a request.
    pub fn note(&mut self, request: &Request) {
        self.sizes.add(request.len_bytes);
        let both = request.offset_bytes | request.len_bytes;
        match both.trailing_zeros() {
            12.. => self.aligned_4k += 1,
            9.. => self.aligned_512 += 1,
            _ => self.unaligned += 1,
        }
        let place = self.place(request.volume);
        let Runs { ends_bytes, runs, recent } = &mut self.volumes[place];
        // All ends are compared without branches: this is done for each request, and mostly finds none.
        let is_end = ends_bytes.iter().fold(false, |found, &end_bytes| found | (end_bytes == request.offset_bytes));
        let goes_on = match is_end {
            true => recent.numbers().into_iter().position(|number| {
                let at = usize::from(number);
                ends_bytes[at] == request.offset_bytes && runs[at].requests > 0
            }),
            false => None,
        };
        let at = match goes_on {
            Some(before) => {
                recent.use_after(before);
                usize::from(recent.numbers()[0])
            }
            None => recent.use_oldest(),
        };
        let before = runs[at];
        let run = match goes_on {
            Some(_) => {
                Run { len_bytes: before.len_bytes.saturating_add(request.len_bytes), requests: before.requests + 1 }
            }
            None => Run { len_bytes: request.len_bytes, requests: 1 },
        };
        (runs[at], ends_bytes[at]) = (run, request.end_bytes());
        if goes_on.is_none() {
            return end(&mut self.runs, before);
        }
        let (requests, bytes) = match run.requests {
            ..SEQUENTIAL_MIN => return,
            SEQUENTIAL_MIN => (SEQUENTIAL_MIN, run.len_bytes),
            _ => (1, request.len_bytes),
        };
        self.sequential += requests;
        self.sequential_bytes = self.sequential_bytes.saturating_add(bytes);
    }

    fn place(&mut self, volume: u32) -> usize {
        if let Some((_, place)) = self.last.filter(|(last, _)| *last == volume) {
            return place;
        }
        if self.places.len() >= VOLUMES_MAX && !self.places.contains_key(&volume) {
            self.finish();
        }
        let place = *self.places.entry(volume).or_insert(self.volumes.len());
        if place == self.volumes.len() {
            self.volumes.push(Runs::default());
        }
        self.last = Some((volume, place));
        place
    }

    /// Ends all open runs.
    pub fn finish(&mut self) {
        (self.last, self.places) = (None, HashMap::default());
        let volumes = std::mem::take(&mut self.volumes);
        volumes.into_iter().flat_map(|volume| volume.runs).for_each(|run| end(&mut self.runs, run));
    }
}

fn end(runs: &mut Histogram, run: Run) {
    if run.requests >= SEQUENTIAL_MIN {
        runs.add(run.len_bytes);
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
        assert_eq!((shapes.sequential, shapes.runs.count(), shapes.runs.max()), (200, 1.0, 200 * 4096));
    }

    #[test]
    fn the_order_of_runs_is_that_of_a_list() {
        let (mut recent, mut list, mut state) = (Recent::default(), (0..RUNS as u8).collect::<Vec<u8>>(), 1_u64);
        for _ in 0..1000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (state >> 33) as usize % (RUNS + 2);
            if at < RUNS {
                recent.use_after(at);
            } else {
                assert_eq!(recent.use_oldest(), usize::from(list[RUNS - 1]));
            }
            let number = list.remove(at.min(RUNS - 1));
            list.insert(0, number);
            assert_eq!(recent.numbers()[..], list);
        }
    }

    #[test]
    fn volumes_have_streams_of_their_own() {
        let mut shapes = Shapes::default();
        for at in 0..100 {
            shapes.note(&Request { volume: at % 2, ..Request::new(0, Op::Read, u64::from(at) * 4096, 4096) });
        }
        assert_eq!(shapes.sequential, 0);
        // More volumes than are followed: all runs begin anew, and those that have ended are still counted.
        for volume in 0..2 * VOLUMES_MAX as u32 {
            (0..8).for_each(|at| shapes.note(&Request { volume, ..Request::new(0, Op::Read, at * 4096, 4096) }));
        }
        shapes.finish();
        assert_eq!((shapes.sequential, shapes.runs.count()), (16 * VOLUMES_MAX as u64, 2.0 * VOLUMES_MAX as f64));
    }

    /// 37 % of uniformly random reads of 64 blocks were called sequential, because mostly one of 32 ends was where they began.
    #[test]
    fn regression_random_requests_to_few_blocks_are_not_sequential() {
        for blocks in [2, 4, 8, 12, 16, 32, 64, 256, 1024] {
            let (mut shapes, mut state) = (Shapes::default(), 1_u64);
            for _ in 0..20_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                shapes.note(&Request::new(0, Op::Read, (state >> 33) % blocks * 4096, 4096));
            }
            assert!(shapes.sequential < 20_000 * 3 / 100, "{blocks}: {}", shapes.sequential);
        }
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
        assert_eq!((shapes.sequential, shapes.sequential_bytes), (30, 30 * 8192));
        assert_eq!((shapes.aligned_4k, shapes.aligned_512, shapes.unaligned), (30, 1, 1));
        assert_eq!((shapes.runs.count(), shapes.runs.max()), (3.0, 81920));
    }
}

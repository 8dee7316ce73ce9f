//! Makes the I/Os of one thread from a job's pattern, mix and sizes.
//!
//! Offsets count from the beginning of the region, alignments too, as in fio (`offset`) and DiskSpd (`-B`). A region that begins at an odd
//! byte makes every I/O unaligned; if a region was given in percent, round its beginning to the target's logical blocks first.
//!
//! The same job, seed and thread give the same I/Os for ever. Random numbers come from
//! [`forebay_block::Random`], logarithms from this module, not from the C library.
//!
//! Cost of an I/O in nanoseconds (measured on a virtual Xeon, best of many short runs): random, sequential and strided 4, mixed and zones
//! 8, shuffled 11, YCSB 17, normal 28, Pareto 50, Zipf 36 if theta is 1 and 59 otherwise; the latter compute logarithms and exponentials. A
//! choice of kinds or sizes adds 5.
//!
//! The exact meaning of the patterns:
//! - **Random**: an I/O lies at any multiple of the alignment at which it fits, all equally likely.
//! - **Sequential**: one I/O after the other; if the next I/O does not fit before the end of the share, the walk begins
//!   again. Shares of threads are multiples of the largest I/O; the last thread gets the rest too.
//! - **Strided**: every thread walks through the whole region. Backwards, each walk begins at the last multiple of the
//!   I/O's size. A stride of 0 stays at one offset.
//! - **MixedSequential**: a random I/O lies at a multiple of its own size; a sequential one begins where the one before
//!   it ended.
//! - **Zipf, YcsbZipf, Pareto, Normal, Zones**: choose a block. Blocks have the smallest size of the job (those of Zones
//!   may have another size), and an I/O begins at a block, so larger I/Os overlap, as in fio with `blockalign`. Zones
//!   contain the beginnings of I/Os. For Zipf and Pareto a permutation that follows from the seed, the same in all
//!   threads, scatters the popular blocks; fio uses a hash, by which several ranks may share a block. Normal repeats a
//!   draw that falls outside the region; it can be scattered in the same way.
//! - **Shuffled**: each thread visits every block once, in its own order, then again in another. With several sizes
//!   there are no such blocks, so the pattern is Random, and [`Generator::note`] says so.
//! - **ByKind**: reads, writes and trims each follow their own pattern, with blocks of their own smallest size.

mod choice;
mod elementary;
mod error;
mod permutation;
mod place;
mod shapes;
#[cfg(test)]
mod tests;
mod zipf;

pub use error::PatternError;

use crate::job::model::{Job, Pattern, SizeMix};
use choice::{CHOICES_MAX, Weighted};
use forebay_block::hash::murmur64;
use forebay_block::{OpKind, Random};
use place::{Place, Size, Walk};
use shapes::Shape;
use std::ops::Range;

/// No flushes by count: so many writes never happen.
const NEVER: u64 = u64::MAX;
/// Part of the seed for scattering popular blocks, used in place of a thread's number.
const SCATTER: u64 = 1 << 32;

/// The next I/O of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The kind of I/O.
    pub kind: OpKind,
    /// Byte offset on the target; 0 for flushes.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for flushes.
    pub len_bytes: u32,
    /// Other information from a trace, as in [`forebay_block::Io::hint`].
    pub hint: u32,
}

/// The endless I/Os of one thread. All of them lie within the region.
#[derive(Clone, Debug)]
pub struct Generator {
    random: Random,
    kinds: Weighted<OpKind>,
    reads: Weighted<Size>,
    writes: Weighted<Size>,
    trims: Weighted<Size>,
    place: Place,
    /// Writes until the next flush.
    until_flush: u64,
    flush_every: u64,
    flush: OpKind,
    note: Option<&'static str>,
}

impl Generator {
    /// The I/Os of thread `thread` (from 0) of `job`, on the part `region` of the target (offset and length in bytes).
    ///
    /// # Errors
    /// An I/O does not fit into the region (or the thread's share of it), the job does nothing, or a number is out of its range.
    pub fn new(job: &Job, region: (u64, u64), thread: u32) -> Result<Self, PatternError> {
        let (offset_bytes, len_bytes) = region;
        let Some(end_bytes) = offset_bytes.checked_add(len_bytes) else {
            return Err(PatternError::Region { offset_bytes, len_bytes });
        };
        if thread >= job.threads {
            return Err(PatternError::Thread { thread, threads: job.threads });
        }
        let kinds = kinds(job)?;
        let (flush, flush_every) = flushes(job)?;
        let mut random = Random::new(mix_seed(job.seed, u64::from(thread)));
        let grid = Grid { job, region: offset_bytes..end_bytes, kinds: &kinds };
        let reads = grid.sizes(OpKind::Read, &job.sizes.read)?;
        let writes = grid.sizes(OpKind::Write, &job.sizes.write)?;
        let trims = grid.sizes(OpKind::Trim, &job.sizes.trim)?;
        let (place, note) = grid.place(thread, [&reads, &writes, &trims], &mut random)?;
        // Sizes of kinds that never occur are not used.
        let unused = || Weighted::always(Size { len_bytes: 0, align_bytes: 0, positions: 0 });
        Ok(Self {
            random,
            reads: reads.unwrap_or_else(unused),
            writes: writes.unwrap_or_else(unused),
            trims: trims.unwrap_or_else(unused),
            kinds,
            place,
            until_flush: flush_every,
            flush_every,
            flush,
            note,
        })
    }

    /// The next I/O.
    #[expect(clippy::should_implement_trait, reason = "an iterator's Option would cost the hot loop a test")]
    #[inline]
    pub fn next(&mut self) -> Next {
        if self.until_flush == 0 {
            self.until_flush = self.flush_every;
            return Next { kind: self.flush, offset_bytes: 0, len_bytes: 0, hint: 0 };
        }
        let kind = self.kinds.draw(&mut self.random);
        let sizes = match kind {
            OpKind::Read => &self.reads,
            OpKind::Write | OpKind::WriteFua => {
                self.until_flush -= 1;
                &self.writes
            }
            OpKind::Trim => &self.trims,
            OpKind::Flush | OpKind::Fsync => return Next { kind, offset_bytes: 0, len_bytes: 0, hint: 0 },
        };
        let size = sizes.draw(&mut self.random);
        Next { kind, offset_bytes: self.place.next(kind, size, &mut self.random), len_bytes: size.len_bytes, hint: 0 }
    }

    /// How the I/Os differ from what the job says, for the user.
    #[must_use]
    pub fn note(&self) -> Option<&'static str> {
        self.note
    }
}

/// The seed of one part of a job, far from those of the others: hashed twice, because neighbouring seeds must not give [`Random`]
/// overlapping states.
fn mix_seed(seed: u64, part: u64) -> u64 {
    murmur64(seed ^ murmur64(part.wrapping_add(0x6a09_e667_f3bc_c909)))
}

fn kinds(job: &Job) -> Result<Weighted<OpKind>, PatternError> {
    let weights = &job.mix.weights;
    if weights.len() > CHOICES_MAX {
        return Err(PatternError::TooMany { what: "kinds of I/O", count: weights.len(), max: CHOICES_MAX });
    }
    Weighted::new(weights.iter().copied()).ok_or(PatternError::NoKind)
}

fn flushes(job: &Job) -> Result<(OpKind, u64), PatternError> {
    match job.mix.flush_every {
        None => Ok((OpKind::Flush, NEVER)),
        Some((kind @ (OpKind::Flush | OpKind::Fsync), writes)) if writes > 0 => Ok((kind, u64::from(writes))),
        Some((kind, writes)) => Err(PatternError::FlushEvery { kind, writes }),
    }
}

/// Begin and end of a thread's share within a region of so many bytes: a multiple of the unit; the last thread also gets the rest.
pub fn share_of_region(region_bytes: u64, threads: u32, unit_bytes: u64, thread: u32) -> (u64, u64) {
    let each = region_bytes / u64::from(threads) / unit_bytes * unit_bytes;
    let begin = each * u64::from(thread);
    (begin, if thread + 1 == threads { region_bytes } else { begin + each })
}

/// Computes sizes, blocks and shares of a job on its region.
struct Grid<'a> {
    job: &'a Job,
    region: Range<u64>,
    kinds: &'a Weighted<OpKind>,
}

impl Grid<'_> {
    fn region_bytes(&self) -> u64 {
        self.region.end - self.region.start
    }

    /// The sizes of a kind; `None` if the job has no such I/Os.
    fn sizes(&self, kind: OpKind, mix: &SizeMix) -> Result<Option<Weighted<Size>>, PatternError> {
        let same = |other| other == kind || (kind == OpKind::Write && other == OpKind::WriteFua);
        if !self.kinds.values().any(same) {
            return Ok(None);
        }
        if mix.choices.len() > CHOICES_MAX {
            return Err(PatternError::TooMany { what: "sizes", count: mix.choices.len(), max: CHOICES_MAX });
        }
        let mut sizes = Vec::with_capacity(mix.choices.len());
        for &(len_bytes, weight) in mix.choices.iter().filter(|&&(_, weight)| weight > 0) {
            sizes.push((self.size(kind, len_bytes)?, weight));
        }
        Weighted::new(sizes.into_iter()).ok_or(PatternError::NoSize { kind }).map(Some)
    }

    fn size(&self, kind: OpKind, len_bytes: u32) -> Result<Size, PatternError> {
        let len = u64::from(len_bytes);
        if len == 0 {
            return Err(PatternError::ZeroSize { kind });
        }
        let (align_bytes, skew_bytes) = match *self.job.pattern.of(kind) {
            Pattern::Random { align_bytes, skew_bytes } if align_bytes > 0 => (align_bytes, skew_bytes),
            Pattern::Random { skew_bytes, .. } => (len, skew_bytes),
            _ => (len, 0),
        };
        let need_bytes = len.saturating_add(skew_bytes);
        let Some(room) = self.region_bytes().checked_sub(need_bytes) else {
            return Err(self.too_small("the region", self.region_bytes(), kind, need_bytes));
        };
        Ok(Size { len_bytes, align_bytes, positions: room / align_bytes + 1 })
    }

    fn too_small(&self, place: &'static str, have_bytes: u64, kind: OpKind, need_bytes: u64) -> PatternError {
        PatternError::TooSmall { place, have_bytes, kind, need_bytes }
    }

    /// The positions of a thread; `sizes` are those of reads, writes and trims.
    fn place(
        &self,
        thread: u32,
        sizes: [&Option<Weighted<Size>>; 3],
        random: &mut Random,
    ) -> Result<(Place, Option<&'static str>), PatternError> {
        let of = |sizes: &[&Option<Weighted<Size>>]| -> Vec<Size> {
            sizes.iter().copied().flatten().flat_map(Weighted::values).collect()
        };
        let Pattern::ByKind(patterns) = &self.job.pattern else {
            return self.way(&self.job.pattern, thread, &of(&sizes), random);
        };
        // A kind that never occurs needs no position.
        let never = || Place::Random { begin_bytes: self.region.start };
        let mut places = [never(), never(), never()];
        let mut first_note = None;
        for ((place, pattern), sizes) in places.iter_mut().zip(patterns.iter()).zip(sizes) {
            if sizes.is_some() {
                let (way, note) = self.way(pattern, thread, &of(&[sizes]), random)?;
                *place = way;
                first_note = first_note.or(note);
            }
        }
        Ok((Place::ByKind(Box::new(places)), first_note))
    }

    /// The positions of a thread for one pattern.
    fn way(
        &self,
        pattern: &Pattern,
        thread: u32,
        sizes: &[Size],
        random: &mut Random,
    ) -> Result<(Place, Option<&'static str>), PatternError> {
        let Range { start, end } = self.region;
        let lens = || sizes.iter().map(|size| u64::from(size.len_bytes));
        // A job with only flushes has no sizes, and its position is not used.
        let smallest = lens().min().unwrap_or(1);
        let largest = lens().max().unwrap_or(1).min(self.region_bytes().max(1));
        let block_bytes = match *pattern {
            Pattern::Zones { align_bytes, .. } if align_bytes > 0 => align_bytes,
            _ => smallest,
        };
        // The largest I/O must still fit at the last block.
        let blocks = (self.region_bytes().max(1) - largest) / block_bytes + 1;
        let mut scatter = Random::new(mix_seed(self.job.seed, SCATTER));
        let shape = match pattern {
            Pattern::Random { skew_bytes, .. } => {
                return Ok((Place::Random { begin_bytes: start.saturating_add(*skew_bytes) }, None));
            }
            Pattern::Sequential { per_thread: false } => return Ok((Place::Walk(Walk::sequential(start, end)), None)),
            Pattern::Sequential { per_thread: true } => return Ok((Place::Walk(self.share(thread, largest)?), None)),
            Pattern::Strided { stride_bytes } => {
                return Ok((Place::Walk(Walk::strided(start, end, *stride_bytes)), None));
            }
            Pattern::MixedSequential { random_percent } => {
                if *random_percent > 100 {
                    let (name, value) = ("the share of random I/Os", f64::from(*random_percent));
                    return Err(PatternError::Parameter { name, value, allowed: "0 to 100 percent" });
                }
                let walk = Walk::sequential(start, end);
                return Ok((Place::Mixed { walk, random_percent: u64::from(*random_percent) }, None));
            }
            Pattern::Shuffled if smallest != largest => {
                let note = "every block once in random order needs one size of I/O; with several, offsets are random \
                            and may repeat before all have been visited";
                return Ok((Place::Random { begin_bytes: start }, Some(note)));
            }
            Pattern::Shuffled => Shape::shuffled(blocks, random),
            Pattern::Replayed | Pattern::Generated { .. } | Pattern::ByKind(_) => return Err(PatternError::NoTrace),
            Pattern::Zipf { theta } => Shape::zipf(blocks, *theta, &mut scatter)?,
            Pattern::YcsbZipf => Shape::ycsb(blocks),
            Pattern::Pareto { h } => Shape::pareto(blocks, *h, &mut scatter)?,
            Pattern::Normal { deviation_percent, scattered } => {
                Shape::normal(blocks, *deviation_percent, scattered.then_some(&mut scatter))?
            }
            Pattern::Zones { zones, .. } => Shape::zones(blocks, block_bytes, zones)?,
        };
        Ok((Place::Blocks { begin_bytes: start, block_bytes, shape: Box::new(shape) }, None))
    }

    /// The share of a thread: a multiple of the largest I/O; the last thread also gets the rest.
    fn share(&self, thread: u32, largest: u64) -> Result<Walk, PatternError> {
        let (begin, end) = share_of_region(self.region_bytes(), self.job.threads, largest, thread);
        if end - begin < largest {
            let have_bytes = self.region_bytes() / u64::from(self.job.threads);
            let kind = self.kinds.values().find(|kind| !matches!(kind, OpKind::Flush | OpKind::Fsync));
            let kind = kind.unwrap_or(OpKind::Flush);
            return Err(self.too_small("a thread's share of the region", have_bytes, kind, largest));
        }
        Ok(Walk::sequential(self.region.start + begin, self.region.start + end))
    }
}

//! What must be on the target: one atomic word for each granule, shared by all threads.

use super::judge::{Judged, Mismatch, check, check_alone};
use super::layout::{Layout, MAP_BYTES_MAX, VerifyError};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of the generation. 2^44 writes are 20 days at ten million a second; granules written later are not judged.
const GENERATION_MASK: u64 = (1 << 44) - 1;
/// Writes and trims in flight: 14 bits.
const COUNT_ONE: u64 = 1 << 44;
const COUNT_MASK: u64 = ((1 << 14) - 1) << 44;
/// More than one write or trim took part in the period.
const MIXED: u64 = 1 << 58;
/// A trim or a failed write took part in it: the content is unknown.
const LOST: u64 = 1 << 59;
/// Before the period began, the content was known.
const PRIOR: u64 = 1 << 60;
/// Too many at once to count: never judged again.
const OVERFLOWN: u64 = 1 << 61;

/// What a run has written, and what reads are held against. See the module's description.
///
/// All accesses are sequentially consistent: a read that sees the data of a write also sees that it was announced.
#[derive(Debug)]
pub struct WrittenMap {
    layout: Layout,
    seed: u64,
    granules: Box<[AtomicU64]>,
    /// The last generation that was given.
    issued: AtomicU64,
    /// Trims begun and writes failed.
    disturbances: AtomicU64,
}

/// The map as it was before a read was submitted. Reused from read to read: it keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct ReadView {
    states: Vec<u64>,
    disturbances: u64,
}

/// A granule that an I/O touches.
struct Touched {
    index: usize,
    whole: bool,
}

impl WrittenMap {
    /// A map of a region (offset and length in bytes) of which nothing has been written. `seed` is what the headers say.
    ///
    /// # Errors
    /// Where it would take more than [`MAP_BYTES_MAX`].
    pub fn new(layout: Layout, region: (u64, u64), seed: u64) -> Result<Self, VerifyError> {
        let region_bytes = region.0.saturating_add(region.1).saturating_sub(layout.origin_bytes());
        let granule_bytes = layout.granule_bytes();
        let count = region_bytes.div_ceil(granule_bytes);
        let need_bytes = count.saturating_mul(8);
        if need_bytes > MAP_BYTES_MAX {
            let region_max_bytes = (MAP_BYTES_MAX / 8).saturating_mul(granule_bytes);
            return Err(VerifyError::TooLarge { region_bytes, granule_bytes, need_bytes, region_max_bytes });
        }
        let granules = (0..count).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { layout, seed, granules, issued: AtomicU64::new(0), disturbances: AtomicU64::new(0) })
    }

    /// The grid of its granules.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Announces a write before it is submitted, and gives the generation for its headers.
    #[must_use]
    pub fn before_write(&self, offset_bytes: u64, len_bytes: u32) -> u64 {
        // First all granules are taken, then the generation is drawn: so generations grow from period to period.
        for touched in self.touched(offset_bytes, len_bytes) {
            // A granule that is written in part would hold two generations: not judged. Layouts avoid it.
            self.begin(touched.index, !touched.whole);
        }
        let generation = self.issued.fetch_add(1, Ordering::SeqCst) + 1;
        for touched in self.touched(offset_bytes, len_bytes) {
            self.update(touched.index, |state| {
                let first = state & GENERATION_MASK;
                if generation > GENERATION_MASK {
                    Some(state | LOST)
                } else if first == 0 || generation < first {
                    Some(state & !GENERATION_MASK | generation)
                } else {
                    None
                }
            });
        }
        generation
    }

    /// The write is complete.
    pub fn after_write(&self, offset_bytes: u64, len_bytes: u32) {
        for touched in self.touched(offset_bytes, len_bytes) {
            self.end(touched.index);
        }
    }

    /// The write has failed: what is there now is unknown until the next one.
    pub fn failed_write(&self, offset_bytes: u64, len_bytes: u32) {
        for touched in self.touched(offset_bytes, len_bytes) {
            self.update(touched.index, |state| Some(state | LOST));
        }
        // Behind the mark and before the end: a view taken before sees the count change, one taken later the mark.
        self.disturbances.fetch_add(1, Ordering::SeqCst);
        self.after_write(offset_bytes, len_bytes);
    }

    /// Announces a trim before it is submitted: what is there is unknown until the next write.
    pub fn before_discard(&self, offset_bytes: u64, len_bytes: u32) {
        for touched in self.touched(offset_bytes, len_bytes) {
            self.begin(touched.index, true);
        }
        self.disturbances.fetch_add(1, Ordering::SeqCst);
    }

    /// The trim is over, whether or not it failed.
    pub fn after_discard(&self, offset_bytes: u64, len_bytes: u32) {
        self.after_write(offset_bytes, len_bytes);
    }

    /// Takes the state before a read is submitted.
    pub fn before_read(&self, offset_bytes: u64, len_bytes: u32, view: &mut ReadView) {
        // Before the granules: see `failed_write`.
        view.disturbances = self.disturbances.load(Ordering::SeqCst);
        view.states.clear();
        let states = self.touched(offset_bytes, len_bytes);
        view.states.extend(states.map(|touched| self.granules[touched.index].load(Ordering::SeqCst)));
    }

    /// Judges what a read of `offset_bytes` gave: what became of its units, and the first one that is not what it must
    /// be. `view` is from [`WrittenMap::before_read`] of the same read. Boxed: it is rare and large.
    pub fn judge_read(&self, data: &[u8], offset_bytes: u64, view: &ReadView) -> (Judged, Option<Box<Mismatch>>) {
        let (mut judged, mut first) = (Judged::default(), None);
        let len_bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let granule_bytes = self.layout.granule_bytes();
        let units = granule_bytes / u64::from(self.layout.unit_bytes());
        for (touched, &before) in self.touched(offset_bytes, len_bytes).zip(&view.states) {
            let at = self.layout.origin_bytes() + touched.index as u64 * granule_bytes;
            let demand =
                if touched.whole { self.demand(touched.index, before, view.disturbances) } else { Demand::None };
            let begin = at.saturating_sub(offset_bytes) as usize;
            let granule = data.get(begin..).and_then(|rest| rest.get(..granule_bytes as usize));
            let (Some(granule), true) = (granule, touched.whole) else {
                judged.unjudged += units;
                continue;
            };
            self.judge(granule, at, demand, &mut judged, &mut first);
        }
        (judged, first)
    }

    /// As [`WrittenMap::judge_read`], for those who want to know only whether all is right.
    ///
    /// # Errors
    /// The first unit that is not what it must be.
    pub fn check_read(&self, data: &[u8], offset_bytes: u64, view: &ReadView) -> Result<Judged, Box<Mismatch>> {
        let (judged, wrong) = self.judge_read(data, offset_bytes, view);
        wrong.map_or(Ok(judged), Err)
    }

    fn judge(&self, granule: &[u8], at: u64, demand: Demand, judged: &mut Judged, first: &mut Option<Box<Mismatch>>) {
        let unit_bytes = self.layout.unit_bytes();
        for (unit, at) in granule.chunks_exact(unit_bytes as usize).zip((at..).step_by(unit_bytes as usize)) {
            let found = match demand {
                Demand::Exactly(generation) => {
                    check(unit, at, self.seed, generation..=generation, true).map(|_| &mut judged.whole)
                }
                Demand::From(generation) => {
                    let issued = self.issued.load(Ordering::SeqCst);
                    check(unit, at, self.seed, generation..=issued, false).map(|_| &mut judged.partly)
                }
                Demand::Alone => check_alone(unit, at)
                    .map(|is_judged| if is_judged { &mut judged.partly } else { &mut judged.unjudged }),
                Demand::None => Ok(&mut judged.unjudged),
            };
            match found {
                Ok(count) => *count += 1,
                Err(mismatch) => {
                    judged.wrong += 1;
                    first.get_or_insert_with(|| Box::new(mismatch));
                }
            }
        }
    }

    /// What must be true of a granule whose state was `before`.
    fn demand(&self, index: usize, before: u64, disturbances: u64) -> Demand {
        let now = self.granules[index].load(Ordering::SeqCst);
        if (before | now) & OVERFLOWN != 0 {
            return Demand::None;
        }
        let generation = before & GENERATION_MASK;
        if before == now && now & COUNT_MASK == 0 {
            // Generations are unique, so an equal state means that no write began in between.
            return match now {
                0 => Demand::Alone,
                _ if !is_known(now) => Demand::None,
                _ if now & MIXED != 0 => Demand::From(generation),
                _ => Demand::Exactly(generation),
            };
        }
        if (before | now) & LOST != 0 || self.disturbances.load(Ordering::SeqCst) != disturbances {
            Demand::None
        } else if before & COUNT_MASK == 0 && is_known(before) {
            Demand::From(generation)
        } else if before & COUNT_MASK != 0 && before & PRIOR != 0 {
            // The generation before the period is no longer known.
            Demand::From(1)
        } else {
            Demand::None
        }
    }

    fn begin(&self, index: usize, lost: bool) {
        let lost = if lost { LOST } else { 0 };
        self.update(index, |state| {
            Some(match state & COUNT_MASK {
                0 => COUNT_ONE | lost | if is_known(state) { PRIOR } else { 0 },
                COUNT_MASK => state | OVERFLOWN,
                _ => (state + COUNT_ONE) | MIXED | lost,
            })
        });
    }

    fn end(&self, index: usize) {
        self.update(index, |state| (state & COUNT_MASK != 0).then(|| state - COUNT_ONE));
    }

    fn update(&self, index: usize, change: impl Fn(u64) -> Option<u64>) {
        let change = |state| if state & OVERFLOWN == 0 { change(state) } else { None };
        // Without a change there is nothing to do: both results are fine.
        let _ = self.granules[index].fetch_update(Ordering::SeqCst, Ordering::SeqCst, change);
    }

    /// Granules that an I/O touches, those outside the region left out.
    fn touched(&self, offset_bytes: u64, len_bytes: u32) -> impl Iterator<Item = Touched> + use<> {
        let granule_bytes = self.layout.granule_bytes();
        let origin = self.layout.origin_bytes();
        let end = offset_bytes.saturating_add(u64::from(len_bytes)).max(origin) - origin;
        let begin = offset_bytes.max(origin) - origin;
        let last = end.div_ceil(granule_bytes).min(self.granules.len() as u64);
        (begin / granule_bytes..last).map(move |index| Touched {
            index: index as usize,
            whole: index * granule_bytes >= begin && (index + 1) * granule_bytes <= end,
        })
    }
}

/// What a read must have given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    /// This generation, undamaged.
    Exactly(u64),
    /// A header of this generation or a later one.
    From(u64),
    /// Anything; but where it has a header, that must be of this place, and fit what follows it.
    Alone,
    None,
}

/// Whether a state without writes in flight says what is there.
fn is_known(state: u64) -> bool {
    state & GENERATION_MASK != 0 && state & (LOST | OVERFLOWN) == 0
}

//! What must be on the target: one atomic word for each granule, shared by all threads.

use super::judge::{Judged, Mismatch, check, check_alone};
use super::layout::{Layout, MAP_BYTES_MAX, VerifyError};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of the generation. 2^44 writes last for 20 days at ten million a second; granules written after that are not
/// judged.
const GENERATION_MASK: u64 = (1 << 44) - 1;
/// One write or trim in flight; the count has 14 bits.
const COUNT_ONE: u64 = 1 << 44;
const COUNT_MASK: u64 = ((1 << 14) - 1) << 44;
/// More than one write or trim belongs to the present period.
const MIXED: u64 = 1 << 58;
/// The period has a trim or a failed write: the content is unknown.
const LOST: u64 = 1 << 59;
/// The content was known when the period began.
const PRIOR: u64 = 1 << 60;
/// The count of writes in flight overflowed: the granule is never judged again.
const OVERFLOWN: u64 = 1 << 61;

/// What a run has written, for comparison with what it reads. See the module's description.
///
/// All accesses are sequentially consistent: a read that returns the data of a write also sees that the write was
/// announced.
#[derive(Debug)]
pub struct WrittenMap {
    layout: Layout,
    seed: u64,
    granules: Box<[AtomicU64]>,
    /// The last generation given to a write.
    issued: AtomicU64,
    /// Number of trims begun and writes failed so far.
    disturbances: AtomicU64,
}

/// The state of the map before a read was submitted. It is reused for each read, so that it allocates only once.
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
    /// Makes a map of a region (offset and length in bytes) of which nothing has been written. `seed` is the seed in
    /// the headers.
    ///
    /// # Errors
    /// The map would take more than [`MAP_BYTES_MAX`].
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

    /// The grid of granules and units.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Announces a write before it is submitted, and returns the generation for its headers.
    #[must_use]
    pub fn before_write(&self, offset_bytes: u64, len_bytes: u32) -> u64 {
        // All granules enter the period before the generation is drawn, so that generations grow from period to period.
        for touched in self.touched(offset_bytes, len_bytes) {
            // A granule that is written in part would hold two generations, so it is not judged. Layouts avoid this.
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

    /// Notes that the write has completed.
    pub fn after_write(&self, offset_bytes: u64, len_bytes: u32) {
        for touched in self.touched(offset_bytes, len_bytes) {
            self.end(touched.index);
        }
    }

    /// Notes that the write has failed: the content is unknown until the next write.
    pub fn failed_write(&self, offset_bytes: u64, len_bytes: u32) {
        for touched in self.touched(offset_bytes, len_bytes) {
            self.update(touched.index, |state| Some(state | LOST));
        }
        // After the mark is set and before the period ends: a view taken earlier sees the count change, a later view
        // sees the mark.
        self.disturbances.fetch_add(1, Ordering::SeqCst);
        self.after_write(offset_bytes, len_bytes);
    }

    /// Announces a trim before it is submitted: the content is unknown until the next write.
    pub fn before_discard(&self, offset_bytes: u64, len_bytes: u32) {
        for touched in self.touched(offset_bytes, len_bytes) {
            self.begin(touched.index, true);
        }
        self.disturbances.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that the trim has ended, whether or not it failed.
    pub fn after_discard(&self, offset_bytes: u64, len_bytes: u32) {
        self.after_write(offset_bytes, len_bytes);
    }

    /// Takes the state of the granules before a read is submitted.
    pub fn before_read(&self, offset_bytes: u64, len_bytes: u32, view: &mut ReadView) {
        // Before the granules are loaded; `failed_write` says why.
        view.disturbances = self.disturbances.load(Ordering::SeqCst);
        view.states.clear();
        let states = self.touched(offset_bytes, len_bytes);
        view.states.extend(states.map(|touched| self.granules[touched.index].load(Ordering::SeqCst)));
    }

    /// Judges the data of a read of `offset_bytes`: the counts of its units, and the first mismatch. `view` is from
    /// [`WrittenMap::before_read`] of the same read. The mismatch is boxed because it is rare and large.
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

    /// What must hold for a granule whose state was `before` when the read was submitted.
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
            // The generation of the time before the period is no longer known.
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
        // If the state does not change there is nothing to do, so both results are fine.
        let _ = self.granules[index].fetch_update(Ordering::SeqCst, Ordering::SeqCst, change);
    }

    /// The granules that an I/O touches, within the region.
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

/// What a read of a granule must return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    /// Exactly this generation, undamaged.
    Exactly(u64),
    /// A header of this generation or of a later one.
    From(u64),
    /// Anything; but a header, if there is one, must have this offset and match the content.
    Alone,
    None,
}

/// Whether a state without writes in flight defines the content.
fn is_known(state: u64) -> bool {
    state & GENERATION_MASK != 0 && state & (LOST | OVERFLOWN) == 0
}

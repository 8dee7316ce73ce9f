//! What each size of the fast tier keeps, once the whole trace was seen: for each size, the number of pinned rows and the staged share of the others that absorb
//! most.

use super::super::blocks::BLOCK_BYTES;
use super::super::groups::{Correction, Groups};
use super::super::histogram::Sums;
use super::super::knee::knee;
use super::outcome::{Pinned, Sized, Sizes, Way};

/// Number of parts of the trace, by bytes written, from which alpha's interval is computed (batch means).
pub const PARTS: usize = 20;
/// Fewest octaves that the sizes span.
const OCTAVES_MIN: u32 = 6;
/// Steps in which the staged share is varied from all to nothing.
const STAGED_STEPS: u32 = 16;
/// Student's t for 19 degrees of freedom, 95 %, two-sided.
const T_95: f64 = 2.093;
/// Share of the writes that the knee may keep less than the next step of the ladder.
const KNEE_LOSS: f64 = 0.001;

/// The writes of all rows that are not pinned, for one number of pinned rows.
pub struct Staged {
    /// Sums of distances in blocks, for each part of the trace.
    pub sums: Vec<Sums>,
    /// Weighted number of written blocks that were followed, for each part.
    pub followed: Vec<f64>,
    /// The groups that give the sample's error.
    pub groups: Groups,
}

/// What a trace has shown.
pub struct Seen {
    /// Rows in the order in which they are pinned.
    pub order: Vec<Pinned>,
    /// Rows that are written past the fast tier.
    pub bypassed: Vec<Pinned>,
    /// For each part of the trace, written blocks by row in the order.
    pub pinned_blocks: Vec<Vec<u64>>,
    /// Written blocks of each part.
    pub blocks: Vec<u64>,
    /// Blocks of each part that are written past the fast tier.
    pub bypassed_blocks: Vec<u64>,
    /// One entry for 0, 1, 2, ... pinned rows.
    pub rests: Vec<Staged>,
    /// One of so many blocks is in the sample; 1: all are.
    pub one_block_in: u64,
    /// Space of all that is accessed, in bytes.
    pub footprint_bytes: u64,
    /// Space of all that is written, in bytes.
    pub written_footprint_bytes: u64,
}

impl Seen {
    /// The effect of tiers from 1 MiB (or less, if hardly more is written) to the footprint, and of the sizes in `more_bytes`.
    pub fn sizes(self, more_bytes: &[u64]) -> Sizes {
        // Includes rows that are written past the tier: the last size is the one at which nothing more can be gained. Rows have their
        // maxima at different times, and some have no place in the order.
        let all = self.order.iter().chain(&self.bypassed);
        let rows_bytes =
            all.fold(0_u64, |sum, row| sum.saturating_add(row.occupancy_bytes)).max(self.written_footprint_bytes);
        let mut ladder = Vec::new();
        // Quarter octaves.
        let first = (rows_bytes >> OCTAVES_MIN).clamp(BLOCK_BYTES, 1 << 20);
        let quarters = |octave: u32| (0..4).map(move |at| (f64::from(octave) + f64::from(at) / 4.0).exp2() as u64);
        let steps = (first.ilog2()..u64::BITS - 1).flat_map(quarters).map(|size| size / BLOCK_BYTES * BLOCK_BYTES);
        ladder.extend(steps.take_while(|size| *size < rows_bytes));
        ladder.push(rows_bytes.next_multiple_of(BLOCK_BYTES).max(BLOCK_BYTES));
        ladder.dedup();
        let mut wanted = [more_bytes, &ladder].concat();
        wanted.sort_unstable();
        wanted.dedup();
        let mut sizes: Vec<Sized> = wanted.into_iter().map(|size_bytes| self.best(size_bytes)).collect();
        // Sizes that the user asks for must not move the knee.
        let of_ladder = |size: &&Sized| ladder.binary_search(&size.size_bytes).is_ok();
        let curve: Vec<(u64, f64)> =
            sizes.iter().filter(of_ladder).map(|size| (size.size_bytes, size.rewrites)).collect();
        let knee_bytes = knee(&curve).map(|at| match at.checked_sub(1) {
            Some(before) => self.least_as_good(curve[before].0, curve[at].0),
            None => curve[at].0,
        });
        let knee = knee_bytes.map(|bytes| {
            sizes.binary_search_by_key(&bytes, |size| size.size_bytes).unwrap_or_else(|at| {
                sizes.insert(at, self.best(bytes));
                at
            })
        });
        let rewrites_max = self.best(u64::MAX).rewrites;
        Sizes {
            sizes,
            knee,
            rewrites_max,
            rows_bytes,
            order: self.order,
            bypassed: self.bypassed,
            footprint_bytes: self.footprint_bytes,
            written_footprint_bytes: self.written_footprint_bytes,
            one_block_in: self.one_block_in,
        }
    }

    /// The least size above `too_small` that keeps as much as the step `size_bytes` of the ladder, or hardly less.
    fn least_as_good(&self, too_small: u64, size_bytes: u64) -> u64 {
        let Sized { rewrites, alpha, .. } = self.best(size_bytes);
        let (mut low, mut high) = (too_small / BLOCK_BYTES, size_bytes / BLOCK_BYTES);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let found = self.best(middle * BLOCK_BYTES);
            if found.rewrites >= rewrites - KNEE_LOSS && found.alpha >= alpha - KNEE_LOSS {
                high = middle
            } else {
                low = middle
            }
        }
        high * BLOCK_BYTES
    }

    /// Blocks of a part of the trace that are offered to staging if `pinned` rows are pinned.
    fn offered(&self, part: usize, pinned: usize) -> f64 {
        let kept: u64 = self.pinned_blocks[part][..pinned].iter().sum();
        (self.blocks[part] - kept - self.bypassed_blocks[part]) as f64
    }

    /// Blocks that the sample lacks, over the whole trace.
    fn missing(&self, pinned: usize) -> f64 {
        (0..PARTS).map(|part| self.offered(part, pinned) - self.rests[pinned].followed[part]).sum()
    }

    /// The correction for these blocks, for a tier with `left_blocks` blocks of room.
    fn correction(&self, pinned: usize, left_blocks: u64) -> Correction {
        if left_blocks == 0 {
            return Correction::default();
        }
        let rest = &self.rests[pinned];
        let below = |distance| rest.sums.iter().map(|part| part.below(distance)).sum();
        rest.groups.correction(left_blocks, self.missing(pinned), below)
    }

    /// For a part of the trace: blocks absorbed by pinned rows, blocks absorbed by staging a share of the others, and blocks written to the
    /// fast tier for that. `hits` are absorbed for each block that the sample lacks.
    fn kept(&self, part: usize, pinned: usize, left_blocks: u64, share: f64, hits: f64) -> (f64, f64, f64) {
        let kept: u64 = self.pinned_blocks[part][..pinned].iter().sum();
        let rest = &self.rests[pinned];
        let offered = self.offered(part, pinned);
        if share <= 0.0 || left_blocks == 0 {
            return (kept as f64, 0.0, 0.0);
        }
        // If only a share of the blocks is staged, only that share of the blocks between two writes of a block is, too: as if there were no
        // others and the tier were larger by that factor (the reasoning of SHARDS).
        let blocks = (left_blocks as f64 / share) as u64;
        let adjusted = (offered - rest.followed[part]) * hits;
        let staged = rest.sums[part].below(blocks) + adjusted;
        (kept as f64, staged.max(0.0) * share, offered * share)
    }

    fn best(&self, size_bytes: u64) -> Sized {
        let all = self.blocks.iter().sum::<u64>().max(1) as f64;
        // With nothing pinned every size is large enough, so there always is a best way.
        let mut best = Sized {
            size_bytes,
            pinned: 0,
            alpha: -1.0,
            alpha_error: None,
            sample_error: None,
            alpha_pinned: 0.0,
            fast_share: 0.0,
            rewrites: 0.0,
            ways: Vec::new(),
        };
        let (mut rewrites, mut ways) = (0.0_f64, Vec::new());
        let mut pinned_bytes = 0_u64;
        for pinned in 0..=self.order.len() {
            if pinned > 0 {
                pinned_bytes = self.order[pinned - 1].occupancy_bytes.saturating_add(pinned_bytes);
            }
            let Some(left_bytes) = size_bytes.checked_sub(pinned_bytes) else { break };
            let left = left_bytes / BLOCK_BYTES;
            let (missing, correction) = (self.missing(pinned), self.correction(pinned, left));
            // Hits for each block that the sample lacks; about the same if only a share is staged.
            let hits = if missing == 0.0 { 0.0 } else { correction.hits / missing };
            let of_all = |share: f64| {
                (0..PARTS)
                    .map(|part| self.kept(part, pinned, left, share, hits))
                    .fold((0.0, 0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1, sum.2 + part.2))
            };
            ways.extend((0..=STAGED_STEPS).rev().map(|step| {
                let share = f64::from(step) / f64::from(STAGED_STEPS);
                let (kept, staged, passed) = of_all(share);
                let alpha = ((kept + staged) / all).min(1.0);
                Way { pinned, staged: share, alpha, fast_share: (kept + passed) / all }
            }));
            let (kept, staged, passed) = of_all(1.0);
            // Pinned data is on the tier once, however often it is overwritten.
            let still_there = (pinned_bytes / BLOCK_BYTES) as f64;
            rewrites = rewrites.max(((kept - still_there).max(0.0) + staged) / all).min(1.0);
            let alpha = ((kept + staged) / all).min(1.0);
            if best.alpha >= alpha {
                continue;
            }
            let parts: Vec<f64> = (0..PARTS)
                .filter(|&part| self.blocks[part] > 0)
                .map(|part| {
                    let (kept, staged, _) = self.kept(part, pinned, left, 1.0, hits);
                    (kept + staged) / self.blocks[part] as f64
                })
                .collect();
            best.pinned = pinned;
            best.alpha = alpha;
            let of_sample = correction.error / all;
            best.alpha_error = (parts.len() == PARTS).then(|| half_interval(&parts).hypot(of_sample));
            best.sample_error = (self.one_block_in > 1).then_some(of_sample);
            best.alpha_pinned = kept / all;
            best.fast_share = (kept + passed) / all;
        }
        Sized { rewrites, ways, ..best }
    }
}

/// Half of the 95 % interval of a mean, from batches.
pub(super) fn half_interval(batches: &[f64]) -> f64 {
    let count = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let variance = batches.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    T_95 * (variance / count).sqrt()
}

//! What tiers of each size buy, of all that was counted.

use super::{PARTS, Rest, Sizing};
use crate::analysis::blocks::BLOCK_BYTES;
use crate::analysis::groups::Correction;
use crate::analysis::histogram::Histogram;
use crate::analysis::knee::knee;
use serde::Serialize;

/// Octaves that the sizes span at least.
const OCTAVES_MIN: u32 = 6;
/// Steps in which the share of what is staged is varied, from all of it to nothing.
const STAGED_STEPS: u32 = 16;
/// Student's t for 19 degrees of freedom, 95 %, two-sided.
const T_95: f64 = 2.093;

/// A row that is pinned, and what it takes.
#[derive(Clone, Debug, Serialize)]
pub struct Pinned {
    /// Its name.
    pub name: String,
    /// Most bytes that it occupied.
    pub occupancy_bytes: u64,
    /// Bytes written over them.
    pub beta: f64,
}

/// A way to use a fast tier of some size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// How many rows of [`Sizes::order`] are pinned.
    pub pinned: usize,
    /// Share of the other rows' blocks that are staged; writes of the others pass the fast tier by.
    pub staged: f64,
    /// Share of the written blocks that the capacity tier is spared.
    pub alpha: f64,
    /// Share of the written blocks that the fast tier takes.
    pub fast_share: f64,
}

/// A size of the fast tier, and what it buys.
#[derive(Clone, Debug, Serialize)]
pub struct Sized {
    /// Bytes of the fast tier.
    pub size_bytes: u64,
    /// How many rows of [`Sizes::order`] are pinned.
    pub pinned: usize,
    /// Share of the written blocks that the capacity tier is spared.
    pub alpha: f64,
    /// Half of the 95 % interval of alpha, from 20 parts of the trace and what the sample may be off by; `None` where they are
    /// too few.
    pub alpha_error: Option<f64>,
    /// What of it is the sample's: how far alpha of all blocks of this very trace may be. `None` where all were followed.
    pub sample_error: Option<f64>,
    /// Of alpha, what pinned rows give.
    pub alpha_pinned: f64,
    /// Share of the written blocks that the fast tier takes: what is pinned, and where there is room for it what is staged.
    pub fast_share: f64,
    /// Share of the written blocks that are written over, or discarded, before the capacity tier has seen them. Data that
    /// is pinned and still there does not count as it does in alpha, so the size at which all of the trace fits is no step.
    pub rewrites: f64,
    /// What else can be done with it: fewer rows pinned, and a share of what is staged passing by.
    #[serde(skip)]
    pub ways: Vec<Way>,
}

/// The outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Sizes {
    /// Rows in the order in which they are pinned.
    pub order: Vec<Pinned>,
    /// Rows that go past the fast tier.
    pub bypassed: Vec<Pinned>,
    /// By size.
    pub sizes: Vec<Sized>,
    /// Where more space begins to buy little: the point of [`Sized::rewrites`] farthest above the line from the first to the
    /// last, over the logarithm of the size (Satopaa et al. 2011, "Kneedle"). The last is four times what all rows take.
    pub knee: Option<usize>,
    /// Share of the written blocks that are written over or discarded at all: what no size goes beyond.
    pub rewrites_max: f64,
    /// Bytes accessed at least once (where nothing was discarded): the analysis' own.
    pub footprint_bytes: u64,
    /// Most bytes written and not discarded at a time, the analysis' own: in so many all that is written fits.
    pub written_footprint_bytes: u64,
    /// What the rows occupied at most, each at its own time, together: what they take where all are pinned. No size beyond buys
    /// anything.
    pub rows_bytes: u64,
    /// One block in so many was followed.
    pub one_block_in: u64,
}

impl Sizing {
    /// Ends it: what tiers of sizes from 1 MiB (or less, where all fits little more) to the footprint buy, and of those given.
    #[must_use]
    pub fn finish(mut self, more_bytes: &[u64]) -> Sizes {
        let sums = |rest: &mut Rest| std::mem::take(&mut rest.distances).into_iter().map(Histogram::sums).collect();
        self.sums = self.rests.iter_mut().map(sums).collect();
        // Also of what goes past the tier: the last size is that at which nothing more can be bought. Rows have their most at
        // different times, and some have no place in the order.
        let all = self.order.iter().chain(&self.bypassed);
        let rows_bytes =
            all.fold(0_u64, |sum, row| sum.saturating_add(row.occupancy_bytes)).max(self.written_footprint_bytes);
        let mut ladder = Vec::new();
        // Quarter octaves: the knee is found no finer than that.
        let first = (rows_bytes >> OCTAVES_MIN).clamp(BLOCK_BYTES, 1 << 20);
        let mut size = (1_u64 << first.ilog2()) as f64;
        while size < rows_bytes as f64 * 1.2 {
            ladder.push(size as u64 / BLOCK_BYTES * BLOCK_BYTES);
            size *= 2_f64.powf(0.25);
        }
        ladder.dedup();
        let mut wanted = [more_bytes, &ladder].concat();
        wanted.sort_unstable();
        wanted.dedup();
        let sizes: Vec<Sized> = wanted.into_iter().map(|size_bytes| self.best(size_bytes)).collect();
        // Sizes that somebody asks for do not move it.
        let steps: Vec<usize> = (0..sizes.len()).filter(|&at| ladder.contains(&sizes[at].size_bytes)).collect();
        let curve: Vec<(u64, f64)> = steps.iter().map(|&at| (sizes[at].size_bytes, sizes[at].rewrites)).collect();
        let knee = knee(&curve).map(|at| steps[at]);
        let rewrites_max = self.best(u64::MAX).rewrites;
        let one_block_in = self.sample.weight();
        Sizes {
            order: self.order,
            bypassed: self.bypassed,
            sizes,
            knee,
            rewrites_max,
            footprint_bytes: self.footprint_bytes,
            written_footprint_bytes: self.written_footprint_bytes,
            rows_bytes,
            one_block_in,
        }
    }

    /// Blocks of a part of the trace that are offered to staging where so many rows are pinned.
    fn offered(&self, part: usize, pinned: usize) -> f64 {
        let kept: u64 = self.pinned_blocks[part][..pinned].iter().sum();
        (self.blocks[part] - kept - self.bypassed_blocks[part]) as f64
    }

    /// Blocks that the sample has too few of, in all of the trace.
    fn missing(&self, pinned: usize) -> f64 {
        (0..PARTS).map(|part| self.offered(part, pinned) - self.rests[pinned].followed[part]).sum()
    }

    /// What the sample says of those, for a tier that has so much room.
    fn correction(&self, pinned: usize, left_blocks: u64) -> Correction {
        if left_blocks == 0 {
            return Correction::default();
        }
        let rest = &self.rests[pinned];
        let below = |distance| self.sums[pinned].iter().map(|part| part.below(distance)).sum();
        rest.groups.correction(left_blocks, self.missing(pinned), below)
    }

    /// Blocks that pinned rows keep in a part of the trace, that staging a share of the others does, and that are staged for
    /// it. Of what the sample has too few of, `hits` are kept for each block.
    fn kept(&self, part: usize, pinned: usize, left_blocks: u64, share: f64, hits: f64) -> (f64, f64, f64) {
        let kept: u64 = self.pinned_blocks[part][..pinned].iter().sum();
        let rest = &self.rests[pinned];
        let offered = self.offered(part, pinned);
        if share <= 0.0 || left_blocks == 0 {
            return (kept as f64, 0.0, 0.0);
        }
        // Where a share of the blocks is staged, so is that share of what comes between two writes of one: it is as if the
        // others were not there and the tier were larger by that (the reasoning of SHARDS).
        let blocks = (left_blocks as f64 / share) as u64;
        let adjusted = (offered - rest.followed[part]) * hits;
        let staged = self.sums[pinned][part].below(blocks) + adjusted;
        (kept as f64, staged.max(0.0) * share, offered * share)
    }

    fn best(&self, size_bytes: u64) -> Sized {
        let all = self.blocks.iter().sum::<u64>().max(1) as f64;
        // Without anything pinned every size is large enough: there always is a best one.
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
            // Of each block that the sample has too few of; about the same where a share is staged.
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
            // What is pinned lies there once, whatever becomes of it.
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
            best.sample_error = (self.sample.weight() > 1).then_some(of_sample);
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

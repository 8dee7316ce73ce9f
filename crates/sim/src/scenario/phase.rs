//! What the steps of a round are.

use super::kind::Kind;
use super::pick::pick;
use super::shape::Shape;
use super::step::{LEAF_BLOCKS, NAMES, SECOND_BLOCKS, Step};
use forebay_block::Random;

/// What kinds of things a round has.
pub(super) struct Phase {
    is_whole: bool,
    fua_in: u64,
    write: u64,
    clear: u64,
    flush: u64,
    read: u64,
    large_in: u64,
    admin: u64,
    zeros_in: u64,
    class: Option<u8>,
}

impl Phase {
    pub(super) fn random(random: &mut Random, is_whole: bool) -> Self {
        Self {
            is_whole,
            fua_in: pick(random, &[3, 10, 40]),
            write: pick(random, &[6, 12, 20]),
            clear: pick(random, &[0, 2, 6]),
            flush: pick(random, &[0, 2, 8]),
            read: pick(random, &[1, 4]),
            large_in: pick(random, &[3, 8, 30]),
            admin: pick(random, &[0, 1, 3]),
            zeros_in: pick(random, &[6, 40]),
            class: random.chance(1, 3).then(|| pick(random, &[1, 2, 5])),
        }
    }

    /// What a kind of life is rich in.
    pub(super) fn of(self, kind: Kind) -> Self {
        match kind {
            Kind::Mixed | Kind::Wide | Kind::Failing => self,
            Kind::Naming => Self { read: 12, admin: 3, ..self },
            Kind::Lying => Self { admin: 3, large_in: 8, ..self },
            Kind::Tight => Self { write: 30, clear: 1, large_in: 4, class: Some(5), ..self },
            Kind::Sweeping => Self { clear: 16, ..self },
            Kind::Patchwork => Self { write: 20, clear: 1, admin: 1, ..self },
            Kind::Cramped => Self { write: 30, clear: 1, admin: 0, large_in: 3, zeros_in: 1000, ..self },
            Kind::Packed => Self { write: 30, clear: 1, large_in: 2, class: Some(5), ..self },
            // Their steps come from elsewhere.
            _ => self,
        }
    }

    pub(super) fn step(&self, shape: &Shape, random: &mut Random) -> Step {
        match self.any_step(shape, random) {
            Step::Write { sector, class, fua, .. } if shape.kind == Kind::Patchwork => {
                let first = sector / 8 / LEAF_BLOCKS * LEAF_BLOCKS * 8 + random.below(90) * 8;
                Step::Patchwork { sector: first, sectors: 8 * (200 + random.below(100)), fua, class }
            }
            Step::Write { sector, sectors, fua, zeros, .. } if shape.kind == Kind::Cramped => {
                Step::Write { sector, sectors, fua, class: None, zeros }
            }
            Step::Write { sector, sectors, fua, zeros, .. } if shape.kind == Kind::Naming && random.chance(3, 4) => {
                Step::Write { sector, sectors, fua, class: None, zeros }
            }
            Step::Read { sector, .. } if shape.kind == Kind::Naming && random.chance(3, 4) => {
                // Also over the end of a leaf.
                let blocks = pick(random, &[1, 4, 40, 500]).min(shape.disk_bytes / 4096 - sector / 8);
                Step::Reclass { block: sector / 8, blocks, file: random.below(NAMES.len() as u64) as u8 }
            }
            step => step,
        }
    }

    fn any_step(&self, shape: &Shape, random: &mut Random) -> Step {
        let block = random.below(shape.leaves) * LEAF_BLOCKS + random.below(shape.blocks);
        let is_aligned = self.is_whole || random.chance(3, 4);
        let sector = block * 8 + if is_aligned { 0 } else { random.below(8) };
        // Within the leaf's working set, so that what lives is bounded.
        let room = (block / LEAF_BLOCKS * LEAF_BLOCKS + shape.blocks) * 8 - sector;
        let wanted = match (is_aligned, random.chance(1, self.large_in)) {
            (true, true) => 8 * (1 + random.below(40)),
            (true, false) => 8 * (1 + random.below(4)),
            (false, _) => 1 + random.below(20),
        };
        let sectors = wanted.min(room);
        let fua = random.chance(1, self.fua_in);
        let class = self.class.or_else(|| pick(random, &[Some(1), Some(2), Some(5), None, None]));
        let kinds = [self.write, self.clear, self.flush, self.read, self.admin, 1];
        let mut at = random.below(kinds.iter().sum());
        let kind = kinds.iter().position(|&weight| {
            let here = at < weight;
            at = at.saturating_sub(weight);
            here
        });
        match kind {
            Some(0) => Step::Write { sector, sectors, fua, class, zeros: random.chance(1, self.zeros_in) },
            Some(1) if random.chance(1, if shape.kind == Kind::Sweeping { 3 } else { 12 }) => {
                // Over several leaves, up to all of the disk.
                let widest = if shape.kind == Kind::Sweeping { 12 } else { 6 };
                let first = random.below(shape.leaves) * LEAF_BLOCKS * 8 + random.below(64);
                let first = if self.is_whole { first / 8 * 8 } else { first };
                let end = (shape.disk_bytes / 512).min(first + LEAF_BLOCKS * 8 * (1 + random.below(widest)));
                Step::Clear { sector: first, sectors: end - first, fua, is_discard: true }
            }
            Some(1) => Step::Clear { sector, sectors, fua, is_discard: random.chance(1, 2) },
            Some(2) => Step::Flush,
            Some(3) => Step::Read { sector, sectors },
            Some(4) => match random.below(8) {
                0..=2 => Step::Checkpoint,
                3 | 4 => Step::Place { class: random.below(4) as u8, place: random.below(4) as u8 },
                5 => Step::Disk { blocks: pick(random, &[0, 50, 400, 900]) },
                _ => Step::WriteSecond { block: random.below(SECOND_BLOCKS) },
            },
            _ => match random.below(8) {
                0 => Step::Settle,
                1 => {
                    Step::ClockStep(pick(random, &[-3_600_000_000_000, -1_000_000, 60_000_000_000, 86_400_000_000_000]))
                }
                2 => Step::Idle(2_000_000_000),
                _ => Step::Idle(random.below(20_000_000)),
            },
        }
    }
}

//! Computes the offset of the next I/O.

use super::shapes::Shape;
use forebay_block::{OpKind, Random};

/// One size of I/O, and its possible offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Length in bytes.
    pub(super) len_bytes: u32,
    /// Alignment of random offsets.
    pub(super) align_bytes: u64,
    /// Number of possible random offsets.
    pub(super) positions: u64,
}

/// How offsets in the region are chosen. Positions are bytes on the target.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Random multiples of the size's alignment from `begin_bytes` on, equally likely.
    Random { begin_bytes: u64 },
    /// One after the other, or with a stride.
    Walk(Walk),
    /// A share of random offsets; each other I/O follows the one before.
    Mixed { walk: Walk, random_percent: u64 },
    /// Blocks with different probabilities.
    Blocks { begin_bytes: u64, block_bytes: u64, shape: Box<Shape> },
    /// Reads, writes and trims each with their own.
    ByKind(Box<[Place; 3]>),
}

/// Steps through begin..end, again and again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    begin_bytes: u64,
    end_bytes: u64,
    /// Position of the next I/O if it fits there; [`AROUND`] if the walk must begin again.
    position: u64,
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// To the end of the I/O.
    Length,
    /// This number of bytes forwards.
    Forward(u64),
    /// This number of bytes backwards.
    Backward(u64),
}

/// No I/O fits at this position, so the walk begins again.
const AROUND: u64 = u64::MAX;

impl Walk {
    /// One I/O after the other.
    pub(super) fn sequential(begin_bytes: u64, end_bytes: u64) -> Self {
        Self { begin_bytes, end_bytes, position: begin_bytes, step: Step::Length }
    }

    /// I/Os begin `stride_bytes` apart; if negative, backwards from the last position.
    pub(super) fn strided(begin_bytes: u64, end_bytes: u64, stride_bytes: i64) -> Self {
        let distance = stride_bytes.unsigned_abs();
        if stride_bytes < 0 {
            Self { begin_bytes, end_bytes, position: AROUND, step: Step::Backward(distance) }
        } else {
            Self { begin_bytes, end_bytes, position: begin_bytes, step: Step::Forward(distance) }
        }
    }

    #[inline]
    fn next(&mut self, len_bytes: u64) -> u64 {
        let mut at = self.position;
        if at > self.end_bytes - len_bytes {
            at = self.restart(len_bytes);
        }
        self.position = match self.step {
            Step::Length => at + len_bytes,
            Step::Forward(distance) => at.saturating_add(distance),
            Step::Backward(distance) if at - self.begin_bytes >= distance => at - distance,
            Step::Backward(_) => AROUND,
        };
        at
    }

    /// Where a new walk begins; backwards, at the last multiple of the length. The division is only made once per walk.
    #[cold]
    fn restart(&self, len_bytes: u64) -> u64 {
        match self.step {
            Step::Length | Step::Forward(_) => self.begin_bytes,
            Step::Backward(_) => {
                let room = self.end_bytes - self.begin_bytes - len_bytes;
                self.begin_bytes + room / len_bytes * len_bytes
            }
        }
    }

    /// The I/O before was at another position, and ended at `end_bytes`.
    #[inline]
    fn jump(&mut self, end_bytes: u64) {
        self.position = end_bytes;
    }
}

impl Place {
    /// The offset of the next I/O, of this kind and size.
    #[inline]
    pub(super) fn next(&mut self, kind: OpKind, size: Size, random: &mut Random) -> u64 {
        match self {
            Self::Random { begin_bytes } => *begin_bytes + random.below(size.positions) * size.align_bytes,
            Self::Walk(walk) => walk.next(u64::from(size.len_bytes)),
            Self::Mixed { walk, random_percent } => {
                let len_bytes = u64::from(size.len_bytes);
                if random.chance(*random_percent, 100) {
                    let at = walk.begin_bytes + random.below(size.positions) * size.align_bytes;
                    walk.jump(at + len_bytes);
                    at
                } else {
                    walk.next(len_bytes)
                }
            }
            Self::Blocks { begin_bytes, block_bytes, shape } => *begin_bytes + shape.block(random) * *block_bytes,
            Self::ByKind(places) => Self::next_of(places, kind, size, random),
        }
    }

    /// Not inlined: the common patterns stay small in the hot loop.
    #[inline(never)]
    fn next_of(places: &mut [Self; 3], kind: OpKind, size: Size, random: &mut Random) -> u64 {
        let [reads, writes, trims] = places;
        let place = match kind {
            OpKind::Read => reads,
            OpKind::Trim => trims,
            OpKind::Write | OpKind::WriteFua | OpKind::Flush | OpKind::Fsync => writes,
        };
        place.next(kind, size, random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(mut walk: Walk, lens: &[u64]) -> Vec<u64> {
        lens.iter().map(|&len| walk.next(len)).collect()
    }

    #[test]
    fn sequential_goes_round_before_an_io_would_cross_the_end() {
        assert_eq!(walk(Walk::sequential(100, 450), &[100; 5]), [100, 200, 300, 100, 200]);
        assert_eq!(walk(Walk::sequential(0, 300), &[100, 50, 200, 100, 50]), [0, 100, 0, 200, 0]);
    }

    #[test]
    fn strides_go_both_ways() {
        assert_eq!(walk(Walk::strided(10, 110, 30), &[20; 5]), [10, 40, 70, 10, 40]);
        assert_eq!(walk(Walk::strided(10, 115, -30), &[20; 5]), [90, 60, 30, 90, 60]);
        assert_eq!(walk(Walk::strided(10, 110, 0), &[20; 3]), [10, 10, 10]);
        assert_eq!(walk(Walk::strided(10, 110, i64::MIN), &[20; 3]), [90, 90, 90]);
        assert_eq!(walk(Walk::strided(10, 110, i64::MAX), &[20; 3]), [10, 10, 10]);
    }
}

//! Choice of the closed block to collect: the fewest valid units in O(1), or the best of a few drawn at random.

use super::config::Policy;
use super::shape::NONE;
use forebay_block::Random;

/// Blocks drawn for cost-benefit. With d choices the write amplification is within a percent of a choice among all blocks from about d = 10
/// on (Van Houdt, SIGMETRICS 2013, d-choices collection [memory]).
const DRAWN: usize = 32;

/// Closed blocks of every group.
pub(super) enum Victims {
    /// A list of blocks for each number of valid units.
    Greedy(Buckets),
    /// Blocks in no order, of which some are drawn.
    Drawn(Drawn),
}

impl Victims {
    pub(super) fn new(policy: Policy, groups: u32, blocks: u32, block_units: u32, seed: u64) -> Self {
        match policy {
            Policy::Greedy => Self::Greedy(Buckets::new(groups, blocks, block_units)),
            Policy::CostBenefit => Self::Drawn(Drawn::new(groups, blocks, seed)),
        }
    }

    /// A block is closed with `valid` valid units; `now` is the number of units written so far.
    pub(super) fn insert(&mut self, group: u32, block: u32, valid: u32, now: u64) {
        match self {
            Self::Greedy(b) => b.insert(group, block, valid),
            Self::Drawn(d) => d.insert(group, block, now),
        }
    }

    /// A closed block lost a valid unit and has `valid` left.
    pub(super) fn shrink(&mut self, group: u32, block: u32, valid: u32) {
        if let Self::Greedy(b) = self {
            b.remove(group, block, valid + 1);
            b.insert(group, block, valid);
        }
    }

    /// Removes a given closed block, which has `valid` valid units.
    pub(super) fn remove(&mut self, group: u32, block: u32, valid: u32) {
        match self {
            Self::Greedy(b) => b.remove(group, block, valid),
            Self::Drawn(d) => d.closed[group as usize].retain(|&other| other != block),
        }
    }

    /// Takes the best block; none where all blocks are full of valid units.
    pub(super) fn take(&mut self, group: u32, valid: impl Fn(u32) -> u32, block_units: u32, now: u64) -> Option<u32> {
        match self {
            Self::Greedy(b) => b.take(group, block_units),
            Self::Drawn(d) => d.take(group, valid, block_units, now),
        }
    }
}

pub(super) struct Buckets {
    next: Vec<u32>,
    previous: Vec<u32>,
    head: Vec<u32>,
    tail: Vec<u32>,
    lowest: Vec<u32>,
    width: u32,
}

impl Buckets {
    fn new(groups: u32, blocks: u32, block_units: u32) -> Self {
        let width = block_units + 1;
        let lists = groups as usize * width as usize;
        Self {
            next: vec![NONE; blocks as usize],
            previous: vec![NONE; blocks as usize],
            head: vec![NONE; lists],
            tail: vec![NONE; lists],
            lowest: vec![width; groups as usize],
            width,
        }
    }

    fn insert(&mut self, group: u32, block: u32, valid: u32) {
        let list = group as usize * self.width as usize + valid as usize;
        let last = self.tail[list];
        self.previous[block as usize] = last;
        self.next[block as usize] = NONE;
        if last == NONE {
            self.head[list] = block;
        } else {
            self.next[last as usize] = block;
        }
        self.tail[list] = block;
        let lowest = &mut self.lowest[group as usize];
        *lowest = (*lowest).min(valid);
    }

    fn remove(&mut self, group: u32, block: u32, valid: u32) {
        let list = group as usize * self.width as usize + valid as usize;
        let (next, previous) = (self.next[block as usize], self.previous[block as usize]);
        if previous == NONE {
            self.head[list] = next;
        } else {
            self.next[previous as usize] = next;
        }
        if next == NONE {
            self.tail[list] = previous;
        } else {
            self.previous[next as usize] = previous;
        }
    }

    fn take(&mut self, group: u32, block_units: u32) -> Option<u32> {
        // The index falls by one for each unit that becomes invalid and rises here: amortised constant time.
        let base = group as usize * self.width as usize;
        while self.lowest[group as usize] < block_units {
            let valid = self.lowest[group as usize];
            let block = self.head[base + valid as usize];
            if block != NONE {
                self.remove(group, block, valid);
                return Some(block);
            }
            self.lowest[group as usize] += 1;
        }
        None
    }
}

pub(super) struct Drawn {
    closed: Vec<Vec<u32>>,
    closed_at: Vec<u64>,
    random: Random,
}

impl Drawn {
    fn new(groups: u32, blocks: u32, seed: u64) -> Self {
        let group_blocks = (blocks / groups) as usize;
        Self {
            closed: (0..groups).map(|_| Vec::with_capacity(group_blocks)).collect(),
            closed_at: vec![0; blocks as usize],
            random: Random::new(seed),
        }
    }

    fn insert(&mut self, group: u32, block: u32, now: u64) {
        self.closed[group as usize].push(block);
        self.closed_at[block as usize] = now;
    }

    fn take(&mut self, group: u32, valid: impl Fn(u32) -> u32, block_units: u32, now: u64) -> Option<u32> {
        let closed = &mut self.closed[group as usize];
        let len = closed.len();
        let mut best: Option<(u128, u128, usize)> = None;
        for draw in 0..len.min(DRAWN) {
            let at = if len <= DRAWN { draw } else { self.random.index(len) };
            let block = closed[at];
            let used = valid(block);
            if used >= block_units {
                continue;
            }
            // Compares (1 - u) / 2u * age as a fraction of integers; an empty block is better than any other.
            let age = u128::from(now - self.closed_at[block as usize]) + 1;
            let gain = age * u128::from(block_units - used);
            let cost = 2 * u128::from(used);
            if best.is_none_or(|(g, c, _)| gain * c > g * cost) {
                best = Some((gain, cost, at));
            }
        }
        best.map(|(_, _, at)| closed.swap_remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_takes_the_emptiest_block_and_never_a_full_one() {
        let mut victims = Victims::new(Policy::Greedy, 2, 8, 10, 0);
        let mut valid = [10, 7, 3, 9, 10, 10, 10, 10];
        for block in 0..4 {
            victims.insert(0, block, valid[block as usize], 0);
        }
        victims.insert(1, 4, 10, 0);
        valid[1] = 2;
        for left in (2..7).rev() {
            victims.shrink(0, 1, left);
        }
        assert_eq!(victims.take(0, |b| valid[b as usize], 10, 0), Some(1));
        assert_eq!(victims.take(0, |b| valid[b as usize], 10, 0), Some(2));
        assert_eq!(victims.take(0, |b| valid[b as usize], 10, 0), Some(3));
        assert_eq!(victims.take(0, |b| valid[b as usize], 10, 0), None, "block 0 is full");
        victims.shrink(1, 4, 9);
        assert_eq!(victims.take(1, |b| valid[b as usize], 10, 0), Some(4));
    }

    #[test]
    fn cost_benefit_prefers_the_old_block_of_two_with_nearly_the_same_use() {
        let mut victims = Victims::new(Policy::CostBenefit, 1, 3, 100, 1);
        let valid = [50, 45, 100];
        victims.insert(0, 0, 50, 0);
        victims.insert(0, 1, 45, 900);
        victims.insert(0, 2, 100, 0);
        assert_eq!(victims.take(0, |b| valid[b as usize], 100, 1000), Some(0));
        assert_eq!(victims.take(0, |b| valid[b as usize], 100, 1000), Some(1));
        assert_eq!(victims.take(0, |b| valid[b as usize], 100, 1000), None);
    }
}

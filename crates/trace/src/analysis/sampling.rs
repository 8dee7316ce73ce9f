//! Which blocks are followed: all of them while they fit, then a share that does not depend on the accesses.
//!
//! As in SHARDS (Waldspurger et al., FAST'15), only a hash of the block's address decides. But it does not decide for each block by itself:
//! of every 2^n aligned neighbours, exactly one is followed. Neighbours are used alike, so a sample with a part of every region says more
//! than one with as many blocks from anywhere (stratified sampling, Cochran, "Sampling Techniques", chapter 5). If accesses have a stride
//! of a group or more, it says as much.

use forebay_block::hash::splitmix64;

/// Levels of the tree of neighbours (pairs, pairs of pairs, and so on) for which one hash has enough bits.
const LEVELS: u32 = 6;
/// Number of blocks in a group, for which one hash chooses.
const GROUP: u64 = 1 << LEVELS;
/// Added to a group's number before hashing, because the hash of 0 is 0 and block 0 must not always be followed.
const SALT: u64 = 0x9e37_79b9_7f4a_7c15;

/// The sample: one of 2^`halvings` neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    halvings: u32,
}

/// Address of a block of a volume; blocks are below 2^44, volumes below 2^20.
pub fn address(volume: u32, block: u64) -> u64 {
    u64::from(volume) << 44 | block
}

/// The choices of a group: bit `n` is the half that node `n` of its tree follows. The root is node 1; the halves of node `n` are nodes `2n`
/// and `2n + 1`, down to the members, nodes 64 to 127.
fn choices(group: u64, round: u64) -> u64 {
    splitmix64(group.wrapping_add(SALT.wrapping_mul(round + 1)))
}

impl Sample {
    /// A sample of one block in 2^`halvings`.
    pub fn one_in_power(halvings: u32) -> Self {
        // 63 leaves two blocks of all that there may be, fewer than any table holds, so that halving always ends.
        Self { halvings: halvings.min(63) }
    }

    /// Follows half as many blocks from now on.
    pub fn halve(&mut self) {
        *self = Self::one_in_power(self.halvings + 1);
    }

    /// Number of blocks that each followed one stands for.
    pub fn weight(self) -> u64 {
        1 << self.halvings
    }

    /// The group of a followed block, of `groups`. As many followed blocks as there are groups, if they are neighbours, are all in
    /// different groups.
    pub fn group(self, address: u64, groups: usize) -> usize {
        let (number, groups) = (address >> self.halvings.min(63), groups as u64);
        (number.wrapping_add(splitmix64((number / groups) ^ SALT)) % groups) as usize
    }

    /// Whether a block is followed.
    pub fn has(self, address: u64) -> bool {
        has(address, self.halvings, 0)
    }

    /// Whether a block of an earlier sample is still followed: the table may fill in the middle of a request.
    pub fn keeps(self, address: u64, before: Self) -> bool {
        self == before || self.has(address)
    }

    /// Calls `take` with the address of each followed block of a range, in order.
    pub fn each(self, volume: u32, first: u64, count: u64, mut take: impl FnMut(u64)) {
        let Some(more) = count.checked_sub(1) else { return };
        let begin = address(volume, first);
        // Inclusive, because the last block of the last volume is the largest number.
        let last = begin + more;
        if self.halvings == 0 {
            return (begin..=last).for_each(take);
        }
        let levels = self.halvings.min(LEVELS);
        for group in begin / GROUP..=last / GROUP {
            if !has(group, self.halvings - levels, 1) {
                continue;
            }
            let choices = choices(group, 0);
            let low = begin.max(group * GROUP) % GROUP;
            let high = last.min(group * GROUP + (GROUP - 1)) % GROUP;
            for top in (GROUP + low) >> levels..=(GROUP + high) >> levels {
                let member = (0..levels).fold(top, |node, _| node << 1 | choices >> node & 1) % GROUP;
                if (low..=high).contains(&member) {
                    take(group * GROUP + member);
                }
            }
        }
    }

    /// The followed blocks of a range that may have terabytes. For a large range, it is faster to go through all followed blocks, of which
    /// there are `followed`.
    pub fn among(
        self,
        volume: u32,
        first: u64,
        count: u64,
        (followed, all): (usize, impl Iterator<Item = u64>),
    ) -> Vec<u64> {
        let mut found = Vec::new();
        // `each` goes through groups at any weight.
        if count / self.weight().min(GROUP) > followed as u64 * 4 {
            let begin = address(volume, first);
            let range = begin..=begin + (count - 1);
            found.extend(all.filter(|address| range.contains(address)));
        } else {
            self.each(volume, first, count, |address| found.push(address));
        }
        found
    }
}

/// Whether a block is followed if one of 2^`halvings` is; or a group of `round`, whose members are the groups of the round before.
fn has(member: u64, halvings: u32, round: u64) -> bool {
    let (mut at, mut left, mut round) = (member, halvings, round);
    while left > 0 {
        let levels = left.min(LEVELS);
        let choices = choices(at / GROUP, round);
        let mut node = GROUP + at % GROUP;
        for _ in 0..levels {
            let half = node & 1;
            node >>= 1;
            if choices >> node & 1 != half {
                return false;
            }
        }
        (at, left, round) = (at / GROUP, left - levels, round + 1);
    }
    true
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The followed address of the 2^42 with these upper bits.
    pub fn followed_of(top: u64) -> u64 {
        (0..7).rev().fold(top, |group, round| {
            let choices = choices(group, round);
            group * GROUP + (0..LEVELS).fold(1, |node, _| node << 1 | choices >> node & 1) % GROUP
        })
    }

    proptest! {
        #[test]
        fn one_of_all_neighbours_is_followed(halvings in 0u32..13, group in 0u64..1 << 51) {
            let sample = Sample::one_in_power(halvings);
            let first = group << halvings;
            let followed: Vec<u64> = (first..first + (1 << halvings)).filter(|&address| sample.has(address)).collect();
            prop_assert_eq!(followed.len(), 1);
            let coarser = Sample::one_in_power(halvings + 1);
            let first = group >> 1 << (halvings + 1);
            let all = (first..first + (2 << halvings)).filter(|&address| coarser.has(address));
            prop_assert!(all.into_iter().all(|address| sample.has(address)), "who is followed was before");
        }

        #[test]
        fn a_range_has_the_blocks_that_are_followed_one_by_one(
            halvings in 0u32..15, volume in 0u32..4, first in 0u64..1000, count in 0u64..3000, far: bool,
        ) {
            let first = if far { (1 << 44) - 4000 + first } else { first };
            let sample = Sample::one_in_power(halvings);
            let range = || (first..first + count).map(|block| address(volume, block));
            let one_by_one: Vec<u64> = range().filter(|&address| sample.has(address)).collect();
            let mut found = Vec::new();
            sample.each(volume, first, count, |address| found.push(address));
            prop_assert_eq!(&found, &one_by_one);
            // The last ones lie outside of the range.
            let mut table: Vec<u64> = range().filter(|&address| sample.has(address)).take(count as usize / 50).collect();
            table.extend([followed_of(1 << 20), address(volume, first + count), address(volume, first).wrapping_sub(1)]);
            let among = sample.among(volume, first, count, (table.len(), table.iter().copied()));
            let beside = table.len() - 3;
            prop_assert!(table[..beside].iter().all(|address| among.contains(address)));
            prop_assert!(among.iter().all(|address| range().any(|other| other == *address)));
        }
    }

    #[test]
    fn regression_the_last_volume_ends_where_numbers_do() {
        let (volume, end) = ((1 << 20) - 1, 1_u64 << 44);
        let table = [address(volume, end - 1), address(volume, end - 9)];
        assert_eq!(table[0], u64::MAX);
        assert_eq!(Sample::default().among(volume, end - 9, 9, (2, table.into_iter())), table);
        let all: Vec<u64> = (end - 8..end).map(|block| address(volume, block)).collect();
        assert_eq!(Sample::default().among(volume, end - 8, 8, (all.len(), all.iter().copied())), all);
    }

    #[test]
    fn regression_a_discard_of_everything_looks_at_the_table_only() {
        let sample = Sample::one_in_power(33);
        let table = [followed_of(3), followed_of(1 << 20)];
        // Going through 2^38 groups one by one would take hours.
        assert_eq!(sample.among(0, 0, 1 << 44, (2, table.into_iter())), table[..1]);
    }

    #[test]
    fn which_neighbour_is_followed_is_left_to_chance() {
        assert!(!Sample::one_in_power(20).has(0));
        let same = (0..6400).filter(|&group| choices(group, 0) == choices(group, 1)).count();
        assert_eq!(same, 0, "a group of groups chooses by itself");
        for halvings in [1, 3, 6, 8] {
            let sample = Sample::one_in_power(halvings);
            let mut times = vec![0_u32; 1 << halvings];
            let groups = 4000 << halvings;
            sample.each(0, 0, groups, |address| times[(address % (1 << halvings)) as usize] += 1);
            // 4000 groups choose one each, with a binomial distribution: five standard deviations.
            let expected = 4000.0 / f64::from(1 << halvings);
            assert!(
                times.iter().all(|&times| (f64::from(times) - expected).abs() < 5.0 * expected.sqrt()),
                "{halvings}: {times:?}"
            );
        }
    }
}

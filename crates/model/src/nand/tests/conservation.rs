//! Random commands on random small drives: no data is lost or duplicated.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Command(u8, u64, u32, u64),
    Wait(u64),
    Age(f64, f64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0u8..10, 0u64..3000, 1u32..80, 0u64..200_000).prop_map(|(o, at, len, dt)| Step::Command(o, at, len, dt)),
        3 => (0u64..20_000_000).prop_map(Step::Wait),
        1 => (0.0..1.0f64, 0.0..1.0f64).prop_map(|(f, r)| Step::Age(f, r)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Random commands of any alignment: each ends once, in the order of time, and no data is lost or duplicated.
    #[test]
    fn conservation(
        steps in prop::collection::vec(step(), 1..250),
        streams in 1u32..4,
        wide in prop::sample::select(vec![1u32, 2, 4]),
        capacitors: bool,
        cached: bool,
        cache_program: bool,
        cost_benefit: bool,
        slc: bool,
        level_spread in prop::option::of(1u32..4),
        causes in (1u32..6, prop::option::of(0u32..3), 0u64..300_000, any::<bool>(), 1u32..20),
    ) {
        let (stripe_rows, fold_above_blocks, run_least_ns, collect_by_page, map_batch) = causes;
        let mut config = small(1.3);
        config.geometry.dies_per_channel = 1;
        config.geometry.blocks_per_plane = 36;
        config.geometry.pages_per_block = 8;
        config.ftl.streams = streams;
        config.ftl.level_spread = level_spread;
        config.ftl.superblock_dies = wide;
        config.ftl.collect_below_blocks = 3;
        config.buffer.capacitors = capacitors;
        config.buffer.size_bytes = 40 * UNIT_BYTES;
        config.timing.cache_program = cache_program;
        config.timing.cache_read = cache_program;
        config.controller.commands_max = 7;
        config.controller.map_update_ns = 5_000;
        config.controller.map_batch = map_batch;
        config.buffer.stripe_rows = stripe_rows;
        config.ftl.collect_by_page = collect_by_page;
        config.timing.suspend = config.timing.suspend.map(|s| config::Suspend { run_least_ns, ..s });
        config.capacity_bytes = 4600 * UNIT_BYTES;
        if cached {
            config.read_ahead = Some(config::ReadAhead { after_commands: 1, depth_bytes: 1 << 16 });
            config.ftl.map_cache_bytes = 2 * UNIT_BYTES;
        }
        if cost_benefit {
            config.ftl.policy = config::Policy::CostBenefit;
        }
        if slc {
            config.capacity_bytes = 3000 * UNIT_BYTES;
            config.slc = Some(config::Slc {
                fixed_bytes: 64 * UNIT_BYTES,
                dynamic_bytes: 256 * UNIT_BYTES,
                read_ns: 20_000,
                program_ns: 100_000,
                fold_above_blocks,
                fold_groups: 1,
            });
        }
        let units = config.capacity_bytes / UNIT_BYTES;
        let mut drive = Nand::new(config).unwrap();
        let (mut now_ns, mut tag, mut done) = (0u64, 0u64, Vec::new());
        for step in steps {
            match step {
                Step::Command(op, at, len, dt) => {
                    now_ns += dt;
                    let op = [Op::Write, Op::Write, Op::Write, Op::Write, Op::Write, Op::Read, Op::Read, Op::Read,
                        Op::Trim, Op::Flush][op as usize];
                    let mut command = command(op, at.min(units - 80), len);
                    command.stream = (at % 5) as u8;
                    command.tag = tag;
                    if at % 7 == 0 {
                        command.offset_bytes += 512;
                        command.len_bytes -= 512;
                    }
                    if op == Op::Flush {
                        command.len_bytes = 0;
                    }
                    tag += 1;
                    drive.submit(now_ns, command);
                }
                Step::Wait(ns) => {
                    now_ns += ns;
                    drive.advance(now_ns, &mut done);
                    drive.check().map_err(TestCaseError::fail)?;
                }
                Step::Age(filled, random_passes) => {
                    while drive.next_event_ns() != u64::MAX {
                        now_ns = now_ns.max(drive.next_event_ns());
                        drive.advance(now_ns, &mut done);
                    }
                    drive.age(Past { filled, random_passes });
                    drive.check().map_err(TestCaseError::fail)?;
                }
            }
        }
        let (mut rounds, mut earliest_ns) = (0u64, 0);
        while drive.next_event_ns() != u64::MAX {
            earliest_ns = earliest_ns.max(drive.earliest_end_ns());
            let ended = done.len();
            drive.advance(drive.next_event_ns(), &mut done);
            if let Some(first) = done.get(ended) {
                prop_assert!(first.at_ns >= earliest_ns, "an end at {} was not foreseen: {earliest_ns}", first.at_ns);
                earliest_ns = 0;
            }
            rounds += 1;
            prop_assert!(rounds < 2_000_000, "the drive never rests");
        }
        drive.check().map_err(TestCaseError::fail)?;
        prop_assert!(done.is_sorted_by_key(|d| d.at_ns));
        let mut tags: Vec<u64> = done.iter().map(|d| d.tag).collect();
        tags.sort_unstable();
        prop_assert_eq!(tags, (0..tag).collect::<Vec<_>>());
    }
}

use super::*;
use proptest::prelude::*;

/// A drive whose times can be added up by hand: 4 sets on one bus, no refresh.
fn plain() -> Config {
    Config {
        capacity_bytes: 1 << 30,
        channels: 7,
        dies_per_channel: 4,
        stripe_channels: 7,
        controller_ns: 2000,
        command_interval_ns: 0,
        commands: 64,
        slow_path_ns: 5000,
        link_read_bytes_per_s: 4_096_000_000,
        link_write_bytes_per_s: 2_048_000_000,
        channel_read_ns: 300,
        channel_write_ns: 400,
        turnaround_ns: 50,
        die_read_ns: 1500,
        die_read_recovery_ns: 700,
        die_write_ns: 1600,
        die_write_recovery_ns: 10_000,
        registers: 2,
        refresh: Refresh { period_ns: 0, length_ns: 0, fast_factor: 1, fast_for_ns: 0, after_long_power_off: false },
        levelling: Levelling { every_writes: 0, length_ns: 0, moved_bytes: 0 },
        endurance: None,
    }
}

fn command(tag: u64, op: Op, offset_bytes: u64, len_bytes: u32) -> Command {
    Command { tag, op, offset_bytes, len_bytes, stream: 0 }
}

/// When each of the commands ends, in the order of their tags.
fn ends(config: Config, commands: &[(u64, Op, u64, u32)]) -> Vec<u64> {
    let mut ssd = XPoint::new(config, 1).unwrap();
    for (tag, &(at_ns, op, offset, len)) in commands.iter().enumerate() {
        ssd.submit(at_ns, command(tag as u64, op, offset, len));
    }
    let mut done = Vec::new();
    ssd.advance(u64::MAX - 1, &mut done);
    assert_eq!(ssd.next_event_ns(), u64::MAX);
    assert!(done.is_sorted_by_key(|one| one.at_ns));
    done.sort_by_key(|one| one.tag);
    assert_eq!(done.len(), commands.len());
    done.iter().map(|one| one.at_ns).collect()
}

#[test]
fn an_idle_drive_takes_the_sum_of_its_parts() {
    // Half the controller, dies, bus, link (1 us for 4 KiB), the other half.
    assert_eq!(ends(plain(), &[(100, Op::Read, 0, 4096)]), [100 + 1000 + 1500 + 300 + 1000 + 1000]);
    // Half the controller, link (2 us), turned bus, dies, the other half.
    assert_eq!(ends(plain(), &[(100, Op::Write, 0, 4096)]), [100 + 1000 + 2000 + 50 + 400 + 1600 + 1000]);
    assert_eq!(ends(plain(), &[(100, Op::Flush, 0, 0), (100, Op::Trim, 0, 1 << 20)]), [2100, 2100]);
}

#[test]
fn blocks_of_one_set_wait_for_its_dies_and_others_do_not() {
    let blocks = |second: u64| [(0, Op::Read, 0, 4096), (0, Op::Read, second * 4096, 4096)];
    // Another set: only the link is shared, which is slower than the bus here.
    assert_eq!(ends(plain(), &blocks(1)), [4800, 5800]);
    // The same set: the second starts after the recovery of the first.
    assert_eq!(ends(plain(), &blocks(4)), [4800, 4800 + 1500 + 700]);
}

#[test]
fn a_read_behind_a_write_waits_for_the_recovery_of_the_dies() {
    let ends = ends(plain(), &[(0, Op::Write, 0, 4096), (6000, Op::Read, 0, 4096), (6000, Op::Read, 4096, 4096)]);
    assert_eq!(ends[0], 6050);
    // In the cells at 5050, free at 15,050, then sensed, moved (bus turned already by the other read), sent.
    assert_eq!(ends[1], 15_050 + 1500 + 300 + 1000 + 1000);
    assert_eq!(ends[2], 6000 + 1000 + 1500 + 50 + 300 + 1000 + 1000);
}

#[test]
fn a_block_is_ready_again_at_once_after_a_read() {
    // Eight reads over all sets: the bus and the link pipeline, nothing collides.
    let reads: Vec<_> = (0..8).map(|block| (0, Op::Read, block * 4096, 4096)).collect();
    let last = ends(plain(), &reads).into_iter().max().unwrap();
    assert_eq!(last, 4800 + 7 * 1000);
}

#[test]
fn parts_of_blocks_and_unaligned_ranges_cost_more() {
    let one = |op, offset, len| ends(plain(), &[(0, op, offset, len)])[0];
    assert!(one(Op::Read, 0, 512) > one(Op::Read, 0, 4096));
    assert!(one(Op::Read, 2048, 4096) > one(Op::Read, 0, 8192));
    // A partly written block is read first.
    assert!(one(Op::Write, 0, 512) >= one(Op::Write, 0, 4096) + 1500);
    assert!(one(Op::Write, 2048, 4096) > one(Op::Write, 0, 8192));
    // The media writes a whole block for it.
    let mut ssd = XPoint::new(plain(), 1).unwrap();
    ssd.submit(0, command(0, Op::Write, 512, 512));
    ssd.advance(1_000_000, &mut Vec::new());
    assert_eq!((ssd.counters().host_written_bytes, ssd.counters().media_written_bytes), (512, 4096));
}

#[test]
fn the_controller_works_so_many_commands_at_once() {
    let config = Config { commands: 1, ..plain() };
    let ends = ends(config, &[(0, Op::Read, 0, 4096), (0, Op::Read, 4096, 4096), (0, Op::Flush, 0, 0)]);
    assert_eq!(ends, [4800, 9600, 11_600]);
}

#[test]
fn refresh_holds_a_set_and_idle_time_catches_up_with_it() {
    let refresh = Refresh {
        period_ns: 1_000_000,
        length_ns: 90_000,
        fast_factor: 10,
        fast_for_ns: 0,
        after_long_power_off: false,
    };
    let held = |refresh: Refresh, upto: u64| {
        let reads: Vec<_> = (0..upto).map(|n| (n * 10_000, Op::Read, 0, 4096)).collect();
        let ends = ends(Config { refresh, ..plain() }, &reads);
        ends.iter().zip(&reads).filter(|(end, read)| **end > read.0 + 4800).count()
    };
    // 100 reads a period, of which nine or ten meet the refresh.
    let slow = held(refresh, 2000);
    assert!((160..=220).contains(&slow), "{slow}");
    // Ten times as often after a long time without power, for the first half: 90 of 100 reads there.
    let fast = Refresh { after_long_power_off: true, fast_for_ns: 10_000_000, fast_factor: 10, ..refresh };
    let fast = held(Refresh { length_ns: 50_000, ..fast }, 2000);
    assert!((500..=700).contains(&fast), "{fast}");
    // After a long idle time a read waits for a refresh at most once.
    let late = ends(Config { refresh, ..plain() }, &[(1 << 50, Op::Read, 0, 4096)]);
    assert!(late[0] <= (1 << 50) + 4800 + 90_000);
}

#[test]
fn levelling_holds_a_set_after_so_many_writes_and_counts_as_wear() {
    let levelling = Levelling { every_writes: 10, length_ns: 500_000, moved_bytes: 8192 };
    let mut ssd = XPoint::new(Config { levelling, ..plain() }, 3).unwrap();
    let mut slow = 0;
    let mut done = Vec::new();
    for n in 0..100 {
        ssd.submit(n * 1_000_000, command(n, Op::Write, 0, 4096));
        ssd.submit(n * 1_000_000 + 20_000, command(n, Op::Read, 0, 4096));
        ssd.advance((n + 1) * 1_000_000, &mut done);
        slow += done.drain(..).filter(|one| one.at_ns > n * 1_000_000 + 100_000).count();
    }
    assert_eq!(slow, 10);
    assert_eq!(ssd.counters().media_written_bytes, 100 * 4096 + 10 * 8192);
    assert!((ssd.counters().write_amplification() - 1.2).abs() < 1e-9);
    ssd.reset_counters();
    assert_eq!(ssd.counters().media_written_bytes, 0);
}

#[test]
fn the_same_seed_is_the_same_nanosecond_and_order_of_submission_does_not_matter() {
    let mut random = forebay_block::Random::new(5);
    let mut at_ns = 0;
    let commands: Vec<_> = (0..2000)
        .map(|_| {
            // Distinct times, so that ties play no part.
            at_ns += 1 + random.below(4000);
            let op = if random.chance(1, 2) { Op::Read } else { Op::Write };
            (at_ns, op, random.below(1000) * 512, 512 * (1 + random.below(40)) as u32)
        })
        .collect();
    let forth = ends(plain(), &commands);
    assert_eq!(forth, ends(plain(), &commands));
    let mut back = commands.clone();
    back.reverse();
    let mut turned = ends(plain(), &back);
    turned.reverse();
    assert_eq!(forth, turned);
}

#[test]
fn what_cannot_be_a_drive_is_refused() {
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = plain();
        change(&mut config);
        XPoint::new(config, 1).is_err()
    };
    assert!(refused(&|config| config.channels = 0));
    assert!(refused(&|config| config.stripe_channels = 3));
    assert!(refused(&|config| config.capacity_bytes = 5000));
    assert!(refused(&|config| config.registers = 0));
    assert!(refused(&|config| config.commands = 0));
    assert!(refused(&|config| config.link_read_bytes_per_s = 0));
    assert!(refused(&|config| config.die_read_ns = u64::MAX));
    assert!(refused(&|config| (config.refresh.period_ns, config.refresh.length_ns) = (500, 500)));
    assert!(refused(&|config| config.refresh.fast_factor = 0));
    assert!(Config::from_toml("capacity = 5").is_err());
    assert_eq!(plain().scaled(10_000).capacity_bytes, 8192);
    assert_eq!(plain().scaled(0).capacity_bytes, 4096);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random commands in random order: each ends once, not before the least time it needs, and the counters match the host's bytes.
    #[test]
    fn every_command_ends_once_and_never_early(
        commands in prop::collection::vec((0_u64..200_000, 0_u8..8, 0_u64..4000, 1_u32..64), 1..200),
        channels in 1_u32..8,
        stripe_all in any::<bool>(),
        registers in 1_u32..4,
        limit in 1_u32..40,
        step in 1_u64..20_000,
    ) {
        let config = Config {
            channels,
            stripe_channels: if stripe_all { channels } else { 1 },
            registers,
            commands: limit,
            refresh: Refresh { period_ns: 60_000, length_ns: 7000, ..plain().refresh },
            levelling: Levelling { every_writes: 7, length_ns: 3000, moved_bytes: 4096 },
            ..plain()
        };
        let mut ssd = XPoint::new(config, 9).unwrap();
        let (mut read, mut written) = (0, 0);
        for (tag, &(at_ns, op, sector, sectors)) in commands.iter().enumerate() {
            let op = match op { 0 => Op::Flush, 1 => Op::Trim, 2..=4 => Op::Read, _ => Op::Write };
            let len = if op == Op::Flush { 0 } else { sectors * 512 };
            match op { Op::Read => read += u64::from(len), Op::Write => written += u64::from(len), _ => {} }
            ssd.submit(at_ns, command(tag as u64, op, sector * 512, len));
        }
        // In uneven steps, which must not change the results.
        let (mut done, mut now_ns) = (Vec::new(), 0);
        while ssd.next_event_ns() != u64::MAX {
            now_ns = (now_ns + step).max(ssd.next_event_ns());
            ssd.advance(now_ns, &mut done);
            prop_assert!(ssd.next_event_ns() > now_ns);
        }
        prop_assert!(done.is_sorted_by_key(|one| one.at_ns));
        prop_assert_eq!(ssd.counters().host_read_bytes, read);
        prop_assert_eq!(ssd.counters().host_written_bytes, written);
        prop_assert!(ssd.counters().media_written_bytes >= written);
        let mut tags: Vec<_> = done.iter().map(|one| one.tag as usize).collect();
        for one in &done {
            prop_assert!(one.at_ns >= commands[one.tag as usize].0 + 2000);
        }
        tags.sort_unstable();
        prop_assert_eq!(tags, (0..commands.len()).collect::<Vec<_>>());
    }
}

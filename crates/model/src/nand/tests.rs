//! Tests of general laws of the drive.

mod causes;
mod conservation;
mod figures;
mod levelling;

use super::*;
use crate::ssd::Op;
use forebay_block::Random;

/// A small drive: 8 dies on 4 channels, two page types, blocks of 512 units a group.
pub(super) fn small(over_provisioning: f64) -> Config {
    let mut config = Config::preset("p4510").unwrap();
    config.geometry = config::Geometry {
        channels: 4,
        dies_per_channel: 2,
        planes: 2,
        blocks_per_plane: 72,
        pages_per_block: 64,
        page_bytes: 16384,
        bits_per_cell: 2,
    };
    config.timing.read_ns = vec![50_000, 60_000];
    config.timing.program_ns = vec![400_000, 800_000];
    config.timing.erase_ns = 1_000_000;
    config.buffer.size_bytes = 1 << 20;
    // These causes have tests of their own.
    config.buffer.stripe_rows = 1;
    config.ftl.collect_by_page = false;
    config.timing.suspend = config.timing.suspend.map(|s| config::Suspend { run_least_ns: 0, ..s });
    config.read_ahead = None;
    config.endurance = None;
    config.ftl.idle_ns = 1_000_000;
    config.capacity_bytes = config.physical_bytes();
    // Choose the capacity that gives this ratio of flash for data to capacity.
    let capacity = config.effective_over_provisioning() * config.capacity_bytes as f64 / over_provisioning;
    config.capacity_bytes = capacity as u64 / UNIT_BYTES * UNIT_BYTES;
    config
}

/// Measurements of a closed loop.
pub(super) struct Seen {
    pub iops: f64,
    pub mean_ns: f64,
    pub latencies: Vec<u64>,
    /// Hash of all tags and times, in order.
    pub hash: u64,
    /// Mean number of outstanding commands over time.
    pub outstanding: f64,
    pub end_ns: u64,
}

impl Seen {
    pub fn percentile_us(&self, percent: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let at = ((sorted.len() as f64 * percent / 100.0).ceil() as usize).clamp(1, sorted.len());
        sorted[at - 1] as f64 / 1000.0
    }
}

/// Keeps `depth` commands outstanding, each followed by the next after `think_ns`, until `count` have ended.
pub(super) fn closed_loop(
    drive: &mut dyn Ssd,
    depth: usize,
    count: u64,
    think_ns: u64,
    start_ns: u64,
    mut next: impl FnMut() -> Command,
) -> Seen {
    let mut begun = vec![0u64; depth];
    let mut submit = |drive: &mut dyn Ssd, begun: &mut Vec<u64>, slot: u64, at_ns: u64| {
        begun[slot as usize] = at_ns;
        drive.submit(at_ns, Command { tag: slot, ..next() });
    };
    for slot in 0..depth as u64 {
        submit(drive, &mut begun, slot, start_ns);
    }
    let mut seen = Seen {
        iops: 0.0,
        mean_ns: 0.0,
        latencies: Vec::new(),
        hash: 0xcbf2_9ce4_8422_2325,
        outstanding: 0.0,
        end_ns: 0,
    };
    let mut done = Vec::new();
    let (mut ended, mut issued, mut last_ns, mut area) = (0u64, depth as u64, start_ns, 0u128);
    let mut inside = depth as u128;
    while ended < issued {
        let at_ns = drive.next_event_ns();
        assert_ne!(at_ns, u64::MAX, "the drive forgot {} commands", issued - ended);
        drive.advance(at_ns, &mut done);
        for end in done.drain(..) {
            area += inside * u128::from(end.at_ns - last_ns);
            last_ns = end.at_ns;
            ended += 1;
            seen.latencies.push(end.at_ns - begun[end.tag as usize]);
            for word in [end.tag, end.at_ns] {
                seen.hash = (seen.hash ^ word).wrapping_mul(0x0100_0000_01b3);
            }
            if issued < count {
                issued += 1;
                submit(drive, &mut begun, end.tag, end.at_ns + think_ns);
            } else {
                inside -= 1;
            }
        }
    }
    seen.end_ns = last_ns;
    let time_s = (last_ns - start_ns) as f64 / 1e9;
    seen.iops = ended as f64 / time_s;
    seen.mean_ns = seen.latencies.iter().map(|&l| l as f64).sum::<f64>() / ended as f64;
    seen.outstanding = area as f64 / (time_s * 1e9);
    seen
}

pub(super) fn command(op: Op, unit: u64, units: u32) -> Command {
    Command { tag: 0, op, offset_bytes: unit * UNIT_BYTES, len_bytes: units * UNIT_BYTES as u32, stream: 0 }
}

/// Random 4 KiB commands over a whole drive, `read_percent` of them reads.
pub(super) fn random(capacity_bytes: u64, read_percent: u64, seed: u64) -> impl FnMut() -> Command {
    let mut random = Random::new(seed);
    move || {
        let op = if random.below(100) < read_percent { Op::Read } else { Op::Write };
        command(op, random.below(capacity_bytes / UNIT_BYTES), 1)
    }
}

fn drain(drive: &mut Nand) -> u64 {
    let mut done = Vec::new();
    let mut last_ns = 0;
    while drive.next_event_ns() != u64::MAX {
        last_ns = drive.next_event_ns();
        drive.advance(last_ns, &mut done);
    }
    last_ns
}

/// Write amplification A of greedy or first-in-first-out collection of large blocks under uniform random writes, with `alpha` times as much
/// flash as data: 1 - 1/A = exp(-alpha / A). Collection reaches a block once all others were written: alpha / A host writes per logical
/// unit, which a unit survives with that probability. Closed form with Lambert's W: Xiang and Kurkoski, "An Improved Analytical Expression
/// for Write Amplification in NAND Flash", ICNC 2012 (arXiv 1110.4245); also Desnoyers, SYSTOR 2012, for the least-recently-written policy.
fn theory(alpha: f64) -> f64 {
    let (mut low, mut high) = (1.0 + 1e-9, 1e6);
    for _ in 0..200 {
        let a = f64::midpoint(low, high);
        if 1.0 - 1.0 / a < (-alpha / a).exp() { low = a } else { high = a }
    }
    f64::midpoint(low, high)
}

#[test]
fn the_theory_gives_the_published_value() {
    // 30 % over-provisioning: 2.36 by the formula, 2.35 simulated (abstract of arXiv 1110.4245).
    assert!((theory(1.3) - 2.36).abs() < 0.005, "{}", theory(1.3));
}

/// Write amplification of random writes of `rounds` times the capacity, simulated after an aged past.
fn random_wa(config: &Config, rounds: f64) -> f64 {
    let mut drive = Nand::new(config.clone()).unwrap();
    drive.age(Past { filled: 1.0, random_passes: 3.0 });
    let count = (config.capacity_bytes as f64 / UNIT_BYTES as f64 * rounds) as u64;
    let seen = closed_loop(&mut drive, 32, count, 0, 0, random(config.capacity_bytes, 0, 3));
    assert_eq!(seen.latencies.len() as u64, count);
    drive.check().unwrap();
    drive.counters().write_amplification()
}

#[test]
fn random_overwrites_cost_what_theory_says() {
    for alpha in [1.15, 1.3, 1.5] {
        let config = small(alpha);
        let (measured, theory) = (random_wa(&config, 1.5), theory(config.effective_over_provisioning()));
        println!("alpha {alpha}: {measured:.3} measured, {theory:.3} in theory");
        // Blocks of 512 units and 72 blocks a group deviate from the theory, which assumes infinitely many.
        assert!((measured / theory - 1.0).abs() < 0.08, "alpha {alpha}: {measured} against {theory}");
    }
}

#[test]
fn superblocks_and_cost_benefit_are_near_theory_too() {
    let mut config = small(1.3);
    config.ftl.policy = config::Policy::CostBenefit;
    let drawn = random_wa(&config, 1.0);
    config.ftl.policy = config::Policy::Greedy;
    config.ftl.superblock_dies = 8;
    let wide = random_wa(&config, 1.0);
    let theory = theory(config.effective_over_provisioning());
    println!("cost-benefit {drawn:.3}, superblocks {wide:.3}, theory {theory:.3}");
    assert!((drawn / theory - 1.0).abs() < 0.15, "{drawn} against {theory}");
    assert!((wide / theory - 1.0).abs() < 0.10, "{wide} against {theory}");
}

#[test]
fn sequential_overwrite_is_not_amplified() {
    let config = small(1.15);
    let mut drive = Nand::new(config.clone()).unwrap();
    drive.age(Past { filled: 1.0, random_passes: 0.0 });
    let units = config.capacity_bytes / UNIT_BYTES;
    let mut at = 0;
    closed_loop(&mut drive, 8, 2 * units / 16, 0, 0, || {
        let from = at;
        at = if at + 32 <= units { at + 16 } else { 0 };
        command(Op::Write, from, 16)
    });
    drive.check().unwrap();
    let wa = drive.counters().write_amplification();
    assert!((wa - 1.0).abs() < 0.01, "{wa}");
}

#[test]
fn streams_of_one_lifetime_each_are_not_amplified_and_mixed_ones_are() {
    // Two logs of different speed: the fast log overwrites its part eight times while the slow one does so once.
    let run = |streams: u32| {
        let mut config = small(1.2);
        config.ftl.streams = streams;
        config.ftl.collect_below_blocks = 5;
        let units = config.capacity_bytes / UNIT_BYTES * 8 / 10;
        let mut drive = Nand::new(config).unwrap();
        let (mut fast, mut slow, mut turn) = (0u64, 0u64, 0u64);
        let part = units / 2 / 8 * 8;
        let mut next = || {
            turn += 1;
            if turn.is_multiple_of(9) {
                slow = (slow + 1) % part;
                Command { stream: 0, ..command(Op::Write, slow, 1) }
            } else {
                fast = (fast + 1) % part;
                Command { stream: 1, ..command(Op::Write, part + fast, 1) }
            }
        };
        closed_loop(&mut drive, 32, units * 4, 0, 0, &mut next);
        drive.reset_counters();
        closed_loop(&mut drive, 32, units * 2, 0, 1 << 50, &mut next);
        drive.check().unwrap();
        drive.counters().write_amplification()
    };
    let (apart, mixed) = (run(2), run(1));
    println!("apart {apart:.4}, mixed {mixed:.4}");
    assert!((apart - 1.0).abs() < 0.01, "{apart}");
    assert!(mixed > apart + 0.02, "{mixed}");
}

#[test]
fn throughput_rises_with_depth_and_littles_law_holds() {
    let config = small(1.3);
    for read_percent in [100, 70] {
        let mut before = 0.0;
        for depth in [1, 2, 4, 8, 16, 32, 64, 128] {
            let mut drive = Nand::new(config.clone()).unwrap();
            drive.age(Past { filled: 1.0, random_passes: 2.0 });
            let seen = closed_loop(&mut drive, depth, 12_000, 0, 0, random(config.capacity_bytes, read_percent, 5));
            assert!(seen.iops > before * 0.98, "depth {depth}: {} after {before}", seen.iops);
            before = seen.iops;
            let little = seen.iops * seen.mean_ns / 1e9;
            assert!((little / seen.outstanding - 1.0).abs() < 1e-6, "{little} against {}", seen.outstanding);
            assert!((little / depth as f64 - 1.0).abs() < 0.03, "depth {depth}: {little}");
        }
        assert!(before > 60_000.0, "{before}");
    }
}

#[test]
fn the_same_seed_gives_the_same_nanoseconds() {
    let run = |seed| {
        let config = small(1.2);
        let mut drive: Box<dyn Ssd> = Box::new(Nand::new(config.clone()).unwrap());
        drive.age(Past { filled: 1.0, random_passes: 1.0 });
        closed_loop(&mut *drive, 16, 20_000, 0, 0, random(config.capacity_bytes, 60, seed)).hash
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// Simultaneous reads of units on different dies of one channel.
fn one_channel(dies: u32) -> (Config, Vec<u64>) {
    let mut config = small(1.3);
    config.geometry.channels = 1;
    config.geometry.dies_per_channel = dies;
    config.timing.weak.clear();
    config.capacity_bytes = config.physical_bytes() / 2;
    let mut drive = Nand::new(config.clone()).unwrap();
    drive.age(Past { filled: 1.0, random_passes: 0.0 });
    // A sequential fill goes over the dies in rows of eight units.
    for die in 0..u64::from(dies) {
        drive.submit(0, Command { tag: die, ..command(Op::Read, die * 8, 1) });
    }
    let mut done = Vec::new();
    drive.advance(u64::MAX - 1, &mut done);
    (config, done.iter().map(|d| d.at_ns).collect())
}

#[test]
fn no_read_waits_for_a_bus_during_the_array_time_of_another() {
    let (config, ends) = one_channel(4);
    let (_, single) = one_channel(1);
    assert_eq!(ends.len(), 4);
    // Four arrays work at once: the last read is later than a single one only by the commands and data of the others. A bus held during tR
    // would add three times 50 us.
    let transfer_ns = flash::transfer_ns(UNIT_BYTES, config.timing.bus_bytes_per_s);
    let most = single[0] + 3 * (transfer_ns + config.timing.command_ns + config.controller.read_ns);
    assert!(ends[3] <= most, "{} against {most}", ends[3]);
    assert!(ends[3] >= single[0] + 3 * transfer_ns - 3 * config.timing.command_ns, "the bus is shared: {ends:?}");
}

#[test]
fn reads_of_one_die_take_turns() {
    let mut config = small(1.3);
    config.timing.weak.clear();
    let mut drive = Nand::new(config.clone()).unwrap();
    drive.age(Past { filled: 1.0, random_passes: 0.0 });
    // Units 0 and 64 are in the first two rows of die 0.
    for (tag, unit) in [(0, 0), (1, 64)] {
        drive.submit(0, Command { tag, ..command(Op::Read, unit, 1) });
    }
    let mut done = Vec::new();
    drive.advance(u64::MAX - 1, &mut done);
    assert!(done[1].at_ns >= done[0].at_ns + 60_000, "{done:?}");
}

#[test]
fn a_program_is_interrupted_for_a_read_and_not_for_ever() {
    let wait = |suspend: bool, wait_max_ns: u64| {
        let mut config = small(1.3);
        config.timing.background_wait_max_ns = wait_max_ns;
        config.timing.program_ns = vec![2_000_000, 2_000_000];
        if !suspend {
            config.timing.suspend = None;
        }
        let mut drive = Nand::new(config.clone()).unwrap();
        drive.age(Past { filled: 0.5, random_passes: 0.0 });
        // One row is written; every die is read while one of them programs the row.
        drive.submit(0, command(Op::Write, 0, 8));
        for die in 0..8 {
            drive.submit(500_000, Command { tag: 1, ..command(Op::Read, 64 + die * 8, 1) });
        }
        let mut done = Vec::new();
        drive.advance(u64::MAX - 1, &mut done);
        done.iter().filter(|d| d.tag == 1).map(|d| d.at_ns - 500_000).max().unwrap()
    };
    let (interrupted, waited) = (wait(true, 5_000_000), wait(false, 5_000_000));
    assert!(interrupted < 150_000, "{interrupted}");
    assert!(waited > 1_000_000, "{waited}");

    // Writes make progress although reads never stop.
    let config = small(1.3);
    let mut drive = Nand::new(config.clone()).unwrap();
    drive.age(Past { filled: 1.0, random_passes: 1.0 });
    let seen = closed_loop(&mut drive, 128, 40_000, 0, 0, random(config.capacity_bytes, 90, 9));
    assert!(seen.percentile_us(100.0) < 60_000.0, "{}", seen.percentile_us(100.0));
}

#[test]
fn writes_are_quick_until_the_buffer_is_full_and_reads_of_it_come_from_dram() {
    let config = small(1.3);
    let mut drive = Nand::new(config.clone()).unwrap();
    let mut at = 0;
    let mut done = Vec::new();
    for unit in 0..2000u64 {
        drive.submit(at, Command { tag: unit, ..command(Op::Write, unit, 1) });
        at += 10;
    }
    drive.advance(u64::MAX - 1, &mut done);
    let end = |tag| done.iter().find(|d| d.tag == tag).unwrap().at_ns;
    assert!(end(0) < 25_000, "{}", end(0));
    // The buffer takes 256 units and the 8 dies program some; the remaining writes wait.
    assert!(end(1_999) > 4_000_000, "{}", end(1_999));
    drive.check().unwrap();

    let mut drive = Nand::new(config).unwrap();
    drive.submit(0, command(Op::Write, 3, 1));
    drive.submit(100_000, command(Op::Read, 3, 1));
    done.clear();
    drive.advance(u64::MAX - 1, &mut done);
    assert!(done[1].at_ns < 100_000 + 12_000, "{done:?}");
}

#[test]
fn a_flush_waits_for_the_media_without_capacitors_only() {
    for capacitors in [true, false] {
        let mut config = small(1.3);
        config.buffer.capacitors = capacitors;
        let mut drive = Nand::new(config.clone()).unwrap();
        drive.submit(0, command(Op::Write, 7, 3));
        drive.submit(100_000, Command { tag: 1, ..command(Op::Flush, 0, 0) });
        let mut done = Vec::new();
        drive.advance(u64::MAX - 1, &mut done);
        let took_ns = done[1].at_ns - 100_000;
        assert_eq!(done[1].tag, 1);
        assert_eq!(capacitors, took_ns < 20_000, "{took_ns}");
        assert_eq!(!capacitors, took_ns > 400_000, "{took_ns}");
        let media = drive.counters().media_written_bytes;
        assert_eq!(media, if capacitors { 0 } else { 8 * UNIT_BYTES }, "a padded row");
    }
}

#[test]
fn read_ahead_helps_sequential_reads_of_one_at_a_time() {
    let run = |ahead| {
        let mut config = small(1.3);
        config.read_ahead = ahead;
        let mut drive = Nand::new(config.clone()).unwrap();
        drive.age(Past { filled: 1.0, random_passes: 0.0 });
        let mut unit = 0;
        closed_loop(&mut drive, 1, 2000, 0, 0, || {
            unit += 1;
            command(Op::Read, unit, 1)
        })
        .mean_ns
    };
    let (with, without) = (run(Some(config::ReadAhead { after_commands: 2, depth_bytes: 1 << 18 })), run(None));
    assert!(with < without / 3.0, "{with} against {without}");
}

#[test]
fn a_miss_of_the_map_costs_another_flash_read() {
    let run = |cache| {
        let mut config = small(1.3);
        config.ftl.map_cache_bytes = cache;
        let mut drive = Nand::new(config.clone()).unwrap();
        drive.age(Past { filled: 1.0, random_passes: 0.0 });
        closed_loop(&mut drive, 1, 3000, 0, 0, random(config.capacity_bytes, 100, 2)).mean_ns
    };
    let (all, little) = (run(0), run(UNIT_BYTES));
    assert!(little > all + 50_000.0, "{little} against {all}");
}

#[test]
fn the_single_level_cache_is_fast_until_it_is_full_and_is_folded_when_idle() {
    let mut config = small(1.6);
    config.slc = Some(config::Slc {
        fixed_bytes: 1 << 24,
        dynamic_bytes: 1 << 25,
        read_ns: 20_000,
        program_ns: 100_000,
        fold_above_blocks: None,
        fold_groups: 1,
    });
    let mut drive = Nand::new(config.clone()).unwrap();
    let units = config.capacity_bytes / UNIT_BYTES;
    let mut at = 0;
    let mut next = || {
        let from = at;
        at = if at + 64 <= units { at + 32 } else { 0 };
        command(Op::Write, from, 32)
    };
    // The cache has 48 MiB: the first 32 MiB fit, the next 64 MiB exceed it.
    let fast = closed_loop(&mut drive, 4, 256, 0, 0, &mut next);
    let middle = closed_loop(&mut drive, 4, 256, 0, fast.end_ns, &mut next);
    let slow = closed_loop(&mut drive, 4, 256, 0, middle.end_ns, &mut next);
    assert!(fast.iops > 2.0 * slow.iops, "{} against {}", fast.iops, slow.iops);
    assert!(drive.counters().write_amplification() <= 1.0);
    let end_ns = drain(&mut drive);
    drive.check().unwrap();
    assert!(drive.counters().write_amplification() > 1.3, "folded");
    let again = closed_loop(&mut drive, 4, 256, 0, end_ns + 1, &mut next);
    assert!(again.iops > 0.8 * fast.iops, "{} against {}", again.iops, fast.iops);
}

#[test]
fn an_aged_drive_is_in_the_state_that_time_would_leave() {
    // The write amplification right after aging equals that of much later.
    let config = small(1.25);
    let (early, late) = (random_wa(&config, 0.3), random_wa(&config, 2.0));
    assert!((early / late - 1.0).abs() < 0.08, "{early} against {late}");
    let mut drive = Nand::new(config).unwrap();
    drive.age(Past { filled: 0.5, random_passes: 1.0 });
    drive.check().unwrap();
    assert_eq!(drive.counters(), Counters::default());
    assert_eq!(drive.next_event_ns(), u64::MAX);
}

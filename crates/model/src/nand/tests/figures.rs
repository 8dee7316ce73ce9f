//! The presets: their consistency, the published figures they were fitted to, and tables to read.

use super::*;

#[test]
fn presets_hold_together_also_when_scaled() {
    for (name, text) in PRESETS {
        let config = Config::preset(name).unwrap();
        assert_eq!(config.name, name);
        let small = config.scaled(8 << 30).unwrap();
        let (whole, part) = (config.effective_over_provisioning(), small.effective_over_provisioning());
        assert!((whole / part - 1.0).abs() < 0.02, "{name}: {whole} and {part}");
        assert_eq!(small.geometry.channels, config.geometry.channels);
        assert_eq!(small.capacity_bytes, 8 << 30);
        // Every number has a comment with its source.
        for line in text.lines() {
            let number = line.split_once('=').is_some_and(|(_, v)| v.trim().starts_with(|c: char| c.is_ascii_digit()));
            assert!(!number || line.contains('#'), "{name}: {line}");
        }
    }
    assert_eq!(Config::preset("p9999"), Err(ConfigError::UnknownPreset("p9999".into())));
    assert!(matches!(Config::from_toml("nme = 1"), Err(ConfigError::Syntax(_))));
    let mut config = Config::preset("tlc").unwrap();
    config.ftl.superblock_dies = 5;
    let said = config.validate().unwrap_err().to_string();
    assert_eq!(said, "ftl.superblock_dies is 5: at least 1 and a divisor of the number of dies");
    assert!(Config::preset("tlc").unwrap().scaled(u64::MAX).is_err());
}

/// A preset scaled to a size that runs quickly, filled as in reviews.
fn preset(name: &str, size_bytes: u64, random_passes: f64) -> Nand {
    let config = Config::preset(name).unwrap().scaled(size_bytes).unwrap();
    let mut drive = Nand::new(config).unwrap();
    drive.age(Past { filled: 1.0, random_passes });
    drive
}

/// Host part of the published figures in microseconds; the hosts of the sources are not part of the drive.
const HOST_US: f64 = 2.5;

#[test]
fn rows_of_one_at_a_time_are_met() {
    // spec-check.md: mean, median, p99 in microseconds, end to end.
    for (name, read, write_mean) in [("p3700", [77.9, 76.0, 96.0], 9.2), ("micron9100", [107.7, 104.0, 117.0], 22.2)] {
        let mut drive = preset(name, 4 << 30, 2.0);
        let capacity = drive.capacity_bytes();
        // Time from the interrupt to the next doorbell: IOPS times mean is 0.85 to 0.94 for the writes, so 1.5 us more pass between the
        // I/Os.
        let seen = closed_loop(&mut drive, 1, 60_000, 4_000, 0, random(capacity, 100, 1));
        let measured = [seen.mean_ns / 1000.0, seen.percentile_us(50.0), seen.percentile_us(99.0)].map(|v| v + HOST_US);
        println!("{name} read: {measured:.1?} for {read:.1?}, p99.999 {:.0}", seen.percentile_us(99.999) + HOST_US);
        for (at, (measured, published)) in measured.iter().zip(read).enumerate() {
            let tolerance = if at == 2 { 0.10 } else { 0.02 };
            assert!((measured / published - 1.0).abs() < tolerance, "{name} read {at}: {measured} for {published}");
        }
        let seen = closed_loop(&mut drive, 1, 60_000, 4_000, seen.end_ns, random(capacity, 0, 2));
        let mean = seen.mean_ns / 1000.0 + HOST_US;
        println!("{name} write: {mean:.2} for {write_mean}, p99 {:.1}", seen.percentile_us(99.0) + HOST_US);
        assert!((mean / write_mean - 1.0).abs() < 0.05, "{name} write: {mean} for {write_mean}");
    }
}

#[test]
fn the_qlc_drive_has_its_ratio_of_endurance() {
    let mut drive = preset("p4320", 6 << 30, 3.0);
    let capacity = drive.capacity_bytes();
    closed_loop(&mut drive, 64, capacity / UNIT_BYTES / 3, 0, 0, random(capacity, 0, 1));
    let wa = drive.counters().write_amplification();
    let dwpd = [1.0, wa].map(|wa| drive.config().drive_writes_per_day(wa).unwrap());
    println!("p4320: WA {wa:.2}, DWPD {dwpd:.2?}");
    // 0.9 and 0.2 drive writes a day, a ratio of 4.5, each rounded to one digit.
    assert!((wa / 4.5 - 1.0).abs() < 0.12, "{wa}");
    assert!((dwpd[0] - 0.9).abs() < 0.05 && (dwpd[1] - 0.2).abs() < 0.05, "{dwpd:?}");
}

/// The far tail of reads at QD1, over as many reads as the reviews' ten minutes had.
#[test]
#[ignore = "a table to read; takes a while"]
fn far_tail() {
    for (name, published) in [("p3700", 2768.0), ("micron9100", 306.0)] {
        let mut drive = preset(name, 16 << 30, 2.0);
        let capacity = drive.capacity_bytes();
        let seen = closed_loop(&mut drive, 1, 6_000_000, 2_700, 0, random(capacity, 100, 1));
        let [far, mean] = [seen.percentile_us(99.999), seen.mean_ns / 1000.0].map(|v| v + HOST_US);
        println!("{name}: p99.999 {far:.0} us for {published}, mean {mean:.1} us, {:.2}k IOPS", seen.iops / 1000.0);
    }
}

/// Figures of every preset, as a table: `cargo test --release -p forebay-model --lib nand -- --ignored --nocapture`.
#[test]
#[ignore = "a table to read; takes a while"]
fn table_of_presets() {
    for (name, _) in PRESETS {
        let run = |depth, read, count| {
            let mut drive = preset(name, 16 << 30, 2.0);
            let capacity = drive.capacity_bytes();
            let warm = closed_loop(&mut drive, depth, count, 0, 0, random(capacity, read, 1));
            drive.reset_counters();
            let seen = closed_loop(&mut drive, depth, count, 0, warm.end_ns, random(capacity, read, 2));
            (
                seen.mean_ns / 1000.0,
                seen.iops / 1000.0,
                seen.percentile_us(99.0),
                drive.counters().write_amplification(),
            )
        };
        for (what, depth, read, count) in [
            ("read QD1", 1, 100, 20_000),
            ("read QD4", 4, 100, 40_000),
            ("read QD256", 256, 100, 400_000),
            ("write QD1", 1, 0, 100_000),
            ("write QD32", 32, 0, 1_000_000),
            ("70/30 QD4", 4, 70, 40_000),
        ] {
            let (mean, kiops, p99, wa) = run(depth, read, count);
            println!("{name:11} {what:11} mean {mean:8.1} us  p99 {p99:8.1} us  {kiops:8.1}k IOPS  WA {wa:.2}");
        }
        for (what, op) in [("seq read", Op::Read), ("seq write", Op::Write)] {
            let mut drive = preset(name, 16 << 30, 0.0);
            let units = drive.capacity_bytes() / UNIT_BYTES;
            let mut at = 0;
            let seen = closed_loop(&mut drive, 32, 100_000, 0, 0, || {
                at = (at + 32) % (units - 32);
                command(op, at, 32)
            });
            println!("{name:11} {what:11} {:8.2} GB/s", seen.iops * 131_072.0 / 1e9);
        }
    }
}

/// Simulated requests per second on one core: `cargo test --release -p forebay-model --lib nand::tests::speed -- --ignored --nocapture`.
/// The measurement uses the wall clock; the model does not.
#[test]
#[ignore = "a measurement"]
fn speed() {
    for name in ["p4510", "p3700", "tlc"] {
        for (what, depth, read) in [("read QD32", 32, 100), ("70/30 QD32", 32, 70), ("read QD256", 256, 100)] {
            let mut drive = preset(name, 16 << 30, 2.0);
            let capacity = drive.capacity_bytes();
            let warm = closed_loop(&mut drive, depth, 300_000, 0, 0, random(capacity, read, 1));
            let count = 2_000_000;
            let begun = std::time::Instant::now();
            closed_loop(&mut drive, depth, count, 0, warm.end_ns, random(capacity, read, 2));
            let rate = count as f64 / begun.elapsed().as_secs_f64();
            println!("{name:8} {what:11} {rate:10.0} requests/s");
        }
    }
}

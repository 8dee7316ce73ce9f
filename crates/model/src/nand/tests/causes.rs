//! Causes of write stalls and of reads that wait beside writes, one test each.

use super::*;

/// Random writes in steady state with 32 outstanding.
fn deep_writes(config: &Config, count: u64) -> Seen {
    let mut drive = Nand::new(config.clone()).unwrap();
    drive.age(Past { filled: 1.0, random_passes: 2.0 });
    let mut next = random(config.capacity_bytes, 0, 3);
    let warm = closed_loop(&mut drive, 32, count / 2, 0, 0, &mut next);
    let seen = closed_loop(&mut drive, 32, count, 0, warm.end_ns, &mut next);
    drive.check().unwrap();
    seen
}

#[test]
fn the_buffer_takes_writes_at_once_and_then_stalls_where_stripes_release_room() {
    let mut config = small(1.3);
    let smooth = deep_writes(&config, 40_000);
    // The buffer has 256 units; 16 rows are half of it.
    config.buffer.stripe_rows = 16;
    config.buffer.size_bytes = 2 << 20;
    let stripes = deep_writes(&config, 40_000);
    let rows = [50.0, 99.0, 99.9].map(|p| (smooth.percentile_us(p), stripes.percentile_us(p)));
    println!("p50, p99, p99.9, without and with stripes: {rows:.0?}; {:.0} and {:.0} IOPS", smooth.iops, stripes.iops);
    let [p50, p99, p999] = rows.map(|row| row.1);
    assert!(p99 > 5.0 * p50 && p999 > p99, "{rows:?}");
    // The flash limits both: what a stall costs was gained before by taking writes immediately.
    assert!((stripes.iops / smooth.iops - 1.0).abs() < 0.03, "{} against {}", stripes.iops, smooth.iops);
}

#[test]
fn enterprise_presets_spread_the_writes_of_a_deep_queue() {
    for name in ["p3700", "p4510", "p4320", "qlc"] {
        let config = Config::preset(name).unwrap().scaled(4 << 30).unwrap();
        let seen = deep_writes(&config, 60_000);
        let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|p| seen.percentile_us(p));
        println!("{name}: p50 {p50:.0}, p99 {p99:.0}, p99.9 {p999:.0} us, {:.0} IOPS", seen.iops);
        assert!(p50 < 60.0 && p99 > 5.0 * p50 && p999 >= p99, "{name}: {p50} {p99} {p999}");
    }
}

#[test]
fn a_page_of_the_journal_is_filled_at_once_and_then_waited_for() {
    let run = |batch, depth, think_ns| {
        let mut config = small(1.6);
        config.controller.map_update_ns = 40_000;
        config.controller.map_batch = batch;
        let mut drive = Nand::new(config.clone()).unwrap();
        closed_loop(&mut drive, depth, 4_000, think_ns, 0, random(config.capacity_bytes, 0, 3))
    };
    let (single, batch) = (run(1, 16, 0), run(128, 16, 0));
    assert!((batch.iops / single.iops - 1.0).abs() < 0.05, "{} against {}", batch.iops, single.iops);
    assert!(single.percentile_us(99.0) < 1.1 * single.percentile_us(50.0));
    assert!(batch.percentile_us(99.0) > 5.0 * batch.percentile_us(50.0));
    // Writes that come no faster than records are applied do not wait.
    let slow = run(128, 1, 50_000);
    assert!(slow.percentile_us(100.0) < 25.0, "{}", slow.percentile_us(100.0));
}

/// Writes a row to die 0 of an empty drive and reads all dies at `read_ns`. Returns the latency of the slowest read.
fn read_beside_a_program(config: &Config, read_ns: u64) -> u64 {
    let mut drive = Nand::new(config.clone()).unwrap();
    drive.age(Past { filled: 0.5, random_passes: 0.0 });
    drive.submit(0, command(Op::Write, 0, 8));
    for die in 0..8 {
        drive.submit(read_ns, Command { tag: 1, ..command(Op::Read, 64 + die * 8, 1) });
    }
    let mut done = Vec::new();
    drive.advance(u64::MAX - 1, &mut done);
    done.iter().filter(|d| d.tag == 1).map(|d| d.at_ns - read_ns).max().unwrap()
}

#[test]
fn a_program_gets_on_before_it_is_interrupted() {
    let mut config = small(1.3);
    config.timing.program_ns = vec![2_000_000, 2_000_000];
    let mut suspend = config.timing.suspend.unwrap();
    suspend.run_least_ns = 0;
    config.timing.suspend = Some(suspend);
    let at_once = read_beside_a_program(&config, 200_000);
    suspend.run_least_ns = 700_000;
    config.timing.suspend = Some(suspend);
    let (early, late) = (read_beside_a_program(&config, 200_000), read_beside_a_program(&config, 1_000_000));
    // The program begins some tens of us after the write; the read waits until the program has run for 700 us.
    assert!((early - at_once).abs_diff(550_000) < 60_000, "{early} against {at_once}");
    assert!(late.abs_diff(at_once) < 15_000, "{late} against {at_once}");
    // A program that would end before it can be suspended is waited for.
    suspend.run_least_ns = 1_990_000;
    config.timing.suspend = Some(suspend);
    assert!(read_beside_a_program(&config, 200_000) > 1_800_000);
}

#[test]
fn what_collection_reads_page_by_page_costs_writes() {
    let mut config = small(1.15);
    config.timing.read_ns = vec![100_000, 100_000];
    let rows = deep_writes(&config, 30_000).iops;
    config.ftl.collect_by_page = true;
    let pages = deep_writes(&config, 30_000).iops;
    assert!(pages < 0.95 * rows, "{pages} against {rows}");
}

#[test]
fn reads_of_a_mixture_are_slower_than_alone_and_more_so_with_depth() {
    let config = Config::preset("p4610").unwrap().scaled(4 << 30).unwrap();
    let mean_us = |read_percent, depth| {
        let mut drive = Nand::new(config.clone()).unwrap();
        drive.age(Past { filled: 1.0, random_passes: 2.0 });
        // The writes are quick: their share of the mean is subtracted.
        let capacity = drive.capacity_bytes();
        let seen = closed_loop(&mut drive, depth, 40_000, 0, 0, random(capacity, read_percent, 5));
        let writes = 1.0 - read_percent as f64 / 100.0;
        (seen.mean_ns / 1e3 - writes * 18.0) / (1.0 - writes)
    };
    let (alone, one, four) = (mean_us(100, 1), mean_us(70, 1), mean_us(70, 4));
    println!("p4610 reads: {alone:.1} us alone, {one:.1} beside writes at QD1, {four:.1} at QD4");
    assert!(one > alone + 1.0 && four > one + 8.0, "{alone} {one} {four}");
}

/// A small drive with a single-level cache and this threshold for folding beside the host.
fn cached(fold_above_blocks: Option<u32>) -> Config {
    let mut config = small(1.6);
    config.slc = Some(config::Slc {
        fixed_bytes: 1 << 24,
        dynamic_bytes: 1 << 25,
        read_ns: 20_000,
        program_ns: 100_000,
        fold_above_blocks,
        fold_groups: 1,
    });
    config.timing.program_ns = vec![2_000_000, 2_000_000];
    config.timing.suspend = None;
    config.ftl.idle_ns = 1_000_000_000;
    config
}

#[test]
fn the_cache_is_folded_beside_the_host_and_reads_wait_for_it() {
    let run = |fold_above_blocks| {
        let config = cached(fold_above_blocks);
        let mut drive = Nand::new(config.clone()).unwrap();
        drive.age(Past { filled: 0.8, random_passes: 0.0 });
        let units = config.capacity_bytes / UNIT_BYTES / 2;
        // Sequential reads of the first half, with a quarter as many writes into the second.
        let (mut at, mut turn) = (0, 0u64);
        let seen = closed_loop(&mut drive, 4, 4_000, 0, 0, || {
            turn += 1;
            at = (at + 8) % (units - 8);
            if turn.is_multiple_of(4) { command(Op::Write, units / 2 + at / 4, 8) } else { command(Op::Read, at, 8) }
        });
        drive.check().unwrap();
        (seen.iops, drive.counters().write_amplification())
    };
    let ((kept, once), (folded, twice)) = (run(None), run(Some(0)));
    println!("kept {kept:.0} IOPS, WAF {once:.2}; folded {folded:.0}, WAF {twice:.2}");
    assert!(once <= 1.0 && twice > once + 0.05, "{once} {twice}");
    assert!(folded < 0.9 * kept, "{folded} against {kept}");
}

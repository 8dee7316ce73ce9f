//! The engine alone, on RAM devices larger than the CPU cache: verified random 4 KiB reads and journalled,
//! checksummed writes, beside the memory limit (memcpy + checksum of random blocks) of the same round; and two engines on
//! two cores beside one; then runs of 1 MiB that are written straight to bands, over one device and with parity. Rounds are interleaved; medians with minimum and maximum are printed.
//!
//! cargo run --release --manifest-path bench/engine/Cargo.toml [-- ROUNDS [SECONDS]]

mod bands;
mod load;

use bands::Bands;
use forebay_block::checksum::block_checksum;
use forebay_block::{Buf, Device, DiskId, Random};
use forebay_device::RamDevice;
use load::{Load, processor_ns};
use std::time::{Duration, Instant};

const FAST_BYTES: u64 = 2 << 30;
const CAPACITY_BYTES: u64 = 2 << 30;

fn ram() -> Vec<Box<dyn Device>> {
    let device = |size| Box::new(RamDevice::new(size).expect("memory")) as Box<dyn Device>;
    [FAST_BYTES, CAPACITY_BYTES].into_iter().map(device).collect()
}

/// memcpy + checksum of random 4 KiB blocks, in processor time as the engine's: on a busy machine the clock's would flatter its share.
fn memory_limit(source: &[u8], random: &mut Random, time: Duration) -> f64 {
    let mut target = Buf::new(4096);
    let (start, cpu_ns, mut n, mut sum) = (Instant::now(), processor_ns(), 0u64, 0u32);
    while start.elapsed() < time {
        for _ in 0..64 {
            let block = random.below((source.len() / 4096) as u64);
            let at = block as usize * 4096;
            target.copy_from_slice(&source[at..at + 4096]);
            sum ^= block_checksum(DiskId(1), block, &target);
            n += 1;
        }
    }
    std::hint::black_box(sum);
    (processor_ns() - cpu_ns) as f64 / n as f64
}

fn row(name: &str, values: &mut [f64]) {
    values.sort_by(f64::total_cmp);
    println!("{name:<44} {:>8.2} [{:.2} .. {:.2}]", values[values.len() / 2], values[0], values[values.len() - 1]);
}

fn main() {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().and_then(|a| a.parse().ok()).unwrap_or(5);
    let time = Duration::from_secs_f64(args.next().and_then(|a| a.parse().ok()).unwrap_or(1.0));
    let mut memory = vec![0u8; 1 << 30];
    let mut random = Random::new(1);
    memory.iter_mut().step_by(64).for_each(|byte| *byte = random.next_u64() as u8);
    let (mut one, mut other) = (Load::new(ram(), None, 2), Load::new(ram(), None, 3));
    let mut results: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut add = |name: &'static str, value: f64| match results.iter_mut().find(|(n, _)| *n == name) {
        Some((_, values)) => values.push(value),
        None => results.push((name, vec![value])),
    };
    for _ in 0..rounds {
        let limit = memory_limit(&memory, &mut random, time);
        add("memcpy + checksum, ns a block", limit);
        for (write, depth, ns, share) in [
            (false, 1, "read QD1, ns", "read QD1, share of the limit"),
            (false, 16, "read QD16, ns", "read QD16, share of the limit"),
            (true, 1, "write QD1, ns", "write QD1, share of the limit"),
            (true, 16, "write QD16, ns", "write QD16, share of the limit"),
        ] {
            let before = one.pool.engine.status().counters;
            let value = one.run(write, depth, time);
            add(ns, value);
            add(share, limit / value);
            if write {
                let after = one.pool.engine.status().counters;
                let journal = (after.journal_bytes - before.journal_bytes) as f64;
                let map = (after.map_bytes - before.map_bytes) as f64;
                let host = time.as_nanos() as f64 / value * 4096.0;
                let name = if depth == 1 { "fast bytes per host byte, QD1" } else { "fast bytes per host byte, QD16" };
                add(name, 1.0 + (journal + map) / host);
            }
        }
        for (write, name) in [(false, "two engines / one, read QD16"), (true, "two engines / one, write QD16")] {
            let alone = one.run(write, 16, time);
            let both = std::thread::scope(|scope| {
                let a = scope.spawn(|| one.run(write, 16, time));
                let b = scope.spawn(|| other.run(write, 16, time));
                1.0 / a.join().expect("a") + 1.0 / b.join().expect("b")
            });
            add(name, both * alone);
        }
    }
    drop((one, other));
    let shapes = [
        ((1, 0), "bands over one device, GB/s"),
        ((2, 1), "bands over 2+1, GB/s"),
        ((4, 2), "bands over 4+2, GB/s"),
        ((8, 3), "bands over 8+3, GB/s"),
    ];
    let mut bands = shapes.map(|(shape, name)| (Bands::new(shape, 4), name));
    for _ in 0..rounds {
        let limit = memory_limit(&memory, &mut random, time);
        add("memcpy + checksum, GB/s", 4096.0 / limit);
        for (bands, name) in &mut bands {
            add(name, bands.run(time));
        }
    }
    println!("{:<44} {:>8} [min .. max], {rounds} rounds of {time:?}", "", "median");
    for (name, values) in &mut results {
        row(name, values);
    }
}

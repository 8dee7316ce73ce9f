//! The engine alone, on RAM devices larger than the CPU cache: verified random 4 KiB reads and journalled,
//! checksummed writes, beside the memory limit (memcpy + CRC32C of random blocks) of the same round; and two engines on
//! two cores beside one. Rounds are interleaved; medians with minimum and maximum are printed.
//!
//! cargo run --release --manifest-path bench/engine/Cargo.toml [ROUNDS [SECONDS]]

use forebay_block::Random;
use forebay_block::checksum::block_checksum;
use forebay_block::{Buf, Device, DiskId};
use forebay_device::RamDevice;
use forebay_prism::ClassTable;
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::recovery::{format, format::NewDisk, open};
use forebay_volume::{Devices, EngineOptions, Op, Outcome, Pool, Request};
use std::time::{Duration, Instant};

const FAST_BYTES: u64 = 2 << 30;
const CAPACITY_BYTES: u64 = 2 << 30;
/// Data in use: far beyond the CPU cache, and on the fast tier whole.
const SPAN_BLOCKS: u64 = (1 << 30) / 4096;

fn pool() -> Pool {
    let devices: Vec<Box<dyn Device>> = [FAST_BYTES, CAPACITY_BYTES]
        .into_iter()
        .map(|size| Box::new(RamDevice::new(size).expect("memory")) as Box<dyn Device>)
        .collect();
    let geometry: Vec<_> = devices.iter().map(|d| d.geometry().clone()).collect();
    let mut devices = Devices::new(devices);
    // Every page of the devices is touched first: the kernel's page faults are not the engine's time.
    for (device, geometry) in geometry.iter().enumerate() {
        for at in (0..geometry.size_bytes).step_by(1 << 20) {
            devices.write(device, at, &vec![0; 1 << 20]).expect("touch");
        }
    }
    let options = PoolOptions { name: "bench".into(), band_bytes: None, journal_bytes: None };
    let superblock = plan(&options, &geometry[0], &geometry[1..], [1; 16], &[[2; 16], [3; 16]]).expect("plan");
    let disks = [NewDisk { name: "disk".into(), size_bytes: 1536 << 20 }];
    format(&mut devices, &superblock, ClassTable::default(), &disks, false, EngineOptions::default()).expect("format");
    let (engine, _) = open(&mut devices, 1, &[], EngineOptions::default()).expect("open");
    Pool::new(engine, devices)
}

struct Load {
    pool: Pool,
    random: Random,
    done: Vec<forebay_volume::Completion>,
    pattern: Vec<u8>,
}

impl Load {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pattern = (0..1 << 20).map(|_| random.next_u64() as u8 | 1).collect();
        let mut load = Self { pool: pool(), random, done: Vec::new(), pattern };
        for block in 0..SPAN_BLOCKS / 64 {
            load.write(block * 64, 64);
            load.drain();
        }
        load
    }
    fn request(&mut self, block: u64, blocks: u64, op: Op) {
        self.pool.submit(Request {
            token: 0,
            disk: DiskId(1),
            offset_bytes: block * 4096,
            len_bytes: blocks * 4096,
            op,
            fua: false,
            export: 0,
            tag: None,
        });
    }
    fn write(&mut self, block: u64, blocks: u64) {
        let at = self.random.index(self.pattern.len() - (blocks * 4096) as usize);
        let buf = Buf::copy_of(&self.pattern[at..at + (blocks * 4096) as usize]);
        self.request(block, blocks, Op::Write(buf));
    }
    /// Takes completions; data must be there.
    fn drain(&mut self) -> u64 {
        self.pool.poll(&mut self.done);
        let n = self.done.len() as u64;
        for completion in self.done.drain(..) {
            match completion.result {
                Ok(Outcome::Data(data)) => assert_eq!(data.len(), 4096),
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
        n
    }
    /// Nanoseconds per operation at a queue depth.
    fn run(&mut self, write: bool, depth: u64, time: Duration) -> f64 {
        let start = Instant::now();
        let mut n = 0;
        while start.elapsed() < time {
            for _ in 0..16 {
                for _ in 0..depth {
                    let block = self.random.below(SPAN_BLOCKS);
                    if write { self.write(block, 1) } else { self.request(block, 1, Op::Read) }
                }
                n += self.drain();
            }
        }
        start.elapsed().as_nanos() as f64 / n as f64
    }
}

/// memcpy + CRC32C of random 4 KiB blocks.
fn memory_limit(source: &[u8], random: &mut Random, time: Duration) -> f64 {
    let mut target = Buf::new(4096);
    let (start, mut n, mut sum) = (Instant::now(), 0u64, 0u32);
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
    start.elapsed().as_nanos() as f64 / n as f64
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
    let (mut one, mut other) = (Load::new(2), Load::new(3));
    let mut results: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut add = |name: &'static str, value: f64| match results.iter_mut().find(|(n, _)| *n == name) {
        Some((_, values)) => values.push(value),
        None => results.push((name, vec![value])),
    };
    for _ in 0..rounds {
        let limit = memory_limit(&memory, &mut random, time);
        add("memcpy + CRC32C, ns a block", limit);
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
    println!("{:<44} {:>8} [min .. max], {rounds} rounds of {time:?}", "", "median");
    for (name, values) in &mut results {
        row(name, values);
    }
}

//! A pool and a load on it: random 4 KiB reads and writes of data that lies on the fast tier.

use forebay_block::{Buf, Device, DiskId, Random, VirtualClock};
use forebay_prism::ClassTable;
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::recovery::{format, format::NewDisk, open};
use forebay_volume::{Devices, EngineOptions, Op, Outcome, Pool, Request};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Data in use: far beyond the CPU cache, and on the fast tier whole.
pub const SPAN_BLOCKS: u64 = (1 << 30) / 4096;

/// Processor time of this thread in nanoseconds: that others had the core meanwhile is no cost of the engine's.
pub fn processor_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Touches every page of memory devices: the kernel's page faults are not the engine's time.
pub fn touch(devices: &mut Devices) {
    for device in 0..devices.list.len() {
        for at in (0..devices.list[device].geometry().size_bytes).step_by(1 << 20) {
            devices.write(device, at, &vec![0; 1 << 20]).expect("touch");
        }
    }
}

fn pool(devices: Vec<Box<dyn Device>>) -> Pool {
    let geometry: Vec<_> = devices.iter().map(|d| d.geometry().clone()).collect();
    let mut devices = Devices::new(devices);
    touch(&mut devices);
    let options = PoolOptions {
        name: "bench".into(),
        band_bytes: None,
        journal_bytes: None,
        is_mirrored: false,
        bands_offset_bytes: None,
    };
    let superblock = plan(&options, &geometry[0], &geometry[1..], [1; 16], &[[2; 16], [3; 16]]).expect("plan");
    let disks = [NewDisk { name: "disk".into(), size_bytes: 1536 << 20, base: None }];
    format(&mut devices, &superblock, ClassTable::default(), &disks, EngineOptions::default()).expect("format");
    let (engine, _) = open(&mut devices, 1, &[], EngineOptions::default()).expect("open");
    Pool::new(engine, devices)
}

pub struct Load {
    pub pool: Pool,
    /// Where the devices live in virtual time.
    clock: Option<VirtualClock>,
    random: Random,
    done: Vec<forebay_volume::Completion>,
    pattern: Vec<u8>,
}

impl Load {
    /// A load on a pool over these devices, whose data has been written once.
    pub fn new(devices: Vec<Box<dyn Device>>, clock: Option<VirtualClock>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pattern = (0..1 << 20).map(|_| random.next_u64() as u8 | 1).collect();
        let mut load = Self { pool: pool(devices), clock, random, done: Vec::new(), pattern };
        for block in 0..SPAN_BLOCKS / 64 {
            load.write(block * 64, 64);
            while load.drain() == 0 {}
        }
        load
    }
    fn request(&mut self, block: u64, blocks: u64, op: Op) {
        self.pool.submit(Request::new(0, DiskId(1), block * 4096, blocks * 4096, op));
    }
    fn write(&mut self, block: u64, blocks: u64) {
        let at = self.random.index(self.pattern.len() - (blocks * 4096) as usize);
        let buf = Buf::copy_of(&self.pattern[at..at + (blocks * 4096) as usize]);
        self.request(block, blocks, Op::Write(buf));
    }
    /// Takes completions; data must be there.
    fn drain(&mut self) -> u64 {
        self.pool.poll(&mut self.done);
        while self.done.is_empty() && self.clock.is_some() {
            self.happen();
        }
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
    /// What ends next in virtual time.
    fn happen(&mut self) {
        let Some(clock) = &self.clock else { return };
        if let Some(now_ns) = self.pool.advance(u64::MAX) {
            clock.show(now_ns);
            self.pool.tick(now_ns);
            self.pool.poll(&mut self.done);
        }
    }
    /// Nanoseconds of processor time per operation at a queue depth. In virtual time what has ended is replaced at once; otherwise all of
    /// a turn end in it.
    pub fn run(&mut self, write: bool, depth: u64, time: Duration) -> f64 {
        let (start, cpu_ns) = (Instant::now(), processor_ns());
        let (mut n, mut free) = (0, depth);
        while start.elapsed() < time {
            for _ in 0..16 {
                for _ in 0..free {
                    let block = self.random.below(SPAN_BLOCKS);
                    if write { self.write(block, 1) } else { self.request(block, 1, Op::Read) }
                }
                free = self.drain();
                n += free;
            }
        }
        let spent_ns = (processor_ns() - cpu_ns) as f64;
        while free < depth {
            free += self.drain();
        }
        spent_ns / n as f64
    }
}

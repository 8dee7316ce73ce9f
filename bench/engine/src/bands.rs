//! Runs written straight to bands of the capacity tier: over one device, and over several with parity.

use crate::load::{processor_ns, touch};
use forebay_block::{Buf, Device, DiskId, Random};
use forebay_device::RamDevice;
use forebay_prism::{ClassSpec, ClassTable, Place};
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::parity::{Redundancy, new_array, plan_shape};
use forebay_volume::recovery::{format, format::NewDisk, open};
use forebay_volume::{Devices, EngineOptions, Op, Pool, Request};
use std::time::{Duration, Instant};

const RUN_BYTES: u64 = 1 << 20;
const SPAN_BYTES: u64 = 512 << 20;
const DEPTH: usize = 8;

pub struct Bands {
    pool: Pool,
    runs: Vec<Buf>,
    next: u64,
    done: Vec<forebay_volume::Completion>,
}

impl Bands {
    /// Over so many devices of data and of parity; without parity over one.
    pub fn new((data, parity): (u8, u8), seed: u64) -> Self {
        let member_bytes = (2 * SPAN_BYTES).div_ceil(u64::from(data)).next_multiple_of(RUN_BYTES);
        let sizes = (0..data + parity).map(|_| member_bytes);
        let ram = |bytes| Box::new(RamDevice::new(bytes).expect("memory")) as Box<dyn Device>;
        let mut devices = Devices::new([256 << 20].into_iter().chain(sizes).map(ram).collect());
        touch(&mut devices);
        let members = devices.list.split_off(1);
        let geometries: Vec<_> = members.iter().map(|member| member.geometry().clone()).collect();
        let fast = devices.list[0].geometry().clone();
        let capacity = if parity == 0 {
            devices.list.extend(members);
            geometries[0].clone()
        } else {
            let redundancy = Redundancy { data: data.into(), parity: parity.into() };
            let (shape, capacity) = plan_shape(&geometries, redundancy, None, fast.size_bytes).expect("shape");
            let ids: Vec<_> = (0..data + parity).map(|member| [10 + member; 16]).collect();
            let (array, view) = new_array(members, shape, [1; 16], &ids);
            devices.list.push(Box::new(array));
            devices = devices.with_array(view);
            capacity
        };
        let options = PoolOptions {
            name: "bands".into(),
            band_bytes: None,
            journal_bytes: None,
            is_mirrored: false,
            bands_offset_bytes: None,
        };
        let superblock = plan(&options, &fast, &[capacity], [1; 16], &[[2; 16], [3; 16]]).expect("plan");
        let mut straight = ClassSpec::new("straight", Place::Capacity);
        straight.rules = vec!["request_size>=64KiB".into()];
        let classes = ClassTable::from_configured(&[straight]).expect("classes");
        let disks = [NewDisk { name: "disk".into(), size_bytes: SPAN_BYTES, base: None }];
        format(&mut devices, &superblock, classes, &disks, EngineOptions::default()).expect("format");
        let (engine, _) = open(&mut devices, 1, &[], EngineOptions::default()).expect("open");
        let mut random = Random::new(seed);
        let mut run = || Buf::copy_of(&(0..RUN_BYTES).map(|_| random.next_u64() as u8).collect::<Vec<_>>());
        // More than the processor's cache holds.
        let runs = (0..64).map(|_| run()).collect();
        Self { pool: Pool::new(engine, devices), runs, next: 0, done: Vec::new() }
    }

    /// Gigabytes of data in a second of processor time.
    pub fn run(&mut self, time: Duration) -> f64 {
        let (start, cpu_ns) = (Instant::now(), processor_ns());
        let (mut bytes, mut free) = (0, DEPTH);
        while start.elapsed() < time {
            for _ in 0..free {
                let source = &self.runs[(self.next % self.runs.len() as u64) as usize];
                let op = Op::Write(Buf::copy_of(source));
                let offset_bytes = self.next * RUN_BYTES % SPAN_BYTES;
                self.next += 1;
                self.pool.submit(Request::new(0, DiskId(1), offset_bytes, RUN_BYTES, op));
            }
            free = self.drain();
            bytes += free as u64 * RUN_BYTES;
        }
        let spent_ns = processor_ns() - cpu_ns;
        while free < DEPTH {
            free += self.drain();
        }
        bytes as f64 / spent_ns as f64
    }

    fn drain(&mut self) -> usize {
        self.pool.poll(&mut self.done);
        for completion in &self.done {
            if let Err(error) = &completion.result {
                panic!("{error}");
            }
        }
        self.done.drain(..).count()
    }
}

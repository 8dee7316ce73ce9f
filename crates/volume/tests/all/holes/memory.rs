//! Memory use that hosts can increase.

use super::rig::{BLOCK, classes};
use crate::child::{in_a_process, resident_bytes};
use forebay_block::{Buf, Completion, Device, Geometry, Op as DeviceOp, Request as DeviceRequest};
use forebay_prism::ClassTable;
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::recovery::{format, format::NewDisk, open};
use forebay_volume::{Devices, EngineOptions, Op, Pool, Request};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first word of data that is never read, which the device does not store.
const FORGOTTEN: &[u8; 8] = b"NOT KEPT";
const BLOCKS: u64 = 256 << 10;
/// Limit of space waiting to be freed and of all other memory of discards: a tenth of the memory limit.
const GROWTH_MAX_BYTES: u64 = 4 << 20;
const MEMORY_LIMIT_BYTES: u64 = 40 << 20;

/// A device that stores everything but data, and holds flushes as long as the test wants.
struct Forgetful {
    geometry: Geometry,
    blocks: BTreeMap<u64, Vec<u8>>,
    pending: Vec<DeviceRequest>,
    holds_flushes: Arc<AtomicBool>,
}

impl Forgetful {
    fn boxed(size_bytes: u64, holds_flushes: &Arc<AtomicBool>) -> Box<dyn Device> {
        let geometry = Geometry {
            size_bytes,
            logical_block_bytes: 4096,
            optimal_band_bytes: None,
            volatile_cache: true,
            durable_writes: true,
            discards: false,
        };
        let holds_flushes = holds_flushes.clone();
        Box::new(Self { geometry, blocks: BTreeMap::new(), pending: Vec::new(), holds_flushes })
    }

    fn carry_out(&mut self, request: DeviceRequest) -> Completion {
        let mut at = request.offset_bytes;
        let mut bufs = None;
        match request.op {
            DeviceOp::Write { bufs, .. } => {
                for block in bufs.as_slice().iter().flat_map(|buf| buf.chunks(BLOCK)) {
                    if !block.starts_with(FORGOTTEN) {
                        self.blocks.insert(at, block.to_vec());
                    }
                    at += BLOCK as u64;
                }
            }
            DeviceOp::Read { bufs: mut into, .. } => {
                for block in into.as_mut_slice().iter_mut().flat_map(|buf| buf.chunks_mut(BLOCK)) {
                    match self.blocks.get(&at) {
                        Some(kept) => block.copy_from_slice(kept),
                        None => block.fill(0),
                    }
                    at += BLOCK as u64;
                }
                bufs = Some(into);
            }
            DeviceOp::Flush | DeviceOp::Discard { .. } | DeviceOp::WriteZeroes { .. } => {}
        }
        Completion { tag: request.tag, result: Ok(()), bufs }
    }
}

impl Device for Forgetful {
    fn name(&self) -> &str {
        "forgetful"
    }
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    fn submit(&mut self, request: DeviceRequest) {
        self.pending.push(request);
    }
    fn poll(&mut self, done: &mut Vec<Completion>) {
        let holds = self.holds_flushes.load(Ordering::Relaxed);
        for request in std::mem::take(&mut self.pending) {
            match request.op {
                DeviceOp::Flush if holds => self.pending.push(request),
                _ => done.push(self.carry_out(request)),
            }
        }
    }
    fn wait(&mut self, _timeout_ns: u64) {}
    fn queue_limit(&self) -> usize {
        256
    }
    fn in_flight(&self) -> usize {
        self.pending.len()
    }
}

struct Served {
    pool: Pool,
    disk: forebay_block::DiskId,
    now_ns: u64,
}

impl Served {
    fn poll(&mut self) -> usize {
        self.now_ns += 1_000_000;
        self.pool.tick(self.now_ns);
        let mut done = Vec::new();
        self.pool.poll_once(&mut done);
        done.iter().for_each(|completion| assert!(completion.result.is_ok(), "{completion:?}"));
        done.len()
    }

    fn submit(&mut self, block: u64, blocks: u64, op: Op) {
        let (offset_bytes, len_bytes) = (block * BLOCK as u64, blocks * BLOCK as u64);
        self.pool.submit(Request::new(0, self.disk, offset_bytes, len_bytes, op));
    }

    fn write(&mut self, block: u64, blocks: u64) {
        let mut data = Buf::zeroed((blocks as usize) * BLOCK);
        data.chunks_exact_mut(BLOCK).for_each(|block| block[..8].copy_from_slice(FORGOTTEN));
        self.submit(block, blocks, Op::Write(data));
    }

    /// Polls until this many requests have ended.
    fn wait(&mut self, mut requests: usize) {
        for _ in 0..100_000 {
            requests -= self.poll().min(requests);
            if requests == 0 {
                return;
            }
        }
        panic!("{requests} requests hang");
    }
}

fn discards_while_no_flush_ends() {
    let holds = Arc::new(AtomicBool::new(false));
    let mut devices = Devices::new(vec![Forgetful::boxed(1200 << 20, &holds), Forgetful::boxed(64 << 20, &holds)]);
    let pool = PoolOptions {
        name: "memory".into(),
        band_bytes: None,
        journal_bytes: None,
        is_mirrored: false,
        bands_offset_bytes: None,
    };
    let geometry = |device: usize| devices.list[device].geometry().clone();
    let superblock = plan(&pool, &geometry(0), &[geometry(1)], [9; 16], &[[1; 16], [2; 16]]).unwrap();
    let options = EngineOptions {
        memory_limit_bytes: MEMORY_LIMIT_BYTES,
        frames: Some(2048),
        unflushed_limit_bytes: 1 << 40,
        destage_above_percent: 100,
        bypass_below_percent: 0,
        overcommit: true,
        ..EngineOptions::default()
    };
    let table = ClassTable::from_configured(&classes()).unwrap();
    let disks = [NewDisk { name: "disk".into(), size_bytes: BLOCKS * BLOCK as u64, base: None }];
    format(&mut devices, &superblock, table, &disks, options.clone()).unwrap();
    let (engine, _) = open(&mut devices, 1, &classes(), options).unwrap();
    let disk = engine.disk_named("disk").unwrap().id;
    let mut served = Served { pool: Pool::new(engine, devices), disk, now_ns: 0 };
    for first in (0..BLOCKS).step_by(1024) {
        served.write(first, 1024);
        served.wait(1);
    }
    // Every second block moves, so that neighbours on the disk are not neighbours on the device.
    for first in (1..BLOCKS).step_by(512) {
        (first..first + 512).step_by(2).for_each(|block| served.write(block, 1));
        served.wait(256);
    }
    served.submit(0, 0, Op::Flush);
    served.wait(1);
    let before = served.pool.engine.checkpoint_number();
    served.pool.engine.request_checkpoint(false);
    for _ in 0..10_000 {
        served.poll();
    }
    assert!(served.pool.engine.checkpoint_number() > before);
    let used = served.pool.engine.status().fast.used_bytes;

    holds.store(true, Ordering::Relaxed);
    let before_bytes = resident_bytes();
    served.submit(0, BLOCKS, Op::Discard);
    let ended: usize = (0..5000).map(|_| served.poll()).sum();
    let growth_bytes = resident_bytes().saturating_sub(before_bytes);
    assert!(growth_bytes < GROWTH_MAX_BYTES, "{growth_bytes} bytes more, the limit of all is {MEMORY_LIMIT_BYTES}");
    holds.store(false, Ordering::Relaxed);
    if ended == 0 {
        served.wait(1);
    }
    served.submit(0, 0, Op::Flush);
    served.wait(1);
    for _ in 0..1000 {
        served.poll();
    }
    let left = served.pool.engine.status().fast.used_bytes;
    assert!(left < used / 16, "{left} bytes are still in use of {used}");
}

/// A discard's record is 24 bytes for 400 blocks, but each block whose neighbours lie elsewhere took 32 bytes in the queue of space to be
/// freed, without limit while no flush ended. A large tier has a hundred million such blocks. Either the queue is short, or the discard
/// waits.
#[test]
fn hole_11_c_fragmented_discards_take_bounded_memory() {
    in_a_process(4 << 20, discards_while_no_flush_ends);
}

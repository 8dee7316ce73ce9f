//! A pool over a capacity tier with parity, in which tests can silently change any block of any member.

use crate::mirror::disk::Disk;
use crate::world::{BULK, block_request};
use forebay_block::{Buf, ClassId, Device, DiskId, Random};
use forebay_prism::{ClassSpec, ClassTable, Place};
use forebay_volume::engine::ScrubStatus;
use forebay_volume::layout::array_label;
use forebay_volume::layout::array_shape::{Redundancy, SLOT_BYTES, Shape};
use forebay_volume::layout::member_label::LABEL_BYTES;
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::layout::scrub_record::ScrubState;
use forebay_volume::layout::superblock::copy_offsets_bytes;
use forebay_volume::mirror::{self, Candidate, Consent, clear_labels, new_geometry, new_mirror};
use forebay_volume::parity::{ArrayView, join, new_array, plan_shape};
use forebay_volume::recovery::{AloneReport, OpenError, format, format::NewDisk, open, open_alone, verify_alone};
use forebay_volume::verify::{Finding, verify};
use forebay_volume::{Devices, EngineOptions, Op, Outcome, Pool, Request, RequestError};
use std::cell::Cell;
use std::collections::BTreeMap;

const FAST_BYTES: usize = 4 << 20;
const MEMBER_BYTES: usize = 8 << 20;
const DISK_BYTES: u64 = 8 << 20;
const POOL: [u8; 16] = [9; 16];
const BLOCK: usize = 4096;
/// Blocks written with this tag go to the fast tier and stay there.
const METADATA: Option<ClassId> = Some(ClassId(1));

pub fn classes() -> Vec<ClassSpec> {
    vec![ClassSpec::new("bulk", Place::Capacity)]
}

pub fn options() -> EngineOptions {
    EngineOptions {
        memory_limit_bytes: 64 << 20,
        frames: Some(64),
        // One band for writes, and one more for moved data.
        grouping: forebay_placement::grouping::Kind::NoSep,
        scrub_bytes_per_s: 1 << 30,
        overcommit: true,
        ..EngineOptions::default()
    }
}

/// The devices of a pool.
pub struct Rig {
    pub fast: Vec<Disk>,
    pub members: Vec<Disk>,
    pub shape: Shape,
    /// Number of the next opening.
    opening: Cell<u64>,
}

impl Rig {
    /// A formatted pool with `fast` fast devices.
    pub fn new(redundancy: &str, fast: usize) -> Self {
        let redundancy: Redundancy = redundancy.parse().unwrap();
        let members = redundancy.data + redundancy.parity;
        let fast: Vec<Disk> = (0..fast).map(|at| Disk::new(&format!("f{at}"), FAST_BYTES)).collect();
        let members: Vec<Disk> = (0..members).map(|at| Disk::new(&format!("m{at}"), MEMBER_BYTES)).collect();
        let geometries: Vec<_> = members.iter().map(|member| member.geometry().clone()).collect();
        let band_bytes = Some(redundancy.data as u64 * (128 << 10));
        let (shape, capacity) = plan_shape(&geometries, redundancy, band_bytes, FAST_BYTES as u64).unwrap();
        let rig = Self { fast, members, shape, opening: Cell::new(1) };
        let mut all = Devices::new(rig.fast.iter().chain(&rig.members).map(Disk::boxed).collect());
        clear_labels(&mut all).unwrap();
        let ids: Vec<[u8; 16]> = (0..rig.members.len()).map(|id| [id as u8 + 20; 16]).collect();
        let (array, view) = new_array(rig.members.iter().map(Disk::boxed).collect(), shape, POOL, &ids);
        let fast: Vec<_> = rig.fast.iter().map(|disk| disk.geometry().clone()).collect();
        let fast = if fast.len() == 1 { fast[0].clone() } else { new_geometry(&fast) };
        let mut devices = match &rig.fast[..] {
            [one] => Devices::new(vec![one.boxed(), Box::new(array)]),
            several => {
                let ids: Vec<[u8; 16]> = (0..several.len()).map(|id| [id as u8 + 10; 16]).collect();
                let (mirror, view) = new_mirror(several.iter().map(Disk::boxed).collect(), POOL, &ids);
                Devices::mirrored(vec![Box::new(mirror), Box::new(array)], view)
            }
        }
        .with_array(view);
        let options_of = PoolOptions {
            name: "rotten".into(),
            band_bytes,
            journal_bytes: Some(256 << 10),
            is_mirrored: rig.fast.len() > 1,
            bands_offset_bytes: Some(shape.head_bytes),
        };
        let superblock = plan(&options_of, &fast, &[capacity], POOL, &[[10; 16], [20; 16]]).unwrap();
        let disks = [NewDisk { name: "disk".into(), size_bytes: DISK_BYTES, base: None }];
        let table = ClassTable::from_configured(&classes()).unwrap();
        format(&mut devices, &superblock, table, &disks, options()).unwrap();
        rig
    }

    /// Other devices with the same contents, opened independently from now on.
    pub fn copy(&self) -> Self {
        let copy = |disks: &[Disk]| disks.iter().map(Disk::copy).collect();
        Self {
            fast: copy(&self.fast),
            members: copy(&self.members),
            shape: self.shape,
            opening: Cell::new(self.opening.get() << 16),
        }
    }

    /// The capacity tier of the present members.
    pub fn array(&self, is_writable: bool) -> (Box<dyn Device>, ArrayView) {
        let mut new_id = || [200; 16];
        let new_id: Option<&mut dyn FnMut() -> [u8; 16]> = if is_writable { Some(&mut new_id) } else { None };
        let joined = join(self.members.iter().map(candidate).collect(), None, new_id, false).unwrap();
        (Box::new(joined.array), joined.view)
    }

    /// Opens the pool.
    pub fn open(&self) -> Served {
        self.try_open().unwrap()
    }

    /// Tries to open the pool.
    pub fn try_open(&self) -> Result<Served, OpenError> {
        let (array, view) = self.array(true);
        self.served(array, view)
    }

    /// Opens the pool without a member.
    pub fn open_without(&self, lost: usize) -> Served {
        let there = self.members.iter().enumerate().filter(|(at, _)| *at != lost).map(|(_, disk)| candidate(disk));
        let joined = join(there.collect(), None, Some(&mut || [201; 16]), false).unwrap();
        self.served(Box::new(joined.array), joined.view).unwrap()
    }

    fn served(&self, array: Box<dyn Device>, view: ArrayView) -> Result<Served, OpenError> {
        let mut devices = match &self.fast[..] {
            [one] => Devices::new(vec![one.boxed(), array]).with_array(view),
            several => {
                let mut capacity = Devices::new(vec![array]).with_array(view.clone());
                let fast = several.iter().map(candidate).collect();
                let joined = mirror::join(fast, &mut capacity, Some(&mut || [99; 16]), Consent::default()).unwrap();
                let list = std::iter::once(Box::new(joined.mirror) as Box<dyn Device>).chain(capacity.list);
                Devices::mirrored(list.collect(), joined.view).with_array(view)
            }
        };
        let opening = self.opening.replace(self.opening.get() + 1);
        let (engine, _) = open(&mut devices, 1, &classes(), EngineOptions { opening, ..options() })?;
        let disk = engine.disk_named("disk").unwrap().id;
        Ok(Served { pool: Pool::new(engine, devices), disk, now_ns: 0, model: BTreeMap::new() })
    }

    /// Opens the capacity tier alone; returns the findings of its verification.
    pub fn alone(&self) -> (Pool, AloneReport, Vec<Finding>) {
        let (array, view) = self.array(false);
        let mut devices = Devices::new(vec![array]).with_array(view);
        let (engine, report) = open_alone(&mut devices, &classes(), options(), &mut |_, _| {}).unwrap();
        let mut findings = Vec::new();
        verify_alone(&mut devices, &engine, &report, &mut |finding| findings.push(finding));
        (Pool::new(engine, devices), report, findings)
    }

    /// Findings of a verification of the pool.
    pub fn verify(&self) -> Vec<Finding> {
        let (array, view) = self.array(false);
        let [fast] = &self.fast[..] else { panic!("one fast device") };
        let mut devices = Devices::new(vec![fast.boxed(), array]).with_array(view);
        let mut findings = Vec::new();
        verify(&mut devices, 1, options(), &mut |finding| findings.push(finding)).unwrap();
        findings
    }

    /// Start of the rows on each member.
    pub fn rows_at(&self) -> usize {
        (self.shape.head_bytes + u64::from(self.shape.log_slots) * SLOT_BYTES).next_multiple_of(1 << 20) as usize
    }

    /// Changes a byte of each block of a member from `first` on that is none of these; returns where.
    pub fn rot(&self, number: usize, first: usize, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<usize> {
        let labels = array_label::OFFSETS_BYTES.map(|at| at as usize..at as usize + LABEL_BYTES);
        let superblocks = copy_offsets_bytes(MEMBER_BYTES as u64).map(|at| at as usize..at as usize + BLOCK);
        let mut inner = self.members[number].bytes();
        let mut rotten = Vec::new();
        for at in (first..MEMBER_BYTES).step_by(BLOCK) {
            let is_needed_before = labels.iter().chain(&superblocks).any(|range| range.contains(&at));
            let block = &mut inner.bytes[at..at + BLOCK];
            if !is_needed_before && block.iter().any(|&byte| byte != 0) && is_wanted(block) {
                block[1000] ^= 0x20;
                rotten.push(at);
            }
        }
        rotten
    }
}

pub fn candidate(disk: &Disk) -> Candidate {
    Candidate { name: disk.name.clone(), device: Ok(disk.boxed()), contents: vec!["something".to_owned()] }
}

/// Blocks from here on shrink to less than a fifth: a group of them has a summary of several pages.
pub const SMALL: u64 = 1600;

/// Contents of a version of a block: at least half of it is compressible.
pub fn content(block: u64, version: u64) -> Vec<u8> {
    let mut random = Random::new(block << 32 ^ version);
    let noise = (0..if block < SMALL { 256 } else { 80 }).flat_map(|_| random.next_u64().to_le_bytes());
    noise.chain(std::iter::repeat(block as u8)).take(BLOCK).collect()
}

/// A served pool and the data written to it.
pub struct Served {
    pub pool: Pool,
    disk: DiskId,
    now_ns: u64,
    /// The version of each block.
    pub model: BTreeMap<u64, u64>,
}

impl Served {
    /// Runs a whole scrub pass.
    pub fn scrub(&mut self) -> ScrubStatus {
        self.pool.engine.start_scrub();
        for _ in 0..1000 {
            self.ticks(10);
            if self.pool.engine.scrub().record.state == ScrubState::Idle {
                return self.pool.engine.scrub();
            }
        }
        panic!("a scrub without an end: {:?}", self.pool.engine.scrub());
    }

    pub fn ticks(&mut self, ticks: u32) {
        let mut done = Vec::new();
        for _ in 0..ticks {
            self.now_ns += 10_000_000;
            self.pool.tick(self.now_ns);
            self.pool.poll(&mut done);
        }
        assert!(done.is_empty());
    }

    pub fn ask(&mut self, block: u64, op: Op) -> Result<Outcome, RequestError> {
        self.ask_as(Some(BULK), block, op)
    }

    fn ask_as(&mut self, tag: Option<ClassId>, block: u64, op: Op) -> Result<Outcome, RequestError> {
        let len_bytes = match &op {
            Op::Write(data) => data.len() as u64,
            _ => BLOCK as u64,
        };
        self.ask_of(tag, block, len_bytes, op)
    }

    fn ask_of(&mut self, tag: Option<ClassId>, block: u64, len_bytes: u64, op: Op) -> Result<Outcome, RequestError> {
        self.pool.submit(Request { tag, len_bytes, ..block_request(1, self.disk, block, op) });
        let mut done = Vec::new();
        for _ in 0..10_000 {
            self.now_ns += 10_000_000;
            self.pool.tick(self.now_ns);
            self.pool.poll(&mut done);
            if let Some(completion) = done.pop() {
                return completion.result;
            }
        }
        panic!("a request does not end: {}", self.pool.engine.describe());
    }

    /// Writes the next version of a block.
    #[track_caller]
    pub fn write(&mut self, block: u64) {
        self.write_run(block, 1);
    }

    /// The same, to the fast tier.
    #[track_caller]
    pub fn write_fast(&mut self, block: u64) {
        let version = self.model.get(&block).map_or(1, |version| version + 1);
        self.ask_as(METADATA, block, Op::Write(Buf::copy_of(&content(block, version)))).unwrap();
        self.model.insert(block, version);
    }

    /// Writes the next versions of some blocks at once: one alone is not compressed.
    #[track_caller]
    pub fn write_run(&mut self, first: u64, blocks: u64) {
        let next = |block: u64| (block, self.model.get(&block).map_or(1, |version| version + 1));
        let versions: Vec<(u64, u64)> = (first..first + blocks).map(next).collect();
        let bytes: Vec<u8> = versions.iter().flat_map(|&(block, version)| content(block, version)).collect();
        self.ask(first, Op::Write(Buf::copy_of(&bytes))).unwrap();
        self.model.extend(versions);
    }

    /// Reads all written data.
    #[track_caller]
    pub fn check(&mut self) {
        for (block, version) in self.model.clone() {
            match self.ask(block, Op::Read) {
                Ok(Outcome::Data(data)) => assert!(data[..] == content(block, version)[..], "block {block}"),
                other => panic!("block {block}: {other:?}"),
            }
        }
    }

    /// Reads all blocks from 0 on that were written, so many at once.
    #[track_caller]
    pub fn check_in_runs(&mut self, blocks: u64) {
        let end = (0..).find(|block| !self.model.contains_key(block)).unwrap_or(0);
        for first in (0..end).step_by(blocks as usize) {
            let run = first..end.min(first + blocks);
            match self.ask_of(Some(BULK), first, (run.end - first) * BLOCK as u64, Op::Read) {
                Ok(Outcome::Data(data)) => {
                    let wanted = run.flat_map(|block| content(block, self.model[&block])).collect::<Vec<u8>>();
                    assert!(data[..] == wanted[..], "blocks from {first} on");
                }
                other => panic!("blocks from {first} on: {other:?}"),
            }
        }
    }

    #[track_caller]
    pub fn checkpoint(&mut self) {
        let before = self.pool.engine.checkpoint_number();
        self.pool.engine.request_checkpoint(false);
        for _ in 0..1000 {
            self.ticks(1);
            if self.pool.engine.checkpoint_number() > before && !self.pool.engine.checkpoint_pending() {
                return;
            }
        }
        panic!("no checkpoint: {}", self.pool.engine.describe());
    }

    /// Stops the pool; returns the written data.
    #[track_caller]
    pub fn close(mut self) -> BTreeMap<u64, u64> {
        self.ticks(10);
        assert!(self.pool.close());
        self.model
    }
}

/// What a block of the disk holds, of a pool that is opened for reading.
pub fn read(pool: &mut Pool, block: u64) -> Result<Buf, RequestError> {
    pool.submit(block_request(1, DiskId(1), block, Op::Read));
    let mut done = Vec::new();
    pool.run_until(&mut done, |_, done| !done.is_empty());
    match done.pop().unwrap().result? {
        Outcome::Data(data) => Ok(data),
        other => panic!("{other:?}"),
    }
}

//! A pool with a class that is kept and one that passes through, and what its blocks are asked for.

use crate::world::{Shape, Shared, boxed};
use forebay_block::{Buf, ClassId, Device, Random};
use forebay_prism::{ClassSpec, ClassStats, ClassTable, FileHints, HostHints, Place};
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::recovery::{format, format::NewDisk, open};
use forebay_volume::{ExtentState, HintParts, Op, Outcome, Pool, Request, RequestError};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const KEPT: ClassId = ClassId(5);
pub const PASSING: ClassId = ClassId(6);
/// Three leaves of the map.
pub const BLOCKS: u64 = 1200;

pub fn classes() -> Vec<ClassSpec> {
    let of = |name: &str, place, rule: &str| ClassSpec { rules: vec![rule.to_owned()], ..ClassSpec::new(name, place) };
    vec![of("kept", Place::Fast, "path:/kept/*"), of("passing", Place::Capacity, "path:/passing/* & direction:write")]
}

pub fn hints(path: &str) -> HostHints {
    let file = FileHints { path: path.to_owned(), ..FileHints::default() };
    HostHints { file: Some(Arc::new(file)), ..HostHints::default() }
}

/// Expected class of each block; `None`: any class but these two.
pub type Model = BTreeMap<u64, Option<ClassId>>;

/// A pool whose hosts name their files.
pub struct Life {
    pub pool: Pool,
    pub shared: Vec<Shared>,
    pub shape: Shape,
    now_ns: u64,
}

impl Life {
    pub fn begin(shape: &Shape) -> Self {
        let shared: Vec<Shared> = [shape.fast_bytes, shape.capacity_bytes]
            .iter()
            .enumerate()
            .map(|(i, &bytes)| Shared::new(&format!("d{i}"), forebay_device::Image::zeroed(bytes), 1))
            .collect();
        let mut devices = boxed(&shared);
        let options = PoolOptions {
            name: "test".into(),
            band_bytes: Some(shape.band_bytes),
            journal_bytes: Some(128 << 10),
            is_mirrored: false,
            bands_offset_bytes: None,
        };
        let superblock =
            plan(&options, shared[0].geometry(), &[shared[1].geometry().clone()], [7; 16], &[[1; 16], [2; 16]])
                .unwrap();
        let table = ClassTable::from_configured(&classes()).unwrap();
        let disks = [NewDisk { name: "disk".into(), size_bytes: shape.disk_bytes, base: None }];
        format(&mut devices, &superblock, table, &disks, shape.options()).unwrap();
        Self::open(shape, shared)
    }

    pub fn open(shape: &Shape, shared: Vec<Shared>) -> Self {
        Self::open_as(shape, shared, &classes())
    }

    pub fn open_as(shape: &Shape, shared: Vec<Shared>, classes: &[ClassSpec]) -> Self {
        let mut devices = boxed(&shared);
        let (engine, _) = open(&mut devices, 1, classes, shape.options()).unwrap();
        Self { pool: Pool::new(engine, devices), shared, shape: shape.clone(), now_ns: 0 }
    }

    pub fn cut(self, random: &mut Random, seed: u64) -> Self {
        let images: Vec<_> = self.shared.iter().map(|shared| shared.cut(random)).collect();
        let shared =
            images.into_iter().enumerate().map(|(i, image)| Shared::new(&format!("d{i}"), image, seed ^ i as u64));
        Self::open(&self.shape, shared.collect())
    }

    pub fn run(&mut self, block: u64, blocks: u64, op: Op, hints: Option<HintParts>) -> Result<Outcome, RequestError> {
        let disk = self.pool.engine.disk_named("disk").unwrap().id;
        self.pool
            .submit(Request { hints: hints.map(Box::new), ..Request::new(1, disk, block * 4096, blocks * 4096, op) });
        let mut done = Vec::new();
        for _ in 0..200_000 {
            self.now_ns += 1_000_000;
            self.pool.tick(self.now_ns);
            self.pool.poll_once(&mut done);
            if let Some(completion) = done.pop() {
                return completion.result;
            }
        }
        panic!("hangs: {}", self.pool.engine.describe());
    }

    pub fn write(&mut self, block: u64, blocks: u64, parts: Option<HintParts>) {
        let mut buf = Buf::new(blocks as usize * 4096);
        buf.fill(0xa5);
        self.run(block, blocks, Op::Write(buf), parts).unwrap();
    }

    /// Class of each block with data; must agree with the statistics.
    pub fn seen(&mut self) -> BTreeMap<u64, ClassId> {
        for _ in 0..100 {
            let before = self.pool.engine.status().classes;
            if let Some(found) = self.scan(&before) {
                return found;
            }
        }
        panic!("migration never rests");
    }

    /// One scan; `None` where data was moved meanwhile.
    fn scan(&mut self, statistics: &[ClassStats]) -> Option<BTreeMap<u64, ClassId>> {
        let (mut found, mut tiers) = (BTreeMap::new(), BTreeMap::<(ClassId, bool), u64>::new());
        let mut at = 0;
        while at < BLOCKS {
            let answer = self.run(at, BLOCKS - at, Op::Status { max_extents: 64 }, None).unwrap();
            let Outcome::Extents(extents) = answer else { panic!("no extents") };
            for extent in extents {
                let blocks = extent.len_bytes / 4096;
                if let ExtentState::Data { class, fast } = extent.state {
                    found.extend((at..at + blocks).map(|block| (block, class)));
                    *tiers.entry((class, fast)).or_default() += blocks;
                }
                at += blocks;
            }
        }
        let blocks = |list: &[ClassStats]| list.iter().map(|statistics| statistics.fast_blocks).collect::<Vec<_>>();
        if blocks(statistics) != blocks(&self.pool.engine.status().classes) {
            return None;
        }
        for (number, statistics) in statistics.iter().enumerate() {
            let class = ClassId(number as u8);
            let counted = |fast| tiers.get(&(class, fast)).copied().unwrap_or(0);
            assert_eq!(
                (statistics.fast_blocks, statistics.capacity_blocks),
                (counted(true), counted(false)),
                "statistics of class {number}"
            );
        }
        Some(found)
    }

    pub fn check(&mut self, model: &Model) {
        let seen = self.seen();
        assert!(seen.keys().eq(model.keys()), "blocks with data");
        for (block, class) in seen {
            match model[&block] {
                Some(wanted) => assert_eq!(class, wanted, "block {block}"),
                None => assert!(class != KEPT && class != PASSING, "block {block} is {class:?}"),
            }
        }
    }
}

//! Classes that change after the data was written, held against a model: what a rule claims by the facts known last, through
//! moves, checkpoints, clean stops and power cuts.
#![allow(clippy::unwrap_used)]

mod world;

use forebay_block::{Buf, ClassId, Device, Random};
use forebay_prism::{ClassSpec, ClassStats, ClassTable, FileHints, HostHints, Place};
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::recovery::{format, format::NewDisk, open};
use forebay_volume::{ExtentState, HintPart, HintParts, Op, Outcome, Pool, Request, RequestError};
use std::collections::BTreeMap;
use std::sync::Arc;
use world::{Shape, Shared, boxed};

const KEPT: ClassId = ClassId(5);
const PASSING: ClassId = ClassId(6);
/// Three leaves of the map.
const BLOCKS: u64 = 1200;

fn classes() -> Vec<ClassSpec> {
    let of = |name: &str, place, rule: &str| ClassSpec { rules: vec![rule.to_owned()], ..ClassSpec::new(name, place) };
    vec![of("kept", Place::Fast, "path:/kept/*"), of("passing", Place::Capacity, "path:/passing/* & direction:write")]
}

fn hints(path: &str) -> HostHints {
    let file = FileHints { path: path.to_owned(), ..FileHints::default() };
    HostHints { file: Some(Arc::new(file)), ..HostHints::default() }
}

/// Which class a block must have; `None`: whatever contents and behaviour say, but none of the two.
type Model = BTreeMap<u64, Option<ClassId>>;

struct Life {
    pool: Pool,
    shared: Vec<Shared>,
    shape: Shape,
    now_ns: u64,
}

impl Life {
    fn begin(shape: &Shape) -> Self {
        let shared: Vec<Shared> = [shape.fast_bytes, shape.capacity_bytes]
            .iter()
            .enumerate()
            .map(|(i, &bytes)| Shared::new(&format!("d{i}"), forebay_device::Image::zeroed(bytes), 1))
            .collect();
        let mut devices = boxed(&shared);
        let options =
            PoolOptions { name: "test".into(), band_bytes: Some(shape.band_bytes), journal_bytes: Some(128 << 10) };
        let superblock =
            plan(&options, shared[0].geometry(), &[shared[1].geometry().clone()], [7; 16], &[[1; 16], [2; 16]])
                .unwrap();
        let table = ClassTable::from_configured(&classes()).unwrap();
        let disks = [NewDisk { name: "disk".into(), size_bytes: shape.disk_bytes }];
        format(&mut devices, &superblock, table, &disks, true, shape.options()).unwrap();
        Self::open(shape, shared)
    }

    fn open(shape: &Shape, shared: Vec<Shared>) -> Self {
        Self::open_as(shape, shared, &classes())
    }

    fn open_as(shape: &Shape, shared: Vec<Shared>, classes: &[ClassSpec]) -> Self {
        let mut devices = boxed(&shared);
        let (engine, _) = open(&mut devices, 1, classes, shape.options()).unwrap();
        Self { pool: Pool::new(engine, devices), shared, shape: shape.clone(), now_ns: 0 }
    }

    fn cut(self, random: &mut Random, seed: u64) -> Self {
        let images: Vec<_> = self.shared.iter().map(|shared| shared.cut(random)).collect();
        let shared =
            images.into_iter().enumerate().map(|(i, image)| Shared::new(&format!("d{i}"), image, seed ^ i as u64));
        Self::open(&self.shape, shared.collect())
    }

    fn run(&mut self, block: u64, blocks: u64, op: Op, hints: Option<HintParts>) -> Result<Outcome, RequestError> {
        let disk = self.pool.engine.disk_named("disk").unwrap().id;
        self.pool.submit(Request {
            token: 1,
            disk,
            offset_bytes: block * 4096,
            len_bytes: blocks * 4096,
            op,
            fua: false,
            export: 0,
            tag: None,
            hints: hints.map(Box::new),
        });
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

    fn write(&mut self, block: u64, blocks: u64, parts: Option<HintParts>) {
        let mut buf = Buf::new(blocks as usize * 4096);
        buf.fill(0xa5);
        self.run(block, blocks, Op::Write(buf), parts).unwrap();
    }

    /// Class of each block that holds data; and the statistics must say the same.
    fn seen(&mut self) -> BTreeMap<u64, ClassId> {
        for _ in 0..100 {
            let before = self.pool.engine.status().classes;
            if let Some(found) = self.scan(&before) {
                return found;
            }
        }
        panic!("migration never rests");
    }

    /// `None` where something was moved meanwhile.
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

    fn check(&mut self, model: &Model) {
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

fn claimed(path: &str) -> Option<ClassId> {
    if path.starts_with("/kept/") {
        Some(KEPT)
    } else if path.starts_with("/passing/") {
        Some(PASSING)
    } else {
        None
    }
}

const PATHS: [&str; 3] = ["/kept/a", "/passing/b", "/other/c"];

fn live(seed: u64) {
    let mut random = Random::new(seed);
    let shape =
        Shape { frames: 5 + random.index(12), fast_bytes: 4 << 20, capacity_bytes: 8 << 20, ..Shape::default() };
    let mut life = Life::begin(&shape);
    let mut model = Model::new();
    for step in 0..120 {
        let block = random.below(BLOCKS - 1);
        let most = [3, 40, 300][random.index(3)];
        let blocks = 1 + random.below(most.min(BLOCKS - block));
        match random.below(12) {
            0..=3 => {
                let mut parts = HintParts::new();
                let mut at = block;
                while at < block + blocks && random.chance(3, 4) {
                    let len = (1 + random.below(20)).min(block + blocks - at);
                    let path = PATHS[random.index(3)];
                    parts.push(HintPart { blocks: len, hints: hints(path) });
                    model.extend((at..at + len).map(|block| (block, claimed(path))));
                    at += len;
                }
                model.extend((at..block + blocks).map(|block| (block, None)));
                life.write(block, blocks, Some(parts));
            }
            4 => {
                life.write(block, blocks, None);
                model.extend((block..block + blocks).map(|block| (block, None)));
            }
            5 => {
                life.run(block, blocks, Op::Discard, None).unwrap();
                model.retain(|at, _| !(block..block + blocks).contains(at));
            }
            6..=8 => {
                let path = PATHS[random.index(3)];
                let parts = HintParts::from_iter([HintPart { blocks, hints: hints(path) }]);
                life.run(block, blocks, Op::Reclass, Some(parts)).unwrap();
                model.range_mut(block..block + blocks).for_each(|(_, class)| *class = claimed(path));
            }
            9 => life.pool.engine.request_checkpoint(false),
            10 => life.check(&model),
            _ => {
                // What was flushed is there after the cut, classes too.
                life.run(0, 0, Op::Flush, None).unwrap();
                life = life.cut(&mut random, seed ^ step);
                life.check(&model);
            }
        }
    }
    life.check(&model);
    assert!(life.pool.close(), "a clean stop");
    let shared = life.shared.clone();
    drop(life);
    Life::open(&shape, shared).check(&model);
}

#[test]
fn classes_follow_hints_through_power_cuts() {
    for seed in 0..60 {
        live(seed);
    }
}

#[test]
fn statistics_say_what_came_to_a_class_and_what_left_it() {
    let mut life = Life::begin(&Shape::default());
    life.write(0, 10, None);
    let parts = |path| Some(HintParts::from_iter([HintPart { blocks: 8, hints: hints(path) }]));
    life.run(0, 8, Op::Reclass, parts("/kept/a")).unwrap();
    life.run(0, 8, Op::Reclass, parts("/kept/a")).unwrap();
    life.run(4, 8, Op::Reclass, parts("/passing/a")).unwrap();
    let statistics = life.pool.engine.status().classes;
    let of = |class: ClassId| {
        let statistics = statistics[usize::from(class.0)];
        (
            statistics.host_written_bytes / 4096,
            statistics.reclassed_in_bytes / 4096,
            statistics.reclassed_out_bytes / 4096,
        )
    };
    assert_eq!(of(KEPT), (0, 8, 4));
    assert_eq!(of(PASSING), (0, 6, 0), "four that were kept, and two that were nobody's");
    let before: Vec<_> =
        statistics.iter().map(|statistics| (statistics.reclassed_in_bytes, statistics.reclassed_out_bytes)).collect();
    let cold: u64 = statistics.iter().map(|statistics| statistics.written_bytes() / 4096).sum();
    assert_eq!(cold, 10, "nothing was written twice");
    assert!(life.pool.close());
    let (shape, shared) = (life.shape.clone(), life.shared.clone());
    drop(life);
    let after = Life::open(&shape, shared).pool.engine.status().classes;
    let after: Vec<_> =
        after.iter().map(|statistics| (statistics.reclassed_in_bytes, statistics.reclassed_out_bytes)).collect();
    assert_eq!(after, before, "a restart forgets nothing");
}

#[test]
fn a_class_takes_no_more_than_its_share_of_the_fast_tier() {
    let mut life = Life::begin(&Shape::default());
    let change = forebay_prism::ClassChange { share: Some(0.01), ..forebay_prism::ClassChange::default() };
    life.pool.engine.prism_mut().table_mut().set("kept", change).unwrap();
    life.pool.engine.classes_changed();
    life.write(0, 200, None);
    let parts = Some(HintParts::from_iter([HintPart { blocks: 200, hints: hints("/kept/a") }]));
    life.run(0, 200, Op::Reclass, parts).unwrap();
    let status = life.pool.engine.status();
    let (held, slots) = (status.classes[usize::from(KEPT.0)].fast_blocks, status.fast.total_bytes / 4096);
    assert!(held > 0 && held <= slots / 100, "{held} of {slots}");
    assert_eq!(status.counters.reclass_refused_blocks, 200 - held);
}

/// Blocks of a class on each tier, after more was written beside them than the fast tier has room for.
fn pressed(mut life: Life, class: ClassId) -> (u64, u64) {
    for round in 0..40 {
        life.write(400 + round % 8 * 100, 100, None);
    }
    assert!(!life.pool.engine.activity().sweep, "a sweep ends");
    let statistics = life.pool.engine.status().classes[usize::from(class.0)];
    (statistics.fast_blocks, statistics.capacity_blocks)
}

fn kept(blocks: u64) -> Life {
    let shape = Shape { fast_bytes: 4 << 20, capacity_bytes: 8 << 20, ..Shape::default() };
    let mut life = Life::begin(&shape);
    let parts = HintParts::from_iter([HintPart { blocks, hints: hints("/kept/a") }]);
    life.write(0, blocks, Some(parts));
    life
}

#[test]
fn what_is_not_kept_any_longer_leaves_the_fast_tier() {
    let held = pressed(kept(400), KEPT);
    assert_eq!(held, (400, 0), "its place is the fast tier");
    let mut life = kept(400);
    let parts = HintParts::from_iter([HintPart { blocks: 400, hints: hints("/passing/a") }]);
    life.run(0, 400, Op::Reclass, Some(parts)).unwrap();
    let (_, moved) = pressed(life, PASSING);
    assert!(moved > 0, "all that lies in its leaf stays on the fast tier");
}

#[test]
fn regression_a_place_changed_in_the_config_holds_for_what_is_there() {
    let (_, moved) = pressed(opened_staged(kept(400)), KEPT);
    assert!(moved > 0, "all that lies in its leaf stays on the fast tier");
}

fn staged() -> Vec<ClassSpec> {
    classes().into_iter().map(|class| ClassSpec { place: Place::Stage, ..class }).collect()
}

/// Closes and opens again, with all classes staged.
fn opened_staged(mut life: Life) -> Life {
    assert!(life.pool.close());
    let (shape, shared) = (life.shape.clone(), life.shared.clone());
    drop(life);
    Life::open_as(&shape, shared, &staged())
}

#[test]
fn few_blocks_leave_the_fast_tier_as_well() {
    let (_, moved) = pressed(opened_staged(kept(50)), KEPT);
    assert!(moved > 0, "all that lies in its leaf stays on the fast tier");
}

#[test]
fn regression_a_place_changed_before_the_last_start_holds_for_what_is_there() {
    // Nothing is to be destaged in between, so nothing is swept.
    let (_, moved) = pressed(opened_staged(opened_staged(kept(50))), KEPT);
    assert!(moved > 0, "all that lies in its leaf stays on the fast tier");
}

#[test]
fn regression_a_place_changed_at_run_time_holds_after_a_restart() {
    let mut life = kept(50);
    life.pool.engine.prism_mut().table_mut().merge(&staged()).unwrap();
    life.pool.engine.classes_changed();
    let (_, moved) = pressed(opened_staged(life), KEPT);
    assert!(moved > 0, "all that lies in its leaf stays on the fast tier");
}

#[test]
fn half_a_block_has_no_class() {
    let mut life = Life::begin(&Shape::default());
    let disk = life.pool.engine.disk_named("disk").unwrap().id;
    let request = |offset_bytes, len_bytes| Request {
        token: 1,
        disk,
        offset_bytes,
        len_bytes,
        op: Op::Reclass,
        fua: false,
        export: 0,
        tag: None,
        hints: None,
    };
    for (offset_bytes, len_bytes) in [(512, 4096), (0, 512), (0, 1 << 60)] {
        life.pool.submit(request(offset_bytes, len_bytes));
        let mut done = Vec::new();
        life.pool.poll_once(&mut done);
        assert!(matches!(done[0].result, Err(RequestError::OutOfRange)), "{offset_bytes} {len_bytes}");
    }
}

#[test]
fn each_class_has_a_share_of_its_own() {
    let mut life = Life::begin(&Shape::default());
    for class in ["kept", "passing"] {
        let change = forebay_prism::ClassChange { share: Some(0.1), ..forebay_prism::ClassChange::default() };
        life.pool.engine.prism_mut().table_mut().set(class, change).unwrap();
    }
    life.pool.engine.classes_changed();
    life.write(0, 60, None);
    let slots = life.pool.engine.status().fast.total_bytes / 4096;
    // In turns, so that what one is granted is not what the other is.
    let part = |at: u64| HintPart { blocks: 1, hints: hints(PATHS[(at % 2) as usize]) };
    let parts = HintParts::from_iter((0..60).map(part));
    life.run(0, 60, Op::Reclass, Some(parts)).unwrap();
    let status = life.pool.engine.status();
    let held = |class: ClassId| status.classes[usize::from(class.0)].fast_blocks;
    let share = 30.min(slots / 10);
    assert_eq!((held(KEPT), held(PASSING)), (share, share), "{slots} slots");
}

#[test]
fn places_in_the_file_go_on_from_piece_to_piece() {
    let mut life = Life::begin(&Shape::default());
    let rules = Some(vec!["path:/kept/* & file_offset:4MiB..5MiB".to_owned()]);
    let change = forebay_prism::ClassChange { rules, ..forebay_prism::ClassChange::default() };
    life.pool.engine.prism_mut().table_mut().set("kept", change).unwrap();
    life.pool.engine.classes_changed();
    life.write(390, 100, None);
    let hints = HostHints { file_offset_bytes: Some((4 << 20) - 50 * 4096), ..hints("/kept/a") };
    let parts = HintParts::from_iter([HintPart { blocks: 100, hints }]);
    life.run(390, 100, Op::Reclass, Some(parts)).unwrap();
    let kept: Vec<u64> = life.seen().into_iter().filter(|(_, class)| *class == KEPT).map(|(block, _)| block).collect();
    assert_eq!(kept, (440..490).collect::<Vec<_>>());
}

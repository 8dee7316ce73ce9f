//! Classes that change after the data was written, checked against a model: the class that the rules give for the last known facts, over
//! moves, checkpoints, clean stops and power cuts.

mod life;

use crate::world::Shape;
use forebay_block::{ClassId, Random};
use forebay_prism::{ClassSpec, HostHints, Place};
use forebay_volume::{HintPart, HintParts, Op, Request, RequestError};
use life::{BLOCKS, KEPT, Life, Model, PASSING, classes, hints};

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
                // Flushed data and its classes survive the cut.
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

/// Closes and reopens the pool with all classes staged.
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
    let request = |offset_bytes, len_bytes| Request::new(1, disk, offset_bytes, len_bytes, Op::Reclass);
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

//! The capacity tier without the fast one. At a checkpoint of an idle pool, blocks on the capacity tier read right, blocks on the fast tier
//! fail, and discarded blocks read as zeros. After a power cut at any later point, each readable block has the version of the checkpoint or
//! a later one, never one of another block, and never an older one.

use crate::world::anatomy::{Anatomy, bytes};
use crate::world::history::{FULL, Mix, VOLATILE, checkpoint, run};
use crate::world::{DISK, Oracle, Shape, Shared, World, block_request, boxed, classes, content_of};
use forebay_block::{DiskId, Random};
use forebay_device::Image;
use forebay_device::faulty::{Fault, Target};
use forebay_prism::Compress;
use forebay_volume::layout::superblock::Superblock;
use forebay_volume::recovery::{AloneError, AloneReport, MemberError, open_alone};
use forebay_volume::{Op, Outcome, Pool, RequestError};
use std::collections::BTreeMap;

/// The disk's id in the pool.
const DISK_ID: u16 = 1;

/// A capacity tier opened alone.
struct Alone {
    pool: Pool,
    report: AloneReport,
    shared: Shared,
    before: Image,
}

impl Alone {
    fn open(shape: &Shape, image: &Image) -> Result<Self, AloneError> {
        let shared = Shared::new("c", image.clone(), 1);
        let mut devices = boxed(std::slice::from_ref(&shared));
        let (engine, report) = open_alone(&mut devices, &classes(), shape.options(), &mut |_, _| {})?;
        Ok(Self { pool: Pool::new(engine, devices), report, shared, before: image.clone() })
    }

    fn ask(&mut self, block: u64, op: Op) -> Result<Outcome, RequestError> {
        self.pool.submit(block_request(1, DiskId(DISK_ID), block, op));
        let mut done = Vec::new();
        self.pool.run_until(&mut done, |_, done| !done.is_empty());
        done.pop().expect("a request without end").result
    }

    /// Contents of a block; `None` where it cannot be read.
    fn read(&mut self, block: u64) -> Option<forebay_block::Buf> {
        match self.ask(block, Op::Read) {
            Ok(Outcome::Data(data)) => Some(data),
            Ok(other) => panic!("block {block}: {other:?}"),
            Err(RequestError::Damaged { .. }) => None,
            Err(error) => panic!("block {block}: {error}"),
        }
    }

    /// Closes it as a server would, and checks that nothing was written.
    fn end(mut self) {
        let write = self.ask(0, Op::Write(forebay_block::Buf::zeroed(4096)));
        assert!(matches!(write, Err(RequestError::ReadOnly(_))), "{write:?}");
        self.pool.tick(5_000_000_000);
        self.pool.poll(&mut Vec::new());
        assert!(self.pool.close());
        assert!(self.shared.durable().to_bytes() == self.before.to_bytes(), "something was written");
        assert_eq!(self.shared.steps(), 0);
    }
}

/// Activity of the pool after the checkpoint.
#[derive(Clone, Copy)]
struct After {
    mix: Mix,
    requests: u32,
    depth: usize,
}

/// State at the checkpoint.
struct Known {
    number: u64,
    /// Oldest version of each block that may be read from then on.
    since: BTreeMap<u64, usize>,
    /// Device of each block.
    mapped: BTreeMap<(u16, u64), usize>,
}

fn look_at_rest(shape: &Shape, world: &World) -> Result<Known, String> {
    let images: Vec<Image> = world.shared.iter().map(Shared::durable).collect();
    let anatomy = Anatomy::of(&images);
    let since: BTreeMap<u64, usize> = world
        .oracle
        .places()
        .into_iter()
        .map(|(disk, block)| (block, world.oracle.read_begins((disk, block))))
        .collect();
    let mut alone = Alone::open(shape, &images[1]).map_err(|error| error.to_string())?;
    if alone.report.checkpoint != anatomy.header.checkpoint {
        return Err(format!("checkpoint {} is {}", anatomy.header.checkpoint, alone.report.checkpoint));
    }
    let disk = alone.report.disks[0].clone();
    if disk.maybe_older.blocks > 0 || alone.report.pages_damaged > 0 {
        return Err(format!("nothing is damaged: {:?}", alone.report));
    }
    let on_fast = anatomy.mapped.values().filter(|&&device| device == 0).count() as u64;
    // Blocks destaged since are readable.
    if disk.gone.blocks + disk.later_blocks != on_fast {
        return Err(format!("{on_fast} blocks were on the fast tier: {disk:?}"));
    }
    for (&block, &since) in &since {
        match (alone.read(block), anatomy.mapped.get(&(DISK_ID, block))) {
            (Some(data), _) => {
                world.oracle.saw_block((DISK, block), content_of(&data), since)?;
            }
            (None, Some(&0)) => {}
            (None, device) => return Err(format!("block {block}, on {device:?}, is gone")),
        }
    }
    alone.end();
    Ok(Known { number: anatomy.header.checkpoint, since, mapped: anatomy.mapped })
}

/// Checks the readable blocks after a power cut; returns how many are later than the checkpoint.
fn look_after_cut(shape: &Shape, image: &Image, oracle: &Oracle, known: &Known) -> Result<u64, String> {
    let mut alone = Alone::open(shape, image).map_err(|error| error.to_string())?;
    let disk = alone.report.disks[0].clone();
    if alone.report.checkpoint < known.number || disk.maybe_older.blocks > 0 {
        return Err(format!("checkpoint {}: {:?}", known.number, alone.report));
    }
    for (_, block) in oracle.places() {
        match alone.read(block) {
            Some(data) => {
                let since = known.since.get(&block).copied().unwrap_or(0);
                oracle.saw_block((DISK, block), content_of(&data), since)?;
            }
            None if alone.report.checkpoint > known.number => {}
            None if known.mapped.get(&(DISK_ID, block)) != Some(&1) => {}
            None => return Err(format!("block {block} was on the capacity tier and is gone")),
        }
    }
    alone.end();
    Ok(disk.later_blocks)
}

fn life(seed: u64, shape: &Shape, after: After) -> Result<u64, String> {
    let mut random = Random::new(seed);
    let mut images = shape.format();
    let mut oracle = Oracle::default();
    let mut later = 0;
    for round in 0..3 {
        let context = |error: String| format!("seed {seed} round {round}: {error}");
        let mut world = World::open(shape, images, random.next_u64(), oracle).map_err(|e| context(e.to_string()))?;
        world.check_survivors().map_err(context)?;
        run(&mut world, &mut random, FULL, 60, 8).map_err(context)?;
        checkpoint(&mut world).map_err(context)?;
        let known = look_at_rest(shape, &world).map_err(context)?;
        let requests = random.below(u64::from(after.requests) + 1) as u32;
        run(&mut world, &mut random, after.mix, requests, after.depth).map_err(context)?;
        for _ in 0..random.below(100) {
            world.poll().map_err(context)?;
        }
        (images, oracle) = world.cut(&mut random);
        later += look_after_cut(shape, &images[1], &oracle, &known).map_err(context)?;
    }
    Ok(later)
}

fn lives(name: &str, seeds: u64, shape: &Shape, after: After) {
    let seeds = std::env::var("FOREBAY_ALONE_LIVES").ok().and_then(|n| n.parse().ok()).unwrap_or(seeds);
    let later: u64 = (0..seeds).map(|seed| life(seed, shape, after).unwrap_or_else(|e| panic!("{name}: {e}"))).sum();
    assert!(later > 0, "{name}: nothing came after the checkpoint");
}

#[test]
fn lives_with_few_requests_after_the_checkpoint() {
    lives("few", 150, &Shape::default(), After { mix: FULL, requests: 12, depth: 8 });
}

#[test]
fn lives_with_many_requests_after_the_checkpoint() {
    let shape = Shape { fast_bytes: 1696 << 10, ..Shape::default() };
    lives("many", 100, &shape, After { mix: FULL, requests: 120, depth: 12 });
}

#[test]
fn lives_in_which_nothing_is_flushed() {
    lives("volatile", 100, &Shape::default(), After { mix: VOLATILE, requests: 60, depth: 16 });
}

/// Bands are collected all the time; bands that the checkpoint names must not be overwritten.
#[test]
fn lives_of_constant_collection() {
    let shape = Shape {
        fast_bytes: 1696 << 10,
        capacity_bytes: 900 << 10,
        band_bytes: 32 << 10,
        leaves: 2,
        ..Shape::default()
    };
    lives("collection", 100, &shape, After { mix: FULL, requests: 100, depth: 8 });
}

#[test]
fn lives_of_compressed_blocks() {
    let full = Shape { fast_bytes: 1696 << 10, compress: Compress::Lz4, ..Shape::default() };
    lives("compressed", 60, &full, After { mix: FULL, requests: 150, depth: 8 });
    let groups = Shape { band_bytes: 150 * 4096, capacity_bytes: (256 << 10) + 8 * 150 * 4096, leaves: 6, ..full };
    lives("compressed groups", 40, &groups, After { mix: FULL, requests: 300, depth: 8 });
}

/// Bands of several groups; the last group has no data.
#[test]
fn lives_with_bands_of_several_groups() {
    for band_blocks in [150, 65] {
        let band_bytes = band_blocks * 4096;
        let shape = Shape {
            fast_bytes: 1696 << 10,
            capacity_bytes: (256 << 10) + 7 * band_bytes,
            band_bytes,
            leaves: 6,
            ..Shape::default()
        };
        lives("groups", 50, &shape, After { mix: FULL, requests: 100, depth: 8 });
    }
}

/// Writes to the capacity-side area fail after the checkpoint while the pool continues. Checks how bands that the checkpoint names are
/// reused, as far as that is reported.
fn life_without_the_area(seed: u64, shape: &Shape) -> Result<bool, String> {
    let mut random = Random::new(seed);
    let images = shape.format();
    let area = Superblock::decode(&bytes(&images[1], &(0..4096))).map_err(|error| error.to_string())?.capacity_area;
    let mut world = World::open(shape, images, seed, Oracle::default()).map_err(|error| error.to_string())?;
    run(&mut world, &mut random, FULL, 60, 8)?;
    checkpoint(&mut world)?;
    let known = look_at_rest(shape, &world)?;
    // The whole area, or the header only; a write reported as failed may have been carried out.
    let range = match random.below(2) {
        0 => area.offset_bytes..area.offset_bytes + area.len_bytes(),
        _ => {
            let header = area.header_offset_bytes(known.number + 1);
            header..header + 4096
        }
    };
    world.shared[1].plan(Fault { carried_out: random.below(2) == 0, ..Fault::range(Target::Writes, range) });
    for _ in 0..8 {
        world.pool.engine.request_checkpoint(false);
        run(&mut world, &mut random, FULL, 30, 8)?;
        for _ in 0..random.below(60) {
            world.poll()?;
        }
    }
    let reached = world.pool.engine.checkpoint_number();
    if reached < known.number + 2 {
        return Err(format!("checkpoint {reached} after {}: {}", known.number, world.hang()));
    }
    let (images, oracle) = world.cut(&mut random);
    let mut alone = Alone::open(shape, &images[1]).map_err(|error| error.to_string())?;
    // A header reported as failed may exist, from an early or a much later attempt.
    if !alone.report.checkpoint.checked_sub(known.number).is_some_and(|later| later == 0 || later % 16 == 1) {
        return Err(format!("checkpoint {} is shown, not {}", alone.report.checkpoint, known.number));
    }
    let older = alone.report.disks[0].maybe_older.clone();
    let is_older = |block: u64| {
        let is_listed = older.listed.iter().any(|&(first, blocks)| (first..first + blocks).contains(&block));
        is_listed || older.ranges > older.listed.len() as u64 && older.listed.iter().all(|&(first, _)| first < block)
    };
    for (_, block) in oracle.places() {
        if let Some(data) = alone.read(block)
            && !is_older(block)
        {
            let since = known.since.get(&block).copied().unwrap_or(0);
            oracle.saw_block((DISK, block), content_of(&data), since)?;
        }
    }
    let is_reported = alone.report.warnings.iter().any(|warning| warning.contains("used again"));
    alone.end();
    // With the fast tier all data is there, and the capacity side is repaired.
    let mut world = World::open(shape, images, seed, oracle).map_err(|error| error.to_string())?;
    world.check_survivors()?;
    run(&mut world, &mut random, FULL, 10, 8)?;
    checkpoint(&mut world)?;
    look_at_rest(shape, &world)?;
    Ok(is_reported)
}

#[test]
fn lives_in_which_the_area_takes_no_more_writes() {
    let small = Shape {
        fast_bytes: 1696 << 10,
        capacity_bytes: 900 << 10,
        band_bytes: 32 << 10,
        leaves: 2,
        ..Shape::default()
    };
    let seeds = std::env::var("FOREBAY_ALONE_LIVES").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    let reported =
        (0..seeds).filter(|&seed| life_without_the_area(seed, &small).unwrap_or_else(|e| panic!("seed {seed}: {e}")));
    assert!(reported.count() as u64 > seeds / 4);
}

#[test]
fn what_is_no_capacity_tier_is_refused() {
    let shape = Shape::default();
    let images = shape.format();
    let open = |image: &Image| Alone::open(&shape, image).map(|_| ()).unwrap_err();
    let swapped = open(&images[0]);
    assert!(matches!(swapped, AloneError::Member(MemberError::Swapped { .. })), "{swapped}");
    let absent = open(&Image::zeroed(1 << 20));
    assert!(matches!(absent, AloneError::Member(MemberError::Superblock { .. })), "{absent}");
}

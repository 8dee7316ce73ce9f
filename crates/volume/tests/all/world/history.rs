//! Random histories, and pools with a history.

use super::{BULK, Oracle, Shape, World};
use forebay_block::ClassId;
use forebay_block::Random;
use forebay_device::Image;

/// Which random operations occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Requests that start or end inside a block.
    pub partial: bool,
    /// Flushes and FUA.
    pub durable: bool,
}

/// Everything.
pub const FULL: Mix = Mix { partial: true, durable: true };
/// Whole blocks only: the remains of a failed one do not mix with later ones within a block.
pub const WHOLE: Mix = Mix { partial: false, durable: true };
/// No durability operation.
pub const VOLATILE: Mix = Mix { partial: true, durable: false };

/// Submits one random request (or asks for a checkpoint).
pub fn step(world: &mut World, random: &mut Random, mix: Mix) {
    let shape = world.shape.clone();
    let leaves = shape.disk_bytes / (400 * 4096);
    let block = random.below(leaves.min(shape.leaves)) * 400 + random.below(24);
    let aligned = !mix.partial || random.chance(3, 4);
    let sector = block * 8 + if aligned { 0 } else { random.below(8) };
    let blocks = if random.chance(1, 8) { 1 + random.below(40) } else { 1 + random.below(4) };
    let sectors = if aligned { 8 * blocks } else { 1 + random.below(20) };
    let sectors = sectors.min(shape.disk_bytes / 512 - sector);
    let fua = mix.durable && random.chance(1, 10);
    let tag = match random.below(5) {
        0 => Some(ClassId(1)),
        1 => Some(ClassId(2)),
        2 => Some(BULK),
        _ => None,
    };
    match random.below(20) {
        0..=11 => world.write(sector, sectors, fua, tag),
        12 => world.clear(sector, sectors, fua, true),
        13 => world.clear(sector, sectors, fua, false),
        14 | 15 if mix.durable => world.flush(),
        14..=18 => world.read(sector, sectors),
        _ => {
            world.pool.engine.request_checkpoint(false);
            0
        }
    };
}

/// Random requests, at most `depth` at once.
///
/// # Errors
/// An answer that the oracle refuses, or a request that never ends.
pub fn run(world: &mut World, random: &mut Random, mix: Mix, requests: u32, depth: usize) -> Result<(), String> {
    for _ in 0..requests {
        step(world, random, mix);
        world.settle(depth)?;
        if random.chance(1, 3) {
            world.poll()?;
        }
    }
    Ok(())
}

/// Polls until the devices are idle.
///
/// # Errors
/// As for [`World::poll`]; also devices that never become idle.
pub fn quiet(world: &mut World) -> Result<(), String> {
    for _ in 0..20_000 {
        world.poll()?;
        if !world.pool.in_flight() && world.in_flight() == 0 {
            return Ok(());
        }
    }
    Err(format!("never idle: {}", world.hang()))
}

/// Writes a checkpoint, after which no further one is pending.
///
/// # Errors
/// As for [`World::poll`]; also a pool that writes none.
pub fn checkpoint(world: &mut World) -> Result<(), String> {
    world.settle(0)?;
    let before = world.pool.engine.checkpoint_number();
    world.pool.engine.request_checkpoint(false);
    for _ in 0..20_000 {
        if world.pool.engine.checkpoint_number() > before && !world.pool.engine.checkpoint_pending() {
            return Ok(());
        }
        world.poll()?;
    }
    Err(format!("no checkpoint: {}", world.hang()))
}

/// Makes everything acknowledged durable together with the evidence: closes the documented window between a flush and the next watermark.
///
/// # Errors
/// As for [`World::poll`].
pub fn close_window(world: &mut World) -> Result<(), String> {
    world.settle(0)?;
    world.flush();
    world.settle(0)?;
    for _ in 0..2 {
        // Anything that becomes durable later, such as the end of a destage job, gets its watermark too.
        world.now_ns += 2_000_000_000;
        quiet(world)?;
    }
    world.shared.iter().for_each(super::Shared::write_back);
    Ok(())
}

/// A clean stop with a time limit.
///
/// # Errors
/// The stop is not clean, or never ends.
pub fn stop(world: &mut World) -> Result<(), String> {
    let before = world.pool.engine.checkpoint_number();
    world.pool.engine.request_checkpoint(true);
    for _ in 0..20_000 {
        world.pool.poll_once(&mut Vec::new());
        let engine = &world.pool.engine;
        if engine.checkpoint_failed() {
            return Err(format!("no clean stop: {:?}", engine.status().counters.last_checkpoint_error));
        }
        if !engine.checkpoint_pending() && !engine.is_busy() && engine.checkpoint_number() > before {
            return Ok(());
        }
    }
    Err(format!("the stop hangs: {}", world.hang()))
}

/// A pool with a history.
pub struct Aged {
    pub shape: Shape,
    /// What is on the devices.
    pub images: Vec<Image>,
    /// Allowed contents.
    pub oracle: Oracle,
    /// Images at the end of each earlier epoch, oldest first.
    pub older: Vec<Vec<Image>>,
    /// Images in the middle of the last epoch.
    pub middle: Vec<Image>,
}

/// A few epochs of random requests; the last ends with a clean stop or with a power cut among unflushed requests.
///
/// # Errors
/// As for [`World::poll`].
pub fn age(seed: u64, shape: &Shape, clean: bool) -> Result<Aged, String> {
    let mut random = Random::new(seed);
    let mut images = shape.format();
    let mut oracle = Oracle::default();
    let mut older = Vec::new();
    for _ in 0..2 {
        let mut world = open(shape, images, &mut random, oracle)?;
        run(&mut world, &mut random, FULL, 60, 8)?;
        world.settle(0)?;
        if random.chance(1, 2) {
            stop(&mut world)?;
        }
        (images, oracle) = world.cut(&mut random);
        older.push(images.clone());
    }
    let mut world = open(shape, images, &mut random, oracle)?;
    run(&mut world, &mut random, FULL, 40, 8)?;
    let middle = world.shared.iter().map(super::Shared::durable).collect();
    run(&mut world, &mut random, FULL, 60, 8)?;
    close_window(&mut world)?;
    if clean {
        stop(&mut world)?;
        quiet(&mut world)?;
        world.shared.iter().for_each(super::Shared::write_back);
    } else {
        let requests = random.below(24) as u32;
        run(&mut world, &mut random, VOLATILE, requests, 8)?;
    }
    let (images, oracle) = world.cut(&mut random);
    Ok(Aged { shape: shape.clone(), images, oracle, older, middle })
}

fn open(shape: &Shape, images: Vec<Image>, random: &mut Random, oracle: Oracle) -> Result<World, String> {
    let mut world =
        World::open(shape, images, random.next_u64(), oracle).map_err(|e| format!("cannot be opened: {e}"))?;
    world.check_survivors()?;
    Ok(world)
}

//! Placement by how long data stays on the fast tier: the decisions about writes, and that no data is lost or stuck.

mod pinned;

use crate::world::{BULK, Oracle, Shape, TABLES, World, history};
use forebay_block::ClassId;
use forebay_device::Image;
use forebay_prism::ClassStats;
use forebay_volume::recovery::PolicyState;

/// The default class, whose data is staged.
const COLD: ClassId = ClassId(0);

/// A pool of some 900 slots, and a disk of 4,096 blocks.
fn shape() -> Shape {
    Shape {
        fast_bytes: 17 << 18,
        capacity_bytes: 40 << 20,
        band_bytes: 512 << 10,
        disk_bytes: 16 << 20,
        frames: 64,
        leaves: 11,
        ..Shape::default()
    }
}

fn open(seed: u64) -> World {
    let shape = shape();
    World::open(&shape, shape.format(), seed, Oracle::default()).unwrap()
}

/// Writes blocks of one class, and what is due after that.
fn write(world: &mut World, block: u64, blocks: u64) {
    world.write(block * 8, blocks * 8, false, Some(COLD));
    world.settle(4).unwrap();
}

fn classes(world: &World) -> Vec<ClassStats> {
    world.pool.engine.status().classes
}

/// Share of the writes since `before` that has not reached the capacity tier.
fn alpha_since(world: &World, before: &[ClassStats]) -> f64 {
    let (mut written, mut through) = (0, 0);
    for (now, then) in classes(world).iter().zip(before) {
        let now = now.since(then);
        written += now.host_written_bytes;
        through += now.bypassed_bytes + now.destaged_bytes;
    }
    1.0 - through as f64 / written as f64
}

#[test]
fn of_a_turn_longer_than_the_tier_a_part_is_kept() {
    let mut world = open(1);
    let mut before = Vec::new();
    for round in 0..20 {
        if round == 10 {
            before = classes(&world);
        }
        for block in (0..1600).step_by(16) {
            write(&mut world, block, 16);
        }
    }
    world.settle(0).unwrap();
    history::quiet(&mut world).unwrap();
    let alpha = alpha_since(&world, &before);
    assert!(alpha > 0.1, "an order by age keeps nothing of it: {alpha}");
    assert!(!world.pool.engine.stays().is_empty());
}

#[test]
fn regression_a_log_in_files_used_again_is_no_long_stream() {
    let mut world = open(2);
    let before = classes(&world);
    // Seventy times 1 MiB: beyond 64 MiB it was taken for a stream that goes past the fast tier.
    for _ in 0..70 {
        for block in (0..256).step_by(8) {
            write(&mut world, block, 8);
        }
    }
    world.settle(0).unwrap();
    let bypassed: u64 = classes(&world).iter().zip(&before).map(|(now, then)| now.since(then).bypassed_bytes).sum();
    assert_eq!(bypassed, 0);
}

#[test]
fn what_is_due_later_survives_power_cuts_like_all_else() {
    for seed in 0..12 {
        let mut random = forebay_block::Random::new(seed);
        let mut world = open(seed);
        for round in 0..5u64 {
            for step in 0..120 {
                let block = (step * 37 + round * 11) % 250 * 16;
                write(&mut world, block, 16);
                if step % 40 == 39 {
                    world.flush();
                }
            }
            let (images, oracle) = world.cut(&mut random);
            world = World::open(&shape(), images, seed, oracle).unwrap();
            world.check_survivors().unwrap();
        }
    }
}

/// How a pool is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    None,
    Clean,
    /// The power is cut.
    Crash,
    /// Clean stop, then damage to the learned state.
    Damaged,
}

/// Changes a byte behind each header of the learned policy state; returns how many there are.
fn damage(image: &Image) -> (Image, usize) {
    let mut bytes = image.to_bytes();
    let places: Vec<usize> = (0..bytes.len()).step_by(4096).filter(|&at| bytes[at..].starts_with(b"FBPS")).collect();
    places.iter().for_each(|&at| bytes[at + 100] ^= 1);
    (Image::from_bytes(&bytes), places.len())
}

/// A step of a scan of four tiers, beside a log that comes round with each tier's worth of writes.
fn scan_and_log(world: &mut World, step: u64) {
    write(world, 256 + step * 16 % 3600, 16);
    write(world, step * 4 % 192, 4);
}

/// Alpha of the first tier's worth of writes after twelve and a restart, and of the first four; and what was found of what had been
/// learned.
fn alpha_after(restart: Restart, seed: u64) -> ([f64; 2], PolicyState) {
    let mut world = open(seed);
    let mut random = forebay_block::Random::new(seed);
    (0..540).for_each(|step| scan_and_log(&mut world, step));
    world.settle(0).unwrap();
    history::quiet(&mut world).unwrap();
    if restart != Restart::None {
        if restart != Restart::Crash {
            assert!(world.pool.close());
        }
        let (mut images, oracle) = world.cut(&mut random);
        if restart == Restart::Damaged {
            let (damaged, places) = damage(&images[0]);
            images[0] = damaged;
            assert_eq!(places, 2, "one beside each root");
        }
        world = World::open(&shape(), images, seed, oracle).unwrap();
        world.check_survivors().unwrap();
    }
    let before = classes(&world);
    let alpha = [540..585, 585..720].map(|steps: std::ops::Range<u64>| {
        steps.for_each(|step| scan_and_log(&mut world, step));
        world.settle(0).unwrap();
        history::quiet(&mut world).unwrap();
        alpha_since(&world, &before)
    });
    (alpha, world.report.policy_state)
}

#[test]
fn what_was_learned_of_stays_survives_a_restart() {
    let mut sums = [[0.0; 2]; 4];
    for seed in 0..4 {
        for (restart, sum) in
            [Restart::None, Restart::Clean, Restart::Crash, Restart::Damaged].into_iter().zip(&mut sums)
        {
            let (alpha, found) = alpha_after(restart, seed);
            let expected = match restart {
                Restart::None => PolicyState::Absent,
                Restart::Clean | Restart::Crash => PolicyState::Restored,
                Restart::Damaged => PolicyState::Ignored,
            };
            assert_eq!(found, expected, "{restart:?}");
            sum.iter_mut().zip(alpha).for_each(|(sum, alpha)| *sum += alpha / 4.0);
        }
    }
    println!("alpha of one tier's worth and of four: not restarted, clean, crash, forgotten: {sums:.3?}");
    // Who forgot keeps all that comes at first, whatever it is: in so small a pool its alpha says nothing for two turns.
    let [none, clean, crash, _forgotten] = sums;
    for tiers in 0..2 {
        assert!(clean[tiers] > 0.9 * none[tiers] && crash[tiers] > 0.9 * none[tiers], "{sums:?}");
    }
}

/// Blocks that came to bands and that collection moved, of all groups of a class; 255: of the classes between which behaviour decides.
fn costs(world: &World, class: u8) -> [u64; 2] {
    let groups = world.pool.engine.stays();
    let costs = groups.iter().filter(|group| group.traits.class == class).map(|group| group.costs);
    costs.fold([0; 2], |sum, costs| [sum[0] + costs.came_blocks, sum[1] + costs.collected_blocks])
}

/// Here the sample is of all blocks, so that groups cost what the statistics of their classes say, however long ago they were written.
#[test]
fn what_groups_cost_the_bands_is_what_their_classes_do() {
    let shape = Shape { capacity_bytes: 12 << 20, band_bytes: 128 << 10, ..shape() };
    let mut world = World::open(&shape, shape.format(), 4, Oracle::default()).unwrap();
    let mut random = forebay_block::Random::new(4);
    for step in 0..1500u64 {
        // What lives shortly lies among what is written over at random, some of which goes past the tier at once.
        let (class, block) = match step % 4 {
            0 => (COLD, step * 2 % 256),
            1 => (BULK, 2000 + random.below(400)),
            _ => (TABLES, 256 + random.below(1700)),
        };
        world.write(block * 8, 8 * 8, false, Some(class));
        world.settle(if step % 3 == 0 { 20 } else { 4 }).unwrap();
    }
    world.settle(0).unwrap();
    history::quiet(&mut world).unwrap();
    let classes = classes(&world);
    let of_class = |class: ClassId| {
        let class = &classes[usize::from(class.0)];
        [(class.bypassed_bytes + class.destaged_bytes) / 4096, class.collected_bytes / 4096]
    };
    let others = world.pool.engine.costs_of_others();
    println!("came and collected: {:?} {:?} {:?}", of_class(COLD), of_class(TABLES), of_class(BULK));
    assert_eq!(costs(&world, u8::MAX), of_class(COLD));
    assert_eq!(costs(&world, TABLES.0), of_class(TABLES));
    assert_eq!([others.came_blocks, others.collected_blocks], of_class(BULK), "of no group");
    assert!(of_class(TABLES)[1] > 100 && of_class(COLD)[0] > 100, "{classes:?}");
}

/// The share of random writes all over a disk of four times the tier that goes past it, once that is full, with so many in flight.
fn passed_with(in_flight: usize) -> f64 {
    let mut world = open(5);
    let mut random = forebay_block::Random::new(5);
    let mut before = Vec::new();
    for step in 0..12_000 {
        if step == 6_000 {
            before = classes(&world);
        }
        world.write(random.below(4000) * 8, 8, false, Some(COLD));
        world.settle(in_flight - 1).unwrap();
    }
    let (mut written, mut passed) = (0, 0);
    for (now, then) in classes(&world).iter().zip(&before) {
        let now = now.since(then);
        written += now.host_written_bytes;
        passed += now.bypassed_bytes;
    }
    world.settle(0).unwrap();
    history::quiet(&mut world).unwrap();
    passed as f64 / written as f64
}

#[test]
fn what_the_tier_does_not_keep_goes_past_it_where_many_write_at_once() {
    let [few, many] = [4, 12].map(passed_with);
    println!("passed: {few:.3} with 4 in flight, {many:.3} with 12");
    assert!(few < 0.2 && many > 0.4, "{few} and {many}");
}

//! Flushed data survives a move, whatever happens to its old place.

use crate::world::{Oracle, Shape, World, history};
use forebay_block::ClassId;
use forebay_block::Random;

/// Flushed data, moved, its old slot reused, and no batch after the flush survives.
#[test]
fn moved_data_outlives_the_reuse_of_its_source() {
    let shape = Shape { fast_bytes: 1696 << 10, ..Shape::default() };
    let mut struck = 0;
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut world = World::open(&shape, shape.format(), seed, Oracle::default()).unwrap();
        let slots = world.pool.engine.status().fast.total_bytes / 4096;
        let flushes = world.pool.engine.status().counters.flushes;
        world.write(100 * 8, 40 * 8, false, Some(ClassId(1)));
        world.settle(0).unwrap();
        world.write(0, 44 * 8, false, Some(ClassId(4)));
        world.settle(0).unwrap();
        for _ in 0..300 {
            world.poll().unwrap();
        }
        history::quiet(&mut world).unwrap();
        let status = world.pool.engine.status();
        let destaged: u64 = status.classes.iter().map(|c| c.destaged_bytes).sum();
        if destaged == 0 || status.counters.flushes != flushes {
            eprintln!(
                "seed {seed}: slots {slots} destaged {destaged} flushes {flushes} {} {status:?}",
                status.counters.flushes
            );
            continue;
        }
        struck += 1;
        world.flush();
        world.settle(0).unwrap();
        world.write(400 * 8, 43 * 8, false, Some(ClassId(1)));
        for _ in 0..1 + random.below(6) {
            world.poll().unwrap();
        }
        let (images, oracle) = world.cut(&mut random);
        let mut world = World::open(&shape, images, seed, oracle).unwrap();
        if let Err(e) = world.check_survivors() {
            panic!("seed {seed} ({struck} struck): {e} {:?}", world.report);
        }
    }
    assert!(struck > 10);
}

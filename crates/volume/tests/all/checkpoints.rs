//! Checkpoints that meet a full fast tier or a failing device.

use crate::world::{Oracle, Shape, World, history};
use forebay_block::Random;
use forebay_device::faulty::{Fault, Target};
use forebay_volume::layout::superblock::Superblock;

/// One header copy was written, the write of its twin failed, and the next attempt wrote its blob under that header: after a power cut the
/// pool could not be opened.
#[test]
fn a_failed_root_header_write_does_not_cost_the_pool() {
    let shape = Shape::default();
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut world = World::open(&shape, shape.format(), seed, Oracle::default()).unwrap();
        for leaf in 0..10 {
            world.write(leaf * 3200, 8, false, None);
        }
        world.settle(0).unwrap();
        history::quiet(&mut world).unwrap();
        let bytes = crate::world::anatomy::bytes(&world.shared[0].durable(), &(0..4096));
        let superblock = Superblock::decode(&bytes).unwrap();
        let number = world.pool.engine.checkpoint_number() + 1;
        let second_copy = superblock.root_offsets_bytes[(number % 2) as usize] + superblock.root_len_bytes - 4096;
        world.shared[0].plan(Fault { count: 1, ..Fault::range(Target::Writes, second_copy..second_copy + 4096) });
        world.pool.engine.request_checkpoint(false);
        for _ in 0..60 + random.below(40) {
            world.poll().unwrap();
        }
        world.write(8000, 8, false, None);
        world.flush();
        world.settle(0).unwrap();
        world.now_ns += 2_000_000_000;
        for _ in 0..1 + random.below(12) {
            world.poll().unwrap();
        }
        let (images, oracle) = world.cut(&mut random);
        let mut world = World::open(&shape, images, seed, oracle).unwrap();
        world.check_survivors().unwrap();
    }
}

/// There were more leaves than slots reserved for their pages: writes hung, and after a crash recovery found no slot either.
#[test]
fn many_leaves_on_a_small_fast_tier_can_be_checkpointed() {
    let leaves: u64 = 55;
    let shape = Shape { fast_bytes: 1696 << 10, disk_bytes: leaves * 400 * 4096, frames: 1000, ..Shape::default() };
    let mut world = World::open(&shape, shape.format(), 1, Oracle::default()).unwrap();
    for i in 0..leaves * 20 {
        world.write((i % leaves) * 400 * 8, 8, false, None);
        world.settle(0).unwrap();
    }
    let (images, oracle) = world.cut(&mut Random::new(1));
    let mut world = World::open(&shape, images, 1, oracle).unwrap();
    world.check_survivors().unwrap();
}

//! A damaged pool stays in service: damaged blocks fail until they are overwritten, and the others stay right.

use super::harm::{Harm, harm, pools};
use super::judge::survivors;
use crate::world::anatomy::Part;
use crate::world::history::quiet;
use crate::world::{DISK, World, content_of};
use std::collections::BTreeSet;

/// Random histories continue over damaged data: reads are right or fail, and neither destage nor collection turns damaged blocks into good
/// ones.
#[test]
fn moving_damaged_blocks_does_not_launder_them() {
    let (mut met, mut moved) = (0, 0);
    for (name, aged, anatomy, mut random) in pools(0..12) {
        let mut images = aged.images.clone();
        for part in [Part::Slot, Part::BandData, Part::BandData] {
            let places = anatomy.of_part(part);
            for _ in 0..places.len().min(12) {
                let place = places[random.index(places.len())];
                harm(&aged, &mut images, place.device, &place.bytes, Harm::Flip, &mut random);
            }
        }
        let check = |world: &mut World| survivors(world).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut world = World::open(&aged.shape, images, 1, aged.oracle.clone()).unwrap();
        let first = check(&mut world);
        met += first.len();
        for round in 0..200 {
            // New data outside the damaged blocks, no more than fits; its reads are checked below.
            let block = random.below(8) * 400 + 200 + random.below(12);
            world.write(block * 8, 8, false, [None, Some(crate::world::BULK)][round % 2]);
            world.settle(4).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        world.settle(0).unwrap();
        world.now_ns += 1_000_000_000;
        quiet(&mut world).unwrap();
        moved += world.pool.engine.status().counters.damaged_moves;
        // Good blocks stay good, damaged ones stay damaged.
        for (_, block) in world.oracle.places() {
            match world.try_read_block(block).unwrap() {
                Ok(data) => {
                    assert!(!first.contains(&block), "{name}: block {block} is readable again");
                    let since = world.oracle.read_begins((DISK, block));
                    let seen = world.oracle.saw_block((DISK, block), content_of(&data), since);
                    seen.unwrap_or_else(|objection| panic!("{name}: {objection}"));
                }
                Err(error) => assert!(first.contains(&block), "{name}: block {block}: {error}"),
            }
        }
    }
    assert!(met > 100 && moved > 10, "{met} blocks damaged, {moved} of them moved");
}

/// The same over random histories with a second recovery.
#[test]
fn damage_and_power_cuts_together() {
    for (name, aged, anatomy, mut random) in pools(0..12) {
        let mut images = aged.images.clone();
        for _ in 0..6 {
            let place = &anatomy.places[random.index(anatomy.places.len())];
            if matches!(place.part, Part::Slot | Part::BandData | Part::Leaf | Part::Summary) {
                harm(&aged, &mut images, place.device, &place.bytes, Harm::Flip, &mut random);
            }
        }
        let mut world =
            World::open(&aged.shape, images, 1, aged.oracle.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        survivors(&mut world).unwrap_or_else(|error| panic!("{name}: {error}"));
        // Includes blocks that were never written: a damaged leaf cannot distinguish them.
        let all = (0..8).flat_map(|leaf| (0..64).map(move |i| leaf * 400 + i));
        let damaged: BTreeSet<u64> = all.filter(|&block| world.try_read_block(block).unwrap().is_err()).collect();
        for _ in 0..60 {
            let block = random.below(8) * 400 + random.below(24);
            if random.chance(1, 8) {
                world.flush();
            } else {
                world.write(block * 8, 8, random.chance(1, 8), None);
            }
            world.settle(8).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let (images, oracle) = world.cut(&mut random);
        let mut world = World::open(&aged.shape, images, 1, oracle).unwrap_or_else(|e| panic!("{name}: {e}"));
        let again = survivors(&mut world).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(again.is_subset(&damaged), "{name}: {damaged:?} became {again:?}");
        quiet(&mut world).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Regression: every write to a damaged leaf failed for ever.
#[test]
fn a_damaged_leaf_can_be_overwritten_and_discarded() {
    // The space that the damaged leaf mapped is unknown and thus not freed: the larger shape has enough space.
    for (name, aged, anatomy, mut random) in pools(0..4).filter(|(name, ..)| name.contains("shape 0")) {
        let mut images = aged.images.clone();
        for place in anatomy.of_part(Part::Leaf) {
            harm(&aged, &mut images, 0, &place.bytes, Harm::Flip, &mut random);
        }
        let mut world = World::open(&aged.shape, images, 1, aged.oracle.clone()).unwrap();
        for leaf in 0..8 {
            world.write(leaf * 400 * 8, 64, false, None);
            world.clear((leaf * 400 + 8) * 8, 32 * 8, false, leaf % 2 == 0);
        }
        world.settle(0).unwrap_or_else(|error| panic!("{name}: {error}"));
        for leaf in 0..8 {
            world.read(leaf * 400 * 8, 40 * 8);
        }
        world.settle(0).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

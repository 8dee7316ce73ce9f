//! Data of classes that stay on the fast tier, beside checkpoints that would use more slots for pages.

use crate::holes::rig::{BULK, Rig, Setup};
use forebay_block::{ClassId, Random};
use forebay_prism::ClassStats;
use forebay_volume::EngineOptions;

/// Written with this tag a block goes to the fast tier, and stays there.
const METADATA: Option<ClassId> = Some(ClassId(1));
/// Blocks that a leaf of the map maps, and leaves of the disk.
const LEAF_BLOCKS: u64 = 400;
const LEAVES: u64 = 400;

/// Some 1,700 slots, of which checkpoints that cost the most would like three hundred kept.
fn setup() -> Setup {
    let options = EngineOptions { frames: Some(600), overcommit: true, ..EngineOptions::default() };
    Setup {
        fast_bytes: 8 << 20,
        capacity_bytes: 48 << 20,
        band_bytes: 512 << 10,
        disk_bytes: LEAVES * LEAF_BLOCKS * 4096,
        options,
        ..Setup::default()
    }
}

fn pinned(rig: &Rig) -> ClassStats {
    rig.pool.engine.status().classes[1]
}

/// Expensive checkpoints had slots reserved for larger ones, and permanent data left the tier for these.
#[test]
fn regression_data_that_stays_does_not_leave_for_larger_checkpoints() {
    let mut rig = Rig::new(&setup());
    // All of the map is there: none of it is to grow.
    for leaf in 0..LEAVES {
        rig.put(leaf * LEAF_BLOCKS, 1, BULK);
    }
    rig.checkpoint();
    // Many blocks for each leaf: checkpoints cost little, and slots are better used for data.
    for round in 0..12 {
        let token = rig.write_run((round % 3) * LEAF_BLOCKS, 300, 2, false, BULK);
        rig.wait(token).unwrap();
        rig.checkpoint();
    }
    // All that the tier takes of what stays.
    for first in (0..2400).step_by(20) {
        let token = rig.write_run(10 * LEAF_BLOCKS + first, 20, 3, false, METADATA);
        rig.wait(token).unwrap();
    }
    rig.checkpoint();
    let before = pinned(&rig);
    println!("{} blocks stay", before.fast_blocks);
    assert!(before.fast_blocks > 600 && before.fast_blocks < 2400, "{before:?}");
    // One block for each leaf: now they cost much.
    let mut random = Random::new(1);
    for version in 4..3004 {
        rig.put((20 + random.below(LEAVES - 20)) * LEAF_BLOCKS, version, BULK);
    }
    rig.polls(500);
    let after = pinned(&rig);
    println!("{} checkpoints", rig.pool.engine.checkpoint_number());
    assert_eq!((after.fast_blocks, after.destaged_bytes), (before.fast_blocks, before.destaged_bytes));
}

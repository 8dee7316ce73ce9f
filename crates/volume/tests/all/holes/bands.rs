//! Bands: when they may be given up.

use super::device::{Kind, Region};
use super::rig::{BULK, FAST, Rig, Setup, has_data, held};

/// A band is emptied by two overwrites whose records stand in two batches, and the one whose batch is the *later* is applied
/// first: its data went to the capacity tier, whose volatile cache has it, while the earlier one still waits for a slow
/// write to the fast tier. When that ends, its own batch is durable at once (the fast device has no volatile cache), the
/// band was freed with that batch, and it was trimmed; but the overwrite in the later batch was not durable. After the
/// power cut recovery rightly drops it, and what the block was before is gone with the band.
#[test]
fn hole_02_band_freed_before_every_batch_that_emptied_it_is_durable() {
    let mut rig = Rig::new(&Setup::default());
    // Blocks 0 and 1 lie together in a band that is full, and all else in it is overwritten.
    let first = rig.write_run(0, 48, 1, false, BULK);
    rig.wait(first).unwrap();
    rig.flush();
    let again = rig.write_run(2, 46, 2, false, BULK);
    rig.wait(again).unwrap();
    rig.flush();

    rig.devices[FAST].rule(|seen| held(seen.is(Kind::Write, Region::Slots) && has_data(seen)));
    let earlier = rig.write(1, 3, None);
    rig.polls(5);
    let later = rig.write(0, 3, BULK);
    rig.wait(later).unwrap();
    assert!(rig.answer(earlier).is_none());
    rig.devices[FAST].heal();
    rig.wait(earlier).unwrap();
    rig.polls(50);

    let mut rig = rig.crash();
    assert!(matches!(rig.get(0), Ok(1 | 3)), "{:?}", rig.get(0));
    assert!(matches!(rig.get(1), Ok(1 | 3)), "{:?}", rig.get(1));
    (2..48).for_each(|block| assert_eq!(rig.get(block), Ok(2)));
}

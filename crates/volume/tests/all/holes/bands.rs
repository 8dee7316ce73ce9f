//! When bands may be freed.

use super::device::{Kind, Region};
use super::rig::{BULK, FAST, Rig, Setup, has_data, held};

/// Two overwrites in two batches empty a band, and the overwrite in the *later* batch is applied first: its data is in the volatile cache
/// of the capacity tier, while the earlier one waits for a slow write to the fast tier. When that write ends, its batch is durable at once
/// (the fast device has no volatile cache). The band was freed and trimmed with that batch although the later overwrite was not durable.
/// After a power cut recovery correctly drops the later overwrite, and the block's former data was gone with the band.
#[test]
fn hole_02_band_freed_before_every_batch_that_emptied_it_is_durable() {
    let mut rig = Rig::new(&Setup::default());
    // Blocks 0 and 1 share a full band, whose other blocks are all overwritten.
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

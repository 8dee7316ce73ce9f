//! Flushes that flush nothing, and flushes that fail.

use crate::device::{Fate, Kind};
use crate::rig::{BULK, CAPACITY, Rig, Setup};
use forebay_volume::{Op, RequestError};

/// With 31 capacity devices beside the fast one, the mask of all devices was `(1 << 32) - 1`, which is no mask at all: a
/// panic where arithmetic is checked, and where it is not a checkpoint that flushes no device and says it is durable.
#[test]
fn hole_05_checkpoint_of_thirty_two_devices() {
    let setup = Setup {
        fast_bytes: 8 << 20,
        capacity_bytes: 512 << 10,
        capacity_devices: 31,
        volatile_fast: true,
        ..Setup::default()
    };
    let mut rig = Rig::new(&setup);
    // More than a band for each of the devices, and something on the fast tier.
    let token = rig.write_run(0, 600, 1, false, BULK);
    rig.wait(token).unwrap();
    let token = rig.write_run(800, 16, 1, false, None);
    rig.wait(token).unwrap();
    rig.checkpoint();
    let mut rig = rig.crash();
    let lost: Vec<u64> = (0..600).chain(800..816).filter(|&block| rig.get(block) != Ok(1)).collect();
    assert_eq!(lost, [0; 0], "lost although a checkpoint was durable");
}

/// A flush of the capacity device fails: what was acknowledged before it may be lost, and every flush failed from then on
/// until a restart; but writes were taken as if nothing were wrong, and nothing said so to the operator. Wanted is either a pool
/// that takes no more writes and says why, or one that has written again what may be lost, and can flush.
#[test]
fn hole_12_after_a_failed_flush_the_pool_recovers_or_takes_no_writes() {
    let mut rig = Rig::new(&Setup::default());
    rig.put(0, 1, BULK);
    rig.flush();
    rig.put(0, 2, BULK);
    rig.put(1, 2, BULK);
    let mut is_due = true;
    rig.devices[CAPACITY].rule(move |seen| match seen.kind == Kind::Flush && std::mem::take(&mut is_due) {
        true => Fate::Failed,
        false => Fate::Good,
    });
    let mut flushed = Vec::new();
    for _ in 0..5 {
        let token = rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
        flushed.push(rig.wait(token).is_ok());
        rig.pass_ms(1000);
    }
    let write = rig.write(2, 2, BULK);
    let write = rig.wait(write);
    let status = rig.pool.engine.status();
    let is_recovered = flushed[4];
    if is_recovered {
        assert!(write.is_ok(), "{write:?}");
        rig.flush();
    } else {
        let reason = status.read_only.expect("flushes fail for ever, and writes are taken all the same");
        assert!(reason.contains("flush"), "{reason}");
        assert!(matches!(write, Err(RequestError::ReadOnly(_))), "{write:?}");
    }
    let mut rig = rig.crash();
    let read = [rig.get(0), rig.get(1), rig.get(2)];
    if is_recovered {
        assert_eq!(read, [Ok(2), Ok(2), Ok(2)], "a flush succeeded");
    } else if flushed.contains(&true) {
        assert_eq!(read[..2], [Ok(2), Ok(2)], "a flush succeeded");
    } else {
        assert!(matches!(read[0], Ok(1 | 2)) && matches!(read[1], Ok(0 | 2)), "{read:?}");
    }
}

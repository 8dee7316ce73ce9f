//! A device that is unreachable for a while after a flush failed.

use super::device::{Fate, Kind};
use super::rig::{BULK, CAPACITY, Rig, Setup};
use forebay_volume::Op;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Data that could not be read four times after a failed flush was declared lost, although the next flush found the device back with all
/// data, and the clients' next flushes failed. Only data that is still unreadable after the device returned is lost.
#[test]
fn regression_what_cannot_be_read_while_a_device_is_away_is_read_again_when_it_is_back() {
    for is_there in [true, false] {
        let mut rig = Rig::new(&Setup::default());
        rig.put(0, 1, BULK);
        rig.put(1, 1, BULK);
        let at = rig.find(CAPACITY, 0, 1)[0];
        let (is_away, mut is_first) = (Arc::new(AtomicBool::new(true)), true);
        let of_rule = is_away.clone();
        rig.devices[CAPACITY].rule(move |seen| match seen.kind {
            Kind::Flush if std::mem::take(&mut is_first) => Fate::Failed,
            Kind::Flush => {
                // The first flush after attempts whose reads failed.
                of_rule.store(false, Relaxed);
                Fate::Good
            }
            Kind::Read if of_rule.load(Relaxed) || !is_there && seen.covers(at) => Fate::Failed,
            _ => Fate::Good,
        });
        // A flush that no host requested.
        rig.pool.engine.request_checkpoint(false);
        assert!(rig.until(|rig| rig.pool.engine.has_flush_failed()));
        assert!(rig.until(|rig| !rig.pool.engine.has_flush_failed()));
        assert!(!is_away.load(Relaxed));
        assert_eq!(rig.pool.engine.status().counters.flush_lost_blocks, u64::from(!is_there));
        let token = rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
        assert_eq!(rig.wait(token).is_ok(), is_there);
        rig.flush();
        let mut rig = rig.crash();
        assert_eq!(rig.get(1), Ok(1));
        assert!(!is_there || rig.get(0) == Ok(1), "it was not written again");
    }
}

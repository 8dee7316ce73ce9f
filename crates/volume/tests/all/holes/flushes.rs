//! Flushes without effect, and failed flushes.

use super::device::{Fate, Kind, Region};
use super::rig::{BULK, CAPACITY, FAST, Rig, Setup, content, failed, superblock};
use forebay_volume::{EngineOptions, Op, RequestError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// With 31 capacity devices and the fast one, the mask of all devices overflowed (`(1 << 32) - 1`): a panic with checked arithmetic,
/// otherwise a checkpoint that flushed no device and counted as durable.
#[test]
fn hole_05_checkpoint_of_thirty_two_devices() {
    let setup = Setup {
        fast_bytes: 8 << 20,
        capacity_bytes: 576 << 10,
        capacity_devices: 31,
        volatile_fast: true,
        ..Setup::default()
    };
    let mut rig = Rig::new(&setup);
    // More than a band for each device, and some data on the fast tier.
    let token = rig.write_run(0, 600, 1, false, BULK);
    rig.wait(token).unwrap();
    let token = rig.write_run(800, 16, 1, false, None);
    rig.wait(token).unwrap();
    rig.checkpoint();
    let mut rig = rig.crash();
    let lost: Vec<u64> = (0..600).chain(800..816).filter(|&block| rig.get(block) != Ok(1)).collect();
    assert_eq!(lost, [0; 0], "lost although a checkpoint was durable");
}

/// After a failed flush earlier acknowledged data may be lost, and every flush failed until a restart; but writes were accepted, and
/// nothing was reported to the operator. Then the pool took no more writes until a restart, which trusted what reads still saw of the lost
/// writes. Now all data that the flush covered is rewritten, and a flush of that keeps its promise.
#[test]
fn hole_12_a_failed_flush_is_made_good_without_a_restart() {
    for device in [FAST, CAPACITY] {
        let mut rig = Rig::new(&Setup { volatile_fast: true, ..Setup::default() });
        rig.put(0, 1, BULK);
        rig.flush();
        rig.put(0, 2, BULK);
        rig.put(1, 2, BULK);
        rig.put(3, 2, None);
        let mut is_due = true;
        rig.devices[device].rule(move |seen| failed(seen.kind == Kind::Flush && std::mem::take(&mut is_due)));
        let token = rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
        assert!(matches!(rig.wait(token), Err(RequestError::FlushFailed)));
        let reason =
            rig.pool.engine.status().read_only.expect("writes are taken that would only be refused their flush");
        assert!(reason.contains("a flush failed"), "{reason}");
        // Requests meanwhile wait.
        let later = [rig.write(2, 2, BULK), rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None)];
        rig.polls(50);
        assert_eq!(later.map(|token| rig.answer(token).is_some()), [false; 2]);
        rig.polls(100);
        assert!(later.into_iter().all(|token| rig.wait(token).is_ok()), "device {device}");
        let status = rig.pool.engine.status();
        assert_eq!((status.read_only, status.flush_failed), (None, false), "device {device}");
        assert_eq!((status.counters.flushes_made_good, status.counters.flush_lost_blocks), (1, 0));
        rig.flush();
        let mut rig = rig.crash();
        let read = [rig.get(0), rig.get(1), rig.get(2), rig.get(3)];
        assert_eq!(read, [Ok(2), Ok(2), Ok(2), Ok(2)], "device {device}: a flush succeeded");
    }
}

/// A flush failed, and the server ended before the covered data was rewritten; the power stayed on. Recovery could read the lost writes
/// from the device's cache and took them for written: the next flush succeeded without them.
#[test]
fn hole_12_what_a_failed_flush_covered_is_written_again_after_a_restart() {
    for device in [FAST, CAPACITY] {
        let mut rig = Rig::new(&Setup { volatile_fast: true, ..Setup::default() });
        rig.put(0, 1, BULK);
        rig.put(3, 1, None);
        rig.flush();
        // The end of one record and the beginning of the next are neighbours, one block of the first is older by then.
        let token = rig.write_run(0, 5, 2, false, BULK);
        rig.wait(token).unwrap();
        rig.put(1, 3, BULK);
        let token = rig.write_run(10, 3, 2, false, None);
        rig.wait(token).unwrap();
        rig.devices[device].rule(|seen| failed(seen.kind == Kind::Flush));
        let token = rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
        assert!(matches!(rig.wait(token), Err(RequestError::FlushFailed)));
        let Rig { setup, devices, pool, .. } = rig;
        drop(pool);
        devices[device].heal();
        let mut rig = Rig::open(&setup, devices).unwrap();
        rig.flush();
        let mut rig = rig.crash();
        let read: Vec<_> = [0, 1, 2, 3, 4, 10, 11, 12].map(|block| rig.get(block)).into();
        let kept = [2, 3, 2, 2, 2, 2, 2, 2].map(Ok);
        assert_eq!(read, kept, "device {device}: a flush succeeded");
    }
}

/// A durable write failed: where the system flushes the cache after the write, that was the only report of other lost data. So over such
/// devices a flush ends hosts' durable writes; and where a root header fails, all data that the cache may have lost is rewritten.
#[test]
fn hole_12_a_failed_durable_write_may_tell_of_a_lost_cache() {
    let mut rig = Rig::new(&Setup { volatile_fast: true, durable_writes: false, ..Setup::default() });
    rig.put(0, 2, None);
    let mut is_due = true;
    rig.devices[FAST].rule(move |seen| match seen.is_durable {
        true if seen.region == Region::Root && std::mem::take(&mut is_due) => Fate::Lost,
        is_durable => failed(is_durable && seen.region != Region::Root),
    });
    let durable = rig.write_run(1, 1, 2, true, None);
    rig.wait(durable).unwrap();
    rig.put(2, 2, BULK);
    rig.checkpoint();
    rig.flush();
    let counters = rig.pool.engine.status().counters;
    assert_eq!((counters.flushes_made_good, counters.flush_lost_blocks), (1, 0));
    let mut rig = rig.crash();
    assert_eq!([0, 1, 2].map(|block| rig.get(block)), [2; 3].map(Ok), "a flush succeeded");
}

/// A root header that could not be written was in the cache; the server was restarted with the power on. Recovery took it for durable and
/// wrote the next root over the one before it, which was all that a power cut left.
#[test]
fn hole_12_a_header_that_only_the_cache_shows_is_written_again() {
    let setup = Setup { volatile_fast: true, ..Setup::default() };
    let mut rig = Rig::new(&setup);
    rig.put(0, 1, BULK);
    rig.checkpoint();
    let parity = (rig.pool.engine.checkpoint_number() % 2) as usize;
    let layout = superblock(&rig.devices);
    let copies = |parity: usize| {
        let area = layout.root_offsets_bytes[parity];
        [area, area + layout.root_len_bytes - 4096]
    };
    let Rig { devices, pool, .. } = rig;
    drop(pool);
    copies(parity).iter().for_each(|&offset_bytes| devices[FAST].give_up(offset_bytes, 4096));
    let next = copies(1 - parity);
    devices[FAST].rule(move |seen| failed(seen.kind == Kind::Write && next.contains(&seen.offset_bytes)));
    assert!(Rig::open(&setup, devices.clone()).is_err(), "it ends before its own root is durable");
    devices.iter().for_each(|device| device.cut(|_| false));
    assert_eq!(Rig::open(&setup, devices).unwrap().get(0), Ok(1));
}

/// A failed flush lost the newest batch, which reads still saw; the server was restarted, and the power failed before its root was durable.
/// The root's pages were in the slot that the batch had freed, and the batch was gone.
#[test]
fn hole_12_a_batch_that_only_the_cache_shows_is_written_again() {
    let setup = Setup { volatile_fast: true, ..Setup::default() };
    let mut rig = Rig::new(&setup);
    (0..8).for_each(|block| rig.put(block, 1, None));
    rig.flush();
    (0..8).for_each(|block| rig.put(block, 2, None));
    rig.devices[FAST].rule(|seen| failed(seen.kind == Kind::Flush));
    let token = rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
    assert!(rig.wait(token).is_err());
    let Rig { devices, pool, .. } = rig;
    drop(pool);
    devices[FAST].rule(|seen| failed(seen.is_durable && seen.region == Region::Root));
    assert!(Rig::open(&setup, devices.clone()).is_err(), "it ends before its own root is durable");
    devices.iter().for_each(|device| device.cut(|_| false));
    let mut rig = Rig::open(&setup, devices).unwrap();
    // Batches and data were rewritten and flushed before the root's write failed.
    (0..8).for_each(|block| assert_eq!(rig.get(block), Ok(2)));
}

/// A bucket's unflushed data in this process's memory is lost with it, while clients of block devices continue with the next server: their
/// next flush succeeded although acknowledged data was gone.
#[test]
fn regression_what_goes_past_the_fast_tier_is_durable_where_clients_outlive_the_server() {
    for is_through in [false, true] {
        let mut rig = Rig::new(&Setup::default());
        rig.pool.engine.write_through(is_through);
        let token = rig.write_run(0, 20, 1, false, BULK);
        rig.wait(token).unwrap();
        let mut rig = rig.crash();
        let found: Vec<_> = (0..20).map(|block| rig.get(block)).collect();
        assert!(found.iter().all(|version| *version == Ok(u32::from(is_through))), "{found:?}");
    }
}

/// Where the system flushes after each durable write, one such write gets the report of a lost write: hosts' writes are not durable writes
/// there.
#[test]
fn regression_what_is_written_through_is_not_where_the_system_flushes_behind_it() {
    let mut rig = Rig::new(&Setup { durable_writes: false, ..Setup::default() });
    rig.pool.engine.write_through(true);
    let durable = Arc::new(AtomicU32::new(0));
    let counted = durable.clone();
    rig.devices[CAPACITY].rule(move |seen| {
        counted.fetch_add(u32::from(seen.is_durable && seen.region == Region::Bands), Relaxed);
        Fate::Good
    });
    rig.put_run(0, 20, 1);
    assert_eq!(durable.load(Relaxed), 0);
}

/// Blocks that a failed flush lost for good: all waiting flushes of their disk fail; where none waits, the next one does.
#[test]
fn hole_12_who_flushes_a_disk_learns_of_its_lost_blocks() {
    for waiting in [0, 2] {
        let mut rig = Rig::new(&Setup::default());
        rig.put(0, 1, BULK);
        let at = rig.find(CAPACITY, 0, 1)[0];
        let mut is_due = true;
        let device = rig.devices[CAPACITY].clone();
        device.rule(move |seen| failed(seen.kind == Kind::Flush && std::mem::take(&mut is_due)));
        // A flush that no host requested.
        rig.pool.engine.request_checkpoint(false);
        assert!(rig.until(|rig| rig.pool.engine.has_flush_failed()));
        device.forge(at, &content(0, 7));
        let flush = |rig: &mut Rig| rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
        let tokens: Vec<u64> = (0..waiting).map(|_| flush(&mut rig)).collect();
        rig.pass_ms(200);
        assert_eq!(rig.pool.engine.status().counters.flush_lost_blocks, 1);
        for token in tokens {
            assert!(matches!(rig.wait(token), Err(RequestError::FlushFailed)));
        }
        let flushes = [0; 2].map(|_| {
            let token = flush(&mut rig);
            rig.wait(token).is_ok()
        });
        assert_eq!(flushes, [waiting > 0, true]);
        assert!(rig.get(0).is_err());
    }
}

/// A flush failed for lost blocks that had since been overwritten, discarded or cleared: no needed data was lost.
#[test]
fn regression_blocks_that_were_overwritten_or_discarded_since_are_no_loss() {
    let mut rig = Rig::new(&Setup::default());
    let needed = 3u64;
    let blocks = [0u64, 1, 2, 400, 3];
    blocks.into_iter().for_each(|block| rig.put(block, 1, BULK));
    let places: Vec<u64> = blocks.into_iter().map(|block| rig.find(CAPACITY, block, 1)[0]).collect();
    rig.put(0, 2, BULK);
    rig.put(1, 2, None);
    for (first, blocks) in [(2, 1), (400, 400)] {
        let token = rig.submit_to(rig.disk, first, blocks * 4096, Op::Discard, false, None);
        rig.wait(token).unwrap();
    }
    for is_needed_lost in [false, true] {
        if is_needed_lost {
            rig.put(needed, 1, BULK);
        }
        let mut is_due = true;
        let device = rig.devices[CAPACITY].clone();
        device.rule(move |seen| failed(seen.kind == Kind::Flush && std::mem::take(&mut is_due)));
        rig.pool.engine.request_checkpoint(false);
        assert!(rig.until(|rig| rig.pool.engine.has_flush_failed()));
        for (&at, block) in places.iter().zip(blocks) {
            if block != needed {
                device.forge(at, &content(block, 7));
            }
        }
        if is_needed_lost {
            rig.find(CAPACITY, needed, 1).into_iter().for_each(|at| device.forge(at, &content(needed, 7)));
        }
        let token = rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
        assert_eq!(rig.wait(token).is_ok(), !is_needed_lost);
        assert_eq!(rig.pool.engine.status().counters.flush_lost_blocks, u64::from(is_needed_lost));
    }
    let mut rig = rig.crash();
    assert_eq!([0, 1, 2, 400].map(|block| rig.get(block)), [Ok(2), Ok(2), Ok(0), Ok(0)]);
    assert!(rig.get(needed).is_err());
}

/// The same for blocks that recovery finds and cannot rewrite.
#[test]
fn regression_a_start_counts_no_blocks_that_were_overwritten_before() {
    for is_needed in [false, true] {
        let mut rig = Rig::new(&Setup::default());
        let token = rig.write_run(0, 3, 1, false, BULK);
        rig.wait(token).unwrap();
        let bad = rig.find(CAPACITY, 1, 1)[0];
        if !is_needed {
            rig.put(1, 2, BULK);
        }
        let Rig { setup, devices, pool, .. } = rig;
        drop(pool);
        devices[CAPACITY].rule(move |seen| failed(seen.kind == Kind::Write && seen.covers(bad)));
        let mut rig = Rig::open(&setup, devices).unwrap();
        let token = rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
        assert_eq!(rig.wait(token).is_ok(), !is_needed);
        let mut rig = rig.crash();
        assert_eq!([rig.get(0), rig.get(2)], [Ok(1), Ok(1)]);
        assert!(is_needed || rig.get(1) == Ok(2));
    }
}

/// Data that recovery reads and cannot rewrite does not count as durable: a flush of its disk fails.
#[test]
fn hole_12_a_restart_that_cannot_write_again_promises_nothing() {
    let mut rig = Rig::new(&Setup::default());
    let token = rig.write_run(0, 3, 1, false, BULK);
    rig.wait(token).unwrap();
    let bad = rig.find(CAPACITY, 1, 1)[0];
    let Rig { setup, devices, pool, .. } = rig;
    drop(pool);
    devices[CAPACITY].rule(move |seen| failed(seen.kind == Kind::Write && seen.covers(bad)));
    let mut rig = Rig::open(&setup, devices).unwrap();
    let token = rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
    assert!(matches!(rig.wait(token), Err(RequestError::FlushFailed)));
    rig.flush();
    let mut rig = rig.crash();
    assert_eq!([rig.get(0), rig.get(2)], [Ok(1), Ok(1)], "a sector beside them cannot be written");
}

/// Only one client's flush failed; the others were answered that their writes were durable.
#[test]
fn regression_each_client_learns_of_lost_blocks() {
    let mut rig = Rig::new(&Setup::default());
    let begin = |rig: &mut Rig| rig.pool.engine.begin_session(Some(rig.disk));
    let [first, second] = [(); 2].map(|()| begin(&mut rig));
    rig.session = first;
    rig.put(0, 1, BULK);
    let at = rig.find(CAPACITY, 0, 1)[0];
    let mut is_due = true;
    let device = rig.devices[CAPACITY].clone();
    device.rule(move |seen| failed(seen.kind == Kind::Flush && std::mem::take(&mut is_due)));
    rig.pool.engine.request_checkpoint(false);
    assert!(rig.until(|rig| rig.pool.engine.has_flush_failed()));
    device.forge(at, &content(0, 7));
    let is_flushed_by = |rig: &mut Rig, session| {
        rig.session = session;
        let token = rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
        rig.wait(token).is_ok()
    };
    assert!(!is_flushed_by(&mut rig, second), "it waits for the flush that makes good what can be");
    assert_eq!(rig.pool.engine.status().counters.flush_lost_blocks, 1);
    let back = begin(&mut rig);
    assert!(!is_flushed_by(&mut rig, back), "it may be one of those that were there");
    assert!(is_flushed_by(&mut rig, second) && is_flushed_by(&mut rig, back));
    assert!(!is_flushed_by(&mut rig, first), "the blocks were its own");
    assert!(is_flushed_by(&mut rig, first));
}

/// A device whose flushes keep failing: attempts become rarer, reads continue, and nothing is promised.
#[test]
fn hole_12_flushes_that_go_on_failing_promise_nothing() {
    let mut rig = Rig::new(&Setup::default());
    rig.put(0, 1, BULK);
    rig.flush();
    rig.devices[CAPACITY].rule(|seen| failed(seen.kind == Kind::Flush));
    rig.put(0, 2, BULK);
    let mut attempts = 0;
    for _ in 0..60 {
        let token = rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
        assert!(matches!(rig.wait(token), Err(RequestError::FlushFailed)));
        assert_eq!(rig.get(0), Ok(2));
        let write = rig.write(1, 2, BULK);
        assert!(matches!(rig.wait(write), Err(RequestError::ReadOnly(_))));
        rig.pass_ms(1000);
        attempts = rig.pool.engine.status().counters.flush_errors;
    }
    // At 0.1, 0.3, 0.7, ... seconds.
    assert!((4..16).contains(&attempts), "{attempts} attempts in a minute");
    let mut rig = rig.crash();
    assert!(matches!(rig.get(0), Ok(1 | 2)));
}

/// A device reports a lost write once, to one of the concurrent flushes. A host's flush got the report, but a job's concurrent flush had
/// succeeded before: the job took its data for durable and freed its sources. Now neither counts before both have ended.
#[test]
fn regression_the_flush_of_a_job_waits_for_the_one_beside_it() {
    let mut rig = Rig::new(&Setup::default());
    rig.put(0, 1, None);
    let options = EngineOptions { destage_above_percent: 0, ..rig.setup.options.clone() };
    let mut rig = rig.restart(options);
    // 0: all are held; 1: the next succeeds; 2: all are held; 3: the next fails; 4: all succeed.
    let mode = Arc::new(AtomicU32::new(0));
    let of_rule = mode.clone();
    rig.devices[CAPACITY].rule(move |seen| match (seen.kind, of_rule.load(Relaxed)) {
        (Kind::Flush, 0 | 2) => Fate::Held,
        (Kind::Flush, 1) => {
            of_rule.store(2, Relaxed);
            Fate::Good
        }
        (Kind::Flush, 3) => {
            of_rule.store(4, Relaxed);
            Fate::Failed
        }
        _ => Fate::Good,
    });
    rig.pass_ms(1000);
    rig.polls(50);
    rig.put(500, 1, BULK);
    let flush = rig.submit_to(rig.disk, 0, 0, Op::Flush, false, None);
    rig.polls(20);
    mode.store(1, Relaxed);
    rig.polls(50);
    assert_eq!(mode.load(Relaxed), 2, "no job flushed");
    mode.store(3, Relaxed);
    assert!(matches!(rig.wait(flush), Err(RequestError::FlushFailed)));
    assert_eq!(rig.pool.engine.status().counters.migration_errors, 1, "the job believed its own flush");
}

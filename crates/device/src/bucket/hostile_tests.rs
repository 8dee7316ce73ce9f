//! The device where others open it at bad moments, where objects are lost, and where the store gives wrong answers.

use super::fixture_tests::{Moment, clear, made, names, open, opened, put, refused, take, until, with_one_object};
use super::*;
use crate::blocking;
use forebay_block::Op;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use std::sync::atomic::Ordering;
use std::sync::mpsc;

#[test]
fn regression_an_opener_that_was_held_up_takes_no_epoch_that_two_others_have_passed() {
    let store = made();
    let (sender, later) = mpsc::channel();
    let of_others = store.clone();
    store.once(Moment::BeforePut, "/epoch/", move || {
        let opened = std::thread::spawn(move || {
            drop(opened(&of_others));
            opened(&of_others)
        });
        sender.send(opened.join().unwrap()).unwrap();
    });
    refused(&store, OpenMode::ReadWrite, "another server is opening it");
    let mut later = later.recv().unwrap();
    assert_eq!(names(&store, "epoch"), ["00000002"], "what was made too late is gone again");
    blocking::write(&mut later, 0, &[1; 4096]).unwrap();
    blocking::flush(&mut later).unwrap();
}

#[test]
fn regression_an_epoch_that_a_late_request_makes_again_gives_nothing_back() {
    let store = made();
    let mut first = opened(&store);
    blocking::write(&mut first, 0, &[1; 4096]).unwrap();
    blocking::flush(&mut first).unwrap();
    let epoch = take(&store, "epoch/00000001");
    put(&store, "epoch/00000001", &epoch);
    let mut second = opened(&store);
    put(&store, "epoch/00000001", &epoch);
    blocking::write(&mut first, 0, &[2; 4096]).unwrap();
    assert_eq!(blocking::flush(&mut first).unwrap_err().os_error, libc::ESTALE);
    blocking::write(&mut second, 4096, &[3; 4096]).unwrap();
    blocking::flush(&mut second).unwrap();
}

#[test]
fn regression_a_client_that_panics_is_an_error_and_nobody_waits_for_ever() {
    let (store, _) = with_one_object();
    let mut device = opened(&store);
    store.panics.store(true, Ordering::SeqCst);
    assert_eq!(blocking::read(&mut device, 0, 4096).unwrap_err().os_error, libc::EIO);
    assert_eq!(*blocking::read(&mut device, 0, 4096).unwrap(), [1; 4096]);
    // The same for the epoch check.
    blocking::write(&mut device, 0, &[2; 4096]).unwrap();
    store.panics.store(true, Ordering::SeqCst);
    assert_eq!(blocking::flush(&mut device).unwrap_err().os_error, libc::EIO);
    blocking::flush(&mut device).unwrap();
}

#[test]
fn regression_an_answer_that_claims_to_be_longer_than_memory_is_read_as_it_comes() {
    let (store, _) = with_one_object();
    let mut device = opened(&store);
    store.swells.store(true, Ordering::SeqCst);
    refused(&store, OpenMode::ReadOnly, "geometry.json cannot be understood");
    // Only two bytes arrive.
    assert_eq!(blocking::read(&mut device, 0, 4096).unwrap_err().os_error, libc::EBADMSG);
}

#[test]
fn regression_numbers_at_their_end_and_sizes_beyond_reason_are_errors() {
    let store = made();
    put(&store, "epoch/ffffffff", b"x");
    refused(&store, OpenMode::ReadWrite, "no epoch can follow");
    open(&store, "", OpenMode::ReadOnly).unwrap();
    for (size, object) in [(1u64 << 61, 1u64 << 20), (16 << 20, 1 << 40), (16 << 20, 4096), (0, 1 << 20)] {
        let text = format!(r#"{{"forebay":"","format":1,"size_bytes":{size},"object_bytes":{object}}}"#);
        put(&store, "geometry.json", text.as_bytes());
        refused(&store, OpenMode::ReadOnly, "geometry.json cannot be understood");
    }
    put(&store, "geometry.json", &[b' '; 70_000]);
    let error = open(&store, "&timeout=1s", OpenMode::ReadOnly).err().unwrap().to_string();
    assert!(error.contains("more than 65536 bytes"), "{error}");
}

#[test]
fn regression_an_object_of_another_length_is_an_error_and_stays() {
    let (store, name) = with_one_object();
    let content = take(&store, &format!("data/{name}"));
    put(&store, &format!("data/{name}"), &content[..512]);
    for _ in 0..2 {
        let mut device = opened(&store);
        for len in [512, 4096] {
            assert_eq!(blocking::read(&mut device, 0, len).unwrap_err().os_error, libc::EBADMSG);
        }
        // This deletes all garbage, so the object would be gone if it counted as garbage.
        blocking::write(&mut device, 8192, &[2; 512]).unwrap();
        blocking::flush(&mut device).unwrap();
        until(&mut device, |device| device.objects().1 == 0);
        assert!(names(&store, "data").contains(&name));
    }
    put(&store, &format!("data/{name}"), &content);
    assert_eq!(*blocking::read(&mut opened(&store), 0, 4096).unwrap(), [1; 4096]);
}

#[test]
fn regression_without_its_roll_nobody_takes_it_that_all_objects_count() {
    let (store, _) = with_one_object();
    drop(opened(&store));
    let roll = take(&store, "roll/00000002");
    for mode in [OpenMode::ReadWrite, OpenMode::ReadOnly] {
        refused(&store, mode, "the object below roll/ that says which objects count is missing");
    }
    // A roll that is older than the objects does not count either.
    put(&store, "roll/00000001", br#"{"author":1,"epochs":{}}"#);
    put(&store, "data/00000002-000000000001-0000000000000000-0000000200-zeros", b"");
    refused(&store, OpenMode::ReadWrite, "is missing");
    put(&store, "roll/00000002", &roll);
    let mut device = opened(&store);
    assert_eq!(blocking::read(&mut device, 512, 512).unwrap()[..], [1; 512]);
    assert_eq!(blocking::read(&mut device, 0, 512).unwrap()[..], [0; 512]);
}

#[test]
fn regression_what_is_on_its_way_when_a_device_is_cleared_does_not_come_back() {
    let (store, name) = with_one_object();
    let content = take(&store, &format!("data/{name}"));
    clear(&store).unwrap();
    put(&store, &format!("data/{name}"), &content);
    assert_eq!(*blocking::read(&mut opened(&store), 0, 4096).unwrap(), [0; 4096]);
}

#[test]
fn regression_zeros_outlast_an_object_of_an_earlier_opening_that_a_late_request_makes_again() {
    let (store, name) = with_one_object();
    let mut device = opened(&store);
    let content = blocking::read(&mut device, 0, 4096).unwrap().to_vec();
    blocking::run(&mut device, 0, Op::Discard { len_bytes: 1 << 20 }).unwrap();
    until(&mut device, |device| device.objects() == (0, 0));
    blocking::run(&mut device, 0, Op::WriteZeroes { len_bytes: 4096 }).unwrap();
    blocking::flush(&mut device).unwrap();
    drop(device);
    put(&store, &format!("data/{name}"), &content);
    assert_eq!(*blocking::read(&mut opened(&store), 0, 4096).unwrap(), [0; 4096]);
}

#[test]
fn regression_a_list_of_many_pages_goes_on_where_it_was_interrupted() {
    let store = made();
    drop(opened(&store));
    runtime().unwrap().block_on(async {
        for counter in 1..=2500u64 {
            let name = format!("pool/data/00000001-{counter:012x}-{:016x}-0000000200-zeros", counter * 512);
            store.inner.put(&Path::from(name), PutPayload::new()).await.unwrap();
        }
    });
    // No list of all names is completed in one request.
    store.listed_names.store(1500, Ordering::SeqCst);
    assert_eq!(open(&store, "&timeout=1s", OpenMode::ReadOnly).unwrap().objects(), (2500, 0));
}

#[test]
fn regression_a_link_that_is_slow_is_no_dead_one() {
    let store = made();
    let mut device = open(&store, "&timeout=1s", OpenMode::ReadWrite).unwrap();
    store.write_ms.store(1500, Ordering::SeqCst);
    blocking::write(&mut device, 0, &[1; 1 << 20]).unwrap();
    blocking::flush(&mut device).unwrap();
    // Other requests that are sent before this one do not count against its time either.
    let mut device = open(&store, "&timeout=3s", OpenMode::ReadWrite).unwrap();
    store.write_ms.store(2000, Ordering::SeqCst);
    for part in 0..9 {
        blocking::write(&mut device, part * 8192, &[2; 512]).unwrap();
    }
    blocking::flush(&mut device).unwrap();
}

#[test]
fn regression_a_flush_of_many_stretches_waits_for_its_turn_as_long_as_the_store_answers() {
    let store = made();
    let mut device = open(&store, "&timeout=1s", OpenMode::ReadWrite).unwrap();
    store.write_ms.store(400, Ordering::SeqCst);
    // Eight are sent at once, so the last ones wait for twice the time for which a request is repeated.
    for part in 0..48 {
        blocking::write(&mut device, part * 8192, &[2; 512]).unwrap();
    }
    blocking::flush(&mut device).unwrap();
    assert_eq!(names(&store, "data").len(), 48);
}

#[test]
fn those_that_waited_for_a_store_that_is_away_fail_with_those_they_waited_for() {
    let store = made();
    let mut device = open(&store, "&timeout=1s", OpenMode::ReadWrite).unwrap();
    for part in 0..48 {
        blocking::write(&mut device, part * 8192, &[2; 512]).unwrap();
    }
    store.is_down.store(true, Ordering::SeqCst);
    assert_eq!(blocking::flush(&mut device).unwrap_err().os_error, libc::ETIMEDOUT);
    let tried = || store.tried.lock().unwrap().iter().filter(|name| name.contains("/data/")).count();
    assert!(tried() <= 16, "{} were tried one after the other", tried());
    store.is_down.store(false, Ordering::SeqCst);
    blocking::flush(&mut device).unwrap();
    assert_eq!(names(&store, "data").len(), 48);
}

#[test]
fn regression_a_conflict_with_another_request_is_no_object_that_is_there() {
    let store = made();
    // Two conflicts: one for the first attempt to take the epoch, one for the check that the store knows conditions.
    *store.conflicts.lock().unwrap() = vec!["OperationAborted", "ConditionalRequestConflict"];
    let mut device = opened(&store);
    blocking::write(&mut device, 0, &[1; 4096]).unwrap();
    *store.conflicts.lock().unwrap() = vec!["SomethingElse", "OperationAborted"];
    blocking::flush(&mut device).unwrap();
    assert!(store.conflicts.lock().unwrap().is_empty());
    assert_eq!(*blocking::read(&mut opened(&store), 0, 4096).unwrap(), [1; 4096]);
}

//! Opening a device and checking its epoch, where one answer of the store is wrong, or others act at the same time.

use super::epoch::{Standing, standing_of};
use super::fixture_tests::{Moment, clear, names, open, opened, put, refused, take, until, with_one_object};
use super::open::roll_text;
use super::roll::Roll;
use super::*;
use crate::blocking;
use std::sync::mpsc;

#[test]
fn regression_a_list_that_ends_too_early_is_no_list_of_all_objects() {
    let (store, name) = with_one_object();
    for (part, mode, missing) in [
        ("/data/", OpenMode::ReadWrite, "does not list epoch/00000002"),
        ("/data/", OpenMode::ReadOnly, "does not list geometry.json"),
        ("/geometry.json", OpenMode::ReadWrite, "does not list geometry.json"),
        ("/epoch/00000004", OpenMode::ReadWrite, "does not list epoch/00000004"),
    ] {
        store.overlook(part);
        refused(&store, mode, missing);
        assert_eq!(names(&store, "roll"), ["00000001"], "{part}: nothing was called");
    }
    for _ in 0..2 {
        let mut device = opened(&store);
        assert_eq!(*blocking::read(&mut device, 0, 4096).unwrap(), [1; 4096]);
        until(&mut device, |device| device.objects() == (1, 0));
    }
    assert_eq!(names(&store, "data"), [name]);
}

#[test]
fn regression_a_list_that_ends_before_the_roll_is_no_reason_to_format_the_device() {
    let (store, _) = with_one_object();
    store.overlook("/roll/");
    let mut device = open(&store, "", OpenMode::ReadOnly).unwrap();
    assert_eq!(*blocking::read(&mut device, 0, 4096).unwrap(), [1; 4096]);
}

#[test]
fn regression_one_wrong_answer_to_a_look_is_no_other_server() {
    let (store, _) = with_one_object();
    let mut device = opened(&store);
    blocking::write(&mut device, 0, &[2; 4096]).unwrap();
    store.overlook("/epoch/");
    assert_eq!(blocking::flush(&mut device).unwrap_err().os_error, libc::EBADMSG);
    blocking::write(&mut device, 0, &[3; 4096]).unwrap();
    blocking::flush(&mut device).unwrap();
    // Somebody has deleted the epoch's object by hand, and restores it later.
    let epoch = take(&store, "epoch/00000002");
    blocking::write(&mut device, 0, &[4; 4096]).unwrap();
    assert_eq!(blocking::flush(&mut device).unwrap_err().os_error, libc::EBADMSG);
    put(&store, "epoch/00000002", &epoch);
    blocking::flush(&mut device).unwrap();
}

#[test]
fn an_epoch_is_lost_to_a_higher_one_or_to_another_owner_and_by_nothing_else() {
    let (own, other) = ("00000000000000010000000000000002", "00000000000000010000000000000003");
    for (epochs, content, standing) in [
        (&[3][..], Some(own), Standing::Owned),
        (&[1, 3], Some(own), Standing::Owned),
        (&[3, 4], Some(own), Standing::Replaced),
        (&[4], None, Standing::Replaced),
        (&[3], Some(other), Standing::Replaced),
        (&[], Some(other), Standing::Replaced),
        (&[], Some(own), Standing::Unclear),
        (&[2], Some(own), Standing::Unclear),
        (&[3], None, Standing::Unclear),
        (&[3], Some(""), Standing::Unclear),
        (&[3], Some("<Error><Code>SlowDown</Code></Error>"), Standing::Unclear),
    ] {
        let found = standing_of(&epochs.iter().copied().collect(), 3, content.map(str::as_bytes), own);
        assert_eq!(found, standing, "{epochs:?} {content:?}");
    }
}

#[test]
fn regression_a_roll_that_was_replaced_since_it_was_listed_has_a_successor() {
    let (store, _) = with_one_object();
    let of_others = store.clone();
    store.once(Moment::BeforeGet, "/roll/00000001", move || {
        let other = std::thread::spawn(move || {
            let mut device = opened(&of_others);
            blocking::write(&mut device, 8192, &[2; 4096]).unwrap();
            blocking::flush(&mut device).unwrap();
        });
        other.join().unwrap();
    });
    let mut device = open(&store, "", OpenMode::ReadOnly).unwrap();
    assert_eq!(*blocking::read(&mut device, 0, 4096).unwrap(), [1; 4096]);
}

#[test]
fn regression_objects_that_came_after_the_roll_was_read_are_no_reason_to_format_the_device() {
    let (store, _) = with_one_object();
    put(&store, "epoch/00000002", b"of one who is about to make a roll");
    let of_others = store.clone();
    store.once(Moment::AfterGet, "/roll/00000001", move || {
        let other = std::thread::spawn(move || {
            put(&of_others, "roll/00000002", br#"{"author":2,"epochs":{"1":[[1,1]]}}"#);
            put(&of_others, "data/00000002-000000000001-0000000000002000-0000000200-zeros", b"");
        });
        other.join().unwrap();
    });
    let mut device = open(&store, "", OpenMode::ReadOnly).unwrap();
    assert_eq!(*blocking::read(&mut device, 0, 4096).unwrap(), [1; 4096]);
}

#[test]
fn regression_a_clear_that_was_overtaken_deletes_nothing_of_its_successors() {
    let (store, _) = with_one_object();
    let (sender, later) = mpsc::channel();
    let of_others = store.clone();
    store.once(Moment::BeforePut, "/roll/", move || {
        let other = std::thread::spawn(move || {
            let mut device = opened(&of_others);
            blocking::write(&mut device, 8192, &[2; 4096]).unwrap();
            blocking::flush(&mut device).unwrap();
            device
        });
        sender.send(other.join().unwrap()).unwrap();
    });
    let error = clear(&store).unwrap_err();
    assert!(matches!(error, BucketError::Busy { .. }), "{error}");
    let mut later = later.recv().unwrap();
    for _ in 0..2 {
        assert_eq!(*blocking::read(&mut later, 0, 4096).unwrap(), [1; 4096]);
        assert_eq!(*blocking::read(&mut later, 8192, 4096).unwrap(), [2; 4096]);
        later = opened(&store);
    }
}

#[test]
fn regression_a_clear_deletes_no_objects_of_others() {
    let (store, _) = with_one_object();
    // A device with the prefix pool/data.
    put(&store, "data/geometry.json", b"{}");
    put(&store, "data/data/00000001-000000000001-0000000000000000-0000000200-zeros", b"");
    clear(&store).unwrap();
    let found = names(&store, "data");
    assert_eq!(found, ["00000001-000000000001-0000000000000000-0000000200-zeros", "geometry.json"]);
}

#[test]
fn regression_a_roll_that_could_not_be_read_again_is_not_written() {
    let name = |counter: u64| format!("00000001-{counter:012x}-0000000000000000-0000000200-zeros").parse().unwrap();
    let roll = Roll::call(2, &[1, 3, 5, 7].map(name));
    let text = roll_text(&roll, 1 << 20).unwrap();
    assert_eq!(roll_text(&roll, text.len()).unwrap(), text);
    let error = roll_text(&roll, text.len() - 1).unwrap_err().to_string();
    assert!(error.contains("roll/00000002 would have"), "{error}");
}

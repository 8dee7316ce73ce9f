//! The device over a store in memory that loses requests and answers, and becomes unreachable.

use super::fixture_tests::{Door, Unsteady, all_names, made, names, open, opened, until, uri};
use super::*;
use crate::blocking;
use forebay_block::{Buf, Op, Random, Vectored};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use std::sync::atomic::Ordering;

const MIB: u64 = 1 << 20;

#[test]
fn a_band_is_one_object_and_what_replaces_it_leaves_no_other() {
    let store = made();
    let mut device = opened(&store);
    assert_eq!(device.geometry().size_bytes, 16 * MIB);
    for round in 1..=3u8 {
        for part in 0..16 {
            blocking::write(&mut device, MIB + part * 65536, &[round; 65536]).unwrap();
        }
        blocking::flush(&mut device).unwrap();
        assert_eq!(*blocking::read(&mut device, MIB + 4096, 4096).unwrap(), [round; 4096]);
        until(&mut device, |device| device.objects() == (1, 0));
    }
    assert_eq!(names(&store, "data").len(), 1);
    blocking::run(&mut device, MIB, Op::Discard { len_bytes: MIB }).unwrap();
    until(&mut device, |device| device.objects() == (0, 0));
    assert_eq!(*blocking::read(&mut device, MIB, 4096).unwrap(), [0; 4096]);
    assert!(names(&store, "data").is_empty());
}

#[test]
fn a_flush_sends_what_waits_and_a_durable_write_itself_alone() {
    let store = made();
    let mut device = opened(&store);
    let before = store.puts.load(Ordering::SeqCst);
    blocking::write(&mut device, 0, &[1; 4096]).unwrap();
    blocking::write(&mut device, 4096, &[2; 4096]).unwrap();
    assert_eq!(store.puts.load(Ordering::SeqCst), before, "memory alone");
    let bufs = Vectored::One(Buf::copy_of(&[3; 512]).freeze());
    blocking::run(&mut device, 8 * MIB, Op::Write { bufs, fua: true }).unwrap();
    assert_eq!(names(&store, "data").len(), 1);
    blocking::flush(&mut device).unwrap();
    assert_eq!(names(&store, "data").len(), 2, "neighbours go together");
    blocking::flush(&mut device).unwrap();
    drop(device);
    let mut device = opened(&store);
    assert_eq!(*blocking::read(&mut device, 4096, 512).unwrap(), [2; 512]);
    assert_eq!(*blocking::read(&mut device, 8 * MIB, 1024).unwrap(), [[3; 512], [0; 512]].concat()[..]);
}

#[test]
fn many_small_objects_become_one() {
    let store = made();
    let mut device = opened(&store);
    for at in 0..90u64 {
        blocking::write(&mut device, at * 8192, &[at as u8 + 1; 4096]).unwrap();
        blocking::flush(&mut device).unwrap();
    }
    until(&mut device, |device| device.objects().0 <= 30 && device.objects().1 == 0);
    // A page that is rewritten often is no reason to rewrite the whole unit.
    for _ in 0..20 {
        for at in 0..8u64 {
            blocking::write(&mut device, at * 8192, &[at as u8 + 1; 4096]).unwrap();
        }
        blocking::flush(&mut device).unwrap();
    }
    until(&mut device, |device| (20..=40).contains(&device.objects().0) && device.objects().1 == 0);
    drop(device);
    let mut device = opened(&store);
    for at in 0..90u64 {
        let expected = [[at as u8 + 1; 4096], [0; 4096]].concat();
        assert_eq!(*blocking::read(&mut device, at * 8192, 8192).unwrap(), expected[..], "{at}");
    }
}

#[test]
fn lost_requests_and_answers_lose_nothing() {
    let store = made();
    store.lost.store(20, Ordering::SeqCst);
    let mut random = Random::new(3);
    let mut expected = vec![0u8; 16 * MIB as usize];
    for life in 0..4u8 {
        let mut device = opened(&store);
        assert!(*blocking::read(&mut device, 0, expected.len()).unwrap() == expected[..], "life {life}");
        for _ in 0..40 {
            let (at, len) = (random.below(4000) * 4096, (random.below(24) + 1) as usize * 4096);
            let value = random.below(250) as u8 + 1;
            blocking::write(&mut device, at, &vec![value; len]).unwrap();
            expected[at as usize..][..len].fill(value);
            if random.chance(1, 4) {
                blocking::flush(&mut device).unwrap();
            }
        }
        blocking::flush(&mut device).unwrap();
    }
}

#[test]
fn a_dead_store_fails_what_waits_in_time_and_what_was_held_is_sent_when_it_is_back() {
    let store = made();
    let mut device = open(&store, "&timeout=1s", OpenMode::ReadWrite).unwrap();
    blocking::write(&mut device, 0, &[1; 4096]).unwrap();
    blocking::flush(&mut device).unwrap();
    store.is_down.store(true, Ordering::SeqCst);
    blocking::write(&mut device, 4096, &[2; 4096]).unwrap();
    assert_eq!(blocking::flush(&mut device).unwrap_err().os_error, libc::ETIMEDOUT);
    assert_eq!(blocking::read(&mut device, 0, 4096).unwrap_err().os_error, libc::ETIMEDOUT);
    assert_eq!(*blocking::read(&mut device, 4096, 4096).unwrap(), [2; 4096], "what is in memory is read there");
    // Memory is limited: at last writes wait, and fail like flushes.
    let failed = (0..8).find_map(|part| blocking::write(&mut device, 8 * MIB + part * MIB, &[3; MIB as usize]).err());
    assert_eq!(failed.unwrap().os_error, libc::ETIMEDOUT);
    store.is_down.store(false, Ordering::SeqCst);
    blocking::flush(&mut device).unwrap();
    drop(device);
    let mut device = opened(&store);
    assert_eq!(*blocking::read(&mut device, 0, 8192).unwrap(), [[1; 4096], [2; 4096]].concat()[..]);
    assert_eq!(blocking::read(&mut device, 8 * MIB, 4096).unwrap()[0], 3);
}

#[test]
fn a_store_that_says_no_is_not_asked_again_and_again() {
    let store = made();
    let mut device = opened(&store);
    blocking::write(&mut device, 0, &[1; 4096]).unwrap();
    store.forbids.store(true, Ordering::SeqCst);
    let before = store.puts.load(Ordering::SeqCst);
    assert_eq!(blocking::flush(&mut device).unwrap_err().os_error, libc::EACCES);
    assert_eq!(store.puts.load(Ordering::SeqCst), before + 1);
    let error = open(&store, "", OpenMode::ReadOnly).err().unwrap().to_string();
    assert!(error.contains("AccessDenied") && !error.contains("SECRET"), "{error}");
}

#[test]
fn of_two_servers_the_first_one_promises_nothing_more() {
    let store = made();
    let mut first = opened(&store);
    blocking::write(&mut first, 0, &[1; 4096]).unwrap();
    blocking::flush(&mut first).unwrap();
    let mut second = opened(&store);
    blocking::write(&mut first, 0, &[2; 4096]).unwrap();
    blocking::write(&mut first, MIB, &[2; 4096]).unwrap();
    assert_eq!(blocking::flush(&mut first).unwrap_err().os_error, libc::ESTALE);
    assert_eq!(blocking::write(&mut first, 0, &[2; 4096]).unwrap_err().os_error, libc::ESTALE);
    blocking::write(&mut second, 4096, &[3; 4096]).unwrap();
    blocking::flush(&mut second).unwrap();
    drop((first, second));
    let mut third = opened(&store);
    assert_eq!(*blocking::read(&mut third, 0, 8192).unwrap(), [[1; 4096], [3; 4096]].concat()[..]);
    assert_eq!(*blocking::read(&mut third, MIB, 4096).unwrap(), [0; 4096], "what came late does not show");
    until(&mut third, |device| device.objects() == (2, 0));
    assert_eq!((names(&store, "epoch").len(), names(&store, "roll").len()), (1, 1));
}

#[test]
fn whoever_reads_only_takes_it_from_nobody_and_writes_nothing() {
    let store = made();
    let mut server = opened(&store);
    blocking::write(&mut server, 0, &[1; 4096]).unwrap();
    blocking::flush(&mut server).unwrap();
    // A reader does not delete garbage that a crash has left either.
    let name = "00000001-000000000000-0000000000000000-0000000200-zeros";
    let garbage = Path::from(format!("pool/data/{name}"));
    runtime().unwrap().block_on(store.inner.put(&garbage, PutPayload::from(Vec::new()))).unwrap();
    let puts = store.puts.load(Ordering::SeqCst);
    let mut reader = open(&store, "", OpenMode::ReadOnly).unwrap();
    assert_eq!(*blocking::read(&mut reader, 0, 4096).unwrap(), [1; 4096]);
    assert_eq!(blocking::write(&mut reader, 0, &[2; 4096]).unwrap_err().kind, IoErrorKind::Unsupported);
    blocking::flush(&mut reader).unwrap();
    assert_eq!(reader.objects(), (2, 1));
    drop(reader);
    assert!(names(&store, "data").contains(&name.to_owned()));
    assert_eq!(store.puts.load(Ordering::SeqCst), puts);
    blocking::write(&mut server, 0, &[2; 4096]).unwrap();
    blocking::flush(&mut server).unwrap();
}

#[test]
fn refuses_what_is_no_device_and_says_what_was_found() {
    let store = Arc::new(Unsteady::default());
    let refused = |result: std::result::Result<(), BucketError>, part: &str| {
        let text = result.err().unwrap().to_string();
        assert!(text.contains(part), "{text}");
    };
    let create = |uri: &BucketUri| create_in(Arc::new(Door(store.clone())), uri);
    let open = |more: &str| open(&store, more, OpenMode::ReadWrite).map(|_| ());
    refused(open(""), "forebay create");
    refused(create(&BucketUri::parse("//cold/pool").unwrap()), "add size=");
    let runtime = runtime().unwrap();
    let put = |name: &str, text: &str| {
        runtime.block_on(store.inner.put(&Path::from(name), PutPayload::from(text.as_bytes().to_vec()))).unwrap();
    };
    put("pool/photos/cat.jpg", "cat");
    refused(create(&uri("")), "pool/photos/cat.jpg");
    runtime.block_on(store.inner.delete(&Path::from("pool/photos/cat.jpg"))).unwrap();
    // Objects under another prefix belong to something else.
    put("pool2/x", "x");
    create(&uri("")).unwrap();
    create(&uri("")).unwrap();
    refused(create(&BucketUri::parse("//cold/pool?size=32MiB").unwrap()), "size=16MiB");
    open("").unwrap();
    put("pool/data/00000009-000000000001-0000000000000000-0000000200-zeros", "");
    refused(open(""), "objects below epoch/ were deleted");
    put("pool/geometry.json", "{}");
    refused(open(""), "geometry.json cannot be understood");
    let old = made();
    old.is_old.store(true, Ordering::SeqCst);
    let before = all_names(&old);
    refused(super::fixture_tests::open(&old, "", OpenMode::ReadWrite).map(|_| ()), "conditional writes");
    assert_eq!(all_names(&old), before, "an epoch was left");
    // Regression: creating a device failed, but left geometry.json behind.
    let new = Arc::new(Unsteady::default());
    new.is_old.store(true, Ordering::SeqCst);
    refused(create_in(Arc::new(Door(new.clone())), &uri("")), "conditional writes");
    assert_eq!(all_names(&new), Vec::<String>::new());
}

#[test]
fn an_object_that_was_changed_is_an_error_and_no_data() {
    let store = made();
    let mut device = opened(&store);
    blocking::write(&mut device, 0, &[1; 4096]).unwrap();
    blocking::flush(&mut device).unwrap();
    let [name] = &names(&store, "data")[..] else { panic!("one object") };
    let path = Path::from(format!("pool/data/{name}"));
    runtime().unwrap().block_on(store.inner.put(&path, PutPayload::from(vec![9; 4096]))).unwrap();
    assert_eq!(blocking::read(&mut device, 0, 4096).unwrap_err().os_error, libc::EBADMSG);
    runtime().unwrap().block_on(store.inner.put(&path, PutPayload::from(vec![1; 100]))).unwrap();
    assert!(blocking::read(&mut device, 0, 4096).is_err());
}

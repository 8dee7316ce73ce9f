//! Overcommitted disks that are far larger than the pool and are written here and there: what is said where a checkpoint has no room for more parts.

use crate::alone::Flagged;
use crate::log::Logging;
use crate::support::client::{connect_to, status};
use crate::support::*;
use forebay_device::nbd_client::{NbdClient, ZeroFlags};
use forebay_volume::layout::page::{INDEX_ENTRIES, LEAF_ENTRIES};
use forebay_volume::layout::root::RootHeader;
use forebay_volume::layout::superblock::{Superblock, copy_offsets_bytes};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Bytes of a disk that a page of the index maps.
const PART_BYTES: u64 = (LEAF_ENTRIES * INDEX_ENTRIES * 4096) as u64;

/// A pool with a disk of so many parts.
fn overcommitted(parts: u64) -> Scene {
    let scene = Scene::new();
    let fast = std::fs::File::options().write(true).open(scene.path("fast.img")).unwrap();
    fast.set_len(96 * MIB).unwrap();
    scene.edit("name = \"test\"\n", "name = \"test\"\novercommit = true\n");
    scene.edit("size = \"64MiB\"", &format!("size = \"{}\"", parts * PART_BYTES));
    scene.edit("limit = \"64MiB\"", "limit = \"512MiB\"");
    scene.created()
}

/// Zeros where a part begins: they take room in the map, and no other.
fn submit_zero(client: &mut NbdClient, part: u64) -> u64 {
    let flags = ZeroFlags { no_hole: true, ..ZeroFlags::default() };
    client.submit_write_zeroes(part * PART_BYTES, 4096, flags).unwrap()
}

/// Whether there was room for them.
fn zero(client: &mut NbdClient, part: u64) -> bool {
    let cookie = submit_zero(client, part);
    client.wait_for(cookie).unwrap().result.is_ok()
}

#[test]
fn a_map_without_room_in_the_root_is_logged_and_discards_make_room() {
    let parts = 4600;
    let scene = overcommitted(parts);
    let server = Logging::start(&scene, "json");
    let mut client = connect_to(&format!("nbd+unix:///db?socket={}", scene.path("s").display()));
    let full = (0..parts).find(|&part| !zero(&mut client, part)).expect("there is room for all");
    let event = server.awaited("map index full");
    let message = event["message"].as_str().unwrap();
    assert!(event["level"] == "error" && message.contains(&format!("has room for {full} parts of disks")), "{event}");
    assert!(event["advice"].as_str().unwrap().contains("390.6 MiB"), "{event}");
    // What has a part is written as before.
    assert!(zero(&mut client, 7));
    for part in 100..110 {
        let cookie = client.submit_trim(part * PART_BYTES, PART_BYTES as u32, false).unwrap();
        client.wait_for(cookie).unwrap().result.unwrap();
    }
    let begin = Instant::now();
    while !zero(&mut client, full) {
        assert!(begin.elapsed() < Duration::from_secs(60), "what was discarded makes no room");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(client);
    assert_eq!(server.stop(), 0);
}

/// As a program without that bound could write it: what the journal names is more than the root was made for.
#[test]
fn a_journal_that_needs_more_than_the_root_leads_to_salvage() {
    let scene = overcommitted(400);
    let server = scene.serve();
    let mut client = connect_to(&server.uri);
    let cookie = client.submit_write(0, &[7; 4096], false).unwrap();
    client.wait_for(cookie).unwrap().result.unwrap();
    assert_eq!(server.stop(), 0);
    let server = scene.serve();
    let before = status(&scene)["checkpoint"].clone();
    let mut client = connect_to(&server.uri);
    // At once, so that they share batches: a journal that is half full would bring a checkpoint.
    let cookies: Vec<u64> = (1..320).map(|part| submit_zero(&mut client, part)).collect();
    assert!(cookies.into_iter().all(|cookie| client.wait_for(cookie).unwrap().result.is_ok()));
    let cookie = client.submit_flush().unwrap();
    client.wait_for(cookie).unwrap().result.unwrap();
    assert_eq!(status(&scene)["checkpoint"], before, "more than the journal was to name");
    server.kill();
    let fast = std::fs::read(scene.path("fast.img")).unwrap();
    let superblock = Superblock::decode(&fast[..4096]).unwrap();
    let header = |at: u64| RootHeader::decode(&fast[at as usize..][..4096], &superblock.pool);
    let headers = superblock.root_offsets_bytes.into_iter().filter_map(header);
    let newest = headers.max_by_key(|header| header.checkpoint).unwrap();
    let root_len_bytes = 2 * 4096 + newest.blob_len_bytes.next_multiple_of(4096);
    for name in ["fast.img", "capacity.img"] {
        let file = std::fs::File::options().read(true).write(true).open(scene.path(name)).unwrap();
        for at in copy_offsets_bytes(file.metadata().unwrap().len()) {
            let mut bytes = [0; 4096];
            file.read_exact_at(&mut bytes, at).unwrap();
            let forged = Superblock { root_len_bytes, ..Superblock::decode(&bytes).unwrap() };
            file.write_all_at(&forged.encode(), at).unwrap();
        }
    }
    let parts = ["more parts than a checkpoint", "forebay serve --salvage", "copy it to a pool over larger devices"];
    refused(&forebay(&["serve", scene.config()]), 2, &parts);
    let salvaged = Flagged::start(&scene, "--salvage");
    let mut client = salvaged.connect();
    let cookie = client.submit_read(0, 4096).unwrap();
    let reply = client.wait_for(cookie).unwrap();
    assert!(reply.result.is_ok() && reply.data == [7; 4096]);
}

//! Adoption: a disk over a user's file, as the user sees it.

use crate::alone::Flagged;
use crate::support::client::*;
use crate::support::*;
use serde_json::Value;

/// Number of pieces of data in the base.
const PIECES: u64 = 8;
const PIECE_BYTES: u64 = DATA_BYTES as u64;

/// A pool whose disk lies over `base.img`.
fn scene(rate: &str) -> Scene {
    let scene = Scene::with(&format!("[adopt]\nrate = \"{rate}\"\n"));
    let base = scene.path("base.img");
    scene.edit("size = \"64MiB\"", &format!("size = \"64MiB\"\nbase = \"{}\"", base.display()));
    let bytes: Vec<u8> = (0..PIECES).flat_map(|piece| data(100 + piece)).collect();
    std::fs::write(base, bytes).unwrap();
    scene
}

fn base(scene: &Scene) -> Value {
    status(scene)["disks"][0]["base"].clone()
}

#[track_caller]
fn all_holds(server: &Server, changed: &[(u64, u64)]) {
    for piece in 0..PIECES {
        let seed = changed.iter().find(|(at, _)| *at == piece).map_or(100 + piece, |(_, seed)| *seed);
        holds(server, piece * PIECE_BYTES, seed);
    }
}

#[test]
fn a_disk_moves_in_while_it_is_used_and_does_without_its_base_in_the_end() {
    let scene = scene("64KiB").created();
    let untouched = std::fs::read(scene.path("base.img")).unwrap();
    let server = scene.serve();
    all_holds(&server, &[]);
    write(&server, 3 * PIECE_BYTES, 1);
    let early = forebay(&["disk", scene.config(), "detach-base", "db"]);
    refused(&early, 2, &["base of disk \"db\" is needed yet"]);
    server.kill();
    let server = scene.serve();
    all_holds(&server, &[(3, 1)]);
    let text = good(&forebay(&["disk", scene.config(), "list"]));
    assert!(text.contains("% of 16 MiB"), "{text}");
    scene.edit("rate = \"64KiB\"", "rate = \"1GiB\"");
    server.reload();
    write(&server, 5 * PIECE_BYTES, 2);
    until("all of it was copied", || base(&scene)["complete"] == true);
    good(&forebay(&["disk", scene.config(), "detach-base", "db"]));
    assert_eq!(base(&scene), Value::Null);
    assert!(std::fs::read(scene.path("base.img")).unwrap() == untouched, "the base was written to");
    std::fs::remove_file(scene.path("base.img")).unwrap();
    server.kill();
    // After detaching, the base in the configuration has no effect.
    let server = scene.serve();
    all_holds(&server, &[(3, 1), (5, 2)]);
    assert_eq!(server.stop(), 0);
    good(&forebay(&["verify", scene.config()]));
}

#[test]
fn a_base_that_is_missing_or_is_not_what_it_was_is_refused() {
    let scene = scene("64KiB").created();
    let base = scene.path("base.img");
    let away = scene.path("away.img");
    std::fs::rename(&base, &away).unwrap();
    refused(
        &forebay(&["serve", scene.config()]),
        2,
        &["base", "of disk \"db\"", "No such file", "bring it back", "detach-base db"],
    );
    let mut bytes = std::fs::read(&away).unwrap();
    bytes[4096] ^= 1;
    std::fs::write(&base, &bytes).unwrap();
    refused(&forebay(&["serve", scene.config()]), 2, &["is not what disk \"db\" was laid over", "detach-base db"]);
    bytes.truncate(bytes.len() - 4096);
    std::fs::write(&base, &bytes).unwrap();
    refused(&forebay(&["serve", scene.config()]), 2, &["was laid over a device of 16777216 bytes"]);
    std::fs::rename(&away, &base).unwrap();
    let server = scene.serve();
    all_holds(&server, &[]);
    drop(server);
    scene.edit(&format!("base = \"{}\"", base.display()), "");
    refused(&forebay(&["serve", scene.config()]), 2, &["lies over a base of 16 MiB", "name it, as `base`"]);
}

/// One lost base kept the whole pool from being served, with every other disk in it.
#[test]
fn regression_a_disk_without_its_base_takes_no_other_disk_with_it() {
    let scene = scene("64KiB").created();
    let server = scene.serve();
    good(&forebay(&["disk", scene.config(), "add", "other", "16MiB", "--export"]));
    assert_eq!(server.stop(), 0);
    let config = std::fs::read_to_string(scene.config()).unwrap();
    let door = config.lines().find(|line| line.starts_with("nbd")).unwrap();
    let disk = "[[disk]]\nname = \"other\"\nsize = \"16MiB\"\n";
    std::fs::write(scene.config(), format!("{config}\n{disk}[[export]]\ndisk = \"other\"\n{door}\n")).unwrap();
    let (there, away) = (scene.path("base.img"), scene.path("away.img"));
    std::fs::rename(&there, &away).unwrap();
    refused(&forebay(&["serve", scene.config()]), 2, &["disk \"db\" needs its base", "--accept-loss"]);
    let server = Flagged::start(&scene, "--accept-loss");
    assert_eq!(base(&scene)["missing"], true);
    let mut client = server.connect();
    let cookie = client.submit_read(0, 4096).unwrap();
    assert!(client.wait_for(cookie).unwrap().result.is_err(), "a disk without its base was read");
    let mut other = connect_to(&server.uri().replace("/db?", "/other?"));
    let cookie = other.submit_write(0, &data(1), true).unwrap();
    other.wait_for(cookie).unwrap().result.unwrap();
    drop((client, other));
    refused(&forebay(&["disk", scene.config(), "detach-base", "db"]), 2, &["base of disk \"db\" is needed yet"]);
    drop(server);
    std::fs::rename(&away, &there).unwrap();
    let server = scene.serve();
    assert_eq!(base(&scene)["missing"], false);
    all_holds(&server, &[]);
}

#[test]
fn what_cannot_be_a_base_is_refused_before_anything_is_written() {
    let before = |scene: &Scene| std::fs::read(scene.path("fast.img")).unwrap();
    let long = scene("1MiB");
    std::fs::File::create(long.path("base.img")).unwrap().set_len(65 * MIB).unwrap();
    let blank = before(&long);
    refused(&forebay(&["create", long.config()]), 2, &["68157440 bytes", "does not fit"]);
    // 4100 bytes end inside a 512-byte block: the part behind the last whole block was left out silently.
    for bytes in [4100, 5000] {
        std::fs::write(long.path("base.img"), vec![1; bytes]).unwrap();
        let what = format!("has {bytes} bytes: a base is a multiple of 4096");
        refused(&forebay(&["create", long.config()]), 2, &[&what]);
    }
    let own = long.path("capacity.img");
    long.edit(&long.path("base.img").display().to_string(), &own.display().to_string());
    refused(&forebay(&["create", long.config()]), 2, &["one and the same device"]);
    assert!(before(&long) == blank);
}

/// With the capacity tier alone, a discarded block looked like one that was never written, so the base showed through.
#[test]
fn regression_without_the_fast_tier_nothing_discarded_shows_the_base() {
    let scene = scene("64KiB").created();
    let server = scene.serve();
    let mut client = connect(&server);
    let cookie = client.submit_trim(3 * PIECE_BYTES, PIECE_BYTES as u32, true).unwrap();
    client.wait_for(cookie).unwrap().result.unwrap();
    drop(client);
    until("the first blocks were copied", || base(&scene)["copied_bytes"].as_u64() > Some(0));
    assert_eq!(server.stop(), 0);
    std::fs::remove_file(scene.path("fast.img")).unwrap();
    let alone = Flagged::start(&scene, "--without-fast");
    let mut client = alone.connect();
    let cookie = client.submit_read(3 * PIECE_BYTES, 4096).unwrap();
    let reply = client.wait_for(cookie).unwrap();
    assert!(reply.result.is_err() || reply.data.iter().all(|&byte| byte == 0), "the base shows");
    // Copied data can be read.
    let cookie = client.submit_read(0, 4096).unwrap();
    let reply = client.wait_for(cookie).unwrap();
    assert!(reply.result.is_ok() && reply.data == data(100)[..4096], "{:?}", reply.result);
}

#[test]
fn a_disk_over_a_base_is_added_to_a_running_pool_and_removed_again() {
    let scene = Scene::with("[adopt]\nrate = \"64KiB\"\n").created();
    let bytes: Vec<u8> = (0..PIECES).flat_map(|piece| data(100 + piece)).collect();
    std::fs::write(scene.path("old.img"), &bytes).unwrap();
    let server = scene.serve();
    let old = scene.path("old.img");
    let add = ["disk", scene.config(), "add", "old", "32MiB", "--export", "--base", old.to_str().unwrap()];
    let added = forebay(&add);
    good(&added);
    assert!(err(&added).contains("base"), "{}", err(&added));
    let uri = server.uri.replace("/db?", "/old?");
    let mut endpoint = server;
    endpoint.uri = uri;
    all_holds(&endpoint, &[]);
    // The base cannot be used twice, or become a member of a pool meanwhile.
    let twice =
        forebay(&["disk", scene.config(), "add", "two", "32MiB", "--base", scene.path("fast.img").to_str().unwrap()]);
    refused(&twice, 2, &["in use"]);
    good(&forebay(&["disk", scene.config(), "remove", "old", "--destroy-data", "old"]));
    assert!(std::fs::read(&old).unwrap() == bytes);
    good(&forebay(&["status", scene.config()]));
}

//! A read cache as a user sees it: repeated reads come from the fast tier, also after a kill.

use crate::support::client::*;
use crate::support::*;
use serde_json::Value;

const MIB_BYTES: u64 = 1 << 20;
/// Number of 4 KiB blocks read.
const BLOCKS: u64 = DATA_BYTES as u64 / 4096;

/// All data goes to the capacity tier; reads are cached on the fast tier, but not in memory.
fn scene() -> Scene {
    Scene::with(
        "[read_cache]\nrate = \"1GiB\"\nmemory = \"0\"\n\n[[class]]\nname = \"cold\"\nplace = \"capacity\"\nread_cache = true\n",
    )
    .created()
}

/// Reads each block once in a non-sequential order.
fn read_blocks(server: &Server, seed: u64) {
    let (mut client, expected) = (connect(server), data(seed));
    for at in (0..BLOCKS).map(|at| at * 197 % BLOCKS) {
        let cookie = client.submit_read(at * 4096, 4096).unwrap();
        let reply = client.wait_for(cookie).unwrap();
        assert!(reply.result.is_ok(), "{:?}", reply.result);
        assert!(reply.data == expected[at as usize * 4096..][..4096], "block {at}");
    }
}

/// Bytes read from copies and from elsewhere since the server's start.
fn reads(scene: &Scene) -> (u64, u64) {
    let cache: Value = status(scene)["read_cache"].clone();
    (cache["hit_bytes"].as_u64().unwrap(), cache["missed_bytes"].as_u64().unwrap())
}

#[test]
fn what_is_read_again_comes_from_the_fast_tier_also_after_a_kill() {
    let scene = scene();
    let server = scene.serve();
    write(&server, 0, 1);
    read_blocks(&server, 1);
    let all = DATA_BYTES as u64;
    let held = || status(&scene)["read_cache"]["held_bytes"].as_u64().unwrap();
    // The rate limit and the limit of concurrent fills may have left some blocks out.
    until("nearly all that was read has a copy", || {
        read_blocks(&server, 1);
        held() >= all * 98 / 100
    });
    let before = reads(&scene).0;
    read_blocks(&server, 1);
    assert!(reads(&scene).0 - before >= all * 98 / 100);
    let text = good(&forebay(&["status", scene.config()]));
    assert!(text.contains("read cache holds") && text.contains("kept for it, and"), "{text}");
    // The list of copies is written every second.
    std::thread::sleep(std::time::Duration::from_secs(3));
    server.kill();
    let server = scene.serve();
    read_blocks(&server, 1);
    let (hits, misses) = reads(&scene);
    assert!(hits * 20 >= (hits + misses) * 19, "{hits} of {} after the kill", hits + misses);
    // An overwritten block is read with its new data.
    write(&server, 0, 2);
    holds(&server, 0, 2);
    assert_eq!(server.stop(), 0);
    good(&forebay(&["verify", scene.config()]));
    let server = scene.serve();
    holds(&server, 0, 2);
}

#[test]
fn it_is_switched_on_and_off_live_and_bad_rates_are_refused() {
    let scene = Scene::new().created();
    let server = scene.serve();
    assert_eq!(status(&scene)["read_cache"], Value::Null);
    good(&forebay(&["class", scene.config(), "set", "cold", "--place", "capacity", "--read-cache", "true"]));
    write(&server, 0, 1);
    read_blocks(&server, 1);
    until("something is cached", || {
        read_blocks(&server, 1);
        status(&scene)["read_cache"]["held_bytes"].as_u64().unwrap() > MIB_BYTES
    });
    good(&forebay(&["class", scene.config(), "set", "cold", "--read-cache", "false"]));
    until("nothing is cached", || status(&scene)["read_cache"] == Value::Null);
    holds(&server, 0, 1);
    drop(server);
    scene.edit("[[disk]]", "[read_cache]\nrate = \"1KiB\"\n\n[[disk]]");
    refused(&forebay(&["config", "check", scene.config()]), 1, &["read_cache.rate", "64KiB"]);
}

#[test]
fn what_was_read_last_comes_from_memory_as_far_as_that_is_to_go() {
    let scene = scene();
    // A quarter of the data.
    scene.edit("memory = \"0\"", "memory = \"512KiB\"");
    let server = scene.serve();
    write(&server, 0, 1);
    // An eighth of the blocks repeatedly, with all other blocks once in between.
    let (mut client, expected) = (connect(&server), data(1));
    for round in 0..4 {
        for at in (0..BLOCKS / 8).map(|at| at * 8 * 37 % BLOCKS) {
            let cookie = client.submit_read(at * 4096, 4096).unwrap();
            assert!(client.wait_for(cookie).unwrap().data == expected[at as usize * 4096..][..4096], "block {at}");
        }
        if round == 1 {
            read_blocks(&server, 1);
        }
    }
    let cache: Value = status(&scene)["read_cache"].clone();
    let of = |key: &str| cache[key].as_u64().unwrap();
    assert!((MIB_BYTES / 4..=MIB_BYTES / 2).contains(&of("memory_held_bytes")), "{cache}");
    // The first time it is read, and no more than one time after what was read once.
    assert!(of("memory_hit_bytes") * 4 >= DATA_BYTES as u64, "{cache}");
    let read_bytes = of("memory_hit_bytes") + of("hit_bytes") + of("missed_bytes");
    assert_eq!(read_bytes, 3 * DATA_BYTES as u64 / 2, "each read counts once: {cache}");
    let ratio = (of("memory_hit_bytes") + of("hit_bytes")) as f64 / read_bytes as f64;
    assert!((cache["hit_ratio"].as_f64().unwrap() - ratio).abs() < 1e-9, "{cache}");
    // An overwritten block is read with its new data.
    write(&server, 0, 2);
    read_blocks(&server, 2);
    assert_eq!(server.stop(), 0);
    scene.edit("memory = \"512KiB\"", "memory = \"3GiB\"");
    refused(&forebay(&["config", "check", scene.config()]), 1, &["read_cache.memory", "half of memory.limit"]);
}

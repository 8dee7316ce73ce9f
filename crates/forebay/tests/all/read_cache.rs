//! A read cache as a user sees it: what is read again comes from the fast tier, also after a kill.

use crate::support::client::*;
use crate::support::*;
use serde_json::Value;

const MIB_BYTES: u64 = 1 << 20;
/// Blocks that are read, of 4 KiB.
const BLOCKS: u64 = DATA_BYTES as u64 / 4096;

/// All goes to the capacity tier, and what is read of it is cached.
fn scene() -> Scene {
    Scene::with(
        "[read_cache]\nrate = \"1GiB\"\n\n[[class]]\nname = \"cold\"\nplace = \"capacity\"\nread_cache = true\n",
    )
    .created()
}

/// Reads each block once, in an order that is no sequence.
fn read_blocks(server: &Server, seed: u64) {
    let (mut client, expected) = (connect(server), data(seed));
    for at in (0..BLOCKS).map(|at| at * 197 % BLOCKS) {
        let cookie = client.submit_read(at * 4096, 4096).unwrap();
        let reply = client.wait_for(cookie).unwrap();
        assert!(reply.result.is_ok(), "{:?}", reply.result);
        assert!(reply.data == expected[at as usize * 4096..][..4096], "block {at}");
    }
}

/// Bytes read from copies and elsewhere since the server began.
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
    // The rate, and what is on its way at once, may have left some out.
    until("nearly all that was read has a copy", || {
        read_blocks(&server, 1);
        held() >= all * 98 / 100
    });
    let before = reads(&scene).0;
    read_blocks(&server, 1);
    assert!(reads(&scene).0 - before >= all * 98 / 100);
    let text = good(&forebay(&["status", scene.config()]));
    assert!(text.contains("read cache holds") && text.contains("kept for it; hits"), "{text}");
    // A list of it is written each second.
    std::thread::sleep(std::time::Duration::from_secs(3));
    server.kill();
    let server = scene.serve();
    read_blocks(&server, 1);
    let (hits, misses) = reads(&scene);
    assert!(hits * 20 >= (hits + misses) * 19, "{hits} of {} after the kill", hits + misses);
    // What is written over is read as it is now.
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

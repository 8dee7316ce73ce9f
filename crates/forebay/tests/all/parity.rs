//! A capacity tier with parity: members that are lost, killed, rot and are replaced, and what a user sees.

use crate::support::client::*;
use crate::support::members::*;
use crate::support::*;
use serde_json::Value;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

/// A pool with three capacity devices, one of which may be lost; all its data goes there.
pub fn with_parity() -> Scene {
    let scene = Scene::with("\n[[class]]\nname = \"all\"\nplace = \"capacity\"\npriority = 1\nmatch = [\"disk:db\"]\n");
    scene.edit("name = \"test\"\n", "name = \"test\"\nredundancy = \"2+1\"\n");
    let section = |name: &str| format!("[[capacity]]\ntarget = \"{}\"\n\n", scene.path(name).display());
    scene.edit("[[capacity]]", &format!("{}{}[[capacity]]", section("second.img"), section("third.img")));
    ["second.img", "third.img"].iter().for_each(|name| blank(&scene.path(name), 256));
    scene.created()
}

#[test]
fn a_lost_device_is_made_up_for_replaced_and_rebuilt_and_then_another_may_be_lost() {
    let scene = with_parity();
    let server = scene.serve();
    write(&server, 0, 1);
    server.kill();
    std::fs::remove_file(scene.path("second.img")).unwrap();
    let server = scene.serve();
    holds(&server, 0, 1);
    assert_eq!(states(&scene, "parity"), ["out", "in sync", "in sync"]);
    let text = good(&forebay(&["status", scene.config()]));
    assert!(text.contains("parity 2+1: 2 of 3 members hold everything") && text.contains("is OUT"), "{text}");
    write(&server, 4 * MIB, 2);
    // A new device becomes a member while the pool is served.
    blank(&scene.path("second.img"), 256);
    server.reload();
    until_rebuilt(&scene, "parity");
    write(&server, 8 * MIB, 3);
    server.kill();
    std::fs::remove_file(scene.path("capacity.img")).unwrap();
    let server = scene.serve();
    for (offset_mib, seed) in [(0, 1), (4, 2), (8, 3)] {
        holds(&server, offset_mib * MIB, seed);
    }
    assert_eq!(server.stop(), 0);
    good(&forebay(&["verify", scene.config()]));
    // A blank device in its place is rebuilt at the next start too.
    blank(&scene.path("capacity.img"), 256);
    let server = scene.serve();
    until_rebuilt(&scene, "parity");
    assert_eq!(server.stop(), 0);
}

#[test]
fn more_lost_devices_than_there_is_parity_for_are_named_and_nothing_is_changed() {
    let scene = with_parity();
    let server = scene.serve();
    write(&server, 0, 1);
    assert_eq!(server.stop(), 0);
    let (second, third) = (scene.path("second.img"), scene.path("third.img"));
    let (aside, other) = (scene.path("aside.img"), scene.path("other.img"));
    std::fs::rename(&second, &aside).unwrap();
    std::fs::rename(&third, &other).unwrap();
    let before = std::fs::read(scene.path("capacity.img")).unwrap();
    refused(&forebay(&["serve", scene.config()]), 2, &["1 of 3 members", "2 are needed", "second.img"]);
    assert!(std::fs::read(scene.path("capacity.img")).unwrap() == before, "it was written to");
    std::fs::rename(&other, &third).unwrap();
    let server = scene.serve();
    write(&server, 0, 2);
    assert_eq!(server.stop(), 0);
    // The returning member is stale and is never taken as current.
    std::fs::rename(&third, &other).unwrap();
    std::fs::rename(&aside, &second).unwrap();
    refused(&forebay(&["serve", scene.config()]), 2, &["1 of 3 members", "older"]);
    std::fs::rename(&other, &third).unwrap();
    let server = scene.serve();
    holds(&server, 0, 2);
    until_rebuilt(&scene, "parity");
    server.kill();
    std::fs::remove_file(&third).unwrap();
    let server = scene.serve();
    holds(&server, 0, 2);
}

#[test]
fn what_rots_on_one_device_is_made_up_for_by_the_others_and_mended() {
    let scene = with_parity();
    let server = scene.serve();
    write(&server, 0, 1);
    write(&server, 16 * MIB, 2);
    assert_eq!(server.stop(), 0);
    let file = OpenOptions::new().write(true).open(scene.path("second.img")).unwrap();
    // Everything after the log.
    file.write_all_at(&vec![0xa5; 60 << 20], 4 << 20).unwrap();
    let server = scene.serve();
    holds(&server, 0, 1);
    good(&forebay(&["scrub", scene.config(), "start"]));
    until("the scrub has ended", || status(&scene)["scrub"]["state"] == "idle");
    let status = status(&scene);
    assert_eq!(status["scrub"]["last_pass"]["damaged_bytes"], 0, "{}", status["scrub"]);
    assert!(status["counters"]["mended_blocks"].as_u64().unwrap() > 0, "{}", status["counters"]);
    assert!(status["parity"]["mended_blocks"].as_u64().unwrap() > 0, "{}", status["parity"]);
    // A scrub reported only that nothing was damaged.
    let said = good(&forebay(&["scrub", scene.config(), "status"]));
    assert!(said.contains("nothing damaged; since the server's start") && said.contains("and mended"), "{said}");
    holds(&server, 16 * MIB, 2);
    assert_eq!(server.stop(), 0);
}

#[test]
fn redundancies_that_cannot_be_are_refused_with_what_can() {
    let scene = Scene::with("");
    for (redundancy, wanted) in [("2+2", "2+1"), ("3", "data+parity"), ("4+2", "6 [[capacity]] sections")] {
        let text = std::fs::read_to_string(scene.config()).unwrap();
        let other = text.replace("name = \"test\"\n", &format!("name = \"test\"\nredundancy = \"{redundancy}\"\n"));
        std::fs::write(scene.path("other.toml"), other).unwrap();
        let path = scene.path("other.toml");
        refused(&forebay(&["create", path.to_str().unwrap()]), 2, &[wanted]);
    }
}

/// A member whose reads all failed was not reported: the tier counted as one device, which never failed.
#[test]
fn regression_reads_that_one_member_fails_are_shown_under_its_name() {
    let scene = with_parity();
    let server = scene.serve();
    write(&server, 0, 1);
    failed_reads_are_shown(&scene, &server, "second.img", "capacity");
}

/// With as many members missing as there is parity nothing can be compared with it, which is no success.
#[test]
fn a_verification_says_what_it_could_not_compare_with_parity() {
    let scene = with_parity();
    let server = scene.serve();
    write(&server, 0, 1);
    assert_eq!(server.stop(), 0);
    let verified =
        || -> Value { serde_json::from_str(&good(&forebay(&["verify", scene.config(), "--output", "json"]))).unwrap() };
    assert_eq!(verified()["not_compared_blocks"], 0);
    std::fs::remove_file(scene.path("second.img")).unwrap();
    let blocks = verified()["not_compared_blocks"].as_u64().unwrap();
    assert!(blocks >= DATA_BYTES as u64 / 4096, "{blocks}");
    let text = good(&forebay(&["verify", scene.config()]));
    assert!(text.contains(&format!("NOT COMPARED with parity: {blocks} blocks")), "{text}");
}

/// The size of the tier was taken for that of the member: each good member was called damaged.
#[test]
fn regression_a_good_member_is_inspected_without_findings_and_shows_who_the_others_are() {
    let scene = with_parity();
    let names = ["second.img", "third.img", "capacity.img"];
    let inspect = |name: &str| forebay(&["inspect", scene.path(name).to_str().unwrap()]);
    for (number, name) in names.into_iter().enumerate() {
        let text = good(&inspect(name));
        assert_eq!(text.matches(": good").count(), 3, "{text}");
        assert!(text.contains(&format!("member {number} of a capacity tier with parity 2+1")), "{text}");
        let own = text.lines().find(|line| line.ends_with(", which is this one"));
        assert!(own.is_some_and(|line| line.starts_with(&format!("  {number}: "))), "{text}");
    }
    // A missing member is named by the id that another member's `inspect` shows.
    std::fs::remove_file(scene.path("second.img")).unwrap();
    let server = scene.serve();
    let status = status(&scene);
    let missing = status["parity"]["members"][0]["id"].as_str().unwrap().to_owned();
    // Its name was empty.
    assert!(status["parity"]["members"][0]["name"].as_str().unwrap().ends_with("/second.img"), "{status}");
    let why = status["parity"]["members"][0]["why"].as_str().unwrap();
    assert!(why.contains("second.img was not taken for it") && why.matches("No such file").count() == 1, "{why}");
    assert_eq!(server.stop(), 0);
    let text = good(&inspect("third.img"));
    let line = text.lines().find(|line| line.starts_with("  0: ")).unwrap();
    assert!(line.contains(&missing) && line.ends_with("which does not hold everything"), "{text}");
    // A truncated member is still damaged.
    let file = OpenOptions::new().write(true).open(scene.path("third.img")).unwrap();
    file.set_len(128 * MIB).unwrap();
    let cut = inspect("third.img");
    assert_eq!(code(&cut), 1);
    assert!(err(&cut).contains("it has 134217728 bytes, but had 268435456"), "{}", err(&cut));
}

/// A member whose file was truncated was kept, and its reads failed one by one.
#[test]
fn regression_a_member_that_becomes_shorter_while_it_is_served_is_left_behind() {
    let scene = with_parity();
    let server = scene.serve();
    write(&server, 0, 1);
    until("it was looked at", || status(&scene)["uptime_seconds"].as_f64().unwrap() > 1.5);
    let second = OpenOptions::new().write(true).open(scene.path("second.img")).unwrap();
    second.set_len(200 * MIB).unwrap();
    is_left_behind_and_rebuilt(&scene, &server, ("second.img", 256), "parity", "it is shorter than the");
    assert_eq!(server.stop(), 0);
    std::fs::remove_file(scene.path("third.img")).unwrap();
    let server = scene.serve();
    holds(&server, 0, 1);
    holds(&server, 4 * MIB, 2);
}

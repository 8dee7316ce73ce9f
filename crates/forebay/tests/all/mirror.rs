//! A mirrored fast tier: members that fail, return, rot and are replaced, and what a user sees.

use crate::alone::Flagged;
use crate::support::client::*;
use crate::support::members::*;
use crate::support::*;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// A pool with two fast devices, `fast.img` and `other.img`.
fn mirrored() -> Scene {
    let scene = Scene::with("");
    scene
        .edit("[[capacity]]", &format!("[[fast]]\ntarget = \"{}\"\n\n[[capacity]]", scene.path("other.img").display()));
    blank(&scene.path("other.img"), 64);
    scene.created()
}

#[test]
fn a_lost_member_is_replaced_and_rebuilt_and_then_the_other_may_be_lost() {
    let scene = mirrored();
    let server = scene.serve();
    write(&server, 0, 1);
    server.kill();
    std::fs::remove_file(scene.path("fast.img")).unwrap();
    let server = scene.serve();
    holds(&server, 0, 1);
    assert_eq!(states(&scene, "mirror"), ["out", "in sync"]);
    let text = good(&forebay(&["status", scene.config()]));
    assert!(text.contains("1 of 2 members hold everything") && text.contains("is OUT"), "{text}");
    write(&server, 4 * MIB, 2);
    assert_eq!(server.stop(), 0);
    blank(&scene.path("fast.img"), 64);
    let server = scene.serve();
    until_rebuilt(&scene, "mirror");
    write(&server, 8 * MIB, 3);
    server.kill();
    std::fs::remove_file(scene.path("other.img")).unwrap();
    let server = scene.serve();
    for (offset_mib, seed) in [(0, 1), (4, 2), (8, 3)] {
        holds(&server, offset_mib * MIB, seed);
    }
    assert_eq!(server.stop(), 0);
    good(&forebay(&["verify", scene.config()]));
}

#[test]
fn a_member_that_was_left_behind_is_never_opened_alone() {
    let scene = mirrored();
    let server = scene.serve();
    write(&server, 0, 1);
    assert_eq!(server.stop(), 0);
    let (fast, other, aside) = (scene.path("fast.img"), scene.path("other.img"), scene.path("aside.img"));
    std::fs::rename(&other, &aside).unwrap();
    let server = scene.serve();
    write(&server, 0, 2);
    assert_eq!(server.stop(), 0);
    let hidden = scene.path("hidden.img");
    std::fs::rename(&fast, &hidden).unwrap();
    std::fs::rename(&aside, &other).unwrap();
    refused(&forebay(&["serve", scene.config()]), 2, &["the mirror went on without", "--without-fast"]);
    // When the member returns, no data is lost, and the stale member is rebuilt.
    std::fs::rename(&hidden, &fast).unwrap();
    let server = scene.serve();
    holds(&server, 0, 2);
    until_rebuilt(&scene, "mirror");
    server.kill();
    std::fs::remove_file(&fast).unwrap();
    let server = scene.serve();
    holds(&server, 0, 2);
}

/// A former member that was used for something else was rebuilt over, because one of its labels was left.
#[test]
fn regression_a_former_member_that_holds_something_else_is_left_alone() {
    let scene = mirrored();
    let server = scene.serve();
    write(&server, 0, 1);
    assert_eq!(server.stop(), 0);
    let other = scene.path("other.img");
    let file = OpenOptions::new().write(true).open(&other).unwrap();
    file.write_all_at(b"SQLite format 3\0", 0).unwrap();
    let before = std::fs::read(&other).unwrap();
    let server = scene.serve();
    assert_eq!(states(&scene, "mirror"), ["in sync", "out"]);
    // That it is not there was all that was said of it, beside a device that was refused.
    let member = status(&scene)["mirror"]["members"][1].clone();
    assert!(member["name"].as_str().unwrap().ends_with("/other.img"), "{member}");
    let why = member["why"].as_str().unwrap().to_owned();
    assert!(why.contains("other.img was not taken for it: it holds SQLite"), "{why}");
    server.reload();
    holds(&server, 0, 1);
    assert_eq!(server.stop(), 0);
    assert!(std::fs::read(&other).unwrap() == before, "it was written to");
}

#[test]
fn a_device_becomes_a_member_while_the_pool_is_served() {
    let scene = mirrored();
    std::fs::remove_file(scene.path("other.img")).unwrap();
    let server = scene.serve();
    write(&server, 0, 1);
    // Data on a device is not overwritten.
    blank(&scene.path("other.img"), 64);
    let file = OpenOptions::new().write(true).open(scene.path("other.img")).unwrap();
    file.write_all_at(b"SQLite format 3\0", 0).unwrap();
    server.reload();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(states(&scene, "mirror"), ["in sync", "out"]);
    assert!(std::fs::read(scene.path("other.img")).unwrap().starts_with(b"SQLite format 3\0"));
    blank(&scene.path("other.img"), 64);
    server.reload();
    until_rebuilt(&scene, "mirror");
    write(&server, 4 * MIB, 2);
    server.kill();
    std::fs::remove_file(scene.path("fast.img")).unwrap();
    let server = scene.serve();
    holds(&server, 0, 1);
    holds(&server, 4 * MIB, 2);
}

/// SIGHUP opened and examined devices on the thread that answers clients: a device in use delayed them for a second, one that did not
/// answer for ever.
#[test]
fn regression_devices_are_looked_at_beside_the_clients() {
    let scene = mirrored();
    std::fs::remove_file(scene.path("other.img")).unwrap();
    let server = scene.serve();
    write(&server, 0, 1);
    blank(&scene.path("other.img"), 64);
    let held = OpenOptions::new().write(true).open(scene.path("other.img")).unwrap();
    held.lock().unwrap();
    let mut client = connect(&server);
    server.reload();
    let (begun, mut longest) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < Duration::from_millis(1500) {
        let asked = Instant::now();
        let cookie = client.submit_read(0, 4096).unwrap();
        client.wait_for(cookie).unwrap().result.unwrap();
        longest = longest.max(asked.elapsed());
    }
    assert!(longest < Duration::from_millis(700), "{longest:?}");
    drop(held);
    server.reload();
    until_rebuilt(&scene, "mirror");
    assert_eq!(server.stop(), 0);
}

#[test]
fn what_rots_on_one_member_is_answered_by_the_other_and_a_scrub_mends_it() {
    let scene = mirrored();
    let server = scene.serve();
    write(&server, 0, 1);
    write(&server, 16 * MIB, 2);
    assert_eq!(server.stop(), 0);
    // Everything that a member stores after its journal: data and map.
    let file = OpenOptions::new().write(true).open(scene.path("fast.img")).unwrap();
    file.write_all_at(&vec![0xa5; 40 << 20], 20 << 20).unwrap();
    file.write_all_at(&vec![0xa5; 12 << 20], 6 << 20).unwrap();
    let server = scene.serve();
    holds(&server, 0, 1);
    good(&forebay(&["scrub", scene.config(), "start"]));
    until("the scrub has ended", || status(&scene)["scrub"]["state"] == "idle");
    let status = status(&scene);
    assert_eq!(status["scrub"]["last_pass"]["damaged_bytes"], 0, "{}", status["scrub"]);
    assert!(status["counters"]["mended_blocks"].as_u64().unwrap() > 0, "{}", status["counters"]);
    assert!(status["mirror"]["mended_blocks"].as_u64().unwrap() > 0, "{}", status["mirror"]);
    assert_eq!(server.stop(), 0);
    std::fs::remove_file(scene.path("other.img")).unwrap();
    let server = scene.serve();
    holds(&server, 0, 1);
    holds(&server, 16 * MIB, 2);
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_pool_with_one_fast_device_is_given_a_second() {
    let scene = Scene::new().created();
    let server = scene.serve();
    write(&server, 0, 1);
    assert_eq!(server.stop(), 0);
    scene
        .edit("[[capacity]]", &format!("[[fast]]\ntarget = \"{}\"\n\n[[capacity]]", scene.path("other.img").display()));
    blank(&scene.path("other.img"), 64);
    let server = scene.serve();
    until_rebuilt(&scene, "mirror");
    write(&server, 4 * MIB, 2);
    assert_eq!(server.stop(), 0);
    std::fs::remove_file(scene.path("fast.img")).unwrap();
    let server = scene.serve();
    holds(&server, 0, 1);
    holds(&server, 4 * MIB, 2);
}

#[test]
fn blank_members_beside_a_pool_never_lead_to_formatting_it() {
    let scene = mirrored();
    for name in ["fast.img", "other.img"] {
        blank(&scene.path(name), 64);
    }
    let output = forebay(&["serve", scene.config()]);
    refused(&output, 2, &["Format nothing", "--without-fast"]);
    assert!(!err(&output).contains("run `forebay create"), "{}", err(&output));
}

/// A member whose reads all failed was not reported: the mirror counted as one device, which never failed.
#[test]
fn regression_reads_that_one_member_fails_are_shown_under_its_name() {
    let scene = mirrored();
    let server = scene.serve();
    write(&server, 0, 1);
    failed_reads_are_shown(&scene, &server, "other.img", "fast");
}

#[test]
fn a_member_whose_section_is_gone_is_dropped_where_that_is_asked_for() {
    let scene = mirrored();
    let server = scene.serve();
    write(&server, 0, 1);
    assert_eq!(server.stop(), 0);
    std::fs::remove_file(scene.path("other.img")).unwrap();
    let refusal = forebay(&["serve", scene.config(), "--drop-members"]);
    refused(
        &refusal,
        2,
        &["other.img", "take the sections of members that are gone for good out of the configuration"],
    );
    scene.edit(&format!("[[fast]]\ntarget = \"{}\"\n\n", scene.path("other.img").display()), "");
    let server = scene.serve();
    assert_eq!(states(&scene, "mirror"), ["in sync", "out"]);
    assert_eq!(server.stop(), 0);
    let server = Flagged::start(&scene, "--drop-members");
    assert_eq!(states(&scene, "mirror"), ["in sync"]);
    drop(server);
    let server = scene.serve();
    assert_eq!(states(&scene, "mirror"), ["in sync"]);
    holds(&server, 0, 1);
}

/// A member whose file was wiped under the server counted as complete until the next start, which found it blank.
#[test]
fn regression_a_member_that_is_wiped_while_it_is_served_is_left_behind() {
    let scene = mirrored();
    let server = scene.serve();
    write(&server, 0, 1);
    until("it was looked at", || status(&scene)["uptime_seconds"].as_f64().unwrap() > 1.5);
    let other = OpenOptions::new().write(true).open(scene.path("other.img")).unwrap();
    other.write_all_at(&vec![0; 64 << 20], 0).unwrap();
    is_left_behind_and_rebuilt(&scene, &server, ("other.img", 64), "mirror", "was written over");
    assert_eq!(server.stop(), 0);
    std::fs::remove_file(scene.path("fast.img")).unwrap();
    let server = scene.serve();
    holds(&server, 0, 1);
    holds(&server, 4 * MIB, 2);
}

/// The last complete member is never left behind, because it may hold the only data.
#[test]
fn regression_the_last_member_is_named_and_kept_where_it_is_overwritten() {
    let scene = mirrored();
    std::fs::remove_file(scene.path("other.img")).unwrap();
    let server = scene.serve();
    write(&server, 0, 1);
    until("it was looked at", || status(&scene)["uptime_seconds"].as_f64().unwrap() > 1.5);
    let fast = OpenOptions::new().write(true).open(scene.path("fast.img")).unwrap();
    fast.write_all_at(b"LABELONE".repeat(512).as_slice(), 0).unwrap();
    let text = || good(&forebay(&["status", scene.config()]));
    until("it is named", || text().contains("fast.img: IS NOT WHAT IT WAS when the pool was opened"));
    assert_eq!(states(&scene, "mirror"), ["in sync", "out"]);
    holds(&server, 0, 1);
}

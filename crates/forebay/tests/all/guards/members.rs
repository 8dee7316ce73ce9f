//! Members that are missing, blank, of another pool, or one file under two names.

use super::foreign::Untouched;
use crate::support::*;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};

fn blank(scene: &Scene, name: &str) {
    let size = std::fs::metadata(scene.path(name)).unwrap().len();
    std::fs::remove_file(scene.path(name)).unwrap();
    File::create(scene.path(name)).unwrap().set_len(size).unwrap();
}

fn serve(scene: &Scene, more: &[&str]) -> std::process::Output {
    let mut all = vec!["serve", scene.config()];
    all.extend(more);
    forebay(&all)
}

#[track_caller]
fn leads_to_what_is_left(scene: &Scene, role: &str, flag: &str, parts: &[&str]) {
    let left = Untouched::of(&scene.path(if role == "fast" { "capacity.img" } else { "fast.img" }));
    let output = serve(scene, &[]);
    refused(&output, 2, parts);
    refused(&output, 2, &[&format!("pool's {role} device is missing"), "pool \"test\"", flag, "Format nothing"]);
    let text = err(&output);
    assert!(!text.contains("create") && !text.contains("truncate"), "{text}");
    left.check();
}

#[test]
fn a_missing_fast_member_does_not_lead_to_create() {
    let scene = Scene::new().created();
    std::fs::rename(scene.path("fast.img"), scene.path("elsewhere.img")).unwrap();
    leads_to_what_is_left(&scene, "fast", "--without-fast", &["fast.img", "No such file"]);
    File::create(scene.path("fast.img")).unwrap();
    leads_to_what_is_left(&scene, "fast", "--without-fast", &["fast.img", "has only 0 bytes"]);
    std::fs::rename(scene.path("elsewhere.img"), scene.path("fast.img")).unwrap();
    assert_eq!(scene.serve().stop(), 0);
}

#[test]
fn a_blank_fast_member_does_not_lead_to_create() {
    let scene = Scene::new().created();
    blank(&scene, "fast.img");
    leads_to_what_is_left(&scene, "fast", "--without-fast", &["fast.img is blank"]);
    // The JSON reports it too.
    let verified = forebay(&["verify", scene.config(), "--output", "json"]);
    let found: Value = serde_json::from_str(&out(&verified)).unwrap();
    assert_eq!((code(&verified), &found["good"], &found["findings"]), (1, &Value::from(false), &Value::from(1)));
    assert!(found["shown"][0]["what"].as_str().unwrap().contains("Format nothing"), "{found}");
    File::options().write(true).open(scene.path("fast.img")).unwrap().write_all_at(b"XFSB", 0).unwrap();
    leads_to_what_is_left(&scene, "fast", "--without-fast", &["fast.img holds no pool but XFS"]);
}

#[test]
fn a_missing_or_blank_capacity_member_does_not_lead_to_create() {
    let scene = Scene::new().created();
    blank(&scene, "capacity.img");
    leads_to_what_is_left(&scene, "capacity", "--degraded", &["capacity.img is blank"]);
    std::fs::remove_file(scene.path("capacity.img")).unwrap();
    leads_to_what_is_left(&scene, "capacity", "--degraded", &["capacity.img", "No such file"]);
}

#[test]
fn create_keeps_half_a_pool() {
    for lost in ["fast.img", "capacity.img"] {
        let scene = Scene::new().created();
        blank(&scene, lost);
        let kept = ["fast.img", "capacity.img"].map(|name| Untouched::of(&scene.path(name)));
        let output = forebay(&["create", scene.config()]);
        refused(&output, 2, &["Forebay pool \"test\"", "nothing was written", lost, "is blank", "when-a-device-fails"]);
        kept.iter().for_each(Untouched::check);
    }
}

#[test]
fn create_keeps_an_old_pool_on_any_member() {
    let (old, new) = (Scene::new().created(), Scene::new());
    let used = old.path("capacity.img");
    new.edit(new.path("capacity.img").to_str().unwrap(), used.to_str().unwrap());
    let kept = Untouched::of(&used);
    refused(
        &forebay(&["create", new.config()]),
        2,
        &["capacity device of Forebay pool \"test\"", "nothing was written"],
    );
    // Also where only one superblock copy is left, and where none is.
    let file = OpenOptions::new().write(true).open(&used).unwrap();
    file.write_all_at(&[0; 4096], 0).unwrap();
    refused(&forebay(&["create", new.config()]), 2, &["Forebay pool \"test\"", "nothing was written"]);
    file.write_all_at(&[0; 4096], 65536).unwrap();
    refused(&forebay(&["create", new.config()]), 2, &["Forebay pool \"test\"", "nothing was written"]);
    file.write_all_at(&[0; 4096], 256 * MIB - 4096).unwrap();
    refused(&forebay(&["create", new.config()]), 2, &["content that is not known", "nothing was written"]);
    drop(kept);
}

#[test]
fn create_keeps_content_that_nothing_explains_wherever_it_lies() {
    for (name, at, len) in
        [("fast.img", 512, 1), ("capacity.img", 256 * MIB - 1, 1), ("capacity.img", 100 * MIB, 8 * MIB)]
    {
        let scene = Scene::new();
        let file = OpenOptions::new().write(true).open(scene.path(name)).unwrap();
        file.write_all_at(&vec![0x5a; len as usize], at).unwrap();
        let kept = Untouched::of(&scene.path(name));
        let output = forebay(&["create", scene.config()]);
        refused(&output, 2, &[name, "content that is not known", "nothing was written", "--destroy-data"]);
        kept.check();
        good(&forebay(&["create", scene.config(), "--destroy-data"]));
    }
}

#[test]
fn one_file_under_two_names_is_no_pool() {
    for link in [true, false] {
        let scene = Scene::new();
        std::fs::remove_file(scene.path("fast.img")).unwrap();
        if link {
            symlink(scene.path("capacity.img"), scene.path("fast.img")).unwrap();
        } else {
            std::fs::hard_link(scene.path("capacity.img"), scene.path("fast.img")).unwrap();
        }
        let kept = Untouched::of(&scene.path("capacity.img"));
        for verb in ["create", "serve"] {
            refused(&forebay(&[verb, scene.config()]), 2, &["one and the same device"]);
        }
        kept.check();
    }
}

#[test]
fn a_second_pool_over_a_file_of_a_served_one_is_refused() {
    let (served, second) = (Scene::new().created(), Scene::new().created());
    let server = served.serve();
    second.edit(second.path("fast.img").to_str().unwrap(), served.path("fast.img").to_str().unwrap());
    for verb in ["create", "serve"] {
        refused(&forebay(&[verb, second.config()]), 2, &["fast.img", "in use"]);
    }
    assert_eq!(server.stop(), 0);
    refused(&forebay(&["serve", second.config()]), 2, &["belongs to pool"]);
    refused(&forebay(&["create", second.config()]), 2, &["Forebay pool \"test\"", "nothing was written"]);
    assert_eq!(served.serve().stop(), 0);
}

#[test]
fn sparse_members_and_a_full_file_system_below_are_said() {
    let scene = Scene::new();
    let output = forebay(&["create", scene.config()]);
    good(&output);
    assert!(err(&output).contains("sparse") && err(&output).contains("others may use up"), "{}", err(&output));
    // A full journal would stop writing until the next start, so it has reserved space.
    let fast = std::fs::metadata(scene.path("fast.img")).unwrap();
    assert!(fast.blocks() * 512 >= fast.len() / 64, "{} of {}", fast.blocks() * 512, fast.len());
    let scene = Scene::new();
    // More free space than any test machine has, and less than ext4's limit of a file.
    File::create(scene.path("capacity.img")).unwrap().set_len(15 << 40).unwrap();
    let output = forebay(&["create", scene.config(), "--destroy-data"]);
    assert!(err(&output).contains("has only"), "{}", err(&output));
}

//! Tiers of several devices: a mirrored fast tier, and a capacity tier with parity.

use super::client::{holds, status, until, write};
use super::*;
use serde_json::Value;
use std::fs::File;

/// Makes a device blank.
pub fn blank(path: &Path, mib: u64) {
    File::create(path).unwrap().set_len(mib * MIB).unwrap();
}

/// State of each member, of `mirror` or `parity`.
pub fn states(scene: &Scene, of: &str) -> Vec<String> {
    let status = status(scene);
    let members = status[of]["members"].as_array().unwrap().iter();
    members.map(|member| member["state"].as_str().unwrap().to_owned()).collect()
}

/// A member is truncated while it is served: its failed reads must be shown under its name, while hosts see no error.
#[track_caller]
pub fn failed_reads_are_shown(scene: &Scene, server: &Server, name: &str, tier: &str) {
    std::fs::File::options().write(true).open(scene.path(name)).unwrap().set_len(MIB).unwrap();
    holds(server, 0, 1);
    let status = status(scene);
    let failed = |device: &&Value| device["errors"].as_u64().unwrap() > 0;
    let failed: Vec<&Value> = status["devices"].as_array().unwrap().iter().filter(failed).collect();
    assert_eq!(failed.len(), 1, "{}", status["devices"]);
    assert!(failed[0]["name"].as_str().unwrap().ends_with(name) && failed[0]["member_of"] == tier, "{}", failed[0]);
    assert!(failed[0]["last_error"].as_str().unwrap().contains("read"), "{}", failed[0]);
    assert!(failed[0]["reads"]["requests"].as_u64().unwrap() > 0, "{}", failed[0]);
    let text = good(&forebay(&["status", scene.config()]));
    assert!(text.lines().any(|line| line.contains(name) && line.contains("HAVE FAILED")), "{text}");
}

#[track_caller]
pub fn until_rebuilt(scene: &Scene, of: &str) {
    until("all members hold everything", || states(scene, of).iter().all(|state| state == "in sync"));
}

/// A member is overwritten or truncated while it is served, without any I/O to it: it must still be left behind. A blank device in its
/// place must be rebuilt.
#[track_caller]
pub fn is_left_behind_and_rebuilt(scene: &Scene, server: &Server, (name, mib): (&str, u64), tier: &str, said: &str) {
    let member = |status: &Value| {
        let members = status[tier]["members"].as_array().unwrap();
        members.iter().find(|member| member["name"].as_str().unwrap().ends_with(name)).unwrap().clone()
    };
    until("it is left behind", || member(&status(scene))["state"] == "out");
    let why = member(&status(scene))["why"].as_str().unwrap().to_owned();
    assert!(why.contains(said), "{why}");
    let text = good(&forebay(&["status", scene.config()]));
    assert!(text.lines().any(|line| line.contains(name) && line.contains("is OUT")), "{text}");
    holds(server, 0, 1);
    write(server, 4 * MIB, 2);
    blank(&scene.path(name), mib);
    server.reload();
    until_rebuilt(scene, tier);
}

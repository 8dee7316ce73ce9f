//! Devices that are several: a mirrored fast tier, and a capacity tier with parity.

use super::client::{holds, status, until};
use super::*;
use serde_json::Value;
use std::fs::File;

/// Makes a device blank.
pub fn blank(path: &Path, mib: u64) {
    File::create(path).unwrap().set_len(mib * MIB).unwrap();
}

/// What each member holds, of `mirror` or `parity`.
pub fn states(scene: &Scene, of: &str) -> Vec<String> {
    let status = status(scene);
    let members = status[of]["members"].as_array().unwrap().iter();
    members.map(|member| member["state"].as_str().unwrap().to_owned()).collect()
}

/// A member of a tier loses its end while it is served: that its reads fail is to be seen under its name, while hosts see nothing of it.
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

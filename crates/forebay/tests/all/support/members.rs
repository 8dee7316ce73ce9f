//! Devices that are several: a mirrored fast tier, and a capacity tier with parity.

use super::client::{status, until};
use super::*;
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

#[track_caller]
pub fn until_rebuilt(scene: &Scene, of: &str) {
    until("all members hold everything", || states(scene, of).iter().all(|state| state == "in sync"));
}

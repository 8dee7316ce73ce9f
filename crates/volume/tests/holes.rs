//! One regression test for each hole that reading the engine's first edition showed. Each tells in its comment what went
//! wrong, and asks only what a host may ask: that data is there, right, and that requests end.

// Here a panic is the finding.
#![allow(clippy::unwrap_used)]

#[path = "holes/child.rs"]
mod child;
#[path = "holes/device.rs"]
mod device;
#[path = "holes/rig.rs"]
mod rig;
#[path = "holes/seen.rs"]
mod seen;

#[path = "holes/alone.rs"]
mod alone;
#[path = "holes/bands.rs"]
mod bands;
#[path = "holes/capacity_side.rs"]
mod capacity_side;
#[path = "holes/collect.rs"]
mod collect;
#[path = "holes/destage.rs"]
mod destage;
#[path = "holes/disks.rs"]
mod disks;
#[path = "holes/features.rs"]
mod features;
#[path = "holes/flushes.rs"]
mod flushes;
#[path = "holes/lost_devices.rs"]
mod lost_devices;
#[path = "holes/memory.rs"]
mod memory;
#[path = "holes/reads.rs"]
mod reads;
#[path = "holes/space.rs"]
mod space;
#[path = "holes/status.rs"]
mod status;

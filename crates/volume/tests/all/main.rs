//! Tests of the engine and of its on-disk state: a single program, so that shared parts are built once.

// Here a panic is the finding.
#![allow(clippy::unwrap_used)]

mod adopt;
mod ahead;
mod alone;
mod checkpoints;
mod child;
mod crash;
mod damage;
mod device_faults;
mod disks;
mod holes;
mod hostile;
mod mirror;
mod moved;
mod overwrite_watch;
mod packed;
mod parity;
mod read_cache;
mod reclass;
mod rotten;
mod salvage;
mod silent;
mod stays;
mod world;

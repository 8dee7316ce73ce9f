//! The tests of the engine and of what it leaves on its devices: one program, so that what they share is built once.

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
mod packed;
mod parity;
mod read_cache;
mod reclass;
mod rotten;
mod salvage;
mod silent;
mod standing;
mod stays;
mod world;

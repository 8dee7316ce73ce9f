//! The simulator: the volume in virtual time over devices that lose power, lie and die, and an oracle that knows which data must, may and
//! must not be read.
//!
//! A *life* follows from its seed: a pool of random, tiny geometry, and rounds of use, each ended by a power cut or a clean stop. A failing
//! life replays exactly, with a log, and is shrunk to the essential part.

#![forbid(unsafe_code)]

pub mod base;
mod coverage;
pub mod device;
pub mod fault;
pub mod life;
mod members;
pub mod order;
mod power;
pub mod scenario;
pub mod shrink;
mod world;

pub use forebay_proof::{medium, oracle, stamp};

pub use coverage::{Coverage, MARKS};
pub use life::{Failure, Lived, live};
pub use power::Power;
pub use scenario::{Kind, Scenario};

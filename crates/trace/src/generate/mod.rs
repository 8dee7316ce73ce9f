//! Traces that are made, not recorded: the I/O of known systems, from a seed.
//!
//! Each generator is a [`Source`] like any recorded trace. It names what a recording with hints, processes and files
//! would name, holds its state in memory whose size follows from its parameters and not from the length of the
//! stream, and gives one stream for one set of parameters. What is calibrated in them, and what emerges, is in
//! `docs/generators.md`.

mod error;
mod mongodb;
mod parameters;
mod rocksdb;
mod space;
mod ycsb;
mod zipfian;

pub use error::GenerateError;
pub use mongodb::{Mongodb, MongodbOptions};
pub use rocksdb::{Rocksdb, RocksdbOptions};
pub use ycsb::{Ycsb, YcsbOptions, YcsbWorkload};
pub use zipfian::{Latest, ScrambledZipfian};

use crate::Source;
use forebay_block::Random;
use parameters::Parameters;

/// Names of the generators, with their parameters, for help.
pub const NAMES: [(&str, &[&str]); 3] =
    [("rocksdb", RocksdbOptions::KEYS), ("mongodb", MongodbOptions::KEYS), ("ycsb", YcsbOptions::KEYS)];

/// A block of the file system, in bytes: everything here is in multiples of it.
const BLOCK_BYTES: u64 = 4096;
/// Largest request for data, in bytes: larger transfers are cut, as the NVMe drives of the published runs
/// (128 KiB maximum data transfer size) make the kernel do.
const REQUEST_BYTES: u64 = 128 << 10;
const GB: f64 = 1e9;

/// Opens the generator that `text` names, `rocksdb:?scale=0.01&seed=1`; `None` where it names none.
///
/// # Errors
/// [`GenerateError`] where it names one and the rest does not fit.
#[must_use]
pub fn open(text: &str) -> Option<Result<Box<dyn Source + Send>, GenerateError>> {
    let (name, rest) = text.split_once(':')?;
    Some(match name {
        "rocksdb" => RocksdbOptions::parse(rest).map(|options| Box::new(Rocksdb::new(options)) as _),
        "mongodb" => MongodbOptions::parse(rest).map(|options| Box::new(Mongodb::new(options)) as _),
        "ycsb" => YcsbOptions::parse(rest).map(|options| Box::new(Ycsb::new(options)) as _),
        _ => return None,
    })
}

/// A number from 0 to below 1, in steps of 2^-53, as Java's `Random.nextDouble` has it.
fn fraction(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Somewhere from half to one and a half times `gap_ns`, its mean, and at least 1 ns.
fn jittered_ns(random: &mut Random, gap_ns: f64) -> u64 {
    ((gap_ns * (0.5 + fraction(random))) as u64).max(1)
}

/// The gap to the next of events that come at random, so many ns apart on average (a Poisson process).
fn poisson_gap_ns(random: &mut Random, mean_ns: f64) -> u64 {
    // 1 - fraction is above 0, so that its logarithm is finite.
    (-(1.0 - fraction(random)).ln() * mean_ns) as u64
}

/// Hands out whole blocks of a stream of fractions of blocks, and loses none.
#[derive(Clone, Copy, Debug, Default)]
struct Carry {
    rest: f64,
}

impl Carry {
    /// Whole blocks of `blocks` and of what was left before.
    fn take(&mut self, blocks: f64) -> u64 {
        self.rest += blocks;
        let whole = self.rest.floor().max(0.0);
        self.rest -= whole;
        whole as u64
    }
}

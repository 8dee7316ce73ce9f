//! Generated traces: the I/O of known systems, made from a seed.
//!
//! Each generator is a [`Source`] like any recorded trace. It provides the names that a recording with hints, processes and files would
//! have. The size of its state follows from its parameters and not from the length of the stream, and the same parameters always give the
//! same stream. `docs/generators.md` says which parts are calibrated and which emerge.

mod error;
mod mongodb;
mod parameters;
mod parts;
mod rocksdb;
mod space;
mod ycsb;
mod zipf;
mod zipfian;

pub use error::GenerateError;
pub use mongodb::{Mongodb, MongodbOptions};
pub use rocksdb::{Rocksdb, RocksdbOptions};
pub use ycsb::{Ycsb, YcsbOptions, YcsbWorkload};
pub use zipf::{Zipf, ZipfOptions};
pub use zipfian::{Latest, ScrambledZipfian};

use crate::Source;
use parameters::Parameters;

/// Names of the generators with their parameters, for help texts.
pub const NAMES: [(&str, &[&str]); 4] = [
    ("rocksdb", RocksdbOptions::KEYS),
    ("mongodb", MongodbOptions::KEYS),
    ("ycsb", YcsbOptions::KEYS),
    ("zipf", ZipfOptions::KEYS),
];

/// Opens the generator that `text` names, such as `rocksdb:?scale=0.01&seed=1`; `None` if it names none.
///
/// # Errors
/// [`GenerateError`] if it names a generator and the rest is wrong.
#[must_use]
pub fn open(text: &str) -> Option<Result<Box<dyn Source + Send>, GenerateError>> {
    let (name, rest) = text.split_once(':')?;
    Some(match name {
        "rocksdb" => RocksdbOptions::parse(rest).map(|options| Box::new(Rocksdb::new(options)) as _),
        "mongodb" => MongodbOptions::parse(rest).map(|options| Box::new(Mongodb::new(options)) as _),
        "ycsb" => YcsbOptions::parse(rest).map(|options| Box::new(Ycsb::new(options)) as _),
        "zipf" => ZipfOptions::parse(rest).map(|options| Box::new(Zipf::new(options)) as _),
        _ => return None,
    })
}

/// The text of a generator with missing parameters filled in: `seed`, and `scale` (`records` for `ycsb:`, `size` for `zipf:`). The scale is
/// the default if the volume can hold that, else the largest that it can hold, else the smallest possible one. `None` if the text names no
/// generator.
///
/// # Errors
/// [`GenerateError`] if it names a generator and the rest is wrong.
#[must_use]
pub fn fitted(text: &str, volume_bytes: u64, seed: u64) -> Option<Result<String, GenerateError>> {
    let (name, rest) = text.split_once(':')?;
    Some(match name {
        "rocksdb" => RocksdbOptions::parse(rest).map(|options| {
            let scale = |scale| Rocksdb::new(RocksdbOptions { scale, ..options }).capacity_bytes() <= volume_bytes;
            with(text, "scale", || largest(scale, 0.001, options.scale).to_string(), seed)
        }),
        "mongodb" => MongodbOptions::parse(rest).map(|options| {
            let scale = |scale| Mongodb::new(MongodbOptions { scale, ..options }).capacity_bytes() <= volume_bytes;
            with(text, "scale", || largest(scale, 0.0001, options.scale).to_string(), seed)
        }),
        "ycsb" => YcsbOptions::parse(rest).map(|options| {
            let added = Ycsb::new(YcsbOptions { records: 1, ..options }).capacity_bytes() - options.record_bytes;
            let records = volume_bytes.saturating_sub(added) / options.record_bytes;
            with(text, "records", || records.clamp(1, options.records).to_string(), seed)
        }),
        "zipf" => ZipfOptions::parse(rest).map(|options| {
            let size_bytes = options.size_bytes.min(volume_bytes / 4096 * 4096).max(4096);
            with(text, "size", || size_bytes.to_string(), seed)
        }),
        _ => return None,
    })
}

/// The text with a parameter and the seed added where they are missing.
fn with(text: &str, key: &str, value: impl FnOnce() -> String, seed: u64) -> String {
    let mut text = text.to_owned();
    let mut add = |key: &str, value: String| {
        let has = text.split(['?', '&']).skip(1).any(|parameter| parameter.split('=').next() == Some(key));
        if !has {
            let separator = if text.contains('?') { '&' } else { '?' };
            text = format!("{text}{separator}{key}={value}");
        }
    };
    add(key, value());
    add("seed", seed.to_string());
    text
}

/// The largest scale from `least` to `most` that fits, with four digits; `least` if none fits.
fn largest(fits: impl Fn(f64) -> bool, least: f64, most: f64) -> f64 {
    if fits(most) {
        return most;
    }
    let (mut low, mut high) = (least, most);
    while high - low > low / 1e4 {
        let middle = (low + high) / 2.0;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    // Rounded down: the text contains all its digits.
    let step = least / 1e3;
    ((low / step).floor() * step).max(least)
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_open_is_fitted_to_the_volume() {
        for (text, bytes, wanted) in [
            ("rocksdb:", 1 << 40, "rocksdb:?scale=0.01&seed=3"),
            ("rocksdb:?scale=0.02&seed=5", 1 << 20, "rocksdb:?scale=0.02&seed=5"),
            ("rocksdb:", 1 << 20, "rocksdb:?scale=0.001&seed=3"),
            ("mongodb:?commit=4KiB", 1 << 40, "mongodb:?commit=4KiB&scale=0.01&seed=3"),
            ("ycsb:?record=512", 1 << 20, "ycsb:?record=512&records=2048&seed=3"),
            ("ycsb:?records=5", 1, "ycsb:?records=5&seed=3"),
            ("zipf:?alpha=0.8", 1 << 20, "zipf:?alpha=0.8&size=1048576&seed=3"),
        ] {
            assert_eq!(fitted(text, bytes, 3).unwrap().unwrap(), wanted);
        }
        assert!(fitted("rocksdb:?scael=1", 1, 1).unwrap().is_err());
        assert!(fitted("zfs:", 1, 1).is_none() && fitted("/dev/sda", 1, 1).is_none());
    }

    #[test]
    fn a_fitted_stream_stays_within_the_volume() {
        for (text, bytes) in
            [("rocksdb:", 4_u64 << 30), ("mongodb:", 300 << 20), ("ycsb:?workload=d&operations=9999", 1 << 26)]
        {
            let text = fitted(text, bytes, 1).unwrap().unwrap();
            let mut source = open(&text).unwrap().unwrap();
            let (mut batch, mut names, mut reach) = (Vec::new(), crate::Names::default(), 0);
            while source.read(&mut batch, &mut names).unwrap() {
                reach = batch.drain(..).map(|request| request.end_bytes()).max().unwrap_or(0).max(reach);
            }
            assert!(reach <= bytes && reach > bytes / 3, "{text}: {reach} of {bytes}");
        }
    }
}

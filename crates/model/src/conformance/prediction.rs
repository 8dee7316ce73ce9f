//! Predictions of the models for tests whose published figures were not at hand, written down before the comparison.
//!
//! `predictions/flash-qd16.toml` holds the output of [`text`]; `examples/predict_flash.rs` recomputes it and compares.

use super::closed::{Figures, Pattern, Workload};
use super::table::{Behind, ConformanceError, Measure, Options, Test, Use};
use crate::host::Profile;
use crate::preset::Drive;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The file of predictions.
pub const WRITTEN: &str = include_str!("../../predictions/flash-qd16.toml");

/// Modelled capacity: full parallelism, fewer blocks, so that filling is quick.
const SCALED_BYTES: u64 = 32 << 30;

/// The tests: QD16 as 4 threads x 4, as `spec-check.md` ran its XPoint rows, on two flash drives in their steady state.
#[must_use]
pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for drive in ["p3700", "micron9100"] {
        for (name, read_percent) in [("4K read QD16", 100), ("4K write QD16", 0), ("4K 70/30 QD16", 70)] {
            tests.push(Test {
                source: "spec-check.md (left out there)".to_owned(),
                name: name.to_owned(),
                drive: drive.to_owned(),
                host: "linux-anandtech".to_owned(),
                used: Use::HeldOut,
                workload: Workload { threads: 4, depth: 4, read_percent, size_bytes: 4096, pattern: Pattern::Random },
                past: Some(Behind { filled: 1.0, random_passes: 3.0 }),
                scaled_bytes: Some(SCALED_BYTES),
                published: BTreeMap::new(),
                at_most: BTreeMap::new(),
                at_least: BTreeMap::new(),
            });
        }
    }
    tests
}

/// Runs one of the tests and returns its figures.
///
/// # Errors
/// [`ConformanceError`] where a preset or profile of the program is faulty.
pub fn predict(test: &Test, options: Options) -> Result<Figures, ConformanceError> {
    let name = || format!("{} {}", test.drive, test.name);
    let mut ssd = Drive::named(&test.drive)
        .and_then(|drive| match test.scaled_bytes {
            Some(bytes) => drive.scaled(bytes),
            None => Ok(drive),
        })
        .and_then(|drive| drive.build(options.seed))
        .map_err(|source| ConformanceError::Drive { test: name(), source })?;
    let host = Profile::named(&test.host).map_err(|source| ConformanceError::Host { test: name(), source })?;
    Ok(test.figures(ssd.as_mut(), &host, options))
}

/// Figures that the file has of each test.
const MEASURES: [(&str, Measure); 5] = [
    ("iops", Measure::Iops),
    ("mean_us", Measure::MeanUs),
    ("median_us", Measure::MedianUs),
    ("p99_us", Measure::P99Us),
    ("p99_999_us", Measure::P99_999Us),
];

/// One prediction of the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// Preset of the drive.
    pub drive: String,
    /// Name of the test.
    pub test: String,
    /// Profile of the host.
    pub host: String,
    /// I/Os a second.
    pub iops: f64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// Median in microseconds.
    pub median_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
    /// 99.999th percentile in microseconds.
    pub p99_999_us: f64,
}

/// Reads the predictions of the file.
///
/// # Errors
/// [`ConformanceError::Table`] where the file cannot be parsed: a fault of the program.
pub fn written() -> Result<Vec<Prediction>, ConformanceError> {
    #[derive(Deserialize)]
    struct Table {
        prediction: Vec<Prediction>,
    }
    let table: Table = toml::from_str(WRITTEN).map_err(|error| ConformanceError::Table(error.to_string()))?;
    Ok(table.prediction)
}

/// Recomputes the text of the file: the same text for the same models.
///
/// # Errors
/// [`ConformanceError`] where a preset or profile of the program is faulty.
pub fn text(options: Options) -> Result<String, ConformanceError> {
    let mut text = String::from(
        "# What the models of two flash drives say about 4 KiB at QD16 (4 threads x 4), on Linux as in spec-check.md, in their\n\
         # steady state. Nothing was fitted to the published rows of these tests. Written by\n\
         # `cargo run --release -p forebay-model --example predict_flash`, which also compares.\n",
    );
    for test in tests() {
        let figures = predict(&test, options)?;
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n[[prediction]]\ndrive = \"{}\"\ntest = \"{}\"\nhost = \"{}\"\n",
            test.drive, test.name, test.host
        );
        for (key, measure) in MEASURES {
            let _ = writeln!(text, "{key} = {:.1}", measure.of(&figures).unwrap_or(f64::NAN));
        }
    }
    Ok(text)
}

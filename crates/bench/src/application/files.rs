//! Files of an application-shaped load: its working directory, the content of its files, and dropping files from the
//! page cache.

use super::{ApplicationError, FILES_MAX, Options};
use crate::experiment::Latency;
use crate::output::summary::{self, Reporting};
use crate::run::Latencies;
use forebay_block::Random;
use serde_json::Value;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Size of one read or write call of an application, in bytes.
pub(super) const PIECE_BYTES: usize = 128 << 10;

/// The working directory of a load. It is removed when this value is dropped, also after an error.
pub(super) struct Workplace(pub(super) PathBuf);

impl Workplace {
    pub(super) fn new(options: &Options, name: &str) -> Result<Self, ApplicationError> {
        let refuse = |what: String| Err(ApplicationError::Option { what });
        if !(1..=FILES_MAX).contains(&options.files) {
            return refuse(format!("files: {}; 1 to {FILES_MAX}", options.files));
        }
        if !(4096..=1 << 30).contains(&options.file_bytes) {
            return refuse(format!("size of files: {} bytes; 4 KiB to 1 GiB", options.file_bytes));
        }
        let path = options.directory.join(format!("forebay-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|source| failed("make directory", &path)(source))?;
        Ok(Self(path))
    }

    pub(super) fn file(&self, number: u64) -> PathBuf {
        self.0.join(format!("file-{number:07}"))
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("forebay: {} stays behind: {error}", self.0.display());
        }
    }
}

pub(super) fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ApplicationError {
    let path = path.to_owned();
    move |source| ApplicationError::File { doing, path, source }
}

/// Size of file `number`: between half and one and a half of the mean, the same for one seed.
pub(super) fn size_of(options: &Options, number: u64) -> u64 {
    let mut random = Random::new(options.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    options.file_bytes / 2 + random.below(options.file_bytes + 1)
}

/// Bytes that do not compress, as those of photos do not.
pub(super) fn content(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..PIECE_BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

/// Asks the kernel to drop a file's pages from the page cache, so that later reads go to the device. The pages must
/// have been written back before.
pub(super) fn forget(file: &File) {
    use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
    // Only advice: if the kernel ignores it, reads come from memory, and the device's own figures show that.
    let _ = posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
}

/// Adds the time since `started` to latencies.
pub(super) fn add_since(tally: &mut crate::run::Tally, started: Instant) {
    tally.record(started.elapsed().as_nanos() as u64);
}

/// Column heads of a table whose rows come from [`figures`].
pub(super) const HEAD: [&str; 6] = ["", "count", "mean", "p50", "p99", "max"];

/// Latency figures as a table row (count, mean, median, p99, maximum) and as JSON. Percentiles have intervals, and are
/// withheld where there are too few samples.
pub(super) fn figures(tally: &crate::run::Tally) -> (Vec<String>, Value) {
    let mut latencies = Latencies::new();
    latencies.add(tally);
    let reporting = Reporting::default();
    let figures = Latency::new(&latencies, None, reporting.confidence);
    let cells = vec![
        figures.samples.to_string(),
        figures.mean_cell(),
        figures.bounded_cell(50.0),
        figures.bounded_cell(99.0),
        figures.max_cell(),
    ];
    let mut json = summary::latency(&latencies, None, &reporting);
    for (name, percent) in [("p50", 50.0), ("p99", 99.0)] {
        json[name] = figures.value_ns(percent).into();
    }
    (cells, json)
}

//! Loads shaped like applications, run on a file system. They measure what users wait for: the device with all layers
//! above it.

mod files;
mod index_rebuild;
mod options;
mod photo_ingest;

pub use index_rebuild::index_rebuild;
pub use options::{ApplicationError, Control, FILES_MAX, Options};
pub use photo_ingest::photo_ingest;

/// Mean size of a photo in bytes: 37.4 GB over 3,075 photos (Shrout Research on the 800P; seeds,
/// low-queue-depth-method.md).
pub const PHOTO_BYTES: u64 = 12_162_601;
/// Number of photos in the source's ingest.
pub const PHOTOS: u64 = 3_075;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn options(directory: &std::path::Path) -> Options {
        Options { directory: directory.to_owned(), files: 12, file_bytes: 64 << 10, seed: 3 }
    }

    type Load = fn(&Options, &mut Control<'_>) -> Result<crate::experiment::Report, ApplicationError>;

    fn run(load: Load, options: &Options, stop: bool) -> Result<crate::experiment::Report, ApplicationError> {
        let flag = AtomicBool::new(false);
        let mut progress = |done, _: u64, _: &str| {
            if stop && done == 3 {
                flag.store(true, Ordering::Relaxed);
            }
        };
        load(options, &mut Control { stop: &flag, progress: &mut progress })
    }

    #[test]
    fn photos_are_all_written_and_nothing_stays() {
        let directory = tempfile::TempDir::new().unwrap();
        let report = run(photo_ingest, &options(directory.path()), false).unwrap();
        assert_eq!(report.json["files"], 12);
        let bytes = report.json["bytes"].as_u64().unwrap();
        assert!((12 * (32 << 10)..=12 * (96 << 10)).contains(&bytes), "{bytes}");
        assert!(!report.partial);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_index_is_rebuilt_from_what_was_read() {
        let directory = tempfile::TempDir::new().unwrap();
        let report = run(index_rebuild, &options(directory.path()), false).unwrap();
        assert_eq!(report.json["files"], 12);
        assert!(report.json["database_commits"].as_u64().unwrap() > 0);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    /// The p99 of five files was reported as their maximum, with five digits, in text and JSON.
    #[test]
    fn regression_percentiles_of_a_few_files_are_withheld() {
        let directory = tempfile::TempDir::new().unwrap();
        for (load, latencies) in [
            (photo_ingest as Load, ["file_latency_ns", "fsync_latency_ns"]),
            (index_rebuild, ["read_latency_ns", "commit_latency_ns"]),
        ] {
            let report = run(load, &options(directory.path()), false).unwrap();
            for (row, name) in report.tables[1].rows.iter().zip(latencies) {
                let found = &report.json[name];
                assert_eq!(
                    (&found["samples"], found["confidence_percent"].as_u64()),
                    (&12.into(), Some(95)),
                    "{found}"
                );
                assert!(found["mean"].as_f64().unwrap() > 0.0 && found["max"].as_u64().unwrap() > 0);
                let percentile = |percent: f64| {
                    let all = found["percentiles"].as_array().unwrap();
                    all.iter().find(|one| one["percentile"] == percent).unwrap().clone()
                };
                let p99 = percentile(99.0);
                assert_eq!((&p99["status"], p99["value"].is_null()), (&"withheld".into(), true), "{p99}");
                assert!(found["p99"].is_null() && found["p50"].as_u64().is_some(), "{found}");
                let needed = p99["samples_needed_more"].as_u64().unwrap();
                assert!(row[4].contains(&format!("{needed} more")), "{row:?}");
                // Twelve samples bound the median on both sides.
                let p50 = percentile(50.0);
                assert_eq!(p50["status"], "bounded", "{p50}");
                assert!(row[3].contains('['), "{row:?}");
            }
        }
    }

    #[test]
    fn an_interrupted_load_tells_what_it_did_and_cleans_up() {
        let directory = tempfile::TempDir::new().unwrap();
        let report = run(photo_ingest, &options(directory.path()), true).unwrap();
        assert!(report.partial);
        assert_eq!(report.json["files"], 3);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let directory = tempfile::TempDir::new().unwrap();
        let none = Options { files: 0, ..options(directory.path()) };
        assert!(run(photo_ingest, &none, false).unwrap_err().to_string().contains("files"));
        let missing = Options { directory: directory.path().join("missing"), ..options(directory.path()) };
        assert!(run(photo_ingest, &missing, false).unwrap_err().to_string().contains("missing"));
    }
}

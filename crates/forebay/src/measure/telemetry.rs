//! Telemetry of a load: percentiles, intervals, and a record of each I/O.

use super::beforehand::{check_apart, check_new_files};
use super::options::TelemetryOptions;
use super::session::SessionOptions;
use super::time_ns;
use anyhow::{Context, Result, bail};
use forebay_bench::experiment::compared_levels;
use forebay_bench::output::series;
use forebay_bench::output::summary::Reporting;
use forebay_bench::run::JobResult;
use forebay_bench::stats::percentile::Level;
use forebay_bench::telemetry::{Reader, Summary, parquet};
use forebay_trace::format::PartialFile;
use std::path::{Path, PathBuf};

/// Allowed interval length in nanoseconds. A worker counts each latency of an interval in 32 bits.
const INTERVALS_NS: std::ops::RangeInclusive<u64> = 1_000_000..=60_000_000_000;

impl TelemetryOptions {
    /// Report settings.
    ///
    /// # Errors
    /// A list of percentiles that cannot be parsed.
    pub fn reporting(&self) -> Result<Reporting> {
        let levels = self.percentiles.as_deref().map_or_else(|| Ok(Level::ladder()), Level::parse_list)?;
        Ok(Reporting { levels, ..Reporting::default() })
    }

    /// The percentiles that comparisons judge.
    ///
    /// # Errors
    /// A list of percentiles that cannot be parsed.
    pub fn compared(&self) -> Result<Vec<Level>> {
        Ok(self.percentiles.as_deref().map_or_else(|| Ok(compared_levels()), Level::parse_list)?)
    }

    /// Settings of the measuring session.
    ///
    /// # Errors
    /// An interval length out of range.
    pub fn session(&self, destroy_data: bool) -> Result<SessionOptions> {
        let interval_ns = self.interval.as_deref().map(|text| time_ns("--interval", text)).transpose()?;
        if let (Some(interval_ns), Some(text)) = (interval_ns, &self.interval)
            && !INTERVALS_NS.contains(&interval_ns)
        {
            bail!("--interval {text}: 1ms to 60s");
        }
        Ok(SessionOptions { destroy_data, interval_ns, records: self.records.clone(), block_layer: false })
    }

    /// Checks that the requested files can be created, each by itself and beside another output.
    ///
    /// # Errors
    /// The first file that cannot, and why.
    pub fn check_new_files(&self, beside: Option<&Path>) -> Result<()> {
        let files = self.records.iter().chain(&self.parquet).chain(&self.series).map(PathBuf::as_path);
        check_apart(files.chain(beside))?;
        // A pipe or /dev/stdout may be named on purpose.
        let series = self.series.as_ref().filter(|path| path.is_file() || path.symlink_metadata().is_err());
        check_new_files(self.records.iter().chain(&self.parquet).chain(series).map(PathBuf::as_path))
    }

    /// Writes the time series, where requested. Each result comes with the name of its target.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write_series<'a>(&self, results: impl IntoIterator<Item = (&'a str, &'a JobResult)>) -> Result<()> {
        let Some(path) = &self.series else { return Ok(()) };
        let reporting = self.reporting()?;
        let rows = results.into_iter().map(|(target, result)| series::rows(result, target, &reporting));
        let text: String = std::iter::once(format!("{}\n", series::HEAD)).chain(rows).collect();
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Converts the records to Parquet, where requested.
    ///
    /// # Errors
    /// A file cannot be read or created.
    pub fn write_parquet(&self) -> Result<()> {
        match (&self.records, &self.parquet) {
            (Some(records), Some(parquet)) => records_to_parquet(records, parquet).map(drop),
            _ => Ok(()),
        }
    }
}

/// Converts a file of records to Parquet. `to`, which must not exist yet, appears only when it is complete.
///
/// # Errors
/// A file cannot be read or created.
pub fn records_to_parquet(records: &Path, to: &Path) -> Result<Summary> {
    let convert = || {
        check_new_files(std::iter::once(to))?;
        let reader = Reader::open(records)?;
        let partial = PartialFile::create(to)?;
        let summary = parquet::convert(reader, partial.file()?)?;
        partial.finish()?;
        Ok::<_, anyhow::Error>(summary)
    };
    let converted = convert();
    converted.with_context(|| format!("cannot convert {} to {}", records.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_bench::telemetry::{Header, Spill, SpillOptions};
    use std::fs;
    use std::time::Duration;

    /// Makes a file of records without any.
    fn no_records(path: &Path) {
        let header = Header { run_id: [0; 16], begin_unix_ns: 0, jobs: Vec::new(), metadata: "{}".to_owned() };
        let options = SpillOptions { chunk_records: 64, chunks_per_thread: 2, threads: 1 };
        assert!(Spill::create(path, &header, options).unwrap().finish(Duration::from_secs(30)).is_clean);
    }

    #[test]
    fn the_result_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("run.fbt"), folder.path().join("run.parquet"));
        let names = || {
            let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        };
        no_records(&from);
        // Another process converts to the same name.
        let other = PartialFile::create(&to).unwrap();
        other.file().unwrap().set_len(7).unwrap();
        let error = format!("{:#}", records_to_parquet(&from, &to).unwrap_err());
        assert!(error.contains("busy"), "{error}");
        assert_eq!(fs::metadata(folder.path().join("run.parquet.partial")).unwrap().len(), 7, "its file is as it was");
        drop(other);
        assert!(records_to_parquet(&from, &to).unwrap().is_whole());
        assert_eq!(names(), ["run.fbt", "run.parquet"]);
        let error = format!("{:#}", records_to_parquet(&from, &to).unwrap_err());
        assert!(error.contains("exists"), "{error}");
        // What is no file of records leaves nothing behind.
        assert!(records_to_parquet(&to, &folder.path().join("other.parquet")).is_err());
        assert_eq!(names(), ["run.fbt", "run.parquet"]);
    }

    /// The records of a run were replaced by its time series, with exit code 0.
    #[test]
    fn regression_two_outputs_of_one_name_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let named = |name: &str| Some(folder.path().join(name));
        let options = |series, records, parquet| TelemetryOptions {
            percentiles: None,
            interval: None,
            series: named(series),
            records: named(records),
            parquet: named(parquet),
        };
        options("a", "b", "c").check_new_files(None).unwrap();
        for one in [options("a", "a", "c"), options("a", "b", "b"), options("a", "./a", "c")] {
            let error = one.check_new_files(None).unwrap_err().to_string();
            assert!(error.contains("two outputs"), "{error}");
        }
    }

    #[test]
    fn an_interval_is_a_millisecond_to_a_minute() {
        let options = |interval: &str| TelemetryOptions {
            percentiles: None,
            interval: Some(interval.to_owned()),
            series: None,
            records: None,
            parquet: None,
        };
        for (text, is_one) in [("1ms", true), ("60s", true), ("999us", false), ("61s", false), ("1", false)] {
            assert_eq!(options(text).session(false).is_ok(), is_one, "{text}");
        }
    }
}

//! `forebay convert`: a trace of any format, or a generator, as Parquet, fio's log, blktrace's binary or CSV.

use crate::measure::check_new_files;
use crate::output::{self, Format};
use crate::traces::{self, Named, Order, ReadingOptions, faults, faults_json, read};
use anyhow::{Context, Result, bail};
use forebay_trace::format::parquet::{ParquetWriter, PartitionedWriter, Wanted};
use forebay_trace::format::{
    BlktraceWriter, CsvWriter, FioLogVersion, FioLogWriter, Format as TraceFormat, PartialFile,
};
use forebay_trace::{Faults, Names, Request, TraceError};
use serde_json::json;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Options of `forebay convert`.
#[derive(Debug, clap::Args)]
pub struct ConvertOptions {
    /// The trace, as for analyze
    pub trace: String,
    /// The file to write, for parquet-by-volume a directory; it must not exist
    pub to: PathBuf,
    #[command(flatten)]
    pub reading: ReadingOptions,
    /// What to write (default: by the extension: .parquet, .log for fio's, .blktrace.0, .csv)
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub to_format: Option<To>,
    /// Stop after this many requests
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
}

/// Formats that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum To {
    /// One Parquet file (docs/trace-parquet.md).
    Parquet,
    /// A directory of Parquet files, one for each volume.
    ParquetByVolume,
    /// fio's I/O log, version 3.
    FioLog,
    /// fio's I/O log, version 2, for fio up to 3.30.
    FioLog2,
    /// blktrace's binary, to be named NAME.blktrace.0.
    Blktrace,
    /// CSV with a header.
    Csv,
}

/// The output format, from the option or the file name.
///
/// # Errors
/// The file name does not determine a format.
fn to_format(options: &ConvertOptions) -> Result<To> {
    let name = options.to.to_string_lossy().to_ascii_lowercase();
    let by_name = || {
        let has = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        let number = name.rsplit_once(".blktrace.").map(|(_, number)| number);
        Some(if has(&[".csv"]) {
            To::Csv
        } else if has(&[".log", ".fio", ".iolog"]) {
            To::FioLog
        } else if has(&[".blktrace"]) || number.is_some_and(|number| number.parse::<u16>().is_ok()) {
            To::Blktrace
        } else if name.ends_with('/') {
            To::ParquetByVolume
        } else if has(&[".parquet"]) {
            To::Parquet
        } else {
            return None;
        })
    };
    options.to_format.or_else(by_name).with_context(|| {
        format!(
            "{}: what to write is not clear from the name; name it .parquet, .csv, .log (fio's), .blktrace.0, or a folder with / at \
             its end, or say --to-format",
            options.to.display()
        )
    })
}

enum Writer {
    Parquet(ParquetWriter),
    ByVolume(PartitionedWriter),
    Fio(FioLogWriter<File>, PartialFile),
    Blktrace(BlktraceWriter<File>, PartialFile),
    Csv(CsvWriter<File>, PartialFile),
}

impl Writer {
    fn write(&mut self, requests: &[Request], names: &Names) -> Result<(), TraceError> {
        match self {
            Self::Parquet(writer) => writer.write(requests, names),
            Self::ByVolume(writer) => writer.write(requests, names),
            Self::Fio(writer, _) => writer.write(requests, names),
            Self::Blktrace(writer, _) => writer.write(requests, names),
            Self::Csv(writer, _) => writer.write(requests, names),
        }
    }

    /// Completes the file; returns the requests that could not be written.
    fn finish(self, faults: &Faults) -> Result<Faults, TraceError> {
        let (refused, partial) = match self {
            Self::Parquet(writer) => return Ok(writer.finish(faults)?.refused),
            Self::ByVolume(writer) => return Ok(writer.finish(faults)?.refused),
            Self::Fio(writer, partial) => (writer.finish()?.1, partial),
            Self::Blktrace(writer, partial) => (writer.finish()?.1, partial),
            Self::Csv(writer, partial) => {
                writer.finish()?;
                (Faults::default(), partial)
            }
        };
        partial.finish()?;
        Ok(refused)
    }
}

/// Runs the verb.
///
/// # Errors
/// The trace cannot be read, or the file exists or cannot be written.
pub fn run(options: &ConvertOptions, format: Format) -> Result<()> {
    let trace_format = traces::format_named(options.reading.format.as_deref())?;
    if options.to == Path::new("-") {
        bail!(
            "-: a trace is written to a file, which has its name when it is whole; name one (./- for one of this name)"
        );
    }
    if options.limit == Some(0) {
        bail!("--limit 0: at least 1");
    }
    if options.reading.rules.is_some() {
        bail!("--rules: rules make rows of analyze and size; a trace is converted as it is");
    }
    if !options.reading.rocksdb_log.is_empty() {
        bail!("--rocksdb-log: levels make rows of analyze and size; a trace is converted as it is");
    }
    let volume = options.reading.volume.as_deref();
    let list = traces::named(&options.trace, volume)?;
    let [trace] = list.as_slice() else {
        bail!("{} holds {} traces: convert one at a time", options.trace, list.len());
    };
    let about = || options.to.display().to_string();
    let mut writer = None;
    let (mut failed, mut written) = (None, 0_u64);
    let limit = options.limit.unwrap_or(u64::MAX);
    // fio's times never go back, and a blktrace is ordered, so a late request would get the time of the one before. Sorting keeps one wrong
    // time far ahead from shifting all later requests.
    let order = match to_format(options)? {
        To::FioLog | To::FioLog2 | To::Blktrace => Order::Time,
        To::Parquet | To::ParquetByVolume | To::Csv => Order::Recorded,
    };
    let read = read(trace, trace_format, Wanted::ALL, volume, order, |requests, names, knows| {
        if failed.is_some() || written >= limit {
            return false;
        }
        // No file is made for a volume without requests.
        if requests.is_empty() {
            return true;
        }
        let requests = &requests[..requests.len().min(usize::try_from(limit - written).unwrap_or(usize::MAX))];
        let mut write = || -> Result<()> {
            if writer.is_none() {
                writer = Some(create(options, &knows)?);
            }
            if let Some(writer) = &mut writer {
                writer.write(requests, names)?;
            }
            Ok(())
        };
        failed = write().err();
        written += requests.len() as u64;
        failed.is_none() && written < limit
    })?
    .whole()?;
    if let Some(error) = failed {
        return Err(error.context(about()));
    }
    let Some(writer) = writer else { bail!("{}: holds no requests", options.trace) };
    let refused = writer.finish(&read.faults).with_context(about)?;
    match format {
        Format::Json => output::json(json!({
            "requests": written - refused.count.min(written),
            "to": about(),
            "notes": read.notes,
            "faults": faults_json(&read.faults),
            "refused": faults_json(&refused),
        })),
        Format::Table => {
            faults(&read.faults).iter().chain(&read.notes).try_for_each(|line| output::text(line))?;
            if refused.count > 0 {
                output::text(&format!(
                    "{} with values that the format cannot hold left out; the first:",
                    output::count(refused.count, "request")
                ))?;
                for fault in &refused.first {
                    output::text(&format!("  request {}: {}", fault.place, fault.what))?;
                }
            }
            let written = output::count(written - refused.count.min(written), "request");
            output::text(&format!("{written} written to {}", about()))
        }
    }?;
    read.mostly(&options.trace)
}

/// Result of converting a capture to Parquet.
#[derive(Debug)]
pub struct Converted {
    /// Number of requests in the file.
    pub requests: u64,
    /// Unreadable parts of the capture.
    pub faults: Faults,
    /// Requests that were left out because Parquet's columns cannot hold their values.
    pub refused: Faults,
}

/// Converts a capture of `record` to the Parquet file `to`, even where it has no requests.
///
/// # Errors
/// The file exists or cannot be written.
pub fn capture_to_parquet(capture: &Path, to: &Path) -> Result<Converted> {
    let about = || to.display().to_string();
    let trace = Named { name: capture.display().to_string(), files: vec![capture.to_owned()], levels: None };
    let (mut writer, mut failed) = (None, None);
    let read =
        read(&trace, Some(TraceFormat::Record), Wanted::ALL, None, Order::Recorded, |requests, names, knows| {
            let mut write = || -> Result<(), TraceError> {
                match &mut writer {
                    None => writer.insert(ParquetWriter::create(to, &knows)?).write(requests, names),
                    Some(writer) => writer.write(requests, names),
                }
            };
            failed = write().err();
            failed.is_none()
        })?
        .whole()?;
    match (failed, writer) {
        (Some(error), _) => Err(error).with_context(about),
        (None, Some(writer)) => {
            let refused = writer.finish(&read.faults).with_context(about)?.refused;
            let requests = read.requests - refused.count.min(read.requests);
            Ok(Converted { requests, faults: read.faults, refused })
        }
        (None, None) => bail!("{}: was not read", capture.display()),
    }
}

fn create(options: &ConvertOptions, knows: &forebay_trace::Knows) -> Result<Writer> {
    let create_file = || -> Result<(File, PartialFile)> {
        let partial = PartialFile::create(&options.to)?;
        Ok((partial.file()?, partial))
    };
    let fio = |version| -> Result<Writer> {
        let (file, partial) = create_file()?;
        Ok(Writer::Fio(FioLogWriter::new(file, version), partial))
    };
    let to_format = to_format(options)?;
    if to_format != To::ParquetByVolume {
        check_new_files(std::iter::once(options.to.as_path()))?;
    }
    Ok(match to_format {
        To::Parquet => Writer::Parquet(ParquetWriter::create(&options.to, knows)?),
        To::ParquetByVolume => Writer::ByVolume(PartitionedWriter::create(&options.to, knows)?),
        To::FioLog => fio(FioLogVersion::V3)?,
        To::FioLog2 => fio(FioLogVersion::V2)?,
        To::Csv => {
            let (file, partial) = create_file()?;
            Writer::Csv(CsvWriter::new(file), partial)
        }
        To::Blktrace => {
            let (file, partial) = create_file()?;
            Writer::Blktrace(BlktraceWriter::new(file), partial)
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use forebay_trace::Op;
    use forebay_trace::format::segments::{Captured, Header, SegmentWriter, Volume, rotated_path};

    /// Writes file `number` of a capture, with two requests.
    fn write(path: &Path, number: u32) {
        let volumes = vec![Volume { name: "sda".to_owned(), size_bytes: 1 << 30 }];
        let header = Header { capture: [7; 16], begin_unix_ns: 5, file: number, volumes };
        let file = File::create(rotated_path(path, number)).unwrap();
        let mut writer = SegmentWriter::begin(file, header).unwrap();
        let request = |index| Captured {
            request: Request::new(u64::from(number * 2 + index), Op::Write, 0, 4096),
            file_system: 0,
            generation: 0,
        };
        writer.records(&[request(0), request(1)], 0).unwrap();
        writer.finish(0).unwrap();
    }

    #[test]
    fn a_rotated_capture_is_one_trace_and_one_parquet_file() {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("a.fbr");
        for number in [0, 1, 3] {
            write(&first, number);
        }
        let list = traces::named(folder.path().to_str().unwrap(), None).unwrap();
        assert_eq!(list.iter().map(|trace| trace.name.as_str()).collect::<Vec<_>>(), ["a.fbr"]);
        let parquet = folder.path().join("a.parquet");
        let converted = capture_to_parquet(&first, &parquet).unwrap();
        assert_eq!((converted.requests, converted.faults.count, converted.refused.count), (6, 1, 0));
        let trace = &traces::named(parquet.to_str().unwrap(), None).unwrap()[0];
        let mut times = Vec::new();
        read(trace, None, Wanted::ALL, None, Order::Recorded, |requests, _, _| {
            times.extend(requests.iter().map(|request| request.issued_ns));
            true
        })
        .unwrap();
        assert_eq!(times, [0, 1, 2, 3, 6, 7]);
        assert!(capture_to_parquet(&first, &parquet).is_err(), "no file is overwritten");
    }

    #[test]
    fn a_capture_of_nothing_is_a_parquet_file_of_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (capture, parquet) = (folder.path().join("a.fbr"), folder.path().join("a.parquet"));
        let header = Header { capture: [7; 16], begin_unix_ns: 5, file: 0, volumes: Vec::new() };
        SegmentWriter::begin(File::create(&capture).unwrap(), header).unwrap().finish(0).unwrap();
        assert_eq!(capture_to_parquet(&capture, &parquet).unwrap().requests, 0);
        let trace = &traces::named(parquet.to_str().unwrap(), None).unwrap()[0];
        assert_eq!(read(trace, None, Wanted::ALL, None, Order::Recorded, |_, _, _| true).unwrap().requests, 0);
    }
}

//! `forebay report RESULT... [-o FILE]`.

use crate::measure::check_new_files;
use crate::output::{self, Format};
use anyhow::{Context, Result, anyhow, bail, ensure};
use forebay_bench::telemetry::{Reader, Record, Summary, TelemetryError};
use forebay_daemon::text::read_text;
use forebay_report::{Io, Records, Results, is_page};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

/// Longest file of results that is read.
const RESULT_BYTES_MAX: u64 = 256 << 20;
/// Results of one page.
const RESULTS_MAX: usize = 200;
/// So much of a file is looked at to see whether it is a page.
const BEGIN_BYTES: u64 = 512;

/// What becomes a page.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportOptions {
    /// Files that forebay wrote with --output json; - is standard input
    #[arg(required = true, value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Write only the picture with this title, as SVG
    #[arg(long, value_name = "TITLE")]
    pub picture: Option<String>,
    /// File to write (default: standard output)
    #[arg(short = 'o', long = "to", value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// Writes the page of results.
///
/// # Errors
/// What is no result, and a file that cannot be written or is no page of ours.
pub fn run(options: &ReportOptions, format: Format) -> Result<()> {
    match &options.to {
        Some(path) => check_target(path, &options.results)?,
        None if format == Format::Json => bail!("--output json says what was written: name the file of the page by -o"),
        None if std::io::stdout().is_terminal() => {
            bail!("the page is for a browser, not for a terminal: name a file by -o, e.g. -o report.html")
        }
        None => {}
    }
    ensure!(
        options.results.len() <= RESULTS_MAX,
        "{} results: a page holds at most {RESULTS_MAX}; make several",
        options.results.len()
    );
    let mut results = Results::default();
    for path in &options.results {
        match records(path)? {
            Some(records) => results.add_records(records),
            None => {
                results.add(&path.display().to_string(), &read(path)?)?;
            }
        }
    }
    let page = match &options.picture {
        Some(title) => forebay_report::picture(&results, title)?,
        None => forebay_report::page(&results),
    };
    let Some(path) = &options.to else {
        return output::raw(page.as_bytes());
    };
    write(path, page.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    match format {
        Format::Json => output::json(json!({ "to": path, "bytes": page.len(), "results": options.results.len() })),
        Format::Table => output::text(&format!(
            "{}: {} of {}",
            path.display(),
            output::size(page.len() as u64),
            output::count(options.results.len() as u64, "result")
        )),
    }
}

/// The records of `bench --records`; none where the file holds anything else.
fn records(path: &Path) -> Result<Option<Records>> {
    let about = || path.display().to_string();
    // What can be read once cannot be looked at before it is read.
    if !path.is_file() {
        return Ok(None);
    }
    let metadata: Value = match Reader::open(path) {
        Ok(reader) => serde_json::from_str(&reader.header().metadata).unwrap_or_default(),
        Err(TelemetryError::NotTelemetry) => return Ok(None),
        Err(error) => return Err(error).with_context(about),
    };
    let (mut records, mut summary) = (Records::new(&about()), Summary::default());
    records.made_by(metadata["command"].as_array().into_iter().flatten().filter_map(Value::as_str));
    for pass in [Records::survey, Records::reduce, Records::gather] {
        let mut reader = Reader::open(path).with_context(about)?;
        while let Some(segment) = reader.next_segment().with_context(about)? {
            segment.records.iter().map(io).for_each(|io| pass(&mut records, &io));
        }
        summary = *reader.summary();
    }
    if summary.dropped > 0 {
        records.note(format!("{} dropped by the run", output::count(summary.dropped, "record")));
    }
    if !summary.is_whole() {
        records.note("The file is not whole: the run was killed, or a part of it is damaged".to_owned());
    }
    Ok(Some(records))
}

fn io(record: &Record) -> Io {
    Io {
        intended_ns: record.intended_ns,
        submitted_ns: record.submitted_ns,
        completed_ns: record.completed_ns,
        offset_bytes: record.offset_bytes,
        len_bytes: record.len_bytes,
        depth: record.depth,
        kind: record.kind.name(),
        failed: record.failed,
    }
}

fn read(path: &Path) -> Result<String> {
    if path != Path::new("-") {
        return read_text(path, RESULT_BYTES_MAX).map_err(|error| {
            let is_binary =
                error.downcast_ref::<std::io::Error>().is_some_and(|why| why.kind() == ErrorKind::InvalidData);
            let advice = "a trace or a recording is reported by what `forebay analyze TRACE --output json` says of it";
            let is_absent = error.downcast_ref::<std::io::Error>().is_some_and(|why| why.kind() == ErrorKind::NotFound);
            if is_absent {
                let path = path.display();
                return anyhow!("there is no result {path}: a verb makes one, e.g. forebay bench --target TARGET --output json > {path}");
            }
            if is_binary { error.context(format!("{}: is no result in JSON; {advice}", path.display())) } else { error }
        });
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(RESULT_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .context("cannot read standard input")?;
    ensure!(text.len() as u64 <= RESULT_BYTES_MAX, "standard input has more than {RESULT_BYTES_MAX} bytes");
    Ok(text)
}

/// A page may be made anew; whatever else is there stays.
fn check_target(path: &Path, results: &[PathBuf]) -> Result<()> {
    ensure!(
        !results.iter().any(|result| result == path),
        "-o {}: is a result itself, which would be lost",
        path.display()
    );
    let found = path.symlink_metadata().ok().filter(|found| found.is_file());
    let Some(found) = found.filter(|_| begins_as_page(path).unwrap_or(false)) else {
        return check_new_files(std::iter::once(path));
    };
    ensure!(
        !found.permissions().readonly(),
        "-o {}: is a page that may not be written to: make it writable, or name another file",
        path.display()
    );
    Ok(())
}

fn begins_as_page(path: &Path) -> Result<bool> {
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BEGIN_BYTES).read_to_end(&mut begin));
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(is_page(&begin))
}

/// The whole page or nothing: it gets its name once it is complete.
fn write(path: &Path, page: &[u8]) -> Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // As other programs make files, so that others may look at them: the mask of the process takes from it.
    let mut file = builder.prefix(".forebay-report").permissions(permissions()).tempfile_in(folder)?;
    file.write_all(page)?;
    // A page that is made anew keeps whom it was open to.
    if let Ok(found) = path.metadata() {
        file.as_file().set_permissions(found.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn permissions() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

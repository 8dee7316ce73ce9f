//! Photo ingest: copies in thousands of files of about 12 MB, as from a photographer's memory card.

use super::files::{HEAD, PIECE_BYTES, Workplace, add_since, content, failed, figures, size_of};
use super::{ApplicationError, Control, Options};
use crate::experiment::Report;
use crate::output::table::Table;
use crate::run::{Tally, per_second};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Totals and latencies of an ingest.
pub(super) struct Ingested {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) duration_ns: u64,
    pub(super) per_file: Tally,
    pub(super) syncs: Tally,
}

/// Writes the files of a load into `workplace`; each file is complete and durable before the next one begins.
pub(super) fn ingest(
    options: &Options,
    workplace: &Workplace,
    control: &mut Control<'_>,
) -> Result<Ingested, ApplicationError> {
    let piece = content(options.seed);
    let started = Instant::now();
    let mut done = Ingested { files: 0, bytes: 0, duration_ns: 0, per_file: Tally::new(), syncs: Tally::new() };
    for number in 0..options.files {
        if control.stop.load(Ordering::Relaxed) {
            break;
        }
        let begun = Instant::now();
        let size = size_of(options, number);
        write_file(&workplace.file(number), size, number, &piece, &mut done.syncs)?;
        add_since(&mut done.per_file, begun);
        done.files += 1;
        done.bytes += size;
        (control.progress)(done.files, options.files, "writing files");
    }
    done.duration_ns = started.elapsed().as_nanos() as u64;
    Ok(done)
}

fn write_file(path: &Path, size: u64, number: u64, piece: &[u8], syncs: &mut Tally) -> Result<(), ApplicationError> {
    let mut file = File::create_new(path).map_err(failed("make", path))?;
    let mut left = size;
    let mut part = piece.to_vec();
    // The number makes each piece unique, so that deduplication finds nothing.
    while left > 0 {
        part[..8].copy_from_slice(&(number << 32 | left).to_le_bytes());
        let len = left.min(PIECE_BYTES as u64);
        file.write_all(&part[..len as usize]).map_err(failed("write", path))?;
        left -= len;
    }
    let begun = Instant::now();
    file.sync_all().map_err(failed("sync", path))?;
    add_since(syncs, begun);
    super::files::forget(&file);
    Ok(())
}

/// Runs the photo ingest.
///
/// # Errors
/// The operation of the file system that failed, and the file.
pub fn photo_ingest(options: &Options, control: &mut Control<'_>) -> Result<Report, ApplicationError> {
    let workplace = Workplace::new(options, "photos")?;
    let done = ingest(options, &workplace, control)?;
    let mut table = Table::new("per file; of percentiles 95 % intervals", 1, &HEAD);
    let (cells, per_file) = figures(&done.per_file);
    table.rows.push([vec!["file, written and synced".to_owned()], cells].concat());
    let (cells, syncs) = figures(&done.syncs);
    table.rows.push([vec!["of that, fsync".to_owned()], cells].concat());
    let mut all = Table::new("the whole", 0, &["files", "MB", "s", "files/s", "MB/s"]);
    all.rows.push(vec![
        done.files.to_string(),
        format!("{:.1}", done.bytes as f64 / 1e6),
        format!("{:.2}", done.duration_ns as f64 / 1e9),
        format!("{:.2}", per_second(done.files, done.duration_ns)),
        format!("{:.1}", per_second(done.bytes, done.duration_ns) / 1e6),
    ]);
    Ok(Report {
        name: "photo-ingest".to_owned(),
        what: "Files of some 12 MB are written one after the other, each synced (Shrout Research on the 800P: 3,075 \
               photos, 37.4 GB)."
            .to_owned(),
        conditions: vec![format!(
            "{} files of {:.1} MB on average, buffered writes of 128 KiB and one fsync a file, one thread",
            options.files,
            options.file_bytes as f64 / 1e6
        )],
        tables: vec![all, table],
        json: json!({
            "files": done.files,
            "bytes": done.bytes,
            "duration_ns": done.duration_ns,
            "files_per_second": per_second(done.files, done.duration_ns),
            "bytes_per_second": per_second(done.bytes, done.duration_ns),
            "file_latency_ns": per_file,
            "fsync_latency_ns": syncs,
        }),
        notes: Vec::new(),
        partial: done.files < options.files,
        failures: 0,
    })
}

//! Index rebuild: all files are read and hashed while a database is updated, as a file-sharing client does after a
//! change of disks (Shrout Research on the 800P, "Dropbox index").

use super::files::{HEAD, PIECE_BYTES, Workplace, add_since, failed, figures, forget};
use super::photo_ingest::ingest;
use super::{ApplicationError, Control, Options};
use crate::experiment::Report;
use crate::output::table::Table;
use crate::run::{Tally, per_second};
use forebay_block::{Random, checksum};
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Pages of the database.
const DATABASE_PAGES: u64 = 4096;
/// Size of a page in bytes.
const PAGE_BYTES: u64 = 4096;
/// Database pages that change for each file, in addition to the page of the journal.
const PAGES_PER_FILE: u64 = 3;

/// Runs the index rebuild. The files are made first; that part is not measured.
///
/// # Errors
/// The operation of the file system that failed, and the file.
pub fn index_rebuild(options: &Options, control: &mut Control<'_>) -> Result<Report, ApplicationError> {
    let workplace = Workplace::new(options, "index")?;
    let made = ingest(options, &workplace, control)?;
    let path = workplace.0.join("database");
    let database =
        File::options().read(true).write(true).create_new(true).open(&path).map_err(failed("make", &path))?;
    database.set_len(DATABASE_PAGES * PAGE_BYTES).map_err(failed("size", &path))?;
    database.sync_all().map_err(failed("sync", &path))?;

    let mut random = Random::new(options.seed);
    let (mut reads, mut commits) = (Tally::new(), Tally::new());
    let mut buffer = vec![0; PIECE_BYTES];
    let (mut files, mut bytes) = (0, 0);
    let started = Instant::now();
    for number in 0..made.files {
        if control.stop.load(Ordering::Relaxed) {
            break;
        }
        let begun = Instant::now();
        let name = workplace.file(number);
        let mut file = File::open(&name).map_err(failed("open", &name))?;
        let mut hash = 0u64;
        loop {
            let count = file.read(&mut buffer).map_err(failed("read", &name))?;
            if count == 0 {
                break;
            }
            // The application computes on the data that it read, so the core stays awake as in the real application.
            hash = hash.rotate_left(13) ^ u64::from(checksum::crc32c(&buffer[..count]));
            bytes += count as u64;
        }
        forget(&file);
        add_since(&mut reads, begun);
        let begun = Instant::now();
        let mut page = vec![0; PAGE_BYTES as usize];
        page[..8].copy_from_slice(&hash.to_le_bytes());
        for _ in 0..PAGES_PER_FILE {
            let at = random.below(DATABASE_PAGES) * PAGE_BYTES;
            database.write_all_at(&page, at).map_err(failed("write", &path))?;
        }
        database.sync_data().map_err(failed("sync", &path))?;
        add_since(&mut commits, begun);
        files += 1;
        (control.progress)(files, made.files, "reading files, updating the database");
    }
    let duration_ns = started.elapsed().as_nanos() as u64;
    let mut table = Table::new("per file; of percentiles 95 % intervals", 1, &HEAD);
    let (cells, read) = figures(&reads);
    table.rows.push([vec!["read and hashed".to_owned()], cells].concat());
    let (cells, commit) = figures(&commits);
    table.rows.push([vec!["database updated and synced".to_owned()], cells].concat());
    let mut all = Table::new("the whole", 0, &["files", "MB read", "s", "files/s", "MB/s"]);
    all.rows.push(vec![
        files.to_string(),
        format!("{:.1}", bytes as f64 / 1e6),
        format!("{:.2}", duration_ns as f64 / 1e9),
        format!("{:.2}", per_second(files, duration_ns)),
        format!("{:.1}", per_second(bytes, duration_ns) / 1e6),
    ]);
    Ok(Report {
        name: "index-rebuild".to_owned(),
        what: "All files are read and hashed, and after each one a database is updated and synced (Shrout Research on the \
               800P: the Dropbox index)."
            .to_owned(),
        conditions: vec![
            format!(
                "{} files of {:.1} MB on average, written, synced and dropped from the page cache before",
                made.files,
                options.file_bytes as f64 / 1e6
            ),
            format!("{PAGES_PER_FILE} pages of 4 KiB and one fdatasync a file, one thread"),
        ],
        tables: vec![all, table],
        json: json!({
            "files": files,
            "bytes": bytes,
            "duration_ns": duration_ns,
            "files_per_second": per_second(files, duration_ns),
            "bytes_per_second": per_second(bytes, duration_ns),
            "database_commits": commit["samples"],
            "read_latency_ns": read,
            "commit_latency_ns": commit,
        }),
        notes: Vec::new(),
        partial: files < options.files,
        failures: 0,
    })
}

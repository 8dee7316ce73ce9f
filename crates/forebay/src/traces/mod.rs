//! Traces by name: a file of any format, a generator, or a directory with many traces.

mod blocks;
mod findings;
mod levels;
mod options;
mod read;
mod rules;

pub use blocks::{Blocks, What, read_blocks};
pub use findings::{faults, faults_json, lacks_levels, unknown, warn_of_levels};
pub use options::{FollowingOptions, ReadingOptions, wanted_columns};
pub use read::{Order, Read, Reader, no_such_volume, read, read_by};
pub use rules::load as load_rules;

use anyhow::{Context, Result, anyhow, bail};
use forebay_trace::format::parquet::{Wanted, partitions};
use forebay_trace::format::segments::is_later_file;
use forebay_trace::format::{self, Format};
use forebay_trace::{Source, generate};
use levels::{Leveled, Levels};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A trace in one file, or in several files that follow each other.
#[derive(Clone)]
pub struct Named {
    /// Name in results.
    pub name: String,
    /// Files of the trace; empty for a generator, which opens by its name.
    pub files: Vec<PathBuf>,
    /// Source of the levels of RocksDB tables.
    pub levels: Option<Arc<Levels>>,
}

/// Short name of a trace for tables: a file's name without its directory.
pub fn short_name(text: &str) -> String {
    if generate::open(text).is_some() {
        return text.to_owned();
    }
    Path::new(text).file_name().map_or_else(|| text.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Name in results for requests without a known volume.
const NO_VOLUME: &str = "(no volume)";
/// Maximum number of volumes in a directory.
const VOLUMES_MAX: usize = 1 << 20;

/// The traces that `text` names: a generator, a file, a directory of Parquet files by volume, or a directory of traces. With `volume`, only
/// that volume of a directory by volume.
///
/// # Errors
/// Nothing exists under this name, or nothing that could be a trace.
pub fn named(text: &str, volume: Option<&str>) -> Result<Vec<Named>> {
    if let Some(made) = generate::open(text) {
        made?;
        return Ok(vec![Named { name: text.to_owned(), files: Vec::new(), levels: None }]);
    }
    let path = Path::new(text);
    // A misspelt generator name is not looked up as a file.
    if let Some((name, _)) = text.split_once(":?") {
        let known: Vec<&str> = generate::NAMES.iter().map(|(name, _)| *name).collect();
        bail!("no generator {name:?}; there are {}", known.join(", "));
    }
    let is_missing = path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    if text != "-" && is_missing && !format::has_processors(path) {
        bail!(
            "there is no trace {text}: name a file (`forebay record` makes one; docs/traces.md has the formats of others) or a generator, such as {}",
            generate::NAMES.iter().map(|(name, _)| format!("{name}:")).collect::<Vec<_>>().join(", ")
        );
    }
    if !path.is_dir() {
        return Ok(vec![Named { name: text.to_owned(), files: vec![path.to_owned()], levels: None }]);
    }
    let mut found = partitions(path)?;
    if let Some(volume) = volume.filter(|_| !found.is_empty()) {
        let known: Vec<String> = found.iter().take(20).map(|part| part.volume.clone()).collect();
        found.retain(|part| part.volume == volume);
        if found.is_empty() {
            bail!("{text} has no volume {volume:?}; there are {}", known.join(", "));
        }
    }
    let of = |name, files| Named { name, files, levels: None };
    let name = |volume: String| if volume.is_empty() { NO_VOLUME.to_owned() } else { volume };
    let mut list: Vec<Named> = found.into_iter().map(|part| of(name(part.volume), part.files)).collect();
    if list.is_empty() {
        let entries = std::fs::read_dir(path).with_context(|| format!("{text} cannot be read"))?;
        for entry in entries {
            let file = entry.with_context(|| format!("{text} cannot be read"))?.path();
            if file.is_file() {
                let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                list.push(of(name, vec![file]));
            }
        }
        list.sort_by(|a, b| a.name.cmp(&b.name));
        // The first file of a capture stands for all its files.
        list.retain(|trace| !trace.files.iter().any(|file| is_later_file(file)));
        list = with_processors_together(list);
    }
    list.retain(|trace| !trace.files.is_empty());
    match list.len() {
        0 => bail!("{text} holds no traces: neither volume=NAME directories with Parquet files nor files"),
        1..=VOLUMES_MAX => Ok(list),
        more => bail!("{text} holds {more} volumes; at most {VOLUMES_MAX} are analysed at a time"),
    }
}

/// Makes one trace of the files that blktrace wrote for several processors.
fn with_processors_together(list: Vec<Named>) -> Vec<Named> {
    let of = |trace: &Named| trace.files.first().and_then(|file| format::processor_of(file)).map(|(trace, _)| trace);
    let mut files: HashMap<PathBuf, usize> = HashMap::new();
    for trace in list.iter().filter_map(of) {
        *files.entry(trace).or_default() += 1;
    }
    // A file of the bare name would be opened in their place.
    files.retain(|trace, count| *count > 1 && !trace.exists());
    let mut together = Vec::new();
    for trace in list {
        match of(&trace) {
            // With the first file all others are named.
            Some(all) if files.get(&all).is_some_and(|count| *count > 0) => {
                files.insert(all.clone(), 0);
                let name = all.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                together.push(Named { name, files: vec![all], levels: None });
            }
            Some(all) if files.contains_key(&all) => {}
            _ => together.push(trace),
        }
    }
    together
}

impl Named {
    /// Opens the files in order. Parquet files read only the wanted columns.
    ///
    /// # Errors
    /// A file cannot be opened or is not a trace.
    pub fn open(&self, format: Option<Format>, wanted: Wanted) -> Result<Vec<Box<dyn Source + Send>>> {
        let sources: Vec<Box<dyn Source + Send>> = if self.files.is_empty() {
            vec![generate::open(&self.name).ok_or_else(|| anyhow!("{}: no generator", self.name))??]
        } else {
            self.files.iter().map(|path| format::open(path, format, wanted)).collect::<Result<_, _>>()?
        };
        let Some(levels) = &self.levels else { return Ok(sources) };
        let leveled =
            |source| -> Box<dyn Source + Send> { Box::new(Leveled { source, levels: levels.clone(), seen: 0 }) };
        Ok(sources.into_iter().map(leveled).collect())
    }
}

/// Returns the format with this name.
///
/// # Errors
/// An unknown name; the error lists the known ones.
pub fn format_named(name: Option<&str>) -> Result<Option<Format>> {
    let Some(name) = name else { return Ok(None) };
    let found = Format::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        anyhow!("--format {name}: no such format; there are {}", known.join(", "))
    })?;
    Ok(Some(found))
}

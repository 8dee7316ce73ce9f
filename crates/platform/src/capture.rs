//! Captures the files that rules read, as a tree that can be read on another machine.

use crate::tree::{Seen, Tree};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why the capture failed.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The directory is not empty.
    #[error("{}: is not empty; name a directory that is, or that is not there yet", .0.display())]
    NotEmpty(PathBuf),
    /// A file or directory could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn failed(path: &Path) -> impl Fn(io::Error) -> CaptureError {
    let path = path.to_owned();
    move |source| CaptureError::Write { path: path.clone(), source }
}

/// Writes the files and links read of `tree` into a directory that is empty or does not exist. Files that were
/// missing or could not be read are missing in the capture, too. Returns the number of files.
///
/// # Errors
/// The directory is not empty, or cannot be written.
pub fn capture(tree: &Tree, to: &Path) -> Result<usize, CaptureError> {
    match fs::read_dir(to) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(CaptureError::NotEmpty(to.to_owned()));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(to).map_err(failed(to))?,
        Err(error) => return Err(failed(to)(error)),
    }
    let seen = tree.seen();
    let at = |path: &str| to.join(path.trim_start_matches('/'));
    let mut files = 0;
    // Links are created last: until then nothing below the directory can lead outside of it.
    for (path, what) in seen.iter().filter(|(_, what)| !matches!(what, Seen::Link(_))) {
        let place = at(path);
        let folder = if *what == Seen::Folder { Some(place.as_path()) } else { place.parent() };
        let made = folder.map_or(Ok(()), fs::create_dir_all);
        made.map_err(failed(&place))?;
        let text = match what {
            Seen::File(text) => format!("{text}\n"),
            Seen::Name if !place.exists() && !holds_more(&seen, path) => String::new(),
            _ => continue,
        };
        fs::write(&place, text).map_err(failed(&place))?;
        files += 1;
    }
    for (path, what) in &seen {
        let Seen::Link(target) = what else { continue };
        let place = at(path);
        place.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed(&place))?;
        symlink(target, &place).map_err(failed(&place))?;
        files += 1;
    }
    Ok(files)
}

/// Whether anything below this path was read.
fn holds_more(seen: &std::collections::BTreeMap<String, Seen>, path: &str) -> bool {
    let below = format!("{path}/");
    seen.range(below.clone()..).next().is_some_and(|(other, _)| other.starts_with(&below))
}

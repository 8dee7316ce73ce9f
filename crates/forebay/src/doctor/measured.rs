//! Reads the result of a ladder, to be shown beside an audit.

use anyhow::{Context, Result, bail};
use forebay_platform::{Fingerprint, Measured};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Upper bound of the file size; results of ladders are far shorter.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads the output of `--ladder --output json` of this machine.
///
/// # Errors
/// The file cannot be read, is not such a result, or is of another machine.
pub fn measured(path: &Path, here: &Fingerprint) -> Result<Measured> {
    let name = || path.display().to_string();
    let mut text = String::new();
    File::open(path).with_context(name)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).with_context(name)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        bail!("{}: longer than {FILE_BYTES_MAX} bytes", name());
    }
    Measured::read(&text, here).with_context(name)
}

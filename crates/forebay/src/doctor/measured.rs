//! The result of a ladder, to stand beside an audit.

use anyhow::{Context, Result, bail};
use forebay_platform::{Fingerprint, Measured};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Results of ladders are far shorter.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads what `--ladder --output json` has written on this machine.
///
/// # Errors
/// What cannot be read, is no such result, or is another machine's.
pub fn measured(path: &Path, here: &Fingerprint) -> Result<Measured> {
    let name = || path.display().to_string();
    let mut text = String::new();
    File::open(path).with_context(name)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).with_context(name)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        bail!("{}: longer than {FILE_BYTES_MAX} bytes", name());
    }
    Measured::read(&text, here).with_context(name)
}

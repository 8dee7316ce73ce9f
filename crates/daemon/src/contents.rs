//! Says what a device holds before a command overwrites it.

use forebay_block::{Device, IoError};
use forebay_device::{FileContent, Signature, detect, detect_where_readable, file_content, first_content};
use std::path::Path;

/// Name of the signature of a Forebay pool.
pub const OWN_SIGNATURE: &str = "Forebay pool";

/// Signatures of anything but a Forebay pool on a device, each with its place.
///
/// # Errors
/// A read of the device failed.
pub fn foreign(device: &mut dyn Device) -> Result<Vec<String>, IoError> {
    Ok(foreign_of(&detect(device)?))
}

fn foreign_of(found: &[Signature]) -> Vec<String> {
    found.iter().filter(|found| found.name != OWN_SIGNATURE).map(ToString::to_string).collect()
}

/// As [`foreign`], but goes on past unreadable blocks; the first read error is returned beside what was found.
///
/// # Errors
/// A read failed in a way that makes the rest of the device unreadable, too.
pub fn foreign_where_readable(device: &mut dyn Device) -> Result<(Vec<String>, Option<IoError>), IoError> {
    let (found, unread) = detect_where_readable(device)?;
    Ok((foreign_of(&found), unread))
}

/// All signatures on a device, each with its place.
///
/// # Errors
/// A read of the device failed.
pub fn recognised(device: &mut dyn Device) -> Result<Vec<String>, IoError> {
    Ok(detect(device)?.iter().map(ToString::to_string).collect())
}

/// All signatures on a device, or else a note that it has content without a known signature. Empty where everything
/// examined is zero: all data of an ordinary file at `path`, samples of anything else.
///
/// # Errors
/// A read of the device failed.
pub fn anything(device: &mut dyn Device, path: Option<&Path>) -> Result<Vec<String>, IoError> {
    let known = recognised(device)?;
    if !known.is_empty() {
        return Ok(known);
    }
    let mut content = first_content(device)?.map(FileContent::At);
    if content.is_none() {
        content = path.and_then(file_content);
    }
    Ok(content.iter().map(ToString::to_string).collect())
}

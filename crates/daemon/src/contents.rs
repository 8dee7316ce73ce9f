//! What lies on a device, for people who are about to lose it.

use forebay_block::{Device, IoError};
use forebay_device::{FileContent, Signature, detect, detect_where_readable, file_content, first_content};
use std::path::Path;

/// Name under which a pool's own magic is recognised.
pub const OWN_SIGNATURE: &str = "Forebay pool";

/// What is recognised on a device that is no pool's, each with its place.
///
/// # Errors
/// The device's.
pub fn foreign(device: &mut dyn Device) -> Result<Vec<String>, IoError> {
    Ok(foreign_of(&detect(device)?))
}

fn foreign_of(found: &[Signature]) -> Vec<String> {
    found.iter().filter(|found| found.name != OWN_SIGNATURE).map(ToString::to_string).collect()
}

/// The same where some blocks may be unreadable, with why.
///
/// # Errors
/// The device's, where it fails more than some blocks.
pub fn foreign_where_readable(device: &mut dyn Device) -> Result<(Vec<String>, Option<IoError>), IoError> {
    let (found, unread) = detect_where_readable(device)?;
    Ok((foreign_of(&found), unread))
}

/// What is recognised on a device, each with its place.
///
/// # Errors
/// The device's.
pub fn recognised(device: &mut dyn Device) -> Result<Vec<String>, IoError> {
    Ok(detect(device)?.iter().map(ToString::to_string).collect())
}

/// What is recognised on a device, or else that there is content which nothing explains; empty where all that was looked at
/// is zero. Of an ordinary file at `path` all data is looked at, of anything else samples.
///
/// # Errors
/// The device's.
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

//! What lies on a device, for people who are about to lose it.

use forebay_block::{Device, IoError};
use forebay_device::{detect, first_content};

/// What is recognised on a device, each with its place.
///
/// # Errors
/// The device's.
pub fn recognised(device: &mut dyn Device) -> Result<Vec<String>, IoError> {
    Ok(detect(device)?.iter().map(ToString::to_string).collect())
}

/// What is recognised on a device, or else that there is content which nothing explains; empty where all that was looked at
/// is zero.
///
/// # Errors
/// The device's.
pub fn anything(device: &mut dyn Device) -> Result<Vec<String>, IoError> {
    let known = recognised(device)?;
    if !known.is_empty() {
        return Ok(known);
    }
    let content = first_content(device)?;
    Ok(content.map(|at| format!("content that is not known (it is not zero at byte {at})")).into_iter().collect())
}

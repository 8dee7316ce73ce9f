//! How long the text of a job file may be.

use super::error::JobError;

/// No job file is larger; anything larger was named by mistake.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// Refuses texts beyond [`MAX_FILE_BYTES`].
pub(super) fn check_length(place: &str, bytes: usize) -> Result<(), JobError> {
    if bytes as u64 > MAX_FILE_BYTES {
        return Err(JobError::TooLarge { place: place.to_owned(), limit_bytes: MAX_FILE_BYTES });
    }
    Ok(())
}

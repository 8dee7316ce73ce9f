//! The limit on the length of a job file.

use super::error::JobError;

/// Largest job file in bytes; a larger file is not a job file.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// Refuses texts longer than [`MAX_FILE_BYTES`].
pub(super) fn check_length(place: &str, bytes: usize) -> Result<(), JobError> {
    if bytes as u64 > MAX_FILE_BYTES {
        return Err(JobError::TooLarge { place: place.to_owned(), limit_bytes: MAX_FILE_BYTES });
    }
    Ok(())
}

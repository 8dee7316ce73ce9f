//! DiskSpd's numbers: powers of 1024 behind one letter, and `b` for blocks.

use crate::job::error::{JobError, quote};

/// The place that errors name for an option.
pub const PLACE: &str = "DiskSpd options";

/// The error for a wrong value of an option.
pub fn wrong(option: &str, reason: impl Into<String>) -> JobError {
    JobError::value(PLACE, option, reason)
}

/// Parses `64K`, `1g`, `8b` (blocks of `block_bytes`) to bytes.
pub fn size_bytes(option: &str, text: &str, block_bytes: u64) -> Result<u64, JobError> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(digits_end);
    let factor = match suffix.to_ascii_lowercase().as_str() {
        "" => Some(1),
        "k" => Some(1 << 10),
        "m" => Some(1 << 20),
        "g" => Some(1 << 30),
        "t" => Some(1 << 40),
        "b" => Some(block_bytes),
        _ => None,
    };
    let number = digits.parse::<u64>().ok();
    factor.zip(number).and_then(|(factor, number)| number.checked_mul(factor)).ok_or_else(|| {
        let given = if text.is_empty() { "no value attached".to_owned() } else { quote(text) };
        wrong(
            option,
            format!("{given}; write a size behind it without a blank, as {option}64K (K, M, G, T or b for blocks)"),
        )
    })
}

/// Parses a whole number from `least` to `most`.
pub fn count(option: &str, text: &str, least: u32, most: u32) -> Result<u32, JobError> {
    text.parse::<u32>()
        .ok()
        .filter(|number| text.starts_with(|c: char| c.is_ascii_digit()) && (least..=most).contains(number))
        .ok_or_else(|| {
            let given = if text.is_empty() { "no value attached".to_owned() } else { quote(text) };
            wrong(option, format!("{given}; write a number from {least} to {most} behind it without a blank"))
        })
}

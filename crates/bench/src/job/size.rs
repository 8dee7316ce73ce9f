//! Sizes and rates in our own job files. (fio and DiskSpd have their own units.)

use super::error::quote;
use forebay_block::size::parse_size_bytes;

/// Parses `65536`, `64KiB`, `1.5 GiB`, `10GB` to bytes.
///
/// # Errors
/// A sentence that says what is wrong with the text.
pub fn size_bytes(text: &str) -> Result<u64, String> {
    parse_size_bytes(text).map_err(|error| error.to_string())
}

/// A rate: I/Os a second (`10000` or `10000/s`) or bytes a second (`100MiB/s`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// I/Os a second.
    Iops(f64),
    /// Bytes a second.
    BytesPerSecond(f64),
}

/// Reads a [`Rate`].
///
/// # Errors
/// A sentence that says what is wrong with the text.
pub fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("{} is not a rate: write I/Os a second (10000) or bytes a second (100MiB/s)", quote(text));
    let trimmed = text.trim();
    let number = trimmed.strip_suffix("/s").unwrap_or(trimmed).trim_end();
    if let Some(iops) = decimal(number) {
        return Ok(Rate::Iops(iops));
    }
    if number.len() == trimmed.len() {
        return Err(wrong());
    }
    parse_size_bytes(number).map(|bytes| Rate::BytesPerSecond(bytes as f64)).map_err(|_| wrong())
}

/// A number of digits with at most one point: no signs, exponents, infinities.
///
/// Longer texts than any number here are refused, so that nobody can make a parser read pages of digits.
#[must_use]
pub fn decimal(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.len() <= 40 && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if !plain || text.starts_with('.') || text.ends_with('.') {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_of_ios_or_of_bytes() {
        assert_eq!(rate("10000"), Ok(Rate::Iops(10_000.0)));
        assert_eq!(rate("0.5/s"), Ok(Rate::Iops(0.5)));
        assert_eq!(rate("100MiB/s"), Ok(Rate::BytesPerSecond(104_857_600.0)));
        for text in ["100MiB", "fast", "", "-3", "inf", "1e3"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = size_bytes(&text);
            let _ = rate(&text);
        }
    }
}

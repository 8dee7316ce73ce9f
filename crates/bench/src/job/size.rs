//! Sizes, times and rates as people write them in our own job files. (fio and DiskSpd have units of their own.)

use super::error::quote;
use forebay_block::size::{parse_size_bytes, with_units};

const TIME_UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Bytes of `65536`, `64KiB`, `1.5 GiB`, `10GB`.
///
/// # Errors
/// A sentence about the text.
pub fn size_bytes(text: &str) -> Result<u64, String> {
    parse_size_bytes(text).map_err(|error| error.to_string())
}

/// Nanoseconds of `10us`, `1.5s`, `10min`. The unit is needed: a bare number means seconds to some keys of other tools
/// and microseconds to others.
///
/// # Errors
/// A sentence about the text.
pub fn time_ns(text: &str) -> Result<u64, String> {
    with_units(text, &TIME_UNITS).map_err(|_| match decimal(text.trim()) {
        Some(_) => format!(
            "{} is not a time without its unit: write {}s for seconds, or ns, us, ms, min, h, d",
            quote(text),
            text.trim()
        ),
        None => format!("{} is not a time: write a number with ns, us, ms, s, min, h or d", quote(text)),
    })
}

/// A rate: I/Os a second of `10000` or `10000/s`, bytes a second of `100MiB/s`.
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
/// A sentence about the text.
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

/// A number that is digits with at most one point: no signs, exponents, infinities.
///
/// Longer texts than any number here has are refused, so that a parser never chews on a page of digits.
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
    fn times_need_units() {
        for (text, ns) in [("10us", 10_000), ("1.5s", 1_500_000_000), ("2min", 120_000_000_000), ("0s", 0), ("7NS", 7)]
        {
            assert_eq!(time_ns(text), Ok(ns), "{text}");
        }
        for text in ["10", "", "s", "-1s", "10 m", "0.5ns", "1e3s", "99999999999d"] {
            assert!(time_ns(text).is_err(), "{text}");
        }
    }

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
            let _ = time_ns(&text);
            let _ = rate(&text);
        }
    }
}

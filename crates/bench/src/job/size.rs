//! Sizes, times and rates as people write them in our own job files. (fio and DiskSpd have units of their own.)

use super::error::quote;

/// Units of sizes: powers of 1024 with an i, powers of 1000 without. A bare `k` is refused: fio, DiskSpd and disk
/// makers mean different things by it.
const SIZE_UNITS: [(&str, u64); 12] = [
    ("", 1),
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("pib", 1 << 50),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("pb", 1_000_000_000_000_000),
];

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
    with_units(text, &SIZE_UNITS).ok_or_else(|| {
        format!(
            "{} is not a size: write bytes, or a number with KiB, MiB, GiB, TiB (powers of 1024) \
             or kB, MB, GB, TB (of 1000)",
            quote(text)
        )
    })
}

/// Nanoseconds of `10us`, `1.5s`, `10min`. The unit is needed: a bare number means seconds to some keys of other tools
/// and microseconds to others.
///
/// # Errors
/// A sentence about the text.
pub fn time_ns(text: &str) -> Result<u64, String> {
    with_units(text, &TIME_UNITS)
        .ok_or_else(|| format!("{} is not a time: write a number with ns, us, ms, s, min, h or d", quote(text)))
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
    with_units(number, &SIZE_UNITS).map(|bytes| Rate::BytesPerSecond(bytes as f64)).ok_or_else(wrong)
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

/// A number and a unit without regard to case. A fraction must come to whole units of the smallest kind.
fn with_units(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim_start();
    let factor = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|&(_, factor)| factor)?;
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (number, None),
    };
    let mut total = whole.parse::<u64>().ok()? as u128 * u128::from(factor);
    if let Some(fraction) = fraction {
        if fraction.is_empty() || fraction.len() > 12 || !fraction.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        let scaled = fraction.parse::<u128>().ok()? * u128::from(factor);
        let denominator = 10u128.pow(fraction.len() as u32);
        if scaled % denominator != 0 {
            return None;
        }
        total += scaled / denominator;
    }
    u64::try_from(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4KiB", 4096),
            ("4 kib", 4096),
            ("4kB", 4000),
            ("1.5GiB", 3 << 29),
            ("512B", 512),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(size_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "4k", "4K", "-1", "1e9", "1.", ".5KiB", "1.5", "0x10", "16384PiB", "4KiB/s", "1.2.3GiB"] {
            assert!(size_bytes(text).is_err(), "{text}");
        }
    }

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

        #[test]
        fn whole_sizes_come_back(number in 0u64..1 << 20, unit in 0usize..7) {
            let (name, factor) = SIZE_UNITS[unit.min(4)];
            prop_assert_eq!(size_bytes(&format!("{number}{name}")), Ok(number * factor));
        }
    }
}

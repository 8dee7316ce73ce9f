//! Sizes, times and other numbers with units, as people write them.

/// The reason why a size was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a number with a known unit.
    #[error("{text:?} is not a size: write a number of bytes, or a number with {UNITS}")]
    Form {
        /// The text.
        text: String,
    },
    /// A unit that tools interpret differently.
    #[error("{text:?} may mean {number}{letter}iB (powers of 1024) or {number}{letter}B (powers of 1000): write which")]
    Ambiguous {
        /// The text.
        text: String,
        /// The number in the text.
        number: String,
        /// K, M, G, T or P.
        letter: char,
    },
    /// A unit of bits.
    #[error(
        "{text:?} would be {letter}bit, and a size is in bytes: write {number}{letter}iB (powers of 1024) or {number}{letter}B (powers of 1000)"
    )]
    Bits {
        /// What was written.
        text: String,
        /// The number in it.
        number: String,
        /// K, M, G, T or P, as written.
        letter: char,
    },
    /// A fraction of a unit.
    #[error("{text:?} comes to no whole number of bytes: write it in a smaller unit")]
    Fraction {
        /// The text.
        text: String,
    },
    /// More than 2^64 - 1 bytes.
    #[error("{text:?} is more than 2^64 - 1 bytes")]
    TooLarge {
        /// The text.
        text: String,
    },
}

/// Most characters of a foreign text that an error quotes.
const SHOWN_CHARS: usize = 80;
const UNITS: &str = "KiB, MiB, GiB, TiB, PiB (powers of 1024) or kB, MB, GB, TB, PB (powers of 1000)";

const FACTORS: [(&str, u64); 12] = [
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

/// Parses `65536`, `64MiB`, `1.5 GiB`, `10GB`, as [`with_units`]. A bare `k` is refused: fio, DiskSpd and makers of
/// disks mean different things by it.
///
/// # Errors
/// [`SizeError`], with the text.
pub fn parse_size_bytes(text: &str) -> Result<u64, SizeError> {
    if let Some((number, letter)) = bits(text) {
        return Err(SizeError::Bits { text: text.trim().chars().take(SHOWN_CHARS).collect(), number, letter });
    }
    with_units(text, &FACTORS).map_err(|error| {
        let ambiguous = ambiguous(text);
        let text: String = text.chars().take(SHOWN_CHARS).collect();
        match error {
            UnitsError::Form => match ambiguous {
                Some((number, letter)) => SizeError::Ambiguous { text, number, letter },
                None => SizeError::Form { text },
            },
            UnitsError::Fraction => SizeError::Fraction { text },
            UnitsError::TooLarge => SizeError::TooLarge { text },
        }
    })
}

/// Number and unit of `4k`, `64M` and the like, which mean powers of 1024 to some tools and of 1000 to others.
fn ambiguous(text: &str) -> Option<(String, char)> {
    let trimmed = text.trim();
    let letter = trimmed.chars().last()?.to_ascii_uppercase();
    let number = trimmed.get(..trimmed.len() - 1)?.trim_end();
    let is_number = !number.is_empty() && number.len() <= 20 && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    ("KMGTP".contains(letter) && is_number).then(|| (number.to_owned(), letter))
}

/// Number and unit of `64Mb` and `64Mib`, whose `b` is a bit where case counts. All in small letters is how sizes are written in haste.
fn bits(text: &str) -> Option<(String, char)> {
    let trimmed = text.trim();
    let stem = trimmed.strip_suffix('b')?;
    let stem = stem.strip_suffix('i').unwrap_or(stem);
    let letter = stem.chars().last().filter(|letter| "KMGTP".contains(*letter))?;
    let number = stem.get(..stem.len() - 1)?.trim_end();
    let is_number = !number.is_empty() && number.len() <= 20 && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_number.then(|| (number.to_owned(), letter))
}

/// Why a number with a unit was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitsError {
    /// Not a number with a known unit.
    Form,
    /// A fraction that is no whole number of the smallest unit.
    Fraction,
    /// More than 2^64 - 1 of the smallest unit.
    TooLarge,
}

/// Parses a number with one of `units`, each given with its value in the smallest unit; case is ignored. A fraction
/// must give a whole number of the smallest unit.
///
/// # Errors
/// [`UnitsError`].
pub fn with_units(text: &str, units: &[(&str, u64)]) -> Result<u64, UnitsError> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim_start();
    let factor = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, factor)| *factor);
    let factor = factor.ok_or(UnitsError::Form)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.len() > 12 {
        return Err(UnitsError::Form);
    }
    // `whole` consists of digits only, so parsing can fail only by its size.
    let whole: u64 = whole.parse().map_err(|_| UnitsError::TooLarge)?;
    let mut total = u128::from(whole) * u128::from(factor);
    if !fraction.is_empty() {
        let numerator: u128 = fraction.parse().map_err(|_| UnitsError::Form)?;
        let scaled = numerator * u128::from(factor);
        let denominator = 10u128.pow(fraction.len() as u32);
        if !scaled.is_multiple_of(denominator) {
            return Err(UnitsError::Fraction);
        }
        total += scaled / denominator;
    }
    u64::try_from(total).map_err(|_| UnitsError::TooLarge)
}

const TIME_UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Parses `10us`, `1.5s`, `10min` into nanoseconds, as [`with_units`]. The unit is required: a bare number means
/// seconds to some keys of other tools and microseconds to others.
///
/// # Errors
/// A sentence about the text.
pub fn parse_time_ns(text: &str) -> Result<u64, String> {
    with_units(text, &TIME_UNITS).map_err(|error| {
        let number = text.trim();
        let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
        let shown: String = text.chars().take(SHOWN_CHARS).collect();
        if error == UnitsError::TooLarge {
            return format!("{shown:?} is too long: at most 213503 days (2^64 - 1 ns)");
        }
        if error == UnitsError::Fraction {
            return format!("{shown:?} comes to no whole number of nanoseconds: write it in a smaller unit");
        }
        if is_number && number.len() <= SHOWN_CHARS {
            return format!(
                "{shown:?} is not a time without its unit: write {number}s for seconds, or ns, us, ms, min, h, d"
            );
        }
        format!("{shown:?} is not a time: write a number with ns, us, ms, s, min, h or d")
    })
}

/// Formats a size so that [`parse_size_bytes`] returns the same number: with the largest binary unit that divides it.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    for (unit, factor) in [("PiB", 1u64 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
    {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a time that is too long was reported as no time, with advice that it followed already.
    #[test]
    fn regression_a_time_that_is_too_long_is_said_to_be() {
        assert!(parse_time_ns("100000000d").unwrap_err().contains("too long: at most 213503 days"));
        assert_eq!(parse_time_ns("213503d"), Ok(213_503 * 86_400_000_000_000));
        assert!(parse_time_ns("213504d").unwrap_err().contains("too long"));
        assert!(parse_time_ns("5x").unwrap_err().contains("is not a time"));
    }

    #[test]
    fn a_bare_letter_is_answered_with_both_units() {
        let error = parse_size_bytes("4k").unwrap_err().to_string();
        assert!(error.contains("4KiB") && error.contains("4KB"), "{error}");
        assert!(matches!(parse_size_bytes("k"), Err(SizeError::Form { .. })));
    }

    /// It was taken for 64 MB.
    #[test]
    fn regression_megabits_are_no_size() {
        for text in ["64Mb", "64 Gb", "1.5Tb", "64Mib"] {
            let error = parse_size_bytes(text).unwrap_err();
            assert!(matches!(error, SizeError::Bits { .. }), "{text}: {error}");
        }
        let error = parse_size_bytes("64Mb").unwrap_err().to_string();
        assert!(error.contains("would be Mbit") && error.contains("64MiB") && error.contains("64MB"), "{error}");
        assert_eq!((parse_size_bytes("64mb"), parse_size_bytes("64mib")), (Ok(64_000_000), Ok(64 << 20)));
    }

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64MiB", 64 << 20),
            ("64 mib", 64 << 20),
            ("1.5GiB", 3 << 29),
            ("10GB", 10_000_000_000),
            ("18446744073709551615", u64::MAX),
            ("512B", 512),
            ("4kB", 4000),
        ] {
            assert_eq!(parse_size_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in
            ["", "MiB", "-1", "1e9", "1.GiB", ".5GiB", "64 M i B", "64MB/s", "1.2.3GiB", "0x10", "1.0000000000000GiB"]
        {
            assert!(matches!(parse_size_bytes(text), Err(SizeError::Form { .. })), "{text}");
        }
        for text in ["1.5", "1.3MiB"] {
            assert!(matches!(parse_size_bytes(text), Err(SizeError::Fraction { .. })), "{text}");
        }
        for text in ["18446744073709551616", "16384PiB", "99999999999999999999999"] {
            assert!(matches!(parse_size_bytes(text), Err(SizeError::TooLarge { .. })), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn formatting_reads_back(bytes: u64, shift in 0u32..64) {
            let bytes = bytes >> shift << (shift / 2);
            proptest::prop_assert_eq!(parse_size_bytes(&format_size(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = parse_size_bytes(&text);
        }
    }

    #[test]
    fn times_need_units() {
        for (text, ns) in [("10us", 10_000), ("1.5s", 1_500_000_000), ("2min", 120_000_000_000), ("0s", 0), ("7NS", 7)]
        {
            assert_eq!(parse_time_ns(text), Ok(ns), "{text}");
        }
        for text in ["10", "", "s", "-1s", "10 m", "0.5ns", "1e3s", "99999999999d"] {
            assert!(parse_time_ns(text).is_err(), "{text}");
        }
    }
}

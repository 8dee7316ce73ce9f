//! Sizes as people write them.

/// Why a size was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a number with a known unit.
    #[error("{text:?} is not a size: write a number of bytes, or a number with {UNITS}")]
    Form {
        /// What was written.
        text: String,
    },
    /// More than 2^64 - 1 bytes.
    #[error("{text:?} is more than 2^64 - 1 bytes")]
    TooLarge {
        /// What was written.
        text: String,
    },
}

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

/// Reads `65536`, `64MiB`, `1.5 GiB`, `10GB`. Units without regard to case; a fraction must come to whole bytes.
///
/// # Errors
/// [`SizeError`], naming the text.
pub fn parse_size_bytes(text: &str) -> Result<u64, SizeError> {
    let form = || SizeError::Form { text: text.to_owned() };
    let too_large = || SizeError::TooLarge { text: text.to_owned() };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim_start().to_ascii_lowercase();
    let factor = FACTORS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).ok_or_else(form)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.len() > 12 {
        return Err(form());
    }
    // Only digits are left in `whole`, so that its one possible failure is size.
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let mut bytes = u128::from(whole) * u128::from(factor);
    if !fraction.is_empty() {
        let numerator: u128 = fraction.parse().map_err(|_| form())?;
        let scaled = numerator * u128::from(factor);
        let denominator = 10u128.pow(fraction.len() as u32);
        if !scaled.is_multiple_of(denominator) {
            return Err(form());
        }
        bytes += scaled / denominator;
    }
    u64::try_from(bytes).map_err(|_| too_large())
}

/// Writes a size so that [`parse_size_bytes`] reads the same number back: the largest binary unit that divides it.
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
        ] {
            assert_eq!(parse_size_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "MiB", "-1", "1e9", "1.GiB", ".5GiB", "1.5", "64 M i B", "64MB/s", "1.2.3GiB", "0x10", "10G"] {
            assert!(matches!(parse_size_bytes(text), Err(SizeError::Form { .. })), "{text}");
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
    }
}

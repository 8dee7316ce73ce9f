//! fio's numbers: sizes with its own meaning of units, times, lists by direction.

use crate::job::error::quote;

/// fio's `kb_base`: which units are powers of 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KbBase {
    /// The default: `k`, `kb`, `m` are powers of 1024, and `kib`, `mib` are powers of 1000 (the opposite of the standard).
    #[default]
    Turned,
    /// `kb_base=1000`: `k`, `kb` powers of 1000; `kib` powers of 1024.
    Standard,
}

/// A size of fio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// A share of the target.
    Percent(f64),
}

/// Whether the text has a unit whose meaning fio's default inverts.
pub fn is_turned(text: &str, base: KbBase) -> bool {
    base == KbBase::Turned
        && text.split([',', ':', '/', '-']).any(|part| {
            let unit = part.trim().trim_start_matches(|c: char| c.is_ascii_digit());
            unit.len() == 3 && unit.is_char_boundary(1) && unit[1..].eq_ignore_ascii_case("ib")
        })
}

/// Reads `4k`, `1m`, `4kib`, `0x1000`, `30%`.
///
/// As in fio's parser (not its manual), `4ki` is `4k`, and only `4kib` has the other base.
pub fn amount(text: &str, base: KbBase) -> Result<Amount, String> {
    let text = text.trim();
    let wrong = || format!("{} is not a size: write bytes, or a number with k, m, g, t, p or %", quote(text));
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let signless = hex.starts_with(|c: char| c.is_ascii_hexdigit());
        return u64::from_str_radix(hex, 16).ok().filter(|_| signless).map(Amount::Bytes).ok_or_else(wrong);
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let unit = unit.trim().to_ascii_lowercase();
    let (ours, other) = match base {
        KbBase::Turned => (1024u64, 1000u64),
        KbBase::Standard => (1000, 1024),
    };
    let mut letters = unit.chars();
    let power = match letters.next() {
        None => return Ok(Amount::Bytes(number)),
        Some('%') if number <= 100 && letters.as_str().is_empty() => return Ok(Amount::Percent(number as f64)),
        Some('b') if letters.as_str().is_empty() => return Ok(Amount::Bytes(number)),
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some('p') => 5,
        Some('z') => return Err(format!("{} counts zones; zoned block devices are not supported", quote(text))),
        Some(_) => return Err(wrong()),
    };
    let factor = match letters.as_str() {
        "" | "b" | "i" => ours,
        "ib" => other,
        _ => return Err(wrong()),
    };
    let bytes = factor.checked_pow(power).and_then(|factor| number.checked_mul(factor));
    bytes.map(Amount::Bytes).ok_or_else(|| format!("{} is more than 2^64 bytes", quote(text)))
}

/// A size in bytes.
pub fn bytes(text: &str, base: KbBase) -> Result<u64, String> {
    match amount(text, base)? {
        Amount::Bytes(bytes) => Ok(bytes),
        Amount::Percent(_) => Err(format!("{}: a share is not possible here, write bytes", quote(text))),
    }
}

/// Parses `10`, `10s`, `500ms`, `5m` to nanoseconds; without a unit, the number counts `default_ns`.
pub fn time_ns(text: &str, default_ns: u64) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || format!("{} is not a time: write a number with us, ms, s, m, h or d", quote(text));
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" => default_ns,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(wrong()),
    };
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)
}

/// Values for reads, writes and trims from `8k,32k`: the last value also holds for the kinds after it; an empty one keeps the default.
pub fn by_direction<T: Clone>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<[Option<T>; 3], String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).take(4).collect();
    if parts.len() > 3 {
        return Err(format!("{} has more than three values: reads, writes, trims", quote(text)));
    }
    let mut values = [None, None, None];
    for (index, value) in values.iter_mut().enumerate() {
        let part = parts.get(index).or(parts.last()).copied().unwrap_or("");
        if !part.is_empty() {
            *value = Some(read(part)?);
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_fios() {
        use Amount::{Bytes, Percent};
        // Checked against fio 3.33: bs=4ki is 4096 bytes, bs=4kib is 4000.
        for (text, turned, standard) in [
            ("4096", Bytes(4096), Bytes(4096)),
            ("4k", Bytes(4096), Bytes(4000)),
            ("4KB", Bytes(4096), Bytes(4000)),
            ("4ki", Bytes(4096), Bytes(4000)),
            ("4KiB", Bytes(4000), Bytes(4096)),
            ("1m", Bytes(1 << 20), Bytes(1_000_000)),
            ("2g", Bytes(2 << 30), Bytes(2_000_000_000)),
            ("512b", Bytes(512), Bytes(512)),
            ("0x1000", Bytes(4096), Bytes(4096)),
            ("30%", Percent(30.0), Percent(30.0)),
        ] {
            assert_eq!(amount(text, KbBase::Turned), Ok(turned), "{text}");
            assert_eq!(amount(text, KbBase::Standard), Ok(standard), "{text}");
        }
        for text in ["", "k", "-4k", "4q", "4kx", "101%", "8z", "1.5m", "99999999p", "0x", "0x-1"] {
            assert!(amount(text, KbBase::Turned).is_err(), "{text}");
        }
        assert!(is_turned("4k,8KiB", KbBase::Turned) && !is_turned("4kb", KbBase::Turned));
        assert!(!is_turned("4KiB", KbBase::Standard));
    }

    #[test]
    fn times_have_a_default_unit() {
        for (text, ns) in [("10", 10_000_000_000), ("500ms", 500_000_000), ("2us", 2000), ("5m", 300_000_000_000)] {
            assert_eq!(time_ns(text, 1_000_000_000), Ok(ns), "{text}");
        }
        assert_eq!(time_ns("7", 1000), Ok(7000));
        for text in ["", "s", "1.5s", "-1", "10x", "99999999999d"] {
            assert!(time_ns(text, 1).is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_value_goes_on() {
        let read = |text: &str| bytes(text, KbBase::Turned);
        assert_eq!(by_direction("256k", read), Ok([Some(262_144); 3]));
        assert_eq!(by_direction("8k,32k", read), Ok([Some(8192), Some(32_768), Some(32_768)]));
        assert_eq!(by_direction("8k,32k,", read), Ok([Some(8192), Some(32_768), None]));
        assert_eq!(by_direction(",8k", read), Ok([None, Some(8192), Some(8192)]));
        assert_eq!(by_direction(",8k,", read), Ok([None, Some(8192), None]));
        assert_eq!(by_direction("8k,", read), Ok([Some(8192), None, None]));
        assert!(by_direction("1,2,3,4", read).is_err());
    }
}

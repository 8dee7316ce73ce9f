//! Parses the fields of a line in place.

/// What is wrong with a line.
pub(super) type Bad = &'static str;

pub(super) const SECTOR_BYTES: u64 = 512;
const NS_PER_S: u64 = 1_000_000_000;
/// The longest latency or wait: less than a day.
pub(super) const DURATION_NS_MAX: u64 = 86_400 * NS_PER_S - 1;

/// The fields of a line between delimiters, from left to right.
pub(super) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    delimiter: u8,
}

impl<'a> Fields<'a> {
    #[inline]
    pub fn new(line: &'a [u8], delimiter: u8) -> Self {
        Self { rest: Some(line), delimiter }
    }

    /// The next field.
    #[inline]
    pub fn next(&mut self) -> Result<&'a [u8], Bad> {
        let rest = self.rest.ok_or("too few fields")?;
        match position(rest, self.delimiter) {
            Some(at) => {
                self.rest = Some(&rest[at + 1..]);
                Ok(&rest[..at])
            }
            None => {
                self.rest = None;
                Ok(rest)
            }
        }
    }

    /// Checks that there are no more fields.
    #[inline]
    pub fn end(&self) -> Result<(), Bad> {
        if self.rest.is_none() { Ok(()) } else { Err("too many fields") }
    }
}

/// Number of bytes that are handled together as one number.
const TOGETHER: usize = 8;
/// A number whose bytes are all 1.
const ONES: u64 = u64::from_le_bytes([1; TOGETHER]);

/// The first eight bytes as a number; `None` if there are fewer.
#[inline]
fn together(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Index of the first such byte. Fields are short, so a function call would take longer.
#[inline]
fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = together(&bytes[at..]) {
        let differs = word ^ (ONES * u64::from(wanted));
        // The lowest bit set belongs to the first byte that is zero (Warren, "Hacker's Delight", 6-1).
        let zeros = differs.wrapping_sub(ONES) & !differs & ONES << 7;
        if zeros > 0 {
            return Some(at + zeros.trailing_zeros() as usize / TOGETHER);
        }
        at += TOGETHER;
    }
    bytes[at..].iter().position(|byte| *byte == wanted).map(|more| at + more)
}

/// The value of eight digits; `None` if a byte is no digit.
#[inline]
fn eight_digits(word: u64) -> Option<u64> {
    const HIGH: u64 = ONES * 0xf0;
    // Only bytes from `0` to `9` have the upper half 3, also after adding 6.
    let are_digits = word & HIGH | (word.wrapping_add(ONES * 6) & HIGH) >> 4;
    if are_digits != ONES * 0x33 {
        return None;
    }
    let digits = word - ONES * u64::from(b'0');
    // Combined to pairs, fours and all eight; the first digit is in the lowest byte.
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours * 10_000 + (fours >> 32)) & 0xffff_ffff)
}

/// The next field of a line whose fields are separated by blanks.
#[inline]
pub(super) fn word<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let begin = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let from = &rest[begin..];
    let end = from.iter().position(u8::is_ascii_whitespace).unwrap_or(from.len());
    *rest = &from[end..];
    Some(&from[..end])
}

/// The last field of a line whose fields are separated by blanks.
pub(super) fn last_word<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let trimmed = rest.trim_ascii_end();
    let begin = trimmed.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
    *rest = &trimmed[..begin];
    Some(&trimmed[begin..]).filter(|word| !word.is_empty())
}

/// A whole number; blanks around it are ignored.
#[inline]
pub(super) fn number(field: &[u8]) -> Result<u64, Bad> {
    let (number, count) = digits(field)?;
    if count == field.len() && count > 0 { Ok(number) } else { number_between_blanks(field) }
}

#[cold]
fn number_between_blanks(field: &[u8]) -> Result<u64, Bad> {
    let field = field.trim_ascii();
    let (number, count) = digits(field)?;
    match field.first() {
        None => Err("a number is missing"),
        Some(b'-') => Err("a number is negative"),
        Some(_) if count < field.len() => Err("no number where one should be"),
        Some(_) => Ok(number),
    }
}

/// The number at the front, and its number of digits.
#[inline]
fn digits(field: &[u8]) -> Result<(u64, usize), Bad> {
    let (mut number, mut first) = (0_u64, 0);
    // Sixteen digits always fit.
    while first < 16
        && let Some(eight) = together(&field[first..]).and_then(eight_digits)
    {
        (number, first) = (number * 100_000_000 + eight, first + TOGETHER);
    }
    for (at, &byte) in field.iter().enumerate().skip(first) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Ok((number, at));
        }
        // Nineteen digits always fit.
        number = if at < 19 {
            number * 10 + u64::from(digit)
        } else {
            number
                .checked_mul(10)
                .and_then(|number| number.checked_add(digit.into()))
                .ok_or("a number is beyond 2^64")?
        };
    }
    Ok((number, field.len()))
}

/// Seconds with an optional fraction, in nanoseconds; smaller digits are cut off.
#[inline]
pub(super) fn seconds_ns(field: &[u8]) -> Result<u64, Bad> {
    decimal(field, 9)
}

/// Milliseconds with an optional fraction, in nanoseconds; smaller digits are cut off.
#[inline]
pub(super) fn milliseconds_ns(field: &[u8]) -> Result<u64, Bad> {
    decimal(field, 6)
}

const POWERS_OF_TEN: [u64; 10] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// A number with an optional fraction, in units smaller by `scale_digits` decimal digits, at most nine.
#[inline]
pub(super) fn decimal(field: &[u8], scale_digits: usize) -> Result<u64, Bad> {
    let field = field.trim_ascii();
    let (whole, count) = digits(field)?;
    let fraction = match field.get(count..) {
        _ if count == 0 => {
            return Err(if field.first() == Some(&b'-') { "a time is negative" } else { "a time is missing" });
        }
        Some([]) => &[],
        Some([b'.', fraction @ ..]) => fraction,
        _ => return Err("no time where one should be"),
    };
    let (mut parts, mut left) = (0, scale_digits);
    for &byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err("no time where one should be");
        }
        if left > 0 {
            left -= 1;
            parts = parts * 10 + u64::from(digit);
        }
    }
    let scale = POWERS_OF_TEN[scale_digits];
    parts *= POWERS_OF_TEN[left];
    whole.checked_mul(scale).and_then(|whole| whole.checked_add(parts)).ok_or("a time is absurd")
}

/// Checks a request's latency, which must be less than a day.
#[inline]
pub(super) fn duration_ns(duration_ns: u64) -> Result<u64, Bad> {
    if duration_ns <= DURATION_NS_MAX { Ok(duration_ns) } else { Err("a duration is absurd: more than a day") }
}

/// Offset and length in bytes of a range given in sectors of 512 bytes.
#[inline]
pub(super) fn sectors(first: u64, count: u64) -> Result<(u64, u64), Bad> {
    let first_bytes = first.checked_mul(SECTOR_BYTES).ok_or("a sector is beyond 2^64 bytes")?;
    let len_bytes = count.checked_mul(SECTOR_BYTES).ok_or("a length is beyond 2^64 bytes")?;
    range(first_bytes, len_bytes)
}

/// Checks that the end of a range of bytes fits into 64 bits.
#[inline]
pub(super) fn range(offset_bytes: u64, len_bytes: u64) -> Result<(u64, u64), Bad> {
    match offset_bytes.checked_add(len_bytes) {
        Some(_) => Ok((offset_bytes, len_bytes)),
        None => Err("the range ends beyond 2^64 - 1 bytes, where no device does"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A range that ends exactly there was said to end beyond 2^64 bytes. No device is that large, so the line is wrong in any case.
    #[test]
    fn regression_a_range_that_ends_at_the_end_of_all_numbers_is_called_that() {
        let end = 1 << 55;
        assert_eq!(sectors(end - 8, 8), Err("the range ends beyond 2^64 - 1 bytes, where no device does"));
        assert_eq!(
            (sectors(end - 8, 7), range(u64::MAX - 1, 1)),
            (Ok((4096_u64.wrapping_neg(), 3584)), Ok((u64::MAX - 1, 1)))
        );
    }

    #[test]
    fn numbers() {
        assert_eq!(number(b"0"), Ok(0));
        assert_eq!(number(b" 17 "), Ok(17));
        assert_eq!(number(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), Err("a number is beyond 2^64"));
        assert_eq!(number(b"99999999999999999999999"), Err("a number is beyond 2^64"));
        assert_eq!(number(b"-1"), Err("a number is negative"));
        assert_eq!(number(b""), Err("a number is missing"));
        assert_eq!(number(b"1x"), Err("no number where one should be"));
        assert_eq!(number(b"1 2"), Err("no number where one should be"));
    }

    proptest::proptest! {
        #[test]
        fn eight_at_once_are_as_one_by_one(mut text in "[0-9]{0,24}", other: u8, at in 0_usize..60) {
            let whole = if text.is_empty() { Err("a number is missing") } else { text.parse().map_err(|_| "a number is beyond 2^64") };
            proptest::prop_assert_eq!(number(text.as_bytes()), whole);
            let mut bytes = std::mem::take(&mut text).into_bytes();
            if at < bytes.len() && !other.is_ascii_digit() {
                bytes[at] = other;
                let (found, count) = digits(&bytes).unwrap_or((0, at));
                proptest::prop_assert_eq!(count, at);
                let before = std::str::from_utf8(&bytes[..at]).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
                proptest::prop_assert!(found == before || at > 19);
                proptest::prop_assert_eq!(position(&bytes, other), Some(at));
            }
            proptest::prop_assert_eq!(position(&bytes, b'5'), bytes.iter().position(|byte| *byte == b'5'));
        }
    }

    #[test]
    fn times() {
        assert_eq!(seconds_ns(b"1.5"), Ok(1_500_000_000));
        assert_eq!(seconds_ns(b"0.000000001999"), Ok(1));
        assert_eq!(seconds_ns(b"7"), Ok(7_000_000_000));
        assert_eq!(seconds_ns(b"7."), Ok(7_000_000_000));
        assert_eq!(milliseconds_ns(b"0.74"), Ok(740_000));
        assert_eq!(seconds_ns(b"18446744074"), Err("a time is absurd"));
        assert_eq!(seconds_ns(b"-1.0"), Err("a time is negative"));
        assert_eq!(seconds_ns(b""), Err("a time is missing"));
        assert_eq!(seconds_ns(b"1.5s"), Err("no time where one should be"));
        assert_eq!(seconds_ns(b"1e5"), Err("no time where one should be"));
    }

    #[test]
    fn durations() {
        assert_eq!(duration_ns(86_399_999_999_999), Ok(86_399_999_999_999));
        assert!(duration_ns(86_400_000_000_000).is_err());
    }

    #[test]
    fn words() {
        let mut line: &[u8] = b"  a bc\td ";
        assert_eq!(last_word(&mut line), Some(&b"d"[..]));
        assert_eq!(word(&mut line), Some(&b"a"[..]));
        assert_eq!(word(&mut line), Some(&b"bc"[..]));
        assert_eq!(word(&mut line), None);
        assert_eq!(last_word(&mut line), None);
    }

    #[test]
    fn ranges() {
        assert_eq!(sectors(2, 3), Ok((1024, 1536)));
        assert!(sectors(u64::MAX / 512 + 1, 0).is_err());
        assert!(sectors(0, u64::MAX / 512 + 1).is_err());
        assert!(sectors(u64::MAX / 512, 1).is_err());
    }
}

//! Percentile levels, kept as integers so that ranks among 10^12 samples are exact.

use std::fmt;
use std::str::FromStr;

/// Number of parts in one whole: ten decimals of a percent.
const WHOLE: u64 = 1_000_000_000_000;

/// Most levels in a user's list.
pub const LEVELS_MAX: usize = 64;

/// A level that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The smallest sample.
    Min,
    /// The value that at least this share of all samples does not exceed.
    Share(Share),
    /// The largest sample.
    Max,
}

/// A share above 0 and below 1, in steps of 10^-12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u64);

/// Why a list of levels cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// Neither min, max nor a percentage.
    #[error("{0:?} is no percentile: give numbers between 0 and 100 such as 99.99, or min, or max")]
    NotANumber(String),
    /// 0, 100 or beyond.
    #[error("percentile {0} is outside 0 to 100 (both excluded): give min or max for the ends")]
    OutOfRange(String),
    /// More decimals than can be kept.
    #[error("percentile {0} has more than ten decimals: leave the rest out")]
    TooFine(String),
    /// Too many levels.
    #[error("{0} percentiles are asked for: give at most {LEVELS_MAX}")]
    TooMany(usize),
    /// The list has no levels.
    #[error("the list of percentiles is empty: give at least one, for example 50,99,99.99")]
    Empty,
}

impl Share {
    /// From parts of 10^12; `None` at 0, and at 10^12 and above.
    #[must_use]
    pub const fn from_parts(parts: u64) -> Option<Self> {
        if parts == 0 || parts >= WHOLE { None } else { Some(Self(parts)) }
    }

    /// The share as a fraction, 0.9999 for the level 99.99.
    #[must_use]
    pub fn fraction(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }

    /// The share above the level, 0.0001 for the level 99.99, with all its digits.
    #[must_use]
    pub fn tail(self) -> f64 {
        (WHOLE - self.0) as f64 / WHOLE as f64
    }

    /// The share in percent, 99.99 for the level 99.99.
    #[must_use]
    pub fn percent(self) -> f64 {
        self.0 as f64 / (WHOLE / 100) as f64
    }

    /// Whether the level lies below the median.
    #[must_use]
    pub fn is_low(self) -> bool {
        self.0 < WHOLE / 2
    }

    /// The smallest rank (from 1) with at least this share of `samples` at or below it; 1 without samples.
    #[must_use]
    pub fn rank(self, samples: u64) -> u64 {
        let rank = (u128::from(self.0) * u128::from(samples)).div_ceil(u128::from(WHOLE));
        u64::try_from(rank).unwrap_or(u64::MAX).max(1)
    }
}

impl Level {
    /// The default levels: min, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9 to 99.99999, max.
    #[must_use]
    pub fn ladder() -> Vec<Self> {
        let parts = [
            10_000_000_000,
            50_000_000_000,
            100_000_000_000,
            250_000_000_000,
            500_000_000_000,
            750_000_000_000,
            900_000_000_000,
            950_000_000_000,
            990_000_000_000,
            999_000_000_000,
            999_900_000_000,
            999_990_000_000,
            999_999_000_000,
            999_999_900_000,
        ];
        let shares = parts.into_iter().map(|parts| Self::Share(Share(parts)));
        std::iter::once(Self::Min).chain(shares).chain(std::iter::once(Self::Max)).collect()
    }

    /// Parses a user's list; the result is sorted, each level once. Separators are commas, colons (as in fio) and blanks; a leading `p` and
    /// a trailing `%` are allowed.
    ///
    /// # Errors
    /// [`LevelError`], which names the entry.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, LevelError> {
        let words: Vec<&str> =
            text.split(|c: char| matches!(c, ',' | ':') || c.is_whitespace()).filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            return Err(LevelError::Empty);
        }
        if words.len() > LEVELS_MAX {
            return Err(LevelError::TooMany(words.len()));
        }
        let mut levels = words.into_iter().map(str::parse).collect::<Result<Vec<Self>, _>>()?;
        levels.sort_unstable();
        levels.dedup();
        Ok(levels)
    }
}

impl FromStr for Level {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, LevelError> {
        let word = text.trim();
        match word {
            "min" => return Ok(Self::Min),
            "max" => return Ok(Self::Max),
            _ => {}
        }
        let number = word.strip_prefix(['p', 'P']).unwrap_or(word);
        let number = number.strip_suffix('%').unwrap_or(number);
        let not_a_number = || LevelError::NotANumber(word.to_owned());
        let out_of_range = || LevelError::OutOfRange(word.to_owned());
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || (whole.is_empty() && decimals.is_empty()) {
            return Err(not_a_number());
        }
        let decimals = decimals.trim_end_matches('0');
        if decimals.len() > 10 {
            return Err(LevelError::TooFine(word.to_owned()));
        }
        let whole = whole.trim_start_matches('0');
        if whole.len() > 2 {
            return Err(out_of_range());
        }
        let parts = format!("{whole:0>2}{decimals:0<10}").parse::<u64>().map_err(|_| not_a_number())?;
        Share::from_parts(parts).map(Self::Share).ok_or_else(out_of_range)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = WHOLE / 100;
        let decimals = format!("{:010}", self.0 % unit);
        let decimals = decimals.trim_end_matches('0');
        write!(f, "p{}{}{decimals}", self.0 / unit, if decimals.is_empty() { "" } else { "." })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Min => f.write_str("min"),
            Self::Share(share) => share.fmt(f),
            Self::Max => f.write_str("max"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(levels: &[Level]) -> Vec<String> {
        levels.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_ladder_is_the_promised_one() {
        let want = "min p1 p5 p10 p25 p50 p75 p90 p95 p99 p99.9 p99.99 p99.999 p99.9999 p99.99999 max";
        assert_eq!(names(&Level::ladder()).join(" "), want);
        assert_eq!(Level::parse_list(want).unwrap(), Level::ladder());
    }

    #[test]
    fn reads_lists_and_names_what_is_wrong() {
        assert_eq!(
            names(&Level::parse_list("99.90:50, p1 max,50.0,12.5%").unwrap()),
            ["p1", "p12.5", "p50", "p99.9", "max"]
        );
        assert_eq!(names(&Level::parse_list(".5,00.25,99.9999999999").unwrap()), ["p0.25", "p0.5", "p99.9999999999"]);
        assert_eq!(Level::parse_list(" ,"), Err(LevelError::Empty));
        for (bad, want) in [
            ("0", LevelError::OutOfRange("0".into())),
            ("100", LevelError::OutOfRange("100".into())),
            ("p123", LevelError::OutOfRange("p123".into())),
            ("-1", LevelError::NotANumber("-1".into())),
            ("9e1", LevelError::NotANumber("9e1".into())),
            (".", LevelError::NotANumber(".".into())),
            ("p", LevelError::NotANumber("p".into())),
            ("1.2.3", LevelError::NotANumber("1.2.3".into())),
            ("99.99999999999", LevelError::TooFine("99.99999999999".into())),
        ] {
            assert_eq!(Level::parse_list(bad), Err(want), "{bad}");
        }
        assert_eq!(Level::parse_list(&"50,".repeat(65)), Err(LevelError::TooMany(65)));
    }

    #[test]
    fn ranks_are_exact_where_floats_are_not() {
        let p = |text: &str| match text.parse::<Level>() {
            Ok(Level::Share(share)) => share,
            other => panic!("{other:?}"),
        };
        assert_eq!(p("99.9").rank(1000), 999);
        assert_eq!(p("99.9").rank(1001), 1000);
        assert_eq!(p("50").rank(5), 3);
        assert_eq!(p("1").rank(1), 1);
        assert_eq!(p("99.99999").rank(1_000_000_000_000), 999_999_900_000);
        assert_eq!(p("99.99999").rank(1_000_000_000_001), 999_999_900_001);
        assert_eq!(p("50").rank(u64::MAX), 1 << 63);
        assert_eq!(p("99.99999").tail(), 1e-7);
    }
}

//! Values with their own syntax. Each parses itself, so that errors have line and column.

use crate::job::error::quote;
use crate::job::model::{Extent, Pattern, Zone};
use crate::job::size::{self, Rate, decimal};
use crate::job::steady::{self, Criterion, Figure, Limit};
use forebay_block::WaitMethod;
use forebay_block::mistakes::{Hint, nearest};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A value that parses itself from text; whole numbers are passed as their digits.
pub trait FromText: Sized {
    /// What is expected, for error messages.
    const EXPECTED: &'static str;

    /// Parses a value.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the text.
    fn from_text(text: &str) -> Result<Self, String>;
}

struct TextVisitor<T>(PhantomData<T>);

impl<T: FromText> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        T::from_text(&number.to_string()).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        T::from_text(&number.to_string()).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        T::from_text(&number.to_string()).map_err(E::custom)
    }
}

macro_rules! reads_text {
    ($($name:ident),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(TextVisitor(PhantomData))
            }
        }
    )*};
}

/// Bytes: `4096`, `"4KiB"`, `"1.5GiB"`, `"10GB"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bytes(pub u64);

/// A time in nanoseconds, written with its unit: `"10us"`, `"5ms"`, `"60s"`, `"10min"`, `"1h"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time(pub u64);

/// I/Os a second (`10000`) or bytes a second (`"100MiB/s"`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateValue(pub Rate);

/// Bytes, or a share of the target: `"50%"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExtentValue(pub Extent);

/// The offsets of I/Os; see [`super::format::JobText::pattern`].
#[derive(Clone, Debug, PartialEq)]
pub struct PatternValue(pub Pattern);

/// `"sleep"`, `"spin"` or `"hybrid:20us"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaitValue(pub WaitMethod);

/// A criterion of the steady state, and its limit; see [`super::format::JobText::steadystate`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyValue(pub Criterion, pub Limit);

/// One size and its weight: `"4KiB"` or `"4KiB:80"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeChoice(pub u32, pub u32);

/// One size, or a list of sizes with weights.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeList(pub Vec<SizeChoice>);

reads_text!(Bytes, Time, RateValue, ExtentValue, PatternValue, WaitValue, SteadyValue, SizeChoice);

impl FromText for Bytes {
    const EXPECTED: &'static str = "a size such as 4096 or \"4KiB\"";

    fn from_text(text: &str) -> Result<Self, String> {
        size::size_bytes(text).map(Self)
    }
}

impl FromText for Time {
    const EXPECTED: &'static str = "a time with its unit such as \"10us\" or \"60s\"";

    fn from_text(text: &str) -> Result<Self, String> {
        forebay_block::size::parse_time_ns(text).map(Self)
    }
}

impl FromText for RateValue {
    const EXPECTED: &'static str = "I/Os a second such as 10000, or bytes a second such as \"100MiB/s\"";

    fn from_text(text: &str) -> Result<Self, String> {
        size::rate(text).map(Self)
    }
}

impl FromText for ExtentValue {
    const EXPECTED: &'static str = "bytes such as \"1GiB\", or a share of the target such as \"50%\"";

    fn from_text(text: &str) -> Result<Self, String> {
        match text.trim().strip_suffix('%') {
            Some(share) => decimal(share.trim())
                .filter(|percent| *percent <= 100.0)
                .map(|percent| Self(Extent::Percent(percent)))
                .ok_or_else(|| format!("{} is not a share from 0% to 100%", quote(text))),
            None => size::size_bytes(text).map(|bytes| Self(Extent::Bytes(bytes))),
        }
    }
}

impl FromText for SizeChoice {
    const EXPECTED: &'static str = "a size such as \"4KiB\", or with a weight \"4KiB:80\"";

    fn from_text(text: &str) -> Result<Self, String> {
        let (bytes, weight) = match text.rsplit_once(':') {
            Some((bytes, weight)) => {
                let weight = weight
                    .trim()
                    .parse()
                    .map_err(|_| format!("{} is not a weight: write a whole number after the colon", quote(weight)))?;
                (bytes, weight)
            }
            None => (text, 1),
        };
        let bytes = size::size_bytes(bytes)?;
        u32::try_from(bytes)
            .map(|bytes| Self(bytes, weight))
            .map_err(|_| format!("an I/O of {bytes} bytes is too large"))
    }
}

impl FromText for WaitValue {
    const EXPECTED: &'static str = "\"sleep\", \"spin\" or \"hybrid:20us\"";

    fn from_text(text: &str) -> Result<Self, String> {
        let (word, argument) = split_argument(text);
        match (word, argument) {
            ("sleep", None) => Ok(Self(WaitMethod::Sleep)),
            ("spin", None) => Ok(Self(WaitMethod::Spin)),
            ("hybrid", Some(time)) => {
                Ok(Self(WaitMethod::Hybrid { spin_ns: forebay_block::size::parse_time_ns(time)? }))
            }
            _ => Err(format!("{} is no way of waiting: write {}", quote(text), Self::EXPECTED)),
        }
    }
}

impl FromText for SteadyValue {
    const EXPECTED: &'static str = steady::EXPECTED;

    fn from_text(text: &str) -> Result<Self, String> {
        let fixed = |figure: Figure, limit: &str| match figure {
            Figure::Iops => decimal(limit).ok_or_else(|| format!("{} is no number of I/Os a second", quote(limit))),
            Figure::Bandwidth => size::size_bytes(limit.strip_suffix("/s").unwrap_or(limit)).map(|bytes| bytes as f64),
            Figure::Latency => forebay_block::size::parse_time_ns(limit).map(|ns| ns as f64),
        };
        Criterion::parse(text, fixed).map(|(criterion, limit)| Self(criterion, limit))
    }
}

const PATTERNS: [&str; 11] = [
    "random",
    "sequential",
    "strided",
    "mixed",
    "zipf",
    "ycsb",
    "pareto",
    "normal",
    "normal-scattered",
    "zones",
    "shuffled",
];

impl FromText for PatternValue {
    const EXPECTED: &'static str = "a pattern such as \"random\", \"sequential\", \"strided:1MiB\", \"mixed:30\", \
         \"zipf:0.99\", \"ycsb\", \"pareto:0.2\", \"normal:10\", \"zones:90/10,10/90\" or \"shuffled\"";

    fn from_text(text: &str) -> Result<Self, String> {
        let (word, argument) = split_argument(text);
        let number = |what: &str| {
            let Some(argument) = argument else {
                return Err(format!("{} needs {what} after a colon, as in the list of patterns", quote(word)));
            };
            decimal(argument).ok_or_else(|| {
                format!("{} takes {what} as a plain number such as 0.2, not {}", quote(word), quote(argument))
            })
        };
        let pattern = match (word, argument) {
            ("random", None) => Pattern::Random { align_bytes: 0, skew_bytes: 0 },
            ("sequential", None) => Pattern::Sequential { per_thread: false },
            ("sequential", Some("per-thread")) => Pattern::Sequential { per_thread: true },
            ("ycsb", None) => Pattern::YcsbZipf,
            ("shuffled", None) => Pattern::Shuffled,
            ("zipf", _) => Pattern::Zipf { theta: number("its exponent")? },
            ("pareto", _) => Pattern::Pareto { h: number("h")? },
            ("normal" | "normal-scattered", _) => Pattern::Normal {
                deviation_percent: number("its deviation in percent")?,
                scattered: word == "normal-scattered",
            },
            ("mixed", _) => {
                let percent = number("the share of random I/Os in percent")?;
                if percent.fract() != 0.0 || percent > 100.0 {
                    return Err(format!("{percent} is not a whole percentage from 0 to 100"));
                }
                Pattern::MixedSequential { random_percent: percent as u32 }
            }
            ("strided", Some(distance)) => Pattern::Strided { stride_bytes: stride(distance)? },
            ("zones", Some(list)) => Pattern::Zones { zones: zones(list)?, align_bytes: 0 },
            _ => {
                let near = Hint(nearest(word, PATTERNS));
                return Err(format!("{} is no pattern{near}: expected {}", quote(text), Self::EXPECTED));
            }
        };
        Ok(Self(pattern))
    }
}

fn split_argument(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((word, argument)) => (word.trim(), Some(argument.trim())),
        None => (text.trim(), None),
    }
}

fn stride(text: &str) -> Result<i64, String> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let bytes = size::size_bytes(digits)?;
    i64::try_from(bytes).map(|bytes| sign * bytes).map_err(|_| format!("a stride of {bytes} bytes is too large"))
}

/// Parses `ACCESSES/SIZE,...`, both in percent.
fn zones(text: &str) -> Result<Vec<Zone>, String> {
    const MOST: usize = 256;
    let zones: Option<Vec<Zone>> = text
        .split(',')
        .take(MOST + 1)
        .map(|zone| {
            let (access, size) = zone.split_once('/')?;
            let percent = |text: &str| decimal(text.trim());
            Some(Zone { access_percent: percent(access)?, size_percent: percent(size)? })
        })
        .collect();
    zones.filter(|zones| zones.len() <= MOST).ok_or_else(|| {
        format!("{} are no zones: write up to {MOST} of ACCESSES/SIZE in percent, as 90/10,10/90", quote(text))
    })
}

impl<'de> Deserialize<'de> for SizeList {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SizeListVisitor)
    }
}

struct SizeListVisitor;

impl<'de> Visitor<'de> for SizeListVisitor {
    type Value = SizeList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as \"4KiB\", or a list such as [\"4KiB:80\", \"64KiB:20\"]")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SizeList, E> {
        SizeChoice::from_text(text).map(|one| SizeList(vec![one])).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<SizeList, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SizeList, A::Error> {
        let mut choices = Vec::new();
        while let Some(choice) = list.next_element::<SizeChoice>()? {
            if choices.len() == crate::job::validate::MAX_CHOICES {
                return Err(de::Error::custom(format!("more than {} sizes", choices.len())));
            }
            choices.push(choice);
        }
        Ok(SizeList(choices))
    }
}

//! Ending a job when it is steady, by fio's criteria (fio HOWTO, `steadystate`): over a rolling window the figures of equal
//! parts lie near their mean, or the straight line through them is flat.

use super::error::quote;
use std::fmt;

/// When a job is steady, and ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// What is looked at, and how.
    pub criterion: Criterion,
    /// What the criterion's value must be below.
    pub limit: Limit,
    /// Length of the rolling window, in nanoseconds.
    pub window_ns: u64,
    /// No window begins before this much of the measurement is over, in nanoseconds.
    pub ramp_ns: u64,
    /// Length of the parts that the window is cut into, in nanoseconds: it is judged at the end of each.
    pub every_ns: u64,
}

impl Steady {
    /// When the first window ends, in nanoseconds since the measurement's begin: parts begin at multiples of their length.
    #[must_use]
    pub fn first_end_ns(&self) -> u64 {
        let begin_ns = self.ramp_ns.div_ceil(self.every_ns.max(1)).saturating_mul(self.every_ns);
        begin_ns.saturating_add(self.window_ns)
    }
}

/// What must be steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criterion {
    /// The figure of each part.
    pub figure: Figure,
    /// How figures are judged.
    pub rule: Rule,
}

/// A figure of a part of the run, of all kinds of I/O together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// I/Os a second.
    Iops,
    /// Bytes a second.
    Bandwidth,
    /// Mean of the total latencies, in nanoseconds.
    Latency,
}

/// How the figures of a window are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// By the one that is furthest from their mean.
    Deviation,
    /// By the slope of the least-squares line, from one part to the next.
    Slope,
}

/// A bound that does not belong to what is steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Percent of the mean of the window.
    Percent(f64),
    /// In the unit of the figure.
    Fixed(f64),
}

/// Length of a window's parts where none is given: fio's.
pub const EVERY_NS: u64 = 1_000_000_000;

const WORDS: [(&str, Criterion); 6] = [
    ("iops", Criterion { figure: Figure::Iops, rule: Rule::Deviation }),
    ("iops_slope", Criterion { figure: Figure::Iops, rule: Rule::Slope }),
    ("bw", Criterion { figure: Figure::Bandwidth, rule: Rule::Deviation }),
    ("bw_slope", Criterion { figure: Figure::Bandwidth, rule: Rule::Slope }),
    ("lat", Criterion { figure: Figure::Latency, rule: Rule::Deviation }),
    ("lat_slope", Criterion { figure: Figure::Latency, rule: Rule::Slope }),
];

/// What a criterion with its limit looks like, for errors.
pub const EXPECTED: &str = "a criterion and its limit, as \"iops:5%\" or \"iops_slope:0.3%\": one of iops, iops_slope, bw, bw_slope, lat, \
                            lat_slope, and percent of the mean or a number";

impl Criterion {
    /// fio's word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        WORDS.iter().find(|(_, known)| *known == self).map_or("", |(word, _)| word)
    }

    /// Reads fio's word and the limit behind the colon; `fixed` reads a limit that is no percentage.
    ///
    /// # Errors
    /// A sentence about the text.
    pub fn parse(text: &str, fixed: impl Fn(Figure, &str) -> Result<f64, String>) -> Result<(Self, Limit), String> {
        let Some((word, limit)) = text.split_once(':') else {
            return Err(format!("{} has no limit: expected {EXPECTED}", quote(text)));
        };
        let (word, limit) = (word.trim(), limit.trim());
        let known = WORDS.iter().find(|(known, _)| *known == word);
        let criterion = known
            .map(|(_, found)| *found)
            .ok_or_else(|| format!("{} is no criterion: expected {EXPECTED}", quote(word)))?;
        let limit = match limit.strip_suffix('%') {
            Some(percent) => super::size::decimal(percent.trim())
                .map(Limit::Percent)
                .ok_or_else(|| format!("{} is no percentage of a steady state: expected {EXPECTED}", quote(limit)))?,
            None => Limit::Fixed(fixed(criterion.figure, limit)?),
        };
        Ok((criterion, limit))
    }
}

impl Limit {
    /// The number, in percent or in the unit of the figure.
    #[must_use]
    pub fn value(self) -> f64 {
        match self {
            Self::Percent(value) | Self::Fixed(value) => value,
        }
    }
}

impl fmt::Display for Steady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = if matches!(self.limit, Limit::Percent(_)) { "%" } else { "" };
        write!(f, "{}:{}{percent}", self.criterion.name(), self.limit.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(Criterion, Limit), String> {
        Criterion::parse(text, |_, text| super::super::size::decimal(text).ok_or_else(|| "no number".to_owned()))
    }

    #[test]
    fn criteria_are_fios() {
        for (word, criterion) in WORDS {
            assert_eq!(parsed(&format!("{word}:0.3%")), Ok((criterion, Limit::Percent(0.3))));
            assert_eq!(parsed(&format!(" {word} : 200")), Ok((criterion, Limit::Fixed(200.0))));
            let stop = Steady { criterion, limit: Limit::Percent(0.3), window_ns: 1, ramp_ns: 0, every_ns: EVERY_NS };
            assert_eq!(stop.to_string(), format!("{word}:0.3%"));
        }
        for (text, what) in [
            ("iops", "has no limit"),
            ("foo:5%", "\"foo\" is no criterion"),
            ("iops:x%", "no percentage"),
            ("iops:-1%", "no percentage"),
            ("iops:", "no number"),
            ("", "has no limit"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}

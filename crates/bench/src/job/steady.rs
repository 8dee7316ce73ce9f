//! Ends a job once it is steady, by fio's criteria (fio HOWTO, `steadystate`): over a rolling window, the figures of equal parts lie near
//! their mean, or a straight line through them is flat.

use super::error::quote;
use std::fmt;

/// When a job counts as steady, and ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// The figure that is judged, and the rule.
    pub criterion: Criterion,
    /// The limit that the criterion's value must stay below.
    pub limit: Limit,
    /// Length of the rolling window, in nanoseconds.
    pub window_ns: u64,
    /// Part of the measurement in nanoseconds before which no window begins.
    pub ramp_ns: u64,
    /// Length of the parts of the window in nanoseconds; the window is judged at the end of each part.
    pub every_ns: u64,
}

impl Steady {
    /// End of the first window, in nanoseconds since the measurement began; parts begin at multiples of their length.
    #[must_use]
    pub fn first_end_ns(&self) -> u64 {
        let begin_ns = self.ramp_ns.div_ceil(self.every_ns.max(1)).saturating_mul(self.every_ns);
        begin_ns.saturating_add(self.window_ns)
    }
}

/// What must be steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criterion {
    /// The figure of each part that is judged.
    pub figure: Figure,
    /// How the figures are judged.
    pub rule: Rule,
}

/// A figure of a part of the run, over all kinds of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// I/Os a second.
    Iops,
    /// Bytes a second.
    Bandwidth,
    /// Mean total latency in nanoseconds.
    Latency,
}

/// How the figures of a window are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// By the figure that is furthest from their mean.
    Deviation,
    /// By the slope of the least-squares line, per part.
    Slope,
}

/// The limit of a criterion; it is exceeded when the job is not steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// In percent of the mean of the window.
    Percent(f64),
    /// In the unit of the figure.
    Fixed(f64),
}

/// Default length of a window's parts in nanoseconds, the same as fio's.
pub const EVERY_NS: u64 = 1_000_000_000;

const WORDS: [(&str, Criterion); 6] = [
    ("iops", Criterion { figure: Figure::Iops, rule: Rule::Deviation }),
    ("iops_slope", Criterion { figure: Figure::Iops, rule: Rule::Slope }),
    ("bw", Criterion { figure: Figure::Bandwidth, rule: Rule::Deviation }),
    ("bw_slope", Criterion { figure: Figure::Bandwidth, rule: Rule::Slope }),
    ("lat", Criterion { figure: Figure::Latency, rule: Rule::Deviation }),
    ("lat_slope", Criterion { figure: Figure::Latency, rule: Rule::Slope }),
];

/// The form of a criterion with its limit, for errors.
pub const EXPECTED: &str = "a criterion and its limit, as \"iops:5%\" or \"iops_slope:0.3%\": one of iops, iops_slope, bw, bw_slope, lat, \
                            lat_slope, and percent of the mean or a number";

impl Criterion {
    /// fio's word for the criterion.
    #[must_use]
    pub fn name(self) -> &'static str {
        WORDS.iter().find(|(_, known)| *known == self).map_or("", |(word, _)| word)
    }

    /// Parses fio's word and the limit behind the colon; `fixed` parses a limit that is no percentage.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the text.
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

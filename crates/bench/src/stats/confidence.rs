//! How sure an interval is, and the interval.

/// Confidence of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confidence {
    /// 95 %, the customary one.
    #[default]
    P95,
    /// 99 %.
    P99,
}

impl Confidence {
    /// Chance that the interval misses: 0.05 or 0.01.
    #[must_use]
    pub fn error(self) -> f64 {
        match self {
            Self::P95 => 0.05,
            Self::P99 => 0.01,
        }
    }

    /// In percent: 95 or 99.
    #[must_use]
    pub fn percent(self) -> u32 {
        match self {
            Self::P95 => 95,
            Self::P99 => 99,
        }
    }
}

/// A range that holds the truth with the confidence asked; both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies within.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Half the width.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

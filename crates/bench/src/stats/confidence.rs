//! Confidence levels, and confidence intervals.

/// Confidence of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confidence {
    /// Chance that the interval misses, in millionths.
    error_ppm: u32,
}

impl Default for Confidence {
    fn default() -> Self {
        Self::P95
    }
}

impl Confidence {
    /// 95 %, the usual one.
    pub const P95: Self = Self { error_ppm: 50_000 };
    /// 99 %.
    pub const P99: Self = Self { error_ppm: 10_000 };

    /// The confidence that is left if `others` are intervals of the same figure, any of which may decide: together they miss no more often
    /// than this one alone (Bonferroni). At least a millionth of error is left.
    #[must_use]
    pub fn beside(self, others: impl IntoIterator<Item = Self>) -> Self {
        let spent = others.into_iter().fold(0_u32, |sum, other| sum.saturating_add(other.error_ppm));
        Self { error_ppm: self.error_ppm.saturating_sub(spent).max(1) }
    }

    /// The confidence whose error is 1/`one_in` of this one's.
    #[must_use]
    pub fn share(self, one_in: u32) -> Self {
        Self { error_ppm: (self.error_ppm / one_in.max(1)).max(1) }
    }

    /// Chance that the interval misses: 0.05 for 95 %.
    #[must_use]
    pub fn error(self) -> f64 {
        f64::from(self.error_ppm) / 1e6
    }

    /// The confidence in whole percent, rounded down, such as 95.
    #[must_use]
    pub fn percent(self) -> u32 {
        100 - self.error_ppm.div_ceil(10_000).min(100)
    }
}

/// A range that contains the true value with the given confidence; both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies within the interval.
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

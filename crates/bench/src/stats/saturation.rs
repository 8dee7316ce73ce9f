//! Where a device saturates: the depth from which more I/Os in flight add latency and hardly any throughput.

use std::fmt;

/// Share of the peak at which a device counts as saturated.
pub const SATURATED: f64 = 0.95;

/// Most depths of a sweep.
pub const DEPTHS_MAX: usize = 4096;

/// One row of a depth sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// I/Os in flight.
    pub depth: u32,
    /// I/Os a second.
    pub iops: f64,
    /// Mean latency, in ns.
    pub mean_latency_ns: f64,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "depth {}: {} IOPS, {} ns", self.depth, self.iops, self.mean_latency_ns)
    }
}

/// Why a sweep cannot be used as a curve.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CurveError {
    /// No rows, or too many.
    #[error("a depth sweep of {0} rows is no curve: give 1 to {DEPTHS_MAX}")]
    Rows(usize),
    /// A row with an impossible figure.
    #[error("{0}: depth, IOPS and latency must be above 0: measure that depth again or leave it out")]
    Impossible(Point),
    /// A depth appears twice.
    #[error("depth {0} appears twice: sum its runs up to one row first")]
    Twice(u32),
}

/// A depth sweep, checked and in order of depth, for the saturation and the score of an application.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    points: Vec<Point>,
}

impl Curve {
    /// Makes a curve from rows in any order.
    ///
    /// # Errors
    /// [`CurveError`]: no rows, a figure not above 0, or a depth twice.
    pub fn new(mut points: Vec<Point>) -> Result<Self, CurveError> {
        if points.is_empty() || points.len() > DEPTHS_MAX {
            return Err(CurveError::Rows(points.len()));
        }
        let usable = |value: f64| value.is_finite() && value > 0.0;
        let bad = |point: &&Point| point.depth == 0 || !usable(point.iops) || !usable(point.mean_latency_ns);
        if let Some(point) = points.iter().find(bad) {
            return Err(CurveError::Impossible(*point));
        }
        points.sort_unstable_by_key(|point| point.depth);
        if let Some(pair) = points.windows(2).find(|pair| pair[0].depth == pair[1].depth) {
            return Err(CurveError::Twice(pair[0].depth));
        }
        Ok(Self { points })
    }

    /// The rows in order of depth; at least one.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Finds where the device saturates.
    #[must_use]
    pub fn saturation(&self) -> Saturation {
        let best = |best: Point, point: &Point| if point.iops > best.iops { *point } else { best };
        let peak = self.points.iter().fold(self.points[0], best);
        let share = |point: &Point| point.iops / peak.iops;
        let knee = self.points.iter().find(|point| share(point) >= SATURATED).copied().unwrap_or(peak);
        let first = self.points[0];
        let rows = self
            .points
            .iter()
            .map(|point| Row {
                point: *point,
                peak_share: share(point),
                scaling: (point.iops / first.iops) / (f64::from(point.depth) / f64::from(first.depth)),
                latency_ratio: point.mean_latency_ns / first.mean_latency_ns,
                saturated: point.depth >= knee.depth,
            })
            .collect();
        let reached = self.points.last().is_some_and(|last| last.depth > knee.depth);
        Saturation { knee, peak, reached, rows }
    }
}

/// Where a device saturates.
#[derive(Clone, Debug, PartialEq)]
pub struct Saturation {
    /// The lowest depth with [`SATURATED`] of the peak: the depth to limit an application to, and the knee latency.
    pub knee: Point,
    /// The row with the highest throughput; of several, the one with the lowest depth.
    pub peak: Point,
    /// Whether a deeper row confirms the peak. If not, throughput still rises at the end of the sweep, and the saturation depth is at least
    /// the knee's.
    pub reached: bool,
    /// The throughput-latency curve in order of depth.
    pub rows: Vec<Row>,
}

/// A row of the throughput-latency curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The measured row.
    pub point: Point,
    /// Throughput as a share of the peak's.
    pub peak_share: f64,
    /// Throughput per I/O in flight, relative to the first row: 1 while throughput grows with the depth.
    pub scaling: f64,
    /// Latency relative to the first row.
    pub latency_ratio: f64,
    /// Whether the depth is at or above the saturation depth.
    pub saturated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(rows: &[(u32, f64, f64)]) -> Result<Curve, CurveError> {
        let point = |&(depth, iops, mean_latency_ns)| Point { depth, iops, mean_latency_ns };
        Curve::new(rows.iter().map(point).collect())
    }

    #[test]
    fn finds_the_lowest_depth_with_95_percent() {
        let rows = [(16, 1000.0, 16.0), (1, 125.0, 8.0), (4, 500.0, 8.0), (8, 950.0, 8.4), (32, 990.0, 32.0)];
        let found = curve(&rows).unwrap().saturation();
        assert_eq!((found.knee.depth, found.knee.mean_latency_ns, found.peak.depth), (8, 8.4, 16));
        assert!(found.reached);
        assert_eq!(found.rows.iter().map(|row| row.saturated).collect::<Vec<_>>(), [false, false, true, true, true]);
        assert_eq!((found.rows[1].scaling, found.rows[4].latency_ratio, found.rows[2].peak_share), (1.0, 4.0, 0.95));
        let just_below = curve(&[(1, 949.9, 1.0), (2, 1000.0, 1.0), (3, 1000.0, 2.0)]).unwrap().saturation();
        assert_eq!((just_below.knee.depth, just_below.peak.depth), (2, 2));
    }

    #[test]
    fn a_sweep_that_still_rises_says_so() {
        let rising = curve(&[(1, 100.0, 10.0), (2, 200.0, 10.0), (4, 400.0, 10.0)]).unwrap().saturation();
        assert_eq!((rising.knee.depth, rising.reached), (4, false));
        assert!(!curve(&[(1, 100.0, 10.0)]).unwrap().saturation().reached);
    }

    #[test]
    fn refuses_what_is_no_curve() {
        assert_eq!(curve(&[]), Err(CurveError::Rows(0)));
        assert_eq!(curve(&[(1, 1.0, 1.0), (1, 2.0, 1.0)]), Err(CurveError::Twice(1)));
        for bad in [(0, 1.0, 1.0), (1, 0.0, 1.0), (1, 1.0, -1.0), (1, f64::INFINITY, 1.0)] {
            assert!(matches!(curve(&[bad]), Err(CurveError::Impossible(_))), "{bad:?}");
        }
        assert!(matches!(curve(&[(1, f64::NAN, 1.0)]), Err(CurveError::Impossible(_))));
    }
}

//! A device's figures at the queue depths that an application really uses.
//!
//! Between measured depths, throughput and latency are interpolated linearly in the logarithms of both axes. Both then follow a power of
//! the depth; throughput times latency over depth stays consistent with the measured rows (Little's law); and the slope 1 of an unsaturated
//! device is met exactly.

use super::saturation::{Curve, Point};

/// Most depths of a histogram.
pub const DEPTHS_MAX: usize = 65_536;

/// How to treat depths beyond the ends of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Refuse them.
    Refuse,
    /// Use the nearest end, and report the share of I/Os at such depths ([`Score::clamped_share`]).
    Clamp,
}

/// A device's score for an application.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// I/Os a second: the harmonic mean of the throughput at each depth, weighted by I/Os. This is the number of I/Os over the time that
    /// they take if those of each depth are served at that depth's rate.
    pub iops: f64,
    /// Mean latency over I/Os, in ns.
    pub mean_latency_ns: f64,
    /// Mean depth over I/Os.
    pub mean_depth: f64,
    /// Share of I/Os at depths that were interpolated, 0 to 1.
    pub interpolated_share: f64,
    /// Share of I/Os at depths beyond the curve, for which the nearest end was used, 0 to 1.
    pub clamped_share: f64,
    /// The contribution of each depth, ascending.
    pub rows: Vec<Row>,
}

/// One depth that the application uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Share of the I/Os, 0 to 1.
    pub share: f64,
    /// The depth and the device's figures there.
    pub point: Point,
    /// Where the figures come from.
    pub source: Source,
}

/// Where figures at a depth come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Measured at this depth.
    Measured,
    /// Interpolated between its neighbours.
    Interpolated,
    /// Those of the curve's nearest end.
    Clamped,
}

/// Why a score cannot be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DepthError {
    /// No weights, too many, or all are 0.
    #[error(
        "the queue-depth histogram has no I/Os or more than {DEPTHS_MAX} depths: give depth and share of I/Os for each"
    )]
    Empty,
    /// An impossible weight or depth.
    #[error("queue depth {depth} with a share of {share}: depths begin at 1, shares are 0 or more")]
    Impossible {
        /// Depth.
        depth: u32,
        /// Its share.
        share: f64,
    },
    /// A depth appears twice.
    #[error("queue depth {0} appears twice in the histogram: add its shares up")]
    Twice(u32),
    /// A depth beyond the curve.
    #[error(
        "the application uses queue depth {depth}, the device was measured from {lowest} to {highest}: measure it there, or \
         ask for the nearest end to be taken"
    )]
    Beyond {
        /// Depth.
        depth: u32,
        /// Lowest depth of the curve.
        lowest: u32,
        /// Highest depth of the curve.
        highest: u32,
    },
}

/// Checks a histogram before there is a curve to use it with.
///
/// # Errors
/// [`DepthError`]: the histogram cannot be used.
pub fn check(histogram: &[(u32, f64)]) -> Result<(), DepthError> {
    weights(histogram).map(drop)
}

/// Weights `curve` by `histogram`, which has depths and the number or share (in any unit) of I/Os issued at each. A depth includes the I/O
/// itself.
///
/// # Errors
/// [`DepthError`]: the histogram cannot be used, or has a depth beyond the curve with [`Beyond::Refuse`].
pub fn score(curve: &Curve, histogram: &[(u32, f64)], beyond: Beyond) -> Result<Score, DepthError> {
    let weights = weights(histogram)?;
    let total: f64 = weights.iter().map(|weight| weight.1).sum();
    let rows = weights
        .into_iter()
        .map(|(depth, weight)| {
            let (point, source) = at(curve, depth, beyond)?;
            Ok(Row { share: weight / total, point, source })
        })
        .collect::<Result<Vec<Row>, DepthError>>()?;
    let of = |source| rows.iter().filter(|row| row.source == source).map(|row| row.share).sum();
    let sum = |figure: fn(&Point) -> f64| -> f64 { rows.iter().map(|row| row.share * figure(&row.point)).sum() };
    Ok(Score {
        iops: 1.0 / sum(|point| 1.0 / point.iops),
        mean_latency_ns: sum(|point| point.mean_latency_ns),
        mean_depth: sum(|point| f64::from(point.depth)),
        interpolated_share: of(Source::Interpolated),
        clamped_share: of(Source::Clamped),
        rows,
    })
}

/// The depths that occur, ascending, with their weights; the sum is above 0.
fn weights(histogram: &[(u32, f64)]) -> Result<Vec<(u32, f64)>, DepthError> {
    if histogram.len() > DEPTHS_MAX {
        return Err(DepthError::Empty);
    }
    if let Some(&(depth, share)) =
        histogram.iter().find(|(depth, share)| *depth == 0 || !share.is_finite() || *share < 0.0)
    {
        return Err(DepthError::Impossible { depth, share });
    }
    let mut weights: Vec<(u32, f64)> = histogram.to_vec();
    weights.sort_unstable_by_key(|weight| weight.0);
    if let Some(pair) = weights.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(DepthError::Twice(pair[0].0));
    }
    weights.retain(|weight| weight.1 > 0.0);
    let total: f64 = weights.iter().map(|weight| weight.1).sum();
    if !(total > 0.0 && total.is_finite()) {
        return Err(DepthError::Empty);
    }
    Ok(weights)
}

fn at(curve: &Curve, depth: u32, beyond: Beyond) -> Result<(Point, Source), DepthError> {
    let points = curve.points();
    let above = points.partition_point(|point| point.depth < depth);
    let (low, high) = match (above.checked_sub(1).map(|below| points[below]), points.get(above).copied()) {
        (_, Some(point)) if point.depth == depth => return Ok((point, Source::Measured)),
        (Some(low), Some(high)) => (low, high),
        (Some(end), None) | (None, Some(end)) if beyond == Beyond::Clamp => {
            return Ok((Point { depth, ..end }, Source::Clamped));
        }
        _ => {
            let end = |point: Option<&Point>| point.map_or(0, |point| point.depth);
            return Err(DepthError::Beyond { depth, lowest: end(points.first()), highest: end(points.last()) });
        }
    };
    let log = |depth: u32| f64::from(depth).ln();
    let way = (log(depth) - log(low.depth)) / (log(high.depth) - log(low.depth));
    let between = |low: f64, high: f64| (low.ln() + way * (high.ln() - low.ln())).exp();
    let point = Point {
        depth,
        iops: between(low.iops, high.iops),
        mean_latency_ns: between(low.mean_latency_ns, high.mean_latency_ns),
    };
    Ok((point, Source::Interpolated))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve() -> Curve {
        let point = |(depth, iops, mean_latency_ns)| Point { depth, iops, mean_latency_ns };
        let rows = [(1, 100_000.0, 10_000.0), (4, 400_000.0, 10_000.0), (16, 400_000.0, 40_000.0)];
        Curve::new(rows.into_iter().map(point).collect()).unwrap()
    }

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-9 * want, "{got} is not {want}");
    }

    #[test]
    fn weighs_throughput_by_time_and_latency_by_count() {
        let found = score(&curve(), &[(4, 25.0), (1, 75.0)], Beyond::Refuse).unwrap();
        // 100 I/Os: 75 at 100k/s and 25 at 400k/s.
        near(found.iops, 100.0 / (75.0 / 100_000.0 + 25.0 / 400_000.0));
        near(found.mean_latency_ns, 10_000.0);
        near(found.mean_depth, 1.75);
        assert_eq!((found.interpolated_share, found.clamped_share), (0.0, 0.0));
        assert_eq!(found.rows[0].point.depth, 1);
        near(found.rows[0].share, 0.75);
    }

    #[test]
    fn interpolates_on_logarithms() {
        let found = score(&curve(), &[(2, 1.0), (8, 3.0)], Beyond::Refuse).unwrap();
        near(found.rows[0].point.iops, 200_000.0);
        near(found.rows[1].point.iops, 400_000.0);
        near(found.rows[1].point.mean_latency_ns, 20_000.0);
        near(found.interpolated_share, 1.0);
        for row in &found.rows {
            near(row.point.iops * row.point.mean_latency_ns / 1e9, f64::from(row.point.depth));
        }
    }

    #[test]
    fn depths_beyond_the_curve_are_refused_or_said() {
        let refused = score(&curve(), &[(1, 1.0), (32, 1.0)], Beyond::Refuse);
        assert_eq!(refused, Err(DepthError::Beyond { depth: 32, lowest: 1, highest: 16 }));
        let clamped = score(&curve(), &[(1, 3.0), (32, 1.0)], Beyond::Clamp).unwrap();
        near(clamped.clamped_share, 0.25);
        near(clamped.mean_latency_ns, 0.75 * 10_000.0 + 0.25 * 40_000.0);
        assert_eq!(clamped.rows[1].source, Source::Clamped);
        let from_four = Curve::new(curve().points()[1..].to_vec()).unwrap();
        assert!(matches!(score(&from_four, &[(1, 1.0)], Beyond::Refuse), Err(DepthError::Beyond { depth: 1, .. })));
        assert!(score(&from_four, &[(1, 1.0)], Beyond::Clamp).is_ok());
        // A depth without I/Os is not used.
        assert!(score(&curve(), &[(1, 1.0), (99, 0.0)], Beyond::Refuse).is_ok());
    }

    #[test]
    fn unusable_histograms_are_named() {
        let of = |histogram: &[(u32, f64)]| score(&curve(), histogram, Beyond::Clamp).unwrap_err();
        assert_eq!(of(&[]), DepthError::Empty);
        assert_eq!(of(&[(1, 0.0)]), DepthError::Empty);
        assert_eq!(of(&[(0, 1.0)]), DepthError::Impossible { depth: 0, share: 1.0 });
        assert_eq!(of(&[(1, -1.0)]), DepthError::Impossible { depth: 1, share: -1.0 });
        assert!(matches!(of(&[(1, f64::NAN)]), DepthError::Impossible { .. }));
        assert_eq!(of(&[(2, 1.0), (2, 2.0)]), DepthError::Twice(2));
    }
}

//! Little's law, L = lambda W: the mean number of I/Os in flight is their rate times their mean latency (Little 1961). It holds for any
//! workload, so figures that violate it were measured wrongly.

/// Relative difference that measurement alone may cause: clock reads, and the moment at which depth is counted.
pub const ALLOWANCE: f64 = 0.01;

/// Fewest completions for each I/O in flight: with fewer, the beginning and end of the run dominate.
pub const TURNS_MIN: f64 = 10.0;

/// What was measured over a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// I/Os in flight, averaged over time.
    pub mean_depth: f64,
    /// I/Os completed.
    pub completions: u64,
    /// Duration, in ns.
    pub elapsed_ns: u64,
    /// Mean latency of these I/Os in ns, over the same span in which they count as in flight.
    pub mean_latency_ns: f64,
}

/// Result of the check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// Depth that rate and latency imply.
    pub implied_depth: f64,
    /// (implied - measured) / measured.
    pub deviation: f64,
    /// Allowed deviation: depth / completions, since up to `depth` I/Os at the beginning and at the end of the run belong to it only in
    /// part, plus [`ALLOWANCE`].
    pub tolerance: f64,
    /// Verdict.
    pub verdict: Verdict,
}

/// Verdict on the figures of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The figures are consistent.
    Holds,
    /// Rate times latency is more than the depth: latencies include waiting that the depth does not, or the rate is too high.
    TooMuch,
    /// Rate times latency is less than the depth: latencies lack a part of the time, or completions were not counted.
    TooLittle,
    /// Too few completions, or nothing measured.
    NotJudged,
}

/// Checks the figures of a run.
#[must_use]
pub fn check(measured: Measured) -> Check {
    let Measured { mean_depth, completions, elapsed_ns, mean_latency_ns } = measured;
    let implied_depth = if elapsed_ns == 0 { 0.0 } else { completions as f64 * mean_latency_ns / elapsed_ns as f64 };
    let usable = elapsed_ns > 0
        && mean_depth.is_finite()
        && mean_depth > 0.0
        && mean_latency_ns.is_finite()
        && completions as f64 >= TURNS_MIN * mean_depth;
    if !usable {
        return Check { implied_depth, deviation: 0.0, tolerance: 0.0, verdict: Verdict::NotJudged };
    }
    let deviation = (implied_depth - mean_depth) / mean_depth;
    let tolerance = mean_depth / completions as f64 + ALLOWANCE;
    let verdict = if deviation > tolerance {
        Verdict::TooMuch
    } else if deviation < -tolerance {
        Verdict::TooLittle
    } else {
        Verdict::Holds
    };
    Check { implied_depth, deviation, tolerance, verdict }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A closed loop with `depth` slots and random latencies, measured completely over a millisecond.
    fn run(depth: usize, mean_ns: u64, seed: u64) -> Measured {
        let mut random = forebay_block::Random::new(seed);
        let elapsed_ns = 1_000_000;
        let (mut completions, mut sum, mut busy) = (0_u64, 0_u64, 0_u64);
        for _ in 0..depth {
            let mut now = 0;
            loop {
                let latency = 1 + random.below(2 * mean_ns);
                let end = now + latency;
                busy += end.min(elapsed_ns) - now;
                if end > elapsed_ns {
                    break;
                }
                (completions, sum, now) = (completions + 1, sum + latency, end);
            }
        }
        Measured {
            mean_depth: busy as f64 / elapsed_ns as f64,
            completions,
            elapsed_ns,
            mean_latency_ns: sum as f64 / completions as f64,
        }
    }

    #[test]
    fn holds_for_runs_measured_rightly() {
        for (depth, mean_ns) in [(1, 100), (1, 10_000), (8, 5_000), (32, 20_000), (256, 10_000)] {
            for seed in 0..20 {
                let measured = run(depth, mean_ns, seed);
                let found = check(measured);
                assert_eq!(found.verdict, Verdict::Holds, "{measured:?} {found:?}");
            }
        }
    }

    #[test]
    fn breaks_for_runs_measured_wrongly() {
        let right = run(8, 1_000, 1);
        let late = Measured { mean_latency_ns: right.mean_latency_ns * 0.9, ..right };
        assert_eq!(check(late).verdict, Verdict::TooLittle);
        let dropped = Measured { completions: right.completions * 95 / 100, ..right };
        assert_eq!(check(dropped).verdict, Verdict::TooLittle);
        let shallow = Measured { mean_depth: 4.0, ..right };
        let found = check(shallow);
        assert_eq!(found.verdict, Verdict::TooMuch);
        assert!((found.deviation - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn the_tolerance_is_edges_plus_one_percent() {
        let at = |mean_latency_ns| {
            check(Measured { mean_depth: 4.0, completions: 400, elapsed_ns: 1_000_000, mean_latency_ns })
        };
        assert_eq!(at(10_000.0).tolerance, 0.02);
        assert_eq!(at(10_000.0).deviation, 0.0);
        assert_eq!(at(10_190.0).verdict, Verdict::Holds);
        assert_eq!(at(10_210.0).verdict, Verdict::TooMuch);
        assert_eq!(at(9_790.0).verdict, Verdict::TooLittle);
    }

    #[test]
    fn too_little_to_judge_is_said() {
        let some = Measured { mean_depth: 4.0, completions: 39, elapsed_ns: 1_000, mean_latency_ns: 1.0 };
        assert_eq!(check(some).verdict, Verdict::NotJudged);
        assert_eq!(check(Measured { elapsed_ns: 0, completions: 100, ..some }).verdict, Verdict::NotJudged);
        assert_eq!(check(Measured { mean_depth: 0.0, completions: 100, ..some }).verdict, Verdict::NotJudged);
        assert_eq!(check(Measured { mean_latency_ns: f64::NAN, completions: 100, ..some }).verdict, Verdict::NotJudged);
    }
}

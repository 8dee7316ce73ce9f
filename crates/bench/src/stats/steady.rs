//! Steady state by the SNIA's Performance Test Specification 2.0.2: over a window of five rounds, the range of the tracking variable is at
//! most 20 % of its average, and the least-squares line through it rises or falls by at most 10 % of the average. At most 25 rounds are
//! run.
//!
//! Also the two figures of fio's criteria, which judge windows of any length: the greatest deviation from the mean, and the slope.

/// Number of rounds in the window.
pub const WINDOW: usize = 5;

/// Rounds after which the search ends.
pub const ROUNDS_MAX: usize = 25;

/// Allowed range, in percent of the average.
pub const RANGE_PERCENT: f64 = 20.0;

/// Allowed rise or fall of the line over the window, in percent of the average.
pub const EXCURSION_PERCENT: f64 = 10.0;

/// A tracking variable over the window.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracked {
    /// Its name.
    pub name: String,
    /// Values in the rounds of the window.
    pub values: [f64; WINDOW],
    /// Average of the values.
    pub average: f64,
    /// Largest minus smallest.
    pub range: f64,
    /// Slope of the least-squares line, per round.
    pub slope: f64,
    /// Rise or fall of the line over the window: |slope| times four rounds.
    pub excursion: f64,
    /// The line at the first and the last round of the window, for the plot.
    pub line: (f64, f64),
    /// Whether range and excursion are within their limits.
    pub steady: bool,
}

/// State of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Fewer than five rounds, or the last five are not steady yet.
    NotYet,
    /// All tracking variables are steady over one window.
    Steady,
    /// 25 rounds without a steady state. The last window is reported as not steady.
    NotReached,
}

/// The steady-state report.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Verdict.
    pub verdict: Verdict,
    /// Number of rounds so far.
    pub rounds: usize,
    /// First round of the window, from 1; `None` with fewer than five rounds.
    pub window_begin: Option<usize>,
    /// The tracking variables over the window, in the given order; empty with fewer than five rounds.
    pub variables: Vec<Tracked>,
}

/// Why a round was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SteadyError {
    /// No variables, or a wrong number of values.
    #[error("a round has {got} values for {want} tracking variables: give one value for each, and name at least one")]
    WrongCount {
        /// Number of values given.
        got: usize,
        /// Number of variables.
        want: usize,
    },
    /// The search is over.
    #[error("the search for the steady state ended with round {0}: start a new one for further rounds")]
    Over(usize),
}

/// Searches for the steady state, round by round.
#[derive(Clone, Debug)]
pub struct Search {
    names: Vec<String>,
    rounds: Vec<Vec<f64>>,
    verdict: Verdict,
}

impl Search {
    /// Starts a search with the names of the tracking variables.
    #[must_use]
    pub fn new(names: Vec<String>) -> Self {
        Self { names, rounds: Vec::new(), verdict: Verdict::NotYet }
    }

    /// Takes the values of the next round, in the order of the names, and returns whether the search goes on. A value that is not finite
    /// makes its windows unsteady.
    ///
    /// # Errors
    /// [`SteadyError`]: a wrong number of values, or a round after the end.
    pub fn push(&mut self, values: &[f64]) -> Result<Verdict, SteadyError> {
        if self.verdict != Verdict::NotYet {
            return Err(SteadyError::Over(self.rounds.len()));
        }
        if values.len() != self.names.len() || values.is_empty() {
            return Err(SteadyError::WrongCount { got: values.len(), want: self.names.len() });
        }
        self.rounds.push(values.to_vec());
        let window = self.window();
        self.verdict = if !window.is_empty() && window.iter().all(|variable| variable.steady) {
            Verdict::Steady
        } else if self.rounds.len() >= ROUNDS_MAX {
            Verdict::NotReached
        } else {
            Verdict::NotYet
        };
        Ok(self.verdict)
    }

    /// The report up to now.
    #[must_use]
    pub fn report(&self) -> Report {
        Report {
            verdict: self.verdict,
            rounds: self.rounds.len(),
            window_begin: self.rounds.len().checked_sub(WINDOW).map(|before| before + 1),
            variables: self.window(),
        }
    }

    fn window(&self) -> Vec<Tracked> {
        let Some(last) = self.rounds.last_chunk::<WINDOW>() else { return Vec::new() };
        let variable = |(at, name): (usize, &String)| track(name, std::array::from_fn(|round| last[round][at]));
        self.names.iter().enumerate().map(variable).collect()
    }
}

/// The SNIA's rule for five equal parts of a run with these counts per interval; `None` with fewer than five intervals.
#[must_use]
pub fn five_parts(counts: &[u64]) -> Option<Tracked> {
    let part = counts.len() / WINDOW;
    if part == 0 {
        return None;
    }
    let sum = |part: &[u64]| part.iter().map(|&count| count as f64).sum();
    let sums: Vec<f64> = counts.chunks_exact(part).take(WINDOW).map(sum).collect();
    Some(track("iops", sums.try_into().ok()?))
}

/// The interval from which the run was steady by this rule until its end; `None` if not even its last five intervals were.
#[must_use]
pub fn steady_from(counts: &[u64]) -> Option<usize> {
    let last = counts.len().checked_sub(WINDOW)?;
    (0..=last).find(|&begin| {
        // The five parts are equal: intervals that do not fit are left out at the beginning.
        let rest = &counts[begin..];
        five_parts(&rest[rest.len() % WINDOW..]).is_some_and(|found| found.steady)
    })
}

/// Sum of the values times their distance from the middle, in halves: -4, -2, 0, 2, 4 for five values.
fn moment(values: &[f64]) -> f64 {
    let last = values.len() as f64 - 1.0;
    values.iter().enumerate().map(|(at, value)| (2.0 * at as f64 - last) * value).sum()
}

/// Slope of the least-squares line through equidistant values, per step; 0 with fewer than two.
#[must_use]
pub fn slope(values: &[f64]) -> f64 {
    let last = values.len() as f64 - 1.0;
    let squares: f64 = (0..values.len()).map(|at| (2.0 * at as f64 - last).powi(2)).sum();
    if squares > 0.0 { 2.0 * moment(values) / squares } else { 0.0 }
}

/// Mean of the values; 0 without values.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Largest distance of a value from the mean.
#[must_use]
pub fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max)
}

/// Judges one variable over one window.
#[must_use]
pub fn track(name: &str, values: [f64; WINDOW]) -> Tracked {
    let sum: f64 = values.iter().sum();
    let average = sum / WINDOW as f64;
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let range = largest - smallest;
    // Least squares over x = -2..=2: sum of x y over sum of x^2 = 10.
    let ten_slopes = moment(&values) / 2.0;
    let (slope, excursion) = (ten_slopes / 10.0, ten_slopes.abs() * 4.0 / 10.0);
    // Both limits are multiplied out, so that values exactly on them are judged exactly: range <= 20 % of sum / 5, and 4/10 of |ten_slopes|
    // <= 10 % of sum / 5.
    let steady = values.iter().all(|value| value.is_finite())
        && sum > 0.0
        && range * 500.0 <= RANGE_PERCENT * sum
        && ten_slopes.abs() * 200.0 <= EXCURSION_PERCENT * sum;
    let line = (average - 2.0 * slope, average + 2.0 * slope);
    Tracked { name: name.to_owned(), values, average, range, slope, excursion, line, steady }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(values: [f64; WINDOW]) -> bool {
        track("iops", values).steady
    }

    #[test]
    fn figures_of_the_window_are_right() {
        let found = track("iops", [100.0, 102.0, 104.0, 106.0, 108.0]);
        assert_eq!((found.average, found.range, found.slope, found.excursion), (104.0, 8.0, 2.0, 8.0));
        assert_eq!(found.line, (100.0, 108.0));
        assert!(found.steady);
    }

    #[test]
    fn slope_and_deviation_are_those_of_the_definition() {
        // y = 3 x + 1, and by hand: x = 0, 1, 2, 3 with y = 1, 3, 2, 6 has slope (4 * 25 - 6 * 12) / (4 * 14 - 36) = 1.4.
        assert_eq!(slope(&[1.0, 4.0, 7.0, 10.0]), 3.0);
        assert_eq!(slope(&[1.0, 3.0, 2.0, 6.0]), 1.4);
        assert_eq!((slope(&[5.0]), slope(&[])), (0.0, 0.0));
        assert_eq!(slope(&[100.0, 102.0, 104.0, 106.0, 108.0]), track("", [100.0, 102.0, 104.0, 106.0, 108.0]).slope);
        assert_eq!((mean(&[1.0, 3.0, 2.0, 6.0]), deviation(&[1.0, 3.0, 2.0, 6.0])), (3.0, 3.0));
        assert_eq!((mean(&[]), deviation(&[])), (0.0, 0.0));
    }

    #[test]
    fn a_run_is_steady_from_where_its_rest_is() {
        let falling: Vec<u64> = (0..20).map(|at| 400 - 10 * at).collect();
        let flat = [200, 201, 199, 200, 200, 202, 198, 200, 200, 201, 199, 200, 200, 200, 200];
        let run: Vec<u64> = falling.iter().chain(&flat).copied().collect();
        let from = steady_from(&run).unwrap();
        assert!((10..20).contains(&from), "{from}");
        assert_eq!(steady_from(&flat), Some(0));
        assert_eq!((steady_from(&falling[..10]), steady_from(&[1, 1, 1, 1])), (None, None));
        assert_eq!(steady_from(&[0; 40]), None, "nothing was done");
    }

    #[test]
    fn the_bounds_belong_to_steady() {
        // Range exactly 20 % of the average 100, slope 0.
        assert!(steady([110.0, 90.0, 100.0, 90.0, 110.0]));
        assert!(!steady([110.0, 89.99, 100.1, 89.99, 110.0]), "range a little above 20 %");
        // A line of exactly 10 %: 95 to 105.
        assert!(steady([95.0, 97.5, 100.0, 102.5, 105.0]));
        assert!(steady([105.0, 102.5, 100.0, 97.5, 95.0]));
        assert!(!steady([94.99, 97.5, 100.0, 102.5, 105.01]), "excursion a little above 10 %");
        // Range within 20 %, but the line is too steep: only the second rule fails.
        assert!(!steady([92.0, 96.0, 100.0, 104.0, 108.0]));
        // A flat line, but the range is too wide: only the first rule fails.
        assert!(!steady([100.0, 85.0, 130.0, 85.0, 100.0]));
        // Latencies in ns that are exactly on the limit are judged exactly.
        assert!(steady([1_100_000.0, 900_000.0, 1_000_000.0, 900_000.0, 1_100_000.0]));
        assert!(!steady([1_100_001.0, 900_000.0, 999_999.0, 900_000.0, 1_100_000.0]));
        assert!(!steady([0.0; 5]) && !steady([-1.0; 5]) && !steady([1.0, 1.0, f64::NAN, 1.0, 1.0]));
    }

    #[test]
    fn finds_the_first_steady_window_of_all_variables() {
        let mut search = Search::new(vec!["iops".into(), "latency".into()]);
        // IOPS fall until round 6, latency rises until round 8.
        let iops = [500.0, 400.0, 300.0, 200.0, 150.0, 100.0, 101.0, 99.0, 100.0, 100.0, 101.0, 99.0];
        let latency = [10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 30.0, 40.0, 40.0, 40.0, 41.0, 40.0];
        let mut ended = None;
        for (at, values) in iops.iter().zip(latency).enumerate() {
            match search.push(&[*values.0, values.1]).unwrap() {
                Verdict::NotYet => {}
                verdict => {
                    ended = Some((at + 1, verdict));
                    break;
                }
            }
        }
        assert_eq!(ended, Some((12, Verdict::Steady)));
        let report = search.report();
        assert_eq!((report.window_begin, report.rounds), (Some(8), 12));
        assert_eq!(report.variables[1].values, [40.0, 40.0, 40.0, 41.0, 40.0]);
        assert_eq!(search.push(&[1.0, 1.0]), Err(SteadyError::Over(12)));
    }

    #[test]
    fn gives_up_after_25_rounds_and_not_before() {
        let mut search = Search::new(vec!["iops".into()]);
        for round in 1..=25 {
            let want = if round == 25 { Verdict::NotReached } else { Verdict::NotYet };
            assert_eq!(search.push(&[1000.0 * 1.1_f64.powi(round)]), Ok(want), "{round}");
        }
        let report = search.report();
        assert_eq!((report.verdict, report.window_begin), (Verdict::NotReached, Some(21)));
        assert!(!report.variables[0].steady);
    }

    #[test]
    fn below_five_rounds_there_is_no_window() {
        let mut search = Search::new(vec!["iops".into()]);
        for _ in 0..4 {
            assert_eq!(search.push(&[100.0]), Ok(Verdict::NotYet));
        }
        assert_eq!((search.report().window_begin, search.report().variables.len()), (None, 0));
        assert_eq!(search.push(&[1.0, 2.0]), Err(SteadyError::WrongCount { got: 2, want: 1 }));
        assert_eq!(search.push(&[100.0]), Ok(Verdict::Steady));
        assert!(Search::new(Vec::new()).push(&[]).is_err());
    }
}

//! Detects the steady state of a job while it runs: intervals are summed into the parts of a rolling window, which is judged at the end of
//! each part.

use super::result::{IntervalRow, Part, SteadyState, SteadyWindow};
use crate::job::steady::{Limit, Rule, Steady};
use crate::stats::steady::{deviation, mean, slope};

/// Judges a window; true where it is steady.
fn judge(window: &mut SteadyWindow, steady: &Steady) -> bool {
    let figures = window.figures(steady.criterion.figure);
    let found = match steady.criterion.rule {
        Rule::Deviation => deviation(&figures),
        Rule::Slope => slope(&figures),
    };
    let value = match steady.limit {
        Limit::Percent(_) => 100.0 * found / mean(&figures),
        Limit::Fixed(_) => found,
    };
    let is_known = value.is_finite() && mean(&figures) > 0.0;
    window.value = is_known.then_some(value);
    window.value.is_some_and(|value| value.abs() < steady.limit.value())
}

/// Looks for the steady state of a job.
#[derive(Clone, Debug)]
pub(super) struct Seeker {
    steady: Steady,
    /// End of the next window to be judged, in nanoseconds since the measurement began.
    next_ns: u64,
    found: SteadyState,
}

impl Seeker {
    pub fn new(steady: Steady) -> Self {
        Self { next_ns: steady.first_end_ns(), steady, found: SteadyState::default() }
    }

    /// Judges the windows that end by `over_ns`; the rows up to there must be complete. True if the job is steady.
    pub fn look(&mut self, rows: &[IntervalRow], over_ns: u64) -> bool {
        while self.found.attained_ns.is_none() && self.next_ns <= over_ns {
            if let Some(mut window) = self.window(rows) {
                if judge(&mut window, &self.steady) {
                    self.found.attained_ns = Some(self.next_ns);
                }
                self.found.window = Some(window);
            }
            self.next_ns += self.steady.every_ns;
        }
        self.found.attained_ns.is_some()
    }

    /// The outcome.
    pub fn found(self) -> SteadyState {
        self.found
    }

    /// The window that ends at `next_ns`; `None` where a row extends across the edge of a part.
    fn window(&self, rows: &[IntervalRow]) -> Option<SteadyWindow> {
        let part_ns = self.steady.every_ns;
        let begin_ns = self.next_ns - self.steady.window_ns;
        let mut parts = vec![Part::default(); (self.steady.window_ns / part_ns) as usize];
        let first = rows.partition_point(|row| row.begin_ns < begin_ns);
        let is_over = |row: &IntervalRow, edge_ns: u64| row.begin_ns + row.length_ns > edge_ns;
        if rows[..first].last().is_some_and(|before| is_over(before, begin_ns)) {
            return None;
        }
        for row in rows[first..].iter().take_while(|row| row.begin_ns < self.next_ns) {
            let at = (row.begin_ns - begin_ns) / part_ns;
            if is_over(row, begin_ns + (at + 1) * part_ns) {
                return None;
            }
            let part = parts.get_mut(at as usize)?;
            part.ios += row.ios;
            part.bytes += row.bytes;
            part.latency_sum_ns += row.latency_ns[0] as f64 * row.ios as f64;
        }
        Some(SteadyWindow { begin_ns, part_ns, parts, value: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::steady::{Criterion, Figure};

    const SECOND_NS: u64 = 1_000_000_000;

    fn steady(word: &str, limit: Limit, window_s: u64, ramp_ns: u64) -> Steady {
        let criterion = Criterion::parse(&format!("{word}:1%"), |_, _| Ok(0.0)).unwrap().0;
        Steady { criterion, limit, window_ns: window_s * SECOND_NS, ramp_ns, every_ns: SECOND_NS }
    }

    /// Two rows for each second, with these I/Os per second.
    fn rows(ios: &[u64]) -> Vec<IntervalRow> {
        let halves = ios.iter().enumerate().flat_map(|(second, &ios)| {
            [0, 1].map(|half| IntervalRow {
                begin_ns: second as u64 * SECOND_NS + half * SECOND_NS / 2,
                length_ns: SECOND_NS / 2,
                ios: if half == 0 { ios / 2 } else { ios - ios / 2 },
                bytes: ios * 4096 / 2,
                latency_ns: [1000, 0, 0, 0, 0],
                ..IntervalRow::default()
            })
        });
        halves.collect()
    }

    fn found(steady: Steady, ios: &[u64]) -> SteadyState {
        let rows = rows(ios);
        let mut seeker = Seeker::new(steady);
        for over in 1..=rows.len() {
            seeker.look(&rows[..over], over as u64 * SECOND_NS / 2);
        }
        // Judging all windows at once finds the same.
        let mut late = Seeker::new(steady);
        late.look(&rows, ios.len() as u64 * SECOND_NS);
        assert_eq!(late.found, seeker.found);
        seeker.found()
    }

    #[test]
    fn the_first_window_within_the_limit_ends_it() {
        let ios = [200, 150, 110, 100, 101, 99, 100, 500];
        let state = found(steady("iops", Limit::Percent(5.0), 3, 0), &ios);
        // 110, 100, 101 deviate up to 6.1 % from their mean; 100, 101, 99 deviate one percent.
        assert_eq!(state.attained_ns, Some(6 * SECOND_NS));
        let window = state.window.unwrap();
        assert_eq!((window.begin_ns, window.end_ns(), window.len_ns()), (3 * SECOND_NS, 6 * SECOND_NS, 3 * SECOND_NS));
        assert_eq!(window.figures(Figure::Iops), [100.0, 101.0, 99.0]);
        assert_eq!((window.value, window.whole().ios), (Some(1.0), 300));
        assert_eq!(window.figures(Figure::Latency), [1000.0; 3]);
    }

    #[test]
    fn a_limit_is_not_below_itself_and_may_be_a_number() {
        let ios = [100, 101, 99];
        for (limit, attained) in [
            (Limit::Percent(1.0), false),
            (Limit::Percent(1.001), true),
            (Limit::Fixed(1.0), false),
            (Limit::Fixed(1.1), true),
        ] {
            let state = found(steady("iops", limit, 3, 0), &ios);
            assert_eq!(state.attained_ns.is_some(), attained, "{limit:?}");
            assert_eq!(state.window.unwrap().value, Some(1.0), "{limit:?}");
        }
    }

    #[test]
    fn a_line_that_falls_is_no_flatter_than_one_that_rises() {
        for ios in [[100, 104, 108], [108, 104, 100]] {
            let state = found(steady("iops_slope", Limit::Percent(3.0), 3, 0), &ios);
            assert_eq!(state.attained_ns, None);
            assert!((state.window.unwrap().value.unwrap().abs() - 100.0 * 4.0 / 104.0).abs() < 1e-9);
        }
        // Far from the mean, but with a flat slope.
        assert!(found(steady("iops_slope", Limit::Percent(1.0), 3, 0), &[100, 200, 100]).attained_ns.is_some());
        assert!(found(steady("bw", Limit::Percent(1.0), 3, 0), &[100, 100, 100]).attained_ns.is_some());
    }

    #[test]
    fn no_window_begins_within_the_ramp() {
        let ios = [100; 8];
        for (ramp_ns, end_s) in [(0, 2), (SECOND_NS, 3), (SECOND_NS + 1, 4), (3 * SECOND_NS / 2, 4)] {
            let state = found(steady("iops", Limit::Percent(1.0), 2, ramp_ns), &ios);
            assert_eq!(state.attained_ns, Some(end_s * SECOND_NS), "{ramp_ns}");
        }
        let short = found(steady("iops", Limit::Percent(1.0), 9, 0), &ios);
        assert_eq!(short, SteadyState::default());
    }

    #[test]
    fn nothing_is_not_steady() {
        for word in ["iops", "iops_slope", "bw", "lat", "lat_slope"] {
            let state = found(steady(word, Limit::Percent(5.0), 2, 0), &[0, 0, 0]);
            assert_eq!((state.attained_ns, state.window.unwrap().value), (None, None), "{word}");
        }
        // A limit that is not in percent does not divide by the mean.
        assert_eq!(found(steady("iops", Limit::Fixed(5.0), 2, 0), &[0, 0]).attained_ns, None);
        assert_eq!(found(steady("lat", Limit::Fixed(5.0), 2, 0), &[10, 0]).attained_ns, None);
    }

    #[test]
    fn rows_that_cross_a_parts_edge_are_not_judged() {
        let mut rows = rows(&[100; 6]);
        // The coordinator lagged: one row covers 1.5 s to 2.5 s.
        rows[3].length_ns = SECOND_NS;
        rows.remove(4);
        let mut seeker = Seeker::new(steady("iops", Limit::Percent(60.0), 2, 0));
        assert!(!seeker.look(&rows, 4 * SECOND_NS) && seeker.found.window.is_none(), "{seeker:?}");
        assert!(seeker.look(&rows, 5 * SECOND_NS));
        assert_eq!(seeker.found.attained_ns, Some(5 * SECOND_NS));
    }
}

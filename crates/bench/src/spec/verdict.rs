//! The verdict on a promise.

use super::figure::Figure;
use super::measure::Bound;
use serde::Serialize;

/// Above this many samples no number is given.
const NEEDED_MAX: f64 = 1e15;

/// A verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval keeps the promise.
    Pass,
    /// The whole interval breaks it, or I/Os failed.
    Fail,
    /// The interval is open on the promise's side, or contains the bound: more samples would decide.
    TooFewSamples,
    /// The run was not made, which is no pass.
    NotRun,
}

impl Verdict {
    /// The verdict for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::TooFewSamples => "too few samples",
            Self::NotRun => "not run",
        }
    }
}

/// A verdict, and what is missing for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Both ends are bounded and the promised value lies between them.
    pub undecided: bool,
    /// Samples still needed, where that can be said. If undecided it is an estimate: the interval shrinks with the square root of the
    /// samples, and the value may move.
    pub needed_more: Option<u64>,
}

/// Judges a figure.
///
/// Pass: the end of the interval on the bad side keeps the bound. Fail: the end on the good side breaks it. Otherwise, or if that end is
/// open: too few samples. The value alone decides nothing.
#[must_use]
pub fn judge(bound: Bound, figure: &Figure) -> Judgement {
    let (bad, good) = match bound {
        Bound::AtMost(_) => (figure.high, figure.low),
        Bound::AtLeast(_) => (figure.low, figure.high),
    };
    let decided = |verdict| Judgement { verdict, undecided: false, needed_more: None };
    if bad.is_some_and(|end| bound.holds(end)) {
        return decided(Verdict::Pass);
    }
    if good.is_some_and(|end| !bound.holds(end)) {
        return decided(Verdict::Fail);
    }
    let undecided = bad.is_some() && good.is_some();
    let needed_more = if undecided { to_decide(bound, figure, bad, good) } else { figure.needed_more };
    Judgement { verdict: Verdict::TooFewSamples, undecided, needed_more }
}

/// Samples until the interval, shrinking around the value, no longer contains the bound.
fn to_decide(bound: Bound, figure: &Figure, bad: Option<f64>, good: Option<f64>) -> Option<u64> {
    let value = figure.value?;
    let end = if bound.holds(value) { bad } else { good }?;
    let distance = (bound.limit() - value).abs();
    let factor = ((end - value).abs() / distance).powi(2);
    let more = figure.samples as f64 * (factor - 1.0);
    (more.is_finite() && more < NEEDED_MAX).then(|| (more.ceil() as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, low: Option<f64>, high: Option<f64>) -> Figure {
        Figure { value: Some(value), low, high, samples: 1000, ..Figure::default() }
    }

    #[test]
    fn ends_decide_and_belong_to_the_promise() {
        let verdict = |bound, low, high| judge(bound, &figure(10.0, low, high)).verdict;
        let most = Bound::AtMost(10.0);
        assert_eq!(verdict(most, Some(9.0), Some(10.0)), Verdict::Pass);
        assert_eq!(verdict(most, None, Some(10.0)), Verdict::Pass);
        assert_eq!(verdict(most, Some(9.0), Some(10.001)), Verdict::TooFewSamples);
        assert_eq!(verdict(most, Some(10.0), Some(12.0)), Verdict::TooFewSamples);
        assert_eq!(verdict(most, Some(10.001), Some(12.0)), Verdict::Fail);
        assert_eq!(verdict(most, Some(10.001), None), Verdict::Fail);
        assert_eq!(verdict(most, Some(9.0), None), Verdict::TooFewSamples);
        assert_eq!(verdict(most, None, None), Verdict::TooFewSamples);
        let least = Bound::AtLeast(10.0);
        assert_eq!(verdict(least, Some(10.0), Some(11.0)), Verdict::Pass);
        assert_eq!(verdict(least, Some(9.999), Some(11.0)), Verdict::TooFewSamples);
        assert_eq!(verdict(least, Some(8.0), Some(10.0)), Verdict::TooFewSamples);
        assert_eq!(verdict(least, Some(8.0), Some(9.999)), Verdict::Fail);
        assert_eq!(verdict(least, None, Some(9.999)), Verdict::Fail);
    }

    #[test]
    fn what_is_missing_follows_from_the_interval() {
        // Half the distance needs four times the samples.
        let found = judge(Bound::AtMost(10.5), &figure(10.0, Some(9.0), Some(11.0)));
        assert_eq!((found.undecided, found.needed_more), (true, Some(3000)));
        let found = judge(Bound::AtMost(9.5), &figure(10.0, Some(9.0), Some(12.0)));
        assert_eq!((found.undecided, found.needed_more), (true, Some(3000)), "towards a fail");
        let found = judge(Bound::AtMost(10.0), &figure(10.0, Some(9.0), Some(11.0)));
        assert_eq!((found.undecided, found.needed_more), (true, None), "on the promise itself no number helps");
        let open = Figure { needed_more: Some(77), ..figure(9.0, Some(8.0), None) };
        assert_eq!(judge(Bound::AtMost(10.0), &open).needed_more, Some(77));
    }
}

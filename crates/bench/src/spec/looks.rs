//! Planned looks at a run, which end it once all its promises are decided.
//!
//! Whoever looks at a run again and again, and ends it when it shows the wanted result, finds that result too often. So
//! the times of the looks are fixed beforehand, and each look gets a part of the allowed error: its intervals are
//! wider, and the intervals at the end get the part that is left. All looks together are wrong no more often than one
//! look at the end (Bonferroni).

use super::judged::{failed, is_steady, judged};
use super::measure::Op;
use super::report::PromiseReport;
use super::select::counts;
use super::sheet::Promise;
use super::verdict::Verdict;
use super::written::Written;
use crate::run::{JobResult, Watch};
use crate::stats::Confidence;
use forebay_block::lock;
use std::sync::{Arc, Mutex, MutexGuard};

/// Shares of a run after which it is looked at.
const AT: [f64; 4] = [1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0];
/// Each of these looks gets 1/`ONE_IN` of the allowed error.
const ONE_IN: u32 = 20;
/// Fewest intervals for a look: fewer do not show whether slow I/Os cluster and whether the run is steady.
const INTERVALS_MIN: usize = 16;

#[derive(Default)]
struct State {
    /// Number of looks of [`AT`] whose time is over, made or not.
    passed: usize,
    /// Number of looks that were made.
    made: usize,
    /// The reports of the look that decided all promises.
    decided: Option<Vec<PromiseReport>>,
}

/// The looks at one run.
#[derive(Clone)]
pub(super) struct Looks {
    promises: Vec<Promise>,
    confidence: Confidence,
    /// What the check had written before the run.
    before: Written,
    state: Arc<Mutex<State>>,
}

impl Looks {
    /// The looks at a run for these promises, after `before` was written.
    pub fn new(promises: Vec<Promise>, confidence: Confidence, before: Written) -> Self {
        Self { promises, confidence, before, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The watch that ends the run.
    pub fn watch(&self) -> Watch {
        let looks = self.clone();
        Watch::new(move |share, so_far| looks.look(share, so_far))
    }

    fn look(&self, share: f64, so_far: &dyn Fn() -> JobResult) -> bool {
        let mut state = self.state();
        let due = AT.iter().filter(|&&at| at <= share).count();
        // The run's end has its own, last look.
        if self.promises.is_empty() || due <= state.passed || share >= 1.0 {
            return false;
        }
        state.passed = due;
        let result = so_far();
        let counts = counts(&result, Op::All, false);
        if counts.len() < INTERVALS_MIN {
            return false;
        }
        // Nor is a run decided before the region was written once: a fast phase of the drive may still end.
        let mut written = self.before.clone();
        written.add(&result);
        if written.lacks(&result).is_some() {
            return false;
        }
        state.made += 1;
        // A run that still changes says nothing about its later state.
        if is_steady(&counts) != Some(true) {
            return false;
        }
        let found = self.judge(&result, self.confidence.share(ONE_IN));
        if found.iter().any(|report| report.verdict == Verdict::TooFewSamples) {
            return false;
        }
        let after_s = result.duration_ns as f64 / 1e9;
        let at_look = |report| PromiseReport { decided_after_s: Some(after_s), ..report };
        state.decided = Some(found.into_iter().map(at_look).collect());
        true
    }

    fn judge(&self, result: &JobResult, confidence: Confidence) -> Vec<PromiseReport> {
        self.promises.iter().map(|promise| judged(promise, result, 0, confidence)).collect()
    }

    /// The verdicts in the order of the promises: those of the look that ended the run, otherwise those of the whole
    /// run.
    pub fn verdicts(&self, result: &JobResult) -> Vec<PromiseReport> {
        let state = self.state();
        match &state.decided {
            // If I/Os failed after that look, the run keeps no promise.
            Some(found) if failed(result) == 0 => found.clone(),
            _ => {
                let spent = std::iter::repeat_n(self.confidence.share(ONE_IN), state.made);
                self.judge(result, self.confidence.beside(spent))
            }
        }
    }

    /// A note about a run that a look ended early.
    pub fn note(&self, result: &JobResult) -> Option<String> {
        let state = self.state();
        let first = state.decided.as_ref()?.first()?;
        Some(format!(
            "{}: ended after {:.1} s, since a planned look found all its promises decided (by intervals of {} %, from what was known \
             then; the row of the run has what came until it had ended, too); --whole goes on to the end",
            result.job.name,
            first.decided_after_s.unwrap_or_default(),
            first.confidence_percent
        ))
    }
}

//! Bookkeeping of interleaved rounds, for all experiments that use them.

use super::compared::{ROUNDS_MIN, too_few_rounds};
use super::figures::failures;
use super::session::Halt;
use crate::run::{JobResult, Partial};

/// Most notes that are kept.
const NOTES_MAX: usize = 40;

/// Number of complete rounds, and what happened in them.
#[derive(Default)]
pub(super) struct Rounds {
    pub whole: u32,
    /// The run ended early.
    pub partial: bool,
    /// Number of I/Os that failed.
    pub failures: u64,
    pub notes: Vec<String>,
}

impl Rounds {
    pub fn note(&mut self, text: String) {
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Notes failures of a run. A run that was cut short ends the experiment; `ended` is the text that says what ended.
    pub fn looked(&mut self, step: &str, results: Vec<JobResult>, ended: &str) -> Result<Vec<JobResult>, Halt> {
        for result in &results {
            let failed = failures(result);
            self.failures += failed;
            if failed > 0 {
                self.note(format!(
                    "{step}: job {:?}: {} failed or never came back",
                    result.job.name,
                    forebay_block::figures::count(failed, "I/O")
                ));
            }
            if let Some(partial) = result.partial {
                self.partial = true;
                if partial != Partial::Interrupted {
                    self.note(format!("{step}: job {:?}: {}; {ended}", result.job.name, partial.name()));
                }
            }
        }
        if self.partial { Err(Halt::Ended) } else { Ok(results) }
    }

    /// Ends the run early with this reason.
    pub fn ended(&mut self, why: String) -> Halt {
        self.partial = true;
        self.note(why);
        Halt::Ended
    }

    /// Puts the warnings that readers must see first before all other notes.
    pub fn warn(&mut self) {
        if self.partial {
            self.notes.insert(0, "PARTIAL: ended before its time; only whole rounds count".to_owned());
        }
        if self.whole < ROUNDS_MIN {
            self.notes.insert(0, format!("NO VERDICT: {}", too_few_rounds(self.whole as usize)));
        }
    }
}

//! Sheets, verdicts and the whole path on a target made up for the purpose.

mod fake;
mod judging;
mod looks;
mod running;
mod sheets;

//! Tests of sheets, of verdicts, and of the whole path on a made-up target.

mod fake;
mod judging;
mod looks;
mod running;
mod sheets;

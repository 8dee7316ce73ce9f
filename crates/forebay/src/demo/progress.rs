//! What is shown while the demo runs: a living line on a terminal, a line a step elsewhere.

use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Progress on stderr.
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Living only on a terminal.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let template = if output::colours() { "{spinner:.cyan} {msg}" } else { "{spinner} {msg}" };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { bar }
    }

    /// A step begins.
    pub fn step(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => output::complain(format!("demo: {text}")),
        }
    }

    /// How far the step has come; only shown where it can be overwritten.
    pub fn detail(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    /// A result that stays.
    pub fn keep(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => output::complain(format!("demo: {text}")),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

//! Progress of the demo: a live line on a terminal, otherwise one line per step.

use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Progress on stderr.
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Live only on a terminal.
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

    /// Starts a step.
    pub fn step(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => output::complain(format!("demo: {text}")),
        }
    }

    /// Shows progress within the step, only where the line can be overwritten.
    pub fn detail(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    /// Prints a result above the live line.
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

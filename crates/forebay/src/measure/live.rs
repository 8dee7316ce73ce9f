//! What is shown while a measurement runs: a living line on a terminal, nothing elsewhere.

use super::table::rate;
use crate::output::{size, time};
use forebay_bench::run::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// The living line.
pub struct Live {
    bar: Option<ProgressBar>,
}

impl Live {
    /// On a terminal only.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar }
    }

    /// What is being done.
    pub fn step(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    /// Takes it away for good: results follow, and may stand on the same terminal.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Where a run is.
    pub fn show(&self, prefix: &str, progress: &Progress) {
        let Some(bar) = &self.bar else { return };
        let jobs: Vec<String> = progress
            .jobs
            .iter()
            .map(|(name, row, failures)| match row {
                None => format!("{name}: warming up"),
                Some(row) => {
                    let failed = if *failures > 0 { format!(", {failures} FAILED") } else { String::new() };
                    format!(
                        "{name}: {} I/Os, {}, p50 {}, p99 {}, max {}{failed}",
                        rate(row.ios as f64),
                        size(row.bytes),
                        time(row.latency_ns[1]),
                        time(row.latency_ns[2]),
                        time(row.latency_ns[4])
                    )
                }
            })
            .collect();
        let of = progress.total_s.map_or_else(String::new, |total| format!(" of {total:.0}"));
        bar.set_message(format!("{prefix}{:.0}{of} s  {}", progress.elapsed_s, jobs.join("; ")));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.clear();
    }
}

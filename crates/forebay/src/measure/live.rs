//! Progress of a measurement: a live line on a terminal, nothing elsewhere.

use crate::output::{size, time};
use forebay_bench::run::{IntervalRow, Progress, per_second};
use forebay_block::figures::rate;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// The live line.
pub struct Live {
    bar: Option<ProgressBar>,
}

impl Live {
    /// Active only on a terminal.
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

    /// Shows the current step.
    pub fn step(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    /// Removes the line for good, because results follow and may go to the same terminal.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Shows the progress of a run.
    pub fn show(&self, prefix: &str, progress: &Progress) {
        let Some(bar) = &self.bar else { return };
        bar.set_message(format!("{prefix}{}", line(progress)));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Progress of a run: the newest interval of each job, as rates, because the reader does not see the length of the interval.
fn line(progress: &Progress) -> String {
    let of_job = |(name, row, failures): &(String, Option<IntervalRow>, u64)| {
        let Some(row) = row else { return format!("{name}: warming up") };
        let [_, p50, p99, _, max] = row.latency_ns.map(time);
        let (iops, bytes) = (per_second(row.ios, row.length_ns), per_second(row.bytes, row.length_ns));
        let failed = if *failures > 0 { format!(", {failures} FAILED") } else { String::new() };
        format!("{name}: {} IOPS, {}/s, p50 {p50}, p99 {p99}, max {max}{failed}", rate(iops), size(bytes as u64))
    };
    let jobs: Vec<String> = progress.jobs.iter().map(of_job).collect();
    let of = progress.total_s.map_or_else(String::new, |total| format!(" of {total:.0}"));
    format!("{:.0}{of} s  {}", progress.elapsed_s, jobs.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line showed the I/O count of one interval as if it were the total.
    #[test]
    fn regression_the_living_line_shows_rates() {
        let latency_ns = [0, 20_000, 30_000, 0, 40_000];
        let row = IntervalRow {
            length_ns: 250_000_000,
            ios: 5_000,
            bytes: 5_000 << 12,
            latency_ns,
            ..IntervalRow::default()
        };
        let jobs = vec![("a".to_owned(), Some(row), 3), ("b".to_owned(), None, 0)];
        let found = line(&Progress { elapsed_s: 2.0, total_s: Some(10.0), jobs });
        let of_a = "a: 20.0k IOPS, 78.1 MiB/s, p50 20.0 us, p99 30.0 us, max 40.0 us, 3 FAILED";
        assert_eq!(found, format!("2 of 10 s  {of_a}; b: warming up"));
    }
}

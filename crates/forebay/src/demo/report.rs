//! The report at the end of the demo.

use super::line::{Latencies, Line};
use crate::output::{self, Format};
use anyhow::Result;
use forebay_proof::tally::Tally;
use serde_json::{Value, json};
use std::time::Duration;

/// Results of the demo.
pub struct Report<'a> {
    /// The server's status at the end.
    pub status: &'a Value,
    /// The recovery after the power cut.
    pub recovery: &'a Value,
    /// Time from the start of the process until clients could connect.
    pub restart: Duration,
    /// Result of the check after the power cut.
    pub after_cut: Tally,
    /// Result of the check at the end.
    pub at_end: Tally,
    /// Errors that the checks found.
    pub wrong: &'a [String],
    /// Total time.
    pub elapsed: Duration,
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

impl Report<'_> {
    /// Prints the report.
    pub fn print(&self, lines: &mut [Line], format: Format) -> Result<()> {
        match format {
            Format::Json => output::json(self.value(lines)),
            Format::Table => output::text(&self.text(lines)),
        }
    }

    fn sums(&self) -> (u64, u64) {
        let classes = self.status["classes"].as_array().cloned().unwrap_or_default();
        let host = classes.iter().map(|class| number(class, "host_written_bytes")).sum();
        let keys = ["bypassed_bytes", "destaged_bytes", "collected_bytes"];
        let capacity = classes.iter().map(|class| keys.iter().map(|key| number(class, key)).sum::<u64>()).sum();
        (host, capacity)
    }

    fn value(&self, lines: &mut [Line]) -> Value {
        let (host, capacity) = self.sums();
        let checked = |checked: &Tally| {
            json!({
                "flushed_blocks": checked.certain,
                "unflushed_blocks_old": checked.old,
                "unflushed_blocks_new": checked.new + checked.between,
                "wrong_blocks": checked.wrong,
            })
        };
        let mut latency = serde_json::Map::new();
        for line in lines {
            let of = |values: &mut Vec<u64>| {
                json!({
                    "count": values.len(),
                    "p50_ns": Latencies::quantile(values, 0.5),
                    "p99_ns": Latencies::quantile(values, 0.99),
                })
            };
            let Latencies { write, flush, read } = &mut line.latencies;
            let value = json!({ "write": of(write), "flush": of(flush), "read": of(read) });
            latency.insert(line.class.to_owned(), value);
        }
        json!({
            "good": self.wrong.is_empty(),
            "seconds": self.elapsed.as_secs_f64(),
            "restart_seconds": self.restart.as_secs_f64(),
            "recovery": self.recovery,
            "after_power_cut": checked(&self.after_cut),
            "at_end": checked(&self.at_end),
            "wrong": self.wrong,
            "host_written_bytes": host,
            "capacity_written_bytes": capacity,
            "classes": self.status["classes"],
            "tiers": self.status["tiers"],
            "latency": latency,
        })
    }

    fn text(&self, lines: &mut [Line]) -> String {
        let (host, capacity) = self.sums();
        let after = &self.after_cut;
        let mut text = format!(
            "Power cut: {} checked, {} wrong. Of {} with unflushed writes {} kept the flushed state and {} a \
             whole newer one.\nRecovery: {:.2} s from start to ready, {} read, {} dropped that were never durable.\n",
            output::count(after.certain, "flushed block"),
            after.wrong,
            output::count(after.old + after.new + after.between, "block"),
            after.old,
            after.new + after.between,
            self.restart.as_secs_f64(),
            output::size(number(self.recovery, "read_bytes")),
            output::count(number(self.recovery, "dropped_blocks"), "block"),
        );
        for complaint in self.wrong {
            text.push_str(&format!("WRONG: {complaint}\n"));
        }
        text.push_str(&format!(
            "At the end: {} checked, {} wrong.\n\n",
            output::count(self.at_end.blocks(), "block"),
            self.at_end.wrong
        ));
        text.push_str(&crate::status::classes_table(&self.status["classes"]));
        let rows: Vec<Vec<String>> = lines.iter_mut().map(latency_row).collect();
        let head = ["LATENCY", "WRITE p50", "p99", "FLUSH p50", "p99", "READ p50", "p99"];
        text.push_str(&format!("\n\n{}", output::table(&head, 1, &rows)));
        let saved = 100.0 - capacity as f64 * 100.0 / (host.max(1) as f64);
        text.push_str(&format!(
            "\n\nHosts wrote {}, the capacity tier was spared {saved:.0} % of that: {} went there, garbage collection included.\n\
             alpha: share of a class's writes that never reached the capacity tier. beta: its writes over the space it takes.\n\
             Done in {:.0} s.",
            output::size(host),
            output::size(capacity),
            self.elapsed.as_secs_f64()
        ));
        text
    }
}

fn latency_row(line: &mut Line) -> Vec<String> {
    let mut row = vec![line.class.to_owned()];
    let Latencies { write, flush, read } = &mut line.latencies;
    for values in [write, flush, read] {
        for quantile in [0.5, 0.99] {
            row.push(Latencies::quantile(values, quantile).map_or_else(|| "-".to_owned(), output::time));
        }
    }
    row
}

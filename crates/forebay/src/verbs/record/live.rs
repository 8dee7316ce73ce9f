//! `forebay record --live`: what is going on, a second at a time.

use crate::output::{self, Format};
use anyhow::Result;
use forebay_trace::capture::{Matched, Target, Totals, process_name};
use serde_json::json;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(1);
/// Processes shown.
const PROCESSES_SHOWN: usize = 8;
/// Most processes told apart in a second; the rest are one.
const PROCESSES_MAX: usize = 4096;

#[derive(Clone, Copy, Default)]
struct Sums {
    requests: u64,
    bytes: u64,
    depths: u64,
}

/// What the last second brought.
pub struct View {
    names: Vec<String>,
    is_line: bool,
    format: Format,
    begun: Instant,
    volumes: Vec<Totals>,
    processes: HashMap<[u8; 16], Sums>,
}

impl View {
    /// A view of these devices.
    pub fn new(targets: &[Target], is_line: bool, format: Format) -> Self {
        Self {
            names: targets.iter().map(|target| target.name.clone()).collect(),
            is_line,
            format,
            begun: Instant::now(),
            volumes: vec![Totals::default(); targets.len()],
            processes: HashMap::new(),
        }
    }

    /// Adds a request.
    pub fn add(&mut self, matched: &Matched) {
        let request = &matched.captured.request;
        if let Some(totals) = self.volumes.get_mut(request.volume as usize) {
            totals.add(request);
        }
        let known = self.processes.len() < PROCESSES_MAX || self.processes.contains_key(&matched.comm);
        let sums = self.processes.entry(if known { matched.comm } else { *b"(others)\0\0\0\0\0\0\0\0" }).or_default();
        sums.requests += 1;
        sums.bytes += request.len_bytes;
        sums.depths += u64::from(request.depth);
    }

    /// Shows the last second where it is over.
    ///
    /// # Errors
    /// Where nothing can be written.
    pub fn show(&mut self, dropped: u64) -> Result<()> {
        let elapsed = self.begun.elapsed();
        if elapsed < EVERY {
            return Ok(());
        }
        let seconds = elapsed.as_secs_f64();
        match (self.format, self.is_line) {
            (Format::Json, _) => self.json(seconds, dropped)?,
            (Format::Table, true) => self.line(seconds, dropped)?,
            (Format::Table, false) => self.table(seconds, dropped)?,
        }
        self.begun = Instant::now();
        self.volumes.fill(Totals::default());
        self.processes.clear();
        Ok(())
    }

    fn line(&self, seconds: f64, dropped: u64) -> Result<()> {
        for (name, totals) in self.names.iter().zip(&self.volumes) {
            let ops: Vec<String> = totals
                .ops()
                .map(|(op, sums)| {
                    let rate = sums.requests as f64 / seconds;
                    let p99 = output::time(sums.latency_ns.value_at_percentile(99.0));
                    format!(
                        "{} {rate:.0}/s {}/s p99 {p99}",
                        op.name(),
                        output::size((sums.bytes as f64 / seconds) as u64)
                    )
                })
                .collect();
            let ops = if ops.is_empty() { "idle".to_owned() } else { ops.join("; ") };
            output::line(&format!("{name}: {ops}; depth {:.1}; dropped {dropped}", totals.mean_depth()))?;
        }
        Ok(())
    }

    fn table(&self, seconds: f64, dropped: u64) -> Result<()> {
        if std::io::stdout().is_terminal() {
            // ECMA-48: erase the display, cursor to the first line.
            output::line("\x1b[2J\x1b[H")?;
        }
        let mut rows = Vec::new();
        for (name, totals) in self.names.iter().zip(&self.volumes) {
            for (op, sums) in totals.ops() {
                let time = |percentile| output::time(sums.latency_ns.value_at_percentile(percentile));
                rows.push(vec![
                    name.clone(),
                    op.name().to_owned(),
                    format!("{:.0}", sums.requests as f64 / seconds),
                    output::size((sums.bytes as f64 / seconds) as u64),
                    output::size(sums.bytes / sums.requests.max(1)),
                    format!("{:.1}", totals.mean_depth()),
                    time(50.0),
                    time(99.0),
                    output::time(sums.latency_ns.max()),
                ]);
            }
        }
        let head = ["device", "operation", "requests/s", "bytes/s", "mean", "depth", "p50", "p99", "longest"];
        output::line(&output::table(&head, 2, &rows))?;
        let mut processes: Vec<_> = self.processes.iter().collect();
        processes.sort_by(|(a, x), (b, y)| y.bytes.cmp(&x.bytes).then_with(|| a.cmp(b)));
        let rows: Vec<Vec<String>> = processes
            .iter()
            .take(PROCESSES_SHOWN)
            .map(|(comm, sums)| {
                vec![
                    process_name(comm),
                    format!("{:.0}", sums.requests as f64 / seconds),
                    output::size((sums.bytes as f64 / seconds) as u64),
                    format!("{:.1}", sums.depths as f64 / sums.requests.max(1) as f64),
                ]
            })
            .collect();
        output::line("")?;
        output::line(&output::table(&["process", "requests/s", "bytes/s", "depth"], 1, &rows))?;
        output::line(&format!("\ndropped: {dropped}"))
    }

    fn json(&self, seconds: f64, dropped: u64) -> Result<()> {
        let volumes = self.names.iter().zip(&self.volumes).map(|(name, totals)| {
            json!({
                "name": name,
                "mean_depth": totals.mean_depth(),
                "operations": totals.ops().map(|(op, sums)| json!({
                    "op": op.name(), "requests": sums.requests, "bytes": sums.bytes,
                    "latency_p50_ns": sums.latency_ns.value_at_percentile(50.0),
                    "latency_p99_ns": sums.latency_ns.value_at_percentile(99.0),
                    "latency_max_ns": sums.latency_ns.max(),
                })).collect::<Vec<_>>(),
            })
        });
        let view =
            json!({ "live": true, "seconds": seconds, "dropped": dropped, "volumes": volumes.collect::<Vec<_>>() });
        output::line(&view.to_string())
    }
}

//! `forebay record --live`: the activity of each second.

use crate::output::{self, Format};
use anyhow::Result;
use forebay_prism::Rule;
use forebay_trace::analysis::Classes;
use forebay_trace::capture::{Matched, Target, Totals, process_name};
use forebay_trace::{Knows, Names, Op, Request};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(1);
/// Maximum number of processes shown.
const PROCESSES_SHOWN: usize = 8;
/// Maximum number of classes shown.
const CLASSES_SHOWN: usize = 12;
/// Maximum number of classes distinguished per second; further requests count as without a class.
const CLASSES_MAX: usize = 64;
/// Number of classes in a line.
const CLASSES_IN_LINE: usize = 3;
/// Name for requests without a class: flushes, discards, reads of data written before.
const NO_CLASS: &str = "(no class)";
/// Maximum number of processes distinguished per second; further ones are summed up.
const PROCESSES_MAX: usize = 4096;

#[derive(Clone, Copy, Default)]
struct Sums {
    requests: u64,
    bytes: u64,
    depths: u64,
}

impl Sums {
    fn add(&mut self, request: &Request) {
        self.requests += 1;
        self.bytes += request.len_bytes;
        self.depths += u64::from(request.depth);
    }

    fn mean_depth(self) -> f64 {
        self.depths as f64 / self.requests.max(1) as f64
    }
}

/// Requests of a class.
struct Class<'a> {
    name: &'a str,
    written_bytes: u64,
    read_bytes: u64,
    totals: &'a Totals,
}

impl Class<'_> {
    fn p99_ns(&self, op: Op) -> Option<u64> {
        let of = self.totals.op(op)?;
        (!of.latency_ns.is_empty()).then(|| of.latency_ns.value_at_percentile(99.0))
    }
}

/// Activity of the last second.
pub struct View {
    names: Vec<String>,
    is_line: bool,
    format: Format,
    begun: Instant,
    volumes: Vec<Totals>,
    processes: HashMap<[u8; 16], Sums>,
    classify: Classes,
    classes: HashMap<Option<u16>, Totals>,
    tables: Names,
    knows: Knows,
}

impl View {
    /// A view of these devices. `has_hints`: whether their requests carry hints.
    pub fn new(targets: &[Target], rules: &[(String, Rule)], has_hints: bool, is_line: bool, format: Format) -> Self {
        let mut tables = Names::default();
        for target in targets {
            tables.volumes.number(&target.name);
        }
        Self {
            names: targets.iter().map(|target| target.name.clone()).collect(),
            is_line,
            format,
            begun: Instant::now(),
            volumes: vec![Totals::default(); targets.len()],
            processes: HashMap::new(),
            classify: Classes::new(rules),
            classes: HashMap::new(),
            tables,
            // The capture finds the names of files later, too late for this view.
            knows: Knows {
                op: true,
                time: true,
                latency: true,
                depth: true,
                flags: true,
                lifetime: has_hints,
                process: true,
                file: false,
            },
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
        sums.add(request);
        let volume = self.names.get(request.volume as usize).map_or(0, |name| self.tables.volumes.number(name));
        let process = self.tables.processes.number(&process_name(&matched.comm));
        let named = Request { volume, process, ..*request };
        let class = self.classify.class(&named, &self.tables, self.knows);
        let is_known = self.classes.len() < CLASSES_MAX || self.classes.contains_key(&class);
        self.classes.entry(class.filter(|_| is_known)).or_default().add(request);
    }

    /// Classes in order of bytes.
    fn classes(&self) -> Vec<Class<'_>> {
        let mut all: Vec<Class<'_>> = self
            .classes
            .iter()
            .map(|(class, totals)| Class {
                name: class.map_or(NO_CLASS, |class| self.classify.name(class)),
                written_bytes: totals.sum(&[Op::Write, Op::WriteZeroes]).1,
                read_bytes: totals.sum(&[Op::Read]).1,
                totals,
            })
            .collect();
        all.sort_by_key(|class| (std::cmp::Reverse(class.written_bytes + class.read_bytes), class.name));
        all
    }

    /// Shows the last second once it is over.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn show(&mut self, dropped: u64) -> Result<()> {
        let elapsed = self.begun.elapsed();
        if elapsed < EVERY {
            return Ok(());
        }
        let seconds = elapsed.as_secs_f64();
        match (self.format, self.is_line) {
            (Format::Json, _) => output::json_line(self.object(seconds, dropped))?,
            (Format::Table, true) => self.line(seconds, dropped)?,
            (Format::Table, false) => self.table(seconds, dropped)?,
        }
        self.begun = Instant::now();
        self.volumes.fill(Totals::default());
        self.processes.clear();
        self.classes.clear();
        Ok(())
    }

    fn line(&self, seconds: f64, dropped: u64) -> Result<()> {
        let mut lines = Vec::new();
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
            lines.push(format!("{name}: {ops}; depth {:.1}", totals.mean_depth()));
        }
        let classes = self.classes();
        let written: u64 = classes.iter().map(|class| class.written_bytes).sum();
        let shares: Vec<String> = classes
            .iter()
            .filter(|class| class.written_bytes > 0)
            .take(CLASSES_IN_LINE)
            .map(|class| format!("{} {:.0} %", class.name, class.written_bytes as f64 * 100.0 / written as f64))
            .collect();
        if !shares.is_empty() {
            lines.push(format!("written: {}", shares.join(", ")));
        }
        output::line(&format!("{}; dropped {dropped}", lines.join("; ")))
    }

    fn table(&self, seconds: f64, dropped: u64) -> Result<()> {
        if std::io::stdout().is_terminal() {
            output::clear()?;
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
        output::text(&output::table(&head, 2, &rows))?;
        let rate = |bytes: u64| output::size((bytes as f64 / seconds) as u64);
        let p99 = |class: &Class<'_>, op| class.p99_ns(op).map_or_else(|| "-".to_owned(), output::time);
        let classes = self.classes();
        let written: u64 = classes.iter().map(|class| class.written_bytes).sum();
        let rows: Vec<Vec<String>> = classes
            .iter()
            .take(CLASSES_SHOWN)
            .map(|class| {
                vec![
                    class.name.to_owned(),
                    format!("{:.0}", class.totals.requests() as f64 / seconds),
                    rate(class.written_bytes),
                    format!("{:.1} %", class.written_bytes as f64 * 100.0 / written.max(1) as f64),
                    rate(class.read_bytes),
                    format!("{:.1}", class.totals.mean_depth()),
                    p99(class, Op::Read),
                    p99(class, Op::Write),
                ]
            })
            .collect();
        output::text("")?;
        let head = ["class", "requests/s", "written/s", "alpha", "read/s", "depth", "read p99", "write p99"];
        output::text(&output::table(&head, 1, &rows))?;
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
                    format!("{:.1}", sums.mean_depth()),
                ]
            })
            .collect();
        output::text("")?;
        output::text(&output::table(&["process", "requests/s", "bytes/s", "depth"], 1, &rows))?;
        output::text(&format!("\ndropped: {dropped}"))
    }

    fn object(&self, seconds: f64, dropped: u64) -> Value {
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
        let classes = self.classes().into_iter().map(|class| {
            json!({
                "name": class.name,
                "requests": class.totals.requests(),
                "written_bytes": class.written_bytes,
                "read_bytes": class.read_bytes,
                "mean_depth": class.totals.mean_depth(),
                "read_p99_ns": class.p99_ns(Op::Read),
                "write_p99_ns": class.p99_ns(Op::Write),
            })
        });
        let classes: Vec<Value> = classes.collect();
        json!({
            "live": true, "seconds": seconds, "dropped": dropped, "volumes": volumes.collect::<Vec<_>>(), "classes": classes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the last object had a schema version, and it spanned many lines.
    #[test]
    fn regression_each_second_in_json_is_one_line_with_its_version() {
        let view = View::new(&[], &[], true, false, Format::Json);
        let text = output::one_line(view.object(1.0, 3));
        let found: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((text.lines().count(), &found["schema_version"], &found["dropped"]), (1, &1.into(), &3.into()));
    }
}

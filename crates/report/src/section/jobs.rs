//! Jobs: parameters, results, percentiles and intervals.

use super::frame::{Section, framed};
use super::over_time::{self, Rows, Steady};
use super::percentiles::{self, Named};
use crate::fields::{at, list, number, text, texts};
use crate::picture::Picture;
use crate::results::Found;
use crate::table::{Cell, Column, Table, Tone};
use crate::unit::Unit;
use serde_json::Value;

/// Jobs that have pictures of their own; the table has all.
const JOBS_MAX: usize = 24;

const LATENCIES: [(&str, &str); 5] = [
    ("latency_ns/p50", "p50"),
    ("latency_ns/mean", "mean"),
    ("latency_ns/p99", "p99"),
    ("latency_ns/p99.9", "p99.9"),
    ("latency_ns/max", "max"),
];

pub(super) fn of(found: &Found) -> Section {
    let value = &found.value;
    let target = text(value, "target").unwrap_or("an unnamed target");
    let is_replay = at(value, "replay").is_some();
    let all: Vec<&Value> = list(value, "jobs").iter().chain(list(value, "together")).collect();
    let jobs = all.as_slice();
    let what = if is_replay { "Replay on" } else { "Run on" };
    let mut section = framed(found, format!("{what} {target}"));
    let not_started: Vec<&str> = texts(value, "not_started").collect();
    if !not_started.is_empty() {
        section.warnings.push(format!("Never started, since the run was ended: {}", not_started.join(", ")));
    }
    for host in list(value, "hosts") {
        if let Some(why) = text(host, "failure") {
            section.warnings.push(format!("LOST: host {}: {why}", text(host, "name").unwrap_or("-")));
        }
    }
    for job in jobs {
        warn(&mut section, job);
    }
    if let [job] = jobs {
        facts(&mut section, job);
    }
    for job in jobs.iter().take(JOBS_MAX) {
        let name = if jobs.len() == 1 { String::new() } else { format!("{}: ", name(job)) };
        section.pictures.extend(pictures(job, &name));
    }
    if jobs.len() > JOBS_MAX {
        section.notes.push(format!("Of {} jobs the first {JOBS_MAX} have pictures", jobs.len()));
    }
    section.pictures.push(kinds(jobs));
    section.pictures.push(asked(jobs));
    section.pictures.extend(bursts(jobs));
    section.pictures.extend(host_cost(jobs));
    section.pictures.extend(block_layer(jobs));
    section.pictures.extend(idle_states(jobs));
    section.pictures.extend(hosts(value));
    section
}

/// Name of a job, with its target where the run had several.
pub(super) fn name(job: &Value) -> String {
    let name = text(job, "name").unwrap_or("a job without a name");
    text(job, "target/name").map_or_else(|| name.to_owned(), |target| format!("{name} on {target}"))
}

fn warn(section: &mut Section, job: &Value) {
    let name = name(job);
    if let Some(partial) = text(job, "partial") {
        section.warnings.push(format!("{name}: PARTIAL: {partial}"));
    }
    if let Some(criterion) = text(job, "steady_state/criterion") {
        let value = number(job, "steady_state/value")
            .map_or_else(|| "nothing to judge".to_owned(), |value| format!("{value:.3}"));
        let unit = text(job, "steady_state/unit").unwrap_or("").replace('_', " ");
        let figure = |path: &str| number(job, path).unwrap_or(f64::NAN);
        match number(job, "steady_state/attained_s") {
            Some(end_s) => section.notes.push(format!(
                "{name}: steady by {criterion} from {} s to {end_s} s ({value} {unit}), where it made {:.0} I/Os a second; all other figures are of \
                 the whole run",
                figure("steady_state/window/begin_s"),
                figure("steady_state/window/iops"),
            )),
            None => section.warnings.push(format!("{name}: NOT STEADY by {criterion}; in the last window {value} {unit}")),
        }
    }
    let failed = number(job, "failures/count").unwrap_or(0.0) + number(job, "failures/hung").unwrap_or(0.0);
    if failed > 0.0 {
        section
            .warnings
            .push(format!("{name}: {} failed or never came back", forebay_block::figures::count(failed as u64, "I/O")));
    }
    if let Some(verdict) = text(job, "littles_law/verdict").filter(|verdict| verdict.starts_with("broken")) {
        section.warnings.push(format!("{name}: Little's law is {verdict}"));
    }
    if let Some(verdict) = text(job, "open_loop/verdict").filter(|verdict| verdict.starts_with("broken")) {
        section.warnings.push(format!("{name}: arrivals: {verdict}"));
    }
    section.notes.extend(texts(job, "target/notes").map(|note| format!("{name}: {note}")));
    if list(job, "kinds").iter().any(|kind| at(kind, "clustering_judged").and_then(Value::as_bool) == Some(false)) {
        section.notes.push(format!(
            "{name}: the run is too short to see whether slow I/Os cluster; intervals take them as independent"
        ));
    }
}

fn facts(section: &mut Section, job: &Value) {
    let mut fact = |name: &str, cell: Cell| section.facts.push((name.to_owned(), cell));
    fact("IOPS", Cell::at(job, "iops", Unit::Rate));
    fact("Its interval", Cell::interval(at(job, "iops_interval/low"), at(job, "iops_interval/high"), Unit::Rate));
    fact("Throughput", Cell::at(job, "bytes_per_second", Unit::BytesPerSecond));
    fact("Mean latency", Cell::at(job, "total_latency_mean_ns", Unit::Ns));
    fact("I/Os", Cell::at(job, "ios", Unit::Count));
    fact("Measured for", Cell::at(job, "duration_s", Unit::Seconds));
}

fn pictures(job: &Value, prefix: &str) -> Vec<Picture> {
    let kinds = list(job, "kinds")
        .iter()
        .filter(|kind| number(kind, "latency_ns/total/samples").is_some_and(|samples| samples > 0.0));
    let named: Vec<Named<'_>> = kinds
        .enumerate()
        .filter_map(|(look, kind)| {
            Some(Named {
                name: text(kind, "kind").unwrap_or("I/Os").to_owned(),
                latency: at(kind, "latency_ns/total")?,
                look,
            })
        })
        .collect();
    let confidence = named.first().and_then(|named| number(named.latency, "confidence_percent"));
    let rows = Rows {
        rows: list(job, "intervals"),
        begin_s: |row| number(row, "begin_s"),
        length_s: |row| number(row, "length_s"),
        latencies: &LATENCIES,
    };
    let end = rows.rows.last().and_then(|row| Some(number(row, "begin_s")? + number(row, "length_s")?));
    let steady = number(job, "steady_from_s").zip(end).map(|(from_s, to_s)| Steady { from_s, to_s });
    let mut pictures: Vec<Picture> = Vec::new();
    pictures.extend(percentiles::picture(format!("{prefix}Latency by percentile"), &named, confidence));
    pictures.extend(over_time::latency(format!("{prefix}Latency over time"), &rows, steady.as_ref()));
    pictures.extend(over_time::rate(format!("{prefix}I/Os a second over time"), &rows, steady.as_ref()));
    pictures
}

/// One row for every kind of I/O of every job.
fn kinds(jobs: &[&Value]) -> Picture {
    let head = vec![
        Column::text("job"),
        Column::text("kind"),
        Column::number("I/Os", Unit::Count),
        Column::number("failed", Unit::Count),
        Column::number("IOPS", Unit::Rate),
        Column::interval("interval", Unit::Rate),
        Column::number("throughput", Unit::BytesPerSecond),
        Column::number("mean", Unit::Ns),
        Column::interval("interval", Unit::Ns),
        Column::number("max", Unit::Ns),
        Column::number("in flight", Unit::Plain),
        Column::text("Little's law"),
    ];
    let mut table = Table::new("What was measured", head);
    for job in jobs {
        for kind in list(job, "kinds") {
            let law = text(job, "littles_law/verdict").unwrap_or("-");
            let failed = Cell::at(kind, "errors", Unit::Count);
            table.rows.push(vec![
                Cell::text(name(job)),
                Cell::at(kind, "kind", Unit::Plain),
                Cell::at(kind, "ios", Unit::Count),
                if number(kind, "errors").is_some_and(|errors| errors > 0.0) {
                    failed.with_tone(Tone::Bad)
                } else {
                    failed
                },
                Cell::at(kind, "iops", Unit::Rate),
                Cell::interval(at(kind, "iops_interval/low"), at(kind, "iops_interval/high"), Unit::Rate),
                Cell::at(kind, "bytes_per_second", Unit::BytesPerSecond),
                Cell::at(kind, "latency_ns/total/mean", Unit::Ns),
                Cell::interval(at(kind, "mean_interval_ns/low"), at(kind, "mean_interval_ns/high"), Unit::Ns),
                Cell::at(kind, "latency_ns/total/max", Unit::Ns),
                Cell::at(job, "depth/mean", Unit::Plain),
                Cell::toned(law, if law.starts_with("broken") { Tone::Bad } else { Tone::Plain }),
            ]);
        }
    }
    Picture::table("What was measured", table)
}

/// Parameters of the jobs, so that the page can be read without the job file.
fn asked(jobs: &[&Value]) -> Picture {
    let is_one = jobs.len() == 1;
    let job = (!is_one).then(|| Column::text("job"));
    let head = job.into_iter().chain([Column::text("setting"), Column::text("value")]).collect();
    let mut table = Table::new("What was asked for", head);
    for job in jobs {
        let settings = at(job, "job").and_then(Value::as_object).into_iter().flatten();
        for (key, value) in settings.filter(|(_, value)| !value.is_null()) {
            let shown = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let job = (!is_one).then(|| Cell::text(name(job)));
            table.rows.push(job.into_iter().chain([Cell::text(key.replace('_', " ")), Cell::text(shown)]).collect());
        }
    }
    Picture::table("What was asked for", table)
}

fn bursts(jobs: &[&Value]) -> Option<Picture> {
    let head = vec![
        Column::text("job"),
        Column::number("windows of (ms)", Unit::Plain),
        Column::number("greatest IOPS", Unit::Rate),
        Column::number("least IOPS", Unit::Rate),
        Column::number("greatest throughput", Unit::BytesPerSecond),
        Column::number("least throughput", Unit::BytesPerSecond),
    ];
    let mut table = Table::new("Greatest and least rates in windows of time", head);
    for job in jobs {
        table.rows.extend(list(job, "bursts").iter().map(|row| {
            vec![
                Cell::text(name(job)),
                Cell::at(row, "window_ms", Unit::Plain),
                Cell::at(row, "iops_max", Unit::Rate),
                Cell::at(row, "iops_min", Unit::Rate),
                Cell::at(row, "bytes_per_second_max", Unit::BytesPerSecond),
                Cell::at(row, "bytes_per_second_min", Unit::BytesPerSecond),
            ]
        }));
    }
    (!table.rows.is_empty()).then(|| Picture::table("Bursts", table))
}

/// Host cost of jobs besides processor time.
fn host_cost(jobs: &[&Value]) -> Option<Picture> {
    let head = vec![
        Column::text("job"),
        Column::number("voluntary switches an I/O", Unit::Plain),
        Column::number("involuntary switches an I/O", Unit::Plain),
        Column::number("migrations", Unit::Count),
        Column::number("interrupts an I/O", Unit::Plain),
        Column::number("of the target's queues", Unit::Plain),
    ];
    let mut table = Table::new("Threads of the job; interrupts of the whole machine meanwhile", head);
    let is_known = |job: &&&Value| at(job, "host/voluntary_switches/count").is_some();
    table.rows.extend(jobs.iter().filter(is_known).map(|job| {
        let figures = [
            ("host/voluntary_switches/per_io", Unit::Plain),
            ("host/involuntary_switches/per_io", Unit::Plain),
            ("host/migrations/count", Unit::Count),
            ("host/machine/interrupts/per_io", Unit::Plain),
            ("host/machine/interrupts_of_target/per_io", Unit::Plain),
        ];
        [Cell::text(name(job))].into_iter().chain(figures.map(|(path, unit)| Cell::at(job, path, unit))).collect()
    }));
    (!table.rows.is_empty()).then(|| Picture::table("What it cost the host", table))
}

/// Time of requests in the block layer, at the device, and elsewhere.
fn block_layer(jobs: &[&Value]) -> Option<Picture> {
    let head = vec![
        Column::text("job"),
        Column::number("requests", Unit::Count),
        Column::number("queued, mean", Unit::Ns),
        Column::number("at the device, mean", Unit::Ns),
        Column::number("least", Unit::Ns),
        Column::number("greatest", Unit::Ns),
        Column::number("the rest, mean", Unit::Ns),
        Column::number("the probes, a request", Unit::Ns),
    ];
    let mut table = Table::new("Requests of the process at the block layer", head);
    for job in jobs {
        let Some(block) = at(job, "host/machine/block_layer") else { continue };
        let figures = [
            ("requests", Unit::Count),
            ("queued_ns/mean", Unit::Ns),
            ("device_ns/mean", Unit::Ns),
            ("device_ns/min", Unit::Ns),
            ("device_ns/max", Unit::Ns),
            ("rest_mean_ns", Unit::Ns),
            ("probes_ns_per_request", Unit::Ns),
        ];
        let cells = figures.map(|(path, unit)| Cell::at(block, path, unit));
        table.rows.push([Cell::text(name(job))].into_iter().chain(cells).collect());
    }
    (!table.rows.is_empty()).then(|| Picture::table("Block layer", table))
}

/// Idle states of the processors while jobs were measured.
fn idle_states(jobs: &[&Value]) -> Option<Picture> {
    let head = vec![
        Column::text("job"),
        Column::text("state"),
        Column::number("share of the time of all processors", Unit::Share),
        Column::number("entered an I/O", Unit::Plain),
    ];
    let mut table = Table::new("Idle states of the whole machine while the job was measured", head);
    for job in jobs {
        table.rows.extend(list(job, "host/machine/idle").iter().map(|state| {
            vec![
                Cell::text(name(job)),
                Cell::at(state, "state", Unit::Plain),
                Cell::at(state, "share", Unit::Share),
                Cell::at(state, "entered_per_io", Unit::Plain),
            ]
        }));
    }
    (!table.rows.is_empty()).then(|| Picture::table("Idle states", table))
}

/// Hosts of a distributed run, and the offsets of their clocks.
fn hosts(value: &Value) -> Option<Picture> {
    let head = vec![
        Column::text("host"),
        Column::text("calls itself"),
        Column::text("target"),
        Column::number("clock ahead", Unit::Seconds),
        Column::number("to within", Unit::Seconds),
        Column::number("round trips", Unit::Count),
        Column::number("drift (ppm)", Unit::Plain),
        Column::number("to within (ppm)", Unit::Plain),
    ];
    let mut table = Table::new("Hosts and their clocks, beside the coordinator's", head);
    table.rows.extend(list(value, "hosts").iter().map(|host| {
        let words = ["name", "node", "target"].map(|path| Cell::at(host, path, Unit::Plain));
        let figures = [
            ("clock/ahead_s", Unit::Seconds),
            ("clock/bound_s", Unit::Seconds),
            ("clock/round_trips", Unit::Count),
            ("clock/drift_ppm", Unit::Plain),
            ("clock/drift_bound_ppm", Unit::Plain),
        ];
        words.into_iter().chain(figures.map(|(path, unit)| Cell::at(host, path, unit))).collect()
    }));
    (!table.rows.is_empty()).then(|| Picture::table("Hosts", table))
}

//! Results without pictures of their own, as tables.

use super::frame::{Section, framed};
use super::over_time::{self, Rows};
use crate::fields::{at, list, number, text};
use crate::picture::Picture;
use crate::results::Found;
use crate::table::{Cell, Column, ROWS_MAX, Table};
use crate::unit::Unit;
use serde_json::{Map, Value};

/// Maximum number of columns of a table that is derived from the fields of its rows.
const COLUMNS_MAX: usize = 30;
/// Depth to which nested fields become columns, and lists within objects tables.
const DEPTH_MAX: usize = 4;
const TABLES_MAX: usize = 40;

/// An experiment without a file of its own here.
pub(super) fn of_experiment(found: &Found) -> Section {
    let value = &found.value;
    let (name, target) =
        (text(value, "experiment").unwrap_or("-"), text(value, "target").unwrap_or("an unnamed target"));
    let mut section = framed(found, format!("{name} on {target}"));
    let results = found.experiment();
    section.pictures.extend(intervals(results));
    let mut tables = Vec::new();
    collect("", results, 0, &mut tables);
    section
        .pictures
        .extend(tables.into_iter().take(TABLES_MAX).map(|table| Picture::table(table.caption.clone(), table)));
    section
}

/// Status of a served pool.
pub(super) fn of_status(found: &Found) -> Section {
    let value = &found.value;
    let pool = text(value, "pool/name").unwrap_or("a pool");
    let mut section = Section { title: format!("State of {pool}"), ..Section::default() };
    section.about.push("Counted since the server's start.".to_owned());
    if crate::fields::is_set(value, "pool/read_only") {
        section.warnings.push(format!("Read-only: {}", text(value, "pool/read_only_reason").unwrap_or("-")));
    }
    section.facts.extend([
        ("Served for".to_owned(), Cell::at(value, "uptime_seconds", Unit::Seconds)),
        ("In use".to_owned(), Cell::at(value, "pool/fill", Unit::Share)),
    ]);
    let classes = list(value, "classes");
    section.pictures.extend(super::class_bars::bars(
        classes,
        "alpha",
        ("Alpha of classes", "share of the writes that never reached the capacity tier"),
        Unit::Share,
        crate::svg::Form::FromZero,
    ));
    for (path, title) in [
        ("tiers", "Tiers"),
        ("classes", "Classes"),
        ("latency_by_kind", "Latency since the start"),
        ("disks", "Disks"),
        ("devices", "Devices"),
        ("exports", "Exports"),
        ("wear", "Wear"),
    ] {
        section.pictures.extend(of_rows(title, list(value, path)).map(|table| Picture::table(title, table)));
    }
    section
}

/// Intervals of the quality-of-service experiment, and parts of a run that fills a drive.
fn intervals(results: &Value) -> Vec<Picture> {
    let latencies =
        [("p50_ns", "p50"), ("mean_ns", "mean"), ("p99_ns", "p99"), ("p99.9_ns", "p99.9"), ("max_ns", "max")];
    let mut pictures = Vec::new();
    for path in ["intervals", "parts"] {
        let rows = Rows {
            rows: list(results, path),
            begin_s: |row| number(row, "begin_ns").map(|ns| ns / 1e9),
            length_s: |row| number(row, "length_ns").map(|ns| ns / 1e9),
            latencies: &latencies,
        };
        pictures.extend(over_time::latency("Latency over time", &rows, None));
        pictures.extend(over_time::rate("I/Os a second over time", &rows, None));
    }
    pictures
}

/// Tables of all lists of objects in a value, and of its plain fields.
fn collect(name: &str, value: &Value, depth: usize, into: &mut Vec<Table>) {
    let Some(fields) = value.as_object().filter(|_| depth < DEPTH_MAX && into.len() < TABLES_MAX) else { return };
    let plain: Vec<(&String, &Value)> = fields.iter().filter(|(_, value)| is_plain(value)).collect();
    if !plain.is_empty() {
        let title = if name.is_empty() { "Figures".to_owned() } else { words(name) };
        let mut table = Table::new(title, vec![Column::text("figure"), Column::text("value")]);
        let row = |(key, value): &(&String, &Value)| vec![Cell::text(heading(key)), Cell::of(Some(value), unit(key))];
        table.rows.extend(plain.iter().map(row));
        into.push(table);
    }
    for (key, value) in fields {
        let name = if name.is_empty() { key.clone() } else { format!("{name}, {key}") };
        match value {
            // Percentiles and intervals have pictures, or are in other tables.
            Value::Array(rows) if !rows.is_empty() && rows.iter().all(is_plain) => {
                into.extend(of_rows(&words(&name), &with_outer(&Value::Object(fields_of(key, value)), key)));
            }
            Value::Array(rows) if key != "intervals" => collect_rows(&name, rows, depth, into),
            Value::Object(_) => collect(&name, value, depth + 1, into),
            _ => {}
        }
    }
}

fn fields_of(key: &str, value: &Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value.clone())])
}

/// The table of a list, and one for each list within its rows, whose rows begin with what the outer row says of itself.
fn collect_rows(name: &str, rows: &[Value], depth: usize, into: &mut Vec<Table>) {
    if depth >= DEPTH_MAX || into.len() >= TABLES_MAX {
        return;
    }
    into.extend(of_rows(&words(name), rows));
    let mut lists = Vec::new();
    rows.iter().for_each(|row| lists_within("", row, &mut lists));
    for path in lists {
        let inner: Vec<Value> = rows.iter().flat_map(|row| with_outer(row, &path)).take(ROWS_MAX).collect();
        collect_rows(&format!("{name}, {path}"), &inner, depth + 1, into);
    }
}

/// Paths of the lists in a row; percentiles and counts of latencies have tables and pictures of their own.
fn lists_within(before: &str, row: &Value, into: &mut Vec<String>) {
    for (key, value) in row.as_object().into_iter().flatten().filter(|(key, _)| !key.contains('/')) {
        let path = if before.is_empty() { key.clone() } else { format!("{before}/{key}") };
        match value {
            Value::Array(rows) if !rows.is_empty() && key != "buckets" && !into.contains(&path) => into.push(path),
            Value::Object(_) if before.matches('/').count() < DEPTH_MAX => lists_within(&path, value, into),
            _ => {}
        }
    }
}

/// Rows of the list at a path of a row, each with the plain fields of that row before its own. A list of numbers gives rows with their place in it.
fn with_outer(row: &Value, path: &str) -> Vec<Value> {
    let plain = |(key, value): (&String, &Value)| is_plain(value).then(|| (key.clone(), value.clone()));
    let outer: Map<String, Value> = row.as_object().into_iter().flatten().filter_map(plain).collect();
    let key = path.rsplit('/').next().unwrap_or(path);
    let one = |(number, value): (u64, &Value)| {
        let mut fields = outer.clone();
        match value {
            Value::Object(own) => fields.extend(own.iter().map(|(key, value)| (key.clone(), value.clone()))),
            value => fields.extend([("number".to_owned(), number.into()), (key.to_owned(), value.clone())]),
        }
        Value::Object(fields)
    };
    (1..).zip(list(row, path)).map(one).collect()
}

/// A table of objects with a column for each number and text that any object has.
pub(super) fn of_rows(title: &str, rows: &[Value]) -> Option<Table> {
    let mut columns: Vec<String> = Vec::new();
    for row in rows.iter().take(ROWS_MAX) {
        paths("", row, 0, &mut columns);
    }
    let columns: Vec<String> =
        columns.into_iter().filter(|path| rows.iter().any(|row| at(row, path).is_some())).collect();
    if columns.is_empty() {
        return None;
    }
    let column = |path: &String| {
        let is_number = rows.iter().any(|row| number(row, path).is_some());
        if is_number { Column::number(heading(path), unit(path)) } else { Column::text(heading(path)) }
    };
    let mut table = Table::new(title, columns.iter().map(column).collect());
    table.rows.extend(rows.iter().map(|row| columns.iter().map(|path| Cell::at(row, path, unit(path))).collect()));
    Some(table)
}

/// Column heading of a field whose figures are shown with their units.
fn heading(path: &str) -> String {
    words(path.strip_suffix("_ns").unwrap_or(path))
}

fn paths(before: &str, value: &Value, depth: usize, into: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        if into.len() >= COLUMNS_MAX || key.contains('/') {
            return;
        }
        let path = if before.is_empty() { key.clone() } else { format!("{before}/{key}") };
        match value {
            Value::Object(_) if depth < DEPTH_MAX => paths(&path, value, depth + 1, into),
            value if is_plain(value) && !into.contains(&path) => into.push(path),
            _ => {}
        }
    }
}

fn is_plain(value: &Value) -> bool {
    matches!(value, Value::Number(_) | Value::String(_) | Value::Bool(_))
}

fn words(path: &str) -> String {
    let path = path.replace(['_', '/'], " ");
    let mut characters = path.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// The unit of a field, which is the suffix of its name.
fn unit(path: &str) -> Unit {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ends = |end: &str| name.ends_with(end);
    if ends("bytes_per_second") || ends("bytes_per_s") || ends("bytes_per_second_max") || ends("bytes_per_second_min") {
        Unit::BytesPerSecond
    } else if ends("_ns") || ends("ns_per_io") || ["p50", "p90", "p99", "p999"].contains(&name) {
        Unit::Ns
    } else if ends("bytes") || ends("bytes_max") {
        Unit::Bytes
    } else if ends("iops") || ends("iops_max") || ends("iops_min") {
        Unit::Rate
    } else if ends("seconds") || ends("_s") {
        Unit::Seconds
    } else if ends("percent") {
        Unit::Percent
    } else if ["percentile", "depth", "ios", "samples", "failures", "count", "requests", "errors", "rounds"]
        .contains(&name)
    {
        Unit::Count
    } else {
        Unit::Plain
    }
}

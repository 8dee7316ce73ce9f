//! What verbs say of a trace that was read or analyzed.

use crate::output::{self, count};
use forebay_trace::Faults;
use forebay_trace::analysis::{By, Report};
use serde_json::json;

/// Unreadable parts, one line each; empty where there are none.
pub fn faults(faults: &Faults) -> Vec<String> {
    let missing = faults.missing_note();
    if faults.count == 0 {
        return missing.into_iter().collect();
    }
    let unit = if faults.by_line { "line" } else { "byte" };
    let mut lines =
        vec![format!("{} of the trace could not be read, and left out; the first:", count(faults.count, "part"))];
    lines.extend(faults.first.iter().map(|fault| format!("  {unit} {}: {}", fault.place, fault.what)));
    lines.extend(missing);
    lines
}

/// Unreadable parts of a trace, as JSON.
pub fn faults_json(faults: &Faults) -> serde_json::Value {
    let unit = if faults.by_line { "line" } else { "byte" };
    let first: Vec<_> = faults.first.iter().map(|fault| json!({ unit: fault.place, "what": fault.what })).collect();
    json!({ "count": faults.count, "first": first, "missing": faults.missing })
}

/// A line with the predicates that the trace has no data for; empty where there are none.
pub fn unknown(report: &Report) -> Option<String> {
    (!report.unknown.is_empty()).then(|| {
        let mut names: Vec<&str> = Vec::new();
        for predicate in &report.unknown {
            let name = predicate.split(':').next().unwrap_or(predicate);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        format!("rules ask for what no request of the trace tells, which is unknown then: {}", names.join(", "))
    })
}

/// Whether levels were requested and none is known.
pub fn lacks_levels(by: By, report: &Report) -> bool {
    let is_level = |name: &str| name.strip_prefix("level ").is_some_and(|level| level.parse::<u8>().is_ok());
    by == By::Level && !report.rows.iter().any(|row| is_level(&row.name))
}

/// Warns that no levels are known.
pub fn warn_of_levels() {
    output::complain("--by level: nothing tells levels, neither the trace nor a LOG of its database (--rocksdb-log)");
}

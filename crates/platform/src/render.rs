//! The report as text for people: indented lines, which the caller wraps.

use crate::finding::Severity;
use crate::report::{Entry, Report, Verdict};

fn title(severity: Severity) -> &'static str {
    match severity {
        Severity::Safety => "SAFETY",
        Severity::CostsLatency => "COSTS LATENCY",
        Severity::CostsThroughput => "COSTS THROUGHPUT",
        Severity::Note => "NOTES",
    }
}

fn of(device: Option<&String>) -> String {
    device.map_or(String::new(), |device| format!(" of {device}"))
}

fn entry(entry: &Entry, lines: &mut Vec<String>) {
    let finding = &entry.finding;
    lines.push(String::new());
    lines.push(format!("{}{}: {}", entry.name, of(entry.device.as_ref()), finding.what));
    lines.extend(entry.effects.iter().map(|effect| format!("  measured here: {}", effect.text())));
    for (key, text) in [
        ("costs", &finding.cost),
        ("source", &finding.source),
        ("now", &finding.now),
        ("for good", &finding.for_good),
        ("price", &finding.price),
    ] {
        lines.push(format!("  {key}: {text}"));
    }
}

fn list(title: &str, all: &[Verdict], lines: &mut Vec<String>) {
    if all.is_empty() {
        return;
    }
    lines.push(String::new());
    lines.push(format!("{title} ({})", all.len()));
    lines.extend(all.iter().map(|one| format!("  {}{}: {}", one.name, of(one.device.as_ref()), one.text)));
}

/// The whole report, the worst findings first.
pub fn text(report: &Report) -> String {
    let mut lines = Vec::new();
    for severity in Severity::ALL {
        let count = report.of(severity).count();
        if count == 0 {
            continue;
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(format!("{} ({count})", title(severity)));
        report.of(severity).for_each(|one| entry(one, &mut lines));
    }
    list("UNKNOWN", &report.unknown, &mut lines);
    list("GOOD", &report.good, &mut lines);
    lines.push(String::new());
    let measured = match report.place {
        None => "Figures are those of the sources; nothing was measured here.".to_owned(),
        Some(place) => format!(
            "Measured on this machine, {}: {}; all other figures are those of the sources.",
            place.name(),
            report.measured()
        ),
    };
    lines.push(format!(
        "Settings that cost something: {}; notes: {}; unknown: {}; good: {}. {measured}",
        report.costs(),
        report.of(Severity::Note).count(),
        report.unknown.len(),
        report.good.len()
    ));
    lines.join("\n").trim_start().to_owned()
}

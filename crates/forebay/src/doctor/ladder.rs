//! `forebay doctor --ladder`.

use super::climbing::LadderOptions;
use super::folder::Place;
use super::{machine_ladder, model_ladder};
use crate::measure::{self, ModelledHosts, show_report};
use crate::output::{self, Format};
use anyhow::{Result, bail};
use forebay_daemon::finding::finding;
use forebay_platform::{Fingerprint, Machine};
use serde_json::{Value, json};

/// Measures the ladder and shows the effect of each rung.
///
/// # Errors
/// Errors of measuring or restoring; a finding where I/Os failed.
pub fn ladder(options: &LadderOptions, place: &Place<'_>, machine: &Machine, format: Format) -> Result<()> {
    let Some(target) = options.target.as_deref() else {
        bail!("--target is missing: what is measured on each rung, a path or a URI, e.g. --target /dev/nvme0n1");
    };
    let device = machine.devices.first();
    let (mut report, is_real) = match ModelledHosts::new(target)? {
        Some(hosts) => (model_ladder::climb(options, hosts)?, false),
        None => (machine_ladder::climb(options, target, place, machine)?, true),
    };
    // `--measured` uses these fields to recognise the machine. Results over a model or a copied tree have none.
    if is_real && place.tree.is_machine() {
        report.json["machine"] = json!(Fingerprint::of(place.tree, machine));
        report.json["device"] = json!(device.map(|device| &device.name));
    }
    if format == Format::Table {
        output::text(&measure::report_table(&report))?;
        output::text(&rungs_text(&report.json))?;
        measure::failed(&report)?;
    } else {
        show_report(&report, target, format)?;
    }
    measured(&report.json)
}

/// A finding where a load of a rung has no measured I/O.
fn measured(report: &Value) -> Result<()> {
    let rungs = report["rungs"].as_array().into_iter().flatten();
    let jobs = rungs.flat_map(|rung| rung["jobs"].as_array().into_iter().flatten());
    let (all, empty) =
        jobs.fold((0, 0), |(all, empty), job| (all + 1, empty + i32::from(job["latency"]["samples"] == 0)));
    // A ladder that ended in its first round has no measurement either, but is marked as partial.
    if empty == 0 {
        return Ok(());
    }
    Err(finding(format!("no I/O was measured in {empty} of {all} loads of the rungs: choose a longer --runtime")))
}

/// Each rung with its description, its cost and the source.
fn rungs_text(report: &Value) -> String {
    let mut lines = vec![String::new(), "RUNGS".to_owned()];
    for (number, rung) in report["rungs"].as_array().into_iter().flatten().enumerate() {
        let text = |key: &str| rung[key].as_str();
        let missing = if text("missing").is_some() { " (not there)" } else { "" };
        lines.push(format!("{number} {}{missing}: {}", text("name").unwrap_or("-"), text("what").unwrap_or("-")));
        let keys = ["cost", "price", "source"].into_iter();
        lines.extend(keys.filter_map(|key| text(key).map(|text| format!("  {key}: {text}"))));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_ladder_without_samples_is_a_finding() {
        let of =
            |samples: u64| json!({ "rungs": [{ "jobs": [{ "latency": { "samples": samples } }] }, { "jobs": [] }] });
        assert!(measured(&of(1)).is_ok());
        assert!(measured(&of(0)).is_err_and(|error| error.to_string().contains("1 of 1")));
        assert!(measured(&json!({ "rungs": [{ "jobs": [] }] })).is_ok(), "it was ended in its first round");
    }
}

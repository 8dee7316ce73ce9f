//! `forebay doctor --ladder`.

use super::climbing::LadderOptions;
use super::folder::Place;
use super::{machine_ladder, model_ladder};
use crate::measure::{self, ModelledHosts, show_report};
use crate::output::{self, Format};
use anyhow::{Result, bail};
use forebay_platform::Device;
use serde_json::Value;

/// Climbs the ladder and shows what each rung changes.
///
/// # Errors
/// What could not be measured or put back; a finding where I/Os failed.
pub fn ladder(options: &LadderOptions, place: &Place<'_>, device: Option<&Device>, format: Format) -> Result<()> {
    let Some(target) = options.target.as_deref() else {
        bail!("--target is missing: what is measured on each rung, a path or a URI, e.g. --target /dev/nvme0n1");
    };
    let report = match ModelledHosts::new(target)? {
        Some(hosts) => model_ladder::climb(options, hosts)?,
        None => machine_ladder::climb(options, target, place, device)?,
    };
    if format == Format::Table {
        output::text(&measure::report_table(&report))?;
        output::text(&rungs_text(&report.json))?;
        return measure::failed(&report);
    }
    show_report(&report, target, format)
}

/// What each rung is, what it costs and who says so.
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

//! `forebay verify CONFIG --without-fast`.

use crate::output::{self, Format};
use anyhow::Result;
use forebay_daemon::config;
use forebay_daemon::finding::finding;
use forebay_daemon::pool::{self, Opening};
use forebay_volume::recovery::verify_alone;
use forebay_volume::verify::Finding;
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// Maximum number of findings shown; all are counted.
const SHOWN_MAX: usize = 1000;

/// Reads and checks the data that the capacity tier holds by itself; nothing is written.
///
/// # Errors
/// A finding where data is missing or differs from what was written.
pub fn run(file: &Path, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    let started = Instant::now();
    let devices = pool::open_all(&config, Opening::WithoutFast, &mut pool::Watched::default())?;
    let (engine, mut devices, report) = pool::alone(&config, devices)?;
    let (mut shown, mut findings): (Vec<Finding>, u64) = (Vec::new(), 0);
    let blocks = verify_alone(&mut devices, &engine, &report, &mut |found| {
        findings += 1;
        if shown.len() < SHOWN_MAX {
            shown.push(found);
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    match format {
        Format::Json => output::json(json!({
            "good": findings == 0,
            "findings": findings,
            "shown": shown.iter().map(|found| json!({ "place": found.place, "what": found.what })).collect::<Vec<_>>(),
            "checkpoint": report.checkpoint,
            "epoch": report.epoch,
            "blocks": blocks,
            "summaries": report.summaries,
            "disks": report.disks.iter().map(|disk| json!({
                "name": disk.name,
                "readable_blocks": disk.readable_blocks,
                "later_blocks": disk.later_blocks,
                "gone_blocks": disk.gone.blocks,
                "maybe_older_blocks": disk.maybe_older.blocks,
            })).collect::<Vec<_>>(),
            "seconds": seconds,
        }))?,
        Format::Table => {
            for found in &shown {
                output::text(&format!("{}: {}", found.place, found.what))?;
            }
            for line in report.disks.iter().flat_map(pool::disk_lines) {
                output::text(&line)?;
            }
            output::text(&format!(
                "checkpoint {} of epoch {}: {} and {} checked in {seconds:.1} s: {}",
                report.checkpoint,
                report.epoch,
                output::count(report.summaries, "band summary"),
                output::count(blocks, "data block"),
                match findings {
                    0 => "no findings".to_owned(),
                    count => output::count(count, "finding"),
                }
            ))?;
        }
    }
    if findings == 0 {
        Ok(())
    } else {
        Err(finding(format!("the capacity tier of {} has {}", file.display(), output::count(findings, "finding"))))
    }
}

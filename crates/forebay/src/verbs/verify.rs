//! `forebay verify CONFIG`.

use crate::output::{self, Format};
use anyhow::Result;
use forebay_daemon::config;
use forebay_daemon::finding::{Finding, finding};
use forebay_daemon::pool::{self, Budget};
use forebay_volume::recovery::{MemberError, OpenError};
use forebay_volume::verify::{Finding as Found, verify};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// Maximum number of findings shown; all are counted.
const SHOWN_MAX: usize = 1000;

/// Reads and checks every structure and checksum of the pool; nothing is written.
///
/// # Errors
/// A finding where a structure or checksum is wrong.
pub fn run(file: &Path, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    if let Some(target) = config.targets().find(|target| !target.is_persistent()) {
        anyhow::bail!("target {target} is memory: there is nothing to verify once its server has ended");
    }
    let mut devices = pool::open_read_only(&config)?;
    let started = Instant::now();
    let mut shown: Vec<Found> = Vec::new();
    let options = Budget::of(config.memory.limit.0).engine();
    let mut note = |found| {
        if shown.len() < SHOWN_MAX {
            shown.push(found);
        }
    };
    let summary = verify(&mut devices, 1, options, &mut note);
    let summary = summary.map_err(|error| match error {
        // Where a pool was expected, these errors are damage too.
        OpenError::Member(
            MemberError::Superblock { .. }
            | MemberError::Stale { .. }
            | MemberError::Older { .. }
            | MemberError::Apart(_),
        ) => {
            let known = pool::explain_blank(&mut devices, &error);
            finding(known.map_or_else(|| error.to_string(), |known| known.to_string()))
        }
        error => pool::explain(error),
    });
    let summary = match summary {
        Err(error) if format == Format::Json && error.is::<Finding>() => {
            let shown = json!({ "place": file, "what": error.to_string() });
            output::json(json!({ "good": false, "findings": 1, "shown": [shown] }))?;
            return Err(error);
        }
        summary => summary?,
    };
    let seconds = started.elapsed().as_secs_f64();
    match format {
        Format::Json => output::json(json!({
            "good": summary.findings == 0,
            "findings": summary.findings,
            "shown": shown.iter().map(|found| json!({ "place": found.place, "what": found.what })).collect::<Vec<_>>(),
            "leaves": summary.leaves,
            "blocks": summary.blocks,
            "summaries": summary.summaries,
            "not_compared_blocks": summary.uncompared_blocks,
            "journal_records": summary.recovery.records,
            "stopped_cleanly": summary.recovery.clean,
            "seconds": seconds,
        }))?,
        Format::Table => {
            for found in &shown {
                output::text(&format!("{}: {}", found.place, found.what))?;
            }
            output::text(&format!(
                "{}, {}, {} and {} checked in {seconds:.1} s: {}",
                output::count(summary.leaves, "map leaf"),
                output::count(summary.blocks, "data block"),
                output::count(summary.summaries, "band summary"),
                output::count(summary.recovery.records, "journal record"),
                match summary.findings {
                    0 => "no findings".to_owned(),
                    count => output::count(count, "finding"),
                }
            ))?;
            if summary.uncompared_blocks > 0 {
                let blocks = output::count(summary.uncompared_blocks, "block");
                output::text(&format!(
                    "NOT COMPARED with parity: {blocks}, as so many members are missing that none is to spare"
                ))?;
            }
        }
    }
    if summary.findings == 0 {
        Ok(())
    } else {
        Err(finding(format!("the pool of {} has {}", file.display(), output::count(summary.findings, "finding"))))
    }
}

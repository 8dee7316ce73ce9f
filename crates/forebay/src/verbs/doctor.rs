//! `forebay doctor`.

use crate::output::{self, Format};
use anyhow::{Context, Result};
use forebay_daemon::finding::finding;
use forebay_platform::{Machine, Report, Tree, Wanted, audit, capture, text};
use serde_json::json;
use std::path::{Path, PathBuf};

/// What is audited.
#[derive(Clone, Debug, clap::Args)]
pub struct DoctorOptions {
    /// A block device to look at too: its queue, interrupts, link and power
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Read the tree of another machine, as --capture wrote it, in place of this one
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
    /// Write what rules read, of all disks or the one named, into a new folder, and judge nothing
    #[arg(long, value_name = "FOLDER")]
    pub capture: Option<PathBuf>,
}

/// Audits a machine, or a captured one, and one of its devices; or captures it.
///
/// # Errors
/// What could not be read or written; a finding where a setting costs something.
pub fn run(options: &DoctorOptions, format: Format) -> Result<()> {
    let root = options.root.as_deref().unwrap_or(Path::new("/"));
    let tree = Tree::open(root)?;
    let device =
        options.device.as_deref().map(|name| if options.root.is_some() { name.to_owned() } else { real(name) });
    let wanted = match (&device, &options.capture) {
        (Some(name), _) => Wanted::Device(name),
        (None, Some(_)) => Wanted::All,
        (None, None) => Wanted::Machine,
    };
    let machine = Machine::read(&tree, wanted).with_context(|| format!("in {}", root.display()))?;
    if let Some(folder) = &options.capture {
        return captured(&tree, folder, format);
    }
    let report = audit(&machine);
    let others = if device.is_none() { Machine::disks(&tree) } else { Vec::new() };
    match format {
        Format::Json => output::json(json!({
            "root": root,
            "device": machine.devices.first().map(|device| &device.name),
            "measured": false,
            "findings": report.findings,
            "unknown": report.unknown,
            "good": report.good,
        }))?,
        Format::Table => output::text(&format!("{}{}", text(&report), hint(&others)))?,
    }
    judged(&report)
}

/// Devices that could be named.
fn hint(disks: &[String]) -> String {
    if disks.is_empty() {
        String::new()
    } else {
        format!("\nSettings of a drive: --device, one of {}", disks.join(", "))
    }
}

fn judged(report: &Report) -> Result<()> {
    match report.costs() {
        0 => Ok(()),
        count => Err(finding(format!("settings that cost latency, throughput or safety: {count}"))),
    }
}

fn captured(tree: &Tree, folder: &Path, format: Format) -> Result<()> {
    let files = capture(tree, folder)?;
    let place = folder.display();
    match format {
        Format::Json => output::json(json!({ "captured": folder, "files": files })),
        Format::Table => output::text(&format!("{files} files in {place}\nto read it: forebay doctor --root {place}")),
    }
}

/// What a link such as `/dev/disk/by-id/...` leads to on this machine.
fn real(name: &str) -> String {
    let path = std::fs::canonicalize(name).ok().filter(|path| path.starts_with("/dev"));
    path.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| name.to_owned())
}

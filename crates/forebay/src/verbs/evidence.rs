//! `forebay evidence CONFIG list|attach|detach`.

use crate::output::{self, Format};
use anyhow::{Result, ensure};
use forebay_daemon::config;
use forebay_daemon::control::{Question, ask};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What is to be done about sources of evidence.
#[derive(Debug, clap::Subcommand)]
pub enum EvidenceAction {
    /// List sources, with what they know or what they wait for
    #[command(after_help = "Example:\n  forebay evidence pool.toml list")]
    List,
    /// Attach a source, as soon as it is there
    #[command(after_help = "Example:\n  forebay evidence pool.toml attach --disk db --mount /mnt/db")]
    Attach {
        /// The disk; may be left out where there is only one
        #[arg(long)]
        disk: Option<String>,
        /// Block device above the disk's export
        #[arg(long, value_name = "DEVICE")]
        device: Option<PathBuf>,
        /// Where the disk's file system is, or will be, mounted
        #[arg(long, value_name = "DIRECTORY")]
        mount: Option<PathBuf>,
        /// Do not ask the kernel about writes
        #[arg(long)]
        no_hints: bool,
        /// Do not map files
        #[arg(long)]
        no_files: bool,
    },
    /// Detach all sources of a disk
    #[command(after_help = "Example:\n  forebay evidence pool.toml detach --disk db")]
    Detach {
        /// The disk; may be left out where there is only one
        #[arg(long)]
        disk: Option<String>,
    },
}

/// Shows or changes the evidence sources of the running pool.
///
/// # Errors
/// No server answers, or it refuses.
pub fn run(file: &Path, action: EvidenceAction, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    let question = match action {
        EvidenceAction::List => Question::EvidenceList,
        EvidenceAction::Attach { disk, device, mount, no_hints, no_files } => {
            ensure!(device.is_some() || mount.is_some(), "nothing is named: say --device or --mount");
            ensure!(!(no_hints && no_files), "with neither hints nor files there is nothing to attach");
            let absolute = |path: Option<PathBuf>| path.map(std::path::absolute).transpose();
            let (device, mount) = (absolute(device)?, absolute(mount)?);
            Question::EvidenceAttach { disk, device, mount, hints: !no_hints, files: !no_files }
        }
        EvidenceAction::Detach { disk } => Question::EvidenceDetach { disk },
    };
    let answer = ask(&config, file, &question)?;
    match format {
        Format::Json => output::json(answer),
        Format::Table => output::text(&table(&answer)),
    }
}

/// The sources as a table, with what they wait for.
pub fn table(evidence: &Value) -> String {
    let sources = || evidence["sources"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let size = |value: &Value| output::size(value.as_u64().unwrap_or(0));
    let rows: Vec<Vec<String>> = sources()
        .map(|source| {
            let (hints, files) = (&source["hints"], &source["files"]);
            vec![
                text(&source["disk"]),
                text(hints.get("device").filter(|device| device.is_string()).unwrap_or(&source["device"])),
                text(files.get("mount").filter(|mount| mount.is_string()).unwrap_or(&source["mount"])),
                text(&hints["state"]),
                text(&files["state"]),
                files["files"].to_string(),
                size(&source["hinted_bytes"]),
                size(&source["mapped_bytes"]),
                size(&source["unknown_bytes"]),
            ]
        })
        .collect();
    let head = ["DISK", "DEVICE", "MOUNT", "HINTS", "FILES", "KNOWN", "BY HINT", "BY MAP", "UNKNOWN"];
    let mut lines = vec![output::table(&head, 5, &rows)];
    for source in sources() {
        for (what, part) in [("hints", &source["hints"]), ("files", &source["files"])] {
            let whys = [("", "why"), ("extents: ", "no_extents"), ("by walks: ", "by_walks"), ("last: ", "last_error")];
            let whys = whys.into_iter().filter_map(|(head, key)| part[key].as_str().map(|why| format!("{head}{why}")));
            lines.extend(whys.map(|why| format!("note: {} of disk {}: {why}", what, text(&source["disk"]))));
        }
        let left_out = source["files"]["left_out_files"].as_u64().unwrap_or(0);
        if left_out > 0 {
            lines.push(format!(
                "note: files of disk {}: {left_out} were left out so far: there was no room for them (memory.limit), and rules on \
                 them match nothing, or they had gone before they were looked at",
                text(&source["disk"])
            ));
        }
    }
    lines.join("\n")
}

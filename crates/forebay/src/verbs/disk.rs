//! `forebay disk CONFIG list|add|remove|resize|detach-base`.

use crate::output::{self, Format};
use crate::status::base;
use anyhow::{Result, anyhow, bail, ensure};
use clap::Subcommand;
use forebay_block::size::parse_size_bytes;
use forebay_daemon::config;
use forebay_daemon::control::{Question, ask};
use forebay_daemon::server::no_disk;
use forebay_device::{Target, TargetError};
use serde_json::Value;
use std::path::Path;

#[derive(Debug, Subcommand)]
pub enum DiskAction {
    /// List names, sizes and occupancy
    #[command(after_help = "Example:\n  forebay disk pool.toml list")]
    List,
    /// Add a thin disk
    #[command(after_help = "Example:\n  forebay disk pool.toml add logs 4GiB --export")]
    Add {
        /// Name of the disk
        name: String,
        /// Size, such as 64GiB
        size: String,
        /// Export it under its name at the addresses already served, until the next restart
        #[arg(long)]
        export: bool,
        /// Adopt this device or file: its data is read there and copied into the pool, and nothing is written there
        #[arg(long, value_name = "TARGET")]
        base: Option<String>,
    },
    /// End the adoption of a disk that is copied completely, and release its base
    #[command(after_help = "Example:\n  forebay disk pool.toml detach-base db")]
    DetachBase {
        /// Name of the disk
        name: String,
    },
    /// Discard the data of a disk and remove it
    ///
    /// Refuse while clients are connected to it or evidence is attached.
    #[command(after_help = "Example:\n  forebay disk pool.toml remove logs --destroy-data logs")]
    Remove {
        /// Name of the disk
        name: String,
        /// Confirm with the name of the disk that all its data is lost
        #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
        destroy_data: Option<String>,
    },
    /// Change the size of a disk; shrinking needs its end to be discarded
    #[command(after_help = "Example:\n  forebay disk pool.toml resize db 128GiB")]
    Resize {
        /// Name of the disk
        name: String,
        /// New size
        size: String,
    },
}

fn absolute(text: &str) -> Result<String> {
    let target: Target = text.parse().map_err(|why: TargetError| anyhow!(why.in_pool()))?;
    Ok(match target.path() {
        Some(path) => Target::Path(std::path::absolute(path)?).to_string(),
        None => target.to_string(),
    })
}

/// Reports an unknown name before anything else, instead of explaining how to remove what does not exist. A disk being removed is still
/// known by its former name.
fn refuse_unknown(name: &str, disks: &Value) -> Result<()> {
    let disks = disks["disks"].as_array().into_iter().flatten();
    let known: Vec<&str> = disks.filter_map(|disk| disk["name"].as_str()).collect();
    let removed = format!("{name}~removed-");
    ensure!(known.iter().any(|other| *other == name || other.starts_with(&removed)), no_disk(name, &known));
    Ok(())
}

/// Shows or changes disks of the running pool; returns when the change is durable.
///
/// # Errors
/// No server answers, or it refuses.
pub fn run(file: &Path, action: DiskAction, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    let mut keep_in_step = true;
    let mut advice = String::new();
    let question = match action {
        DiskAction::List => {
            keep_in_step = false;
            Question::DiskList
        }
        DiskAction::Add { name, size, export, base } => {
            // The server may have another working directory.
            let base = base.map(|text| absolute(&text)).transpose()?;
            if let Some(base) = &base {
                advice = format!(" (with `base = {base:?}` of its [[disk]], without which the next start refuses it)");
            }
            Question::DiskAdd { name, size_bytes: parse_size_bytes(&size)?, export, base }
        }
        DiskAction::DetachBase { name } => Question::DiskDetachBase { name },
        DiskAction::Resize { name, size } => Question::DiskResize { name, size_bytes: parse_size_bytes(&size)? },
        DiskAction::Remove { name, destroy_data } => {
            let again = format!("--destroy-data {name}");
            if destroy_data.as_deref() != Some(name.as_str()) {
                refuse_unknown(&name, &ask(&config, file, &Question::DiskList)?)?;
            }
            match destroy_data.as_deref() {
                None => {
                    bail!("removing disk {name:?} loses all its data for ever: repeat with `{again}` if that is meant")
                }
                Some("") => bail!(
                    "removing disk {name:?} loses all its data for ever: name it a second time, `{again}`, if that is meant"
                ),
                Some(other) => ensure!(
                    other == name,
                    "--destroy-data names {other:?}, but {name:?} is to be removed: nothing was done; repeat with `{again}` if that is meant"
                ),
            }
            Question::DiskRemove { name }
        }
    };
    let answer = ask(&config, file, &question)?;
    if keep_in_step {
        output::complain(format!(
            "done and durable; change {} too, so that it describes the pool{advice}",
            file.display()
        ));
    }
    if format == Format::Json {
        return output::json(answer);
    }
    let Some(disks) = answer["disks"].as_array() else {
        return Ok(());
    };
    let rows: Vec<Vec<String>> = disks
        .iter()
        .map(|disk| {
            let name = disk["name"].as_str().unwrap_or("-").to_owned();
            let size = |key: &str| disk[key].as_u64().map_or_else(|| "-".to_owned(), output::size);
            vec![name, disk["id"].to_string(), size("size_bytes"), size("mapped_bytes_max"), base::cell(&disk["base"])]
        })
        .collect();
    output::text(&output::table(&["DISK", "ID", "SIZE", "HOLDS AT MOST", "BASE"], 1, &rows))
}

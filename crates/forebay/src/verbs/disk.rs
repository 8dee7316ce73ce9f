//! `forebay disk CONFIG list|add|remove|resize`.

use crate::cli::DiskAction;
use crate::config;
use crate::control::{Question, ask};
use crate::output::{self, Format};
use anyhow::{Result, bail, ensure};
use forebay_block::size::parse_size_bytes;
use std::path::Path;

/// Shows or changes disks of the running pool; done when the change is durable.
///
/// # Errors
/// Where no server answers, or it refuses.
pub fn run(file: &Path, action: DiskAction, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    let mut keep_in_step = true;
    let question = match action {
        DiskAction::List => {
            keep_in_step = false;
            Question::DiskList
        }
        DiskAction::Add { name, size, export } => {
            Question::DiskAdd { name, size_bytes: parse_size_bytes(&size)?, export }
        }
        DiskAction::Resize { name, size } => Question::DiskResize { name, size_bytes: parse_size_bytes(&size)? },
        DiskAction::Remove { name, destroy_data } => {
            let again = format!("--destroy-data {name}");
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
        eprintln!("forebay: done and durable; change {} too, so that it describes the pool", file.display());
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
            vec![name, disk["id"].to_string(), size("size_bytes"), size("mapped_bytes_max")]
        })
        .collect();
    output::text(&output::table(&["DISK", "ID", "SIZE", "HOLDS AT MOST"], 1, &rows))
}

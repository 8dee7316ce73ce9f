//! Protection from accidental destruction: which targets may be written to, and which need permission.

use super::probe::QueueReader;
use anyhow::{Context, Result, bail};
use forebay_block::Queue;
use forebay_daemon::contents;
use std::path::Path;

/// Kind of a target with respect to write permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// Never writable without permission.
    BlockDevice,
    /// Writable without permission only while it is empty.
    File(&'a Path),
    /// An export, memory, or a pool: writable unless it carries a known signature.
    Other,
}

/// Refuses a target on which the load would destroy data without the user's permission. `queue` reads the target.
///
/// # Errors
/// A block device without `--destroy-data`, a file that is not empty, or a target with a known signature, which the error names.
pub fn permit_writes(
    name: &str,
    queue: Box<dyn Queue>,
    size_bytes: u64,
    logical_block_bytes: u32,
    kind: Kind<'_>,
) -> Result<()> {
    let mut reader = QueueReader::new(queue, size_bytes, logical_block_bytes);
    let looked = match kind {
        Kind::File(path) => contents::anything(&mut reader, Some(path)),
        Kind::BlockDevice | Kind::Other => contents::recognised(&mut reader),
    };
    let list =
        looked.with_context(|| format!("cannot look whether {name} holds anything, and so do not write to it"))?;
    let list = list.join(", ");
    if kind == Kind::BlockDevice {
        let holds = if list.is_empty() { String::new() } else { format!("; it holds {list}") };
        bail!(
            "{name} is a block device, and this load writes to it: what is on it would be lost. Repeat with --destroy-data \
             if that is meant{holds}"
        );
    }
    if !list.is_empty() {
        bail!(
            "{name} holds {list}, and this load writes to it: nothing was written. Repeat with --destroy-data if it is to \
             be lost, or name another target"
        );
    }
    Ok(())
}

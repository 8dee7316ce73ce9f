//! A pool for the rules: its configuration, and the kernel's data about its members.

use anyhow::Result;
use forebay_daemon::config;
use forebay_daemon::evidence::unknown;
use forebay_device::Target;
use forebay_platform::pool::{Member, MemberQueue, Pool};
use forebay_platform::{Lack, Reading, Tree};
use std::path::Path;

/// Reads a pool's configuration; `real` resolves a device's name within the tree.
///
/// # Errors
/// The configuration cannot be read or is invalid.
pub fn pool(file: &Path, tree: &Tree, real: &dyn Fn(&str) -> String) -> Result<Pool> {
    let config = config::load(file)?;
    let table = forebay_prism::ClassTable::from_configured(&config.class_specs())?;
    let (hints, files) = (config.evidence.iter().any(|e| e.hints), config.evidence.iter().any(|e| e.files));
    let member = |target: &Target, band_bytes| member(target, band_bytes, tree, real);
    Ok(Pool {
        fast: config.fast.iter().map(|fast| member(&fast.target.0, None)).collect(),
        capacity: config.capacity.iter().map(|one| member(&one.target.0, one.band.map(|band| band.0))).collect(),
        memory_limit_bytes: config.memory.limit.0,
        unanswered: unknown(&table, hints, files),
    })
}

fn member(target: &Target, band_bytes: Option<u64>, tree: &Tree, real: &dyn Fn(&str) -> String) -> Member {
    let text = target.to_string();
    let device = target.path().and_then(Path::to_str).map(real);
    let name = device.as_deref().and_then(|path| path.strip_prefix("/dev/")).map(str::to_owned);
    let (queue, size_bytes) = match &name {
        Some(name) => (MemberQueue::read(tree, name), MemberQueue::size_bytes(tree, name)),
        None => (Err(Lack::Absent { path: format!("a block device at {text}") }), of_other(target, &text)),
    };
    Member { target: text, size_bytes, band_bytes, queue }
}

/// Size of a member that is not a block device.
fn of_other(target: &Target, text: &str) -> Reading<u64> {
    let unreadable = |why: String| Lack::Unreadable { path: text.to_owned(), why };
    match target {
        Target::Ram { size_bytes, .. } => Ok(*size_bytes),
        _ => match target.path() {
            Some(path) => std::fs::metadata(path).map(|file| file.len()).map_err(|error| unreadable(error.to_string())),
            None => Err(unreadable("its size is known when it is opened".to_owned())),
        },
    }
}

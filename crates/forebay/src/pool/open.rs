//! Opening the pool of a configuration for service.

use super::Budget;
use crate::config::Config;
use crate::finding::finding;
use anyhow::{Result, anyhow};
use forebay_volume::layout::superblock::SuperblockError;
use forebay_volume::recovery::{self, MemberError, OpenError, RecoveryReport};
use forebay_volume::{Devices, Engine};

/// How a pool is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// For service.
    Recover,
    /// For reading what a damaged journal left.
    Salvage,
}

/// Recovers the pool.
///
/// # Errors
/// Why it cannot be opened: a [`crate::finding::Finding`] where it is damaged.
pub fn open(config: &Config, devices: &mut Devices, opening: Opening) -> Result<(Engine, RecoveryReport)> {
    let options = Budget::of(config.memory.limit.0).engine();
    let open = match opening {
        Opening::Recover => recovery::open,
        Opening::Salvage => recovery::salvage,
    };
    open(devices, config.fast.len(), &config.class_specs(), options).map_err(explain)
}

/// Says what to do next, and whether this is damage.
pub fn explain(error: OpenError) -> anyhow::Error {
    let text = error.to_string();
    match error {
        OpenError::Member(MemberError::Superblock { source: SuperblockError::Absent, .. }) => {
            anyhow!("{text}; if it is meant to become a pool, run `forebay create CONFIG`")
        }
        OpenError::Member(MemberError::Superblock { source: SuperblockError::Damaged, .. }) => {
            finding(format!("{text}; `forebay inspect` shows each copy"))
        }
        OpenError::Member(MemberError::Truncated { .. }) => {
            finding(format!("{text}; bring it back to its size, or restore it from a backup"))
        }
        OpenError::Member(MemberError::Stale { .. }) => {
            anyhow!("{text}; name the device that was in use last")
        }
        OpenError::Member(MemberError::Missing { .. }) => {
            anyhow!("{text}; add it to the configuration (`forebay inspect PATH` tells ids)")
        }
        OpenError::Journal { .. } => finding(format!(
            "the pool is damaged: {text}. Nothing was changed; `forebay serve --salvage CONFIG` reads what is left, then \
             restore from a backup"
        )),
        OpenError::Root { .. } | OpenError::Index { .. } => {
            finding(format!("the pool is damaged: {text}. Nothing was changed; restore from a backup"))
        }
        OpenError::Limit { .. } => {
            anyhow!("{text} (an eighth of memory.limit is kept for connections): raise memory.limit")
        }
        error => anyhow::Error::new(error).context("the pool cannot be opened"),
    }
}

//! The values before a change, and the boot to which they belong.

use super::step::Step;
use crate::lack::{Lack, Reading};
use crate::tree::Tree;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Version of the record's format.
const VERSION: u32 = 1;

/// A record of the files that are being changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    schema_version: u32,
    /// The boot to which it belongs; `None` if a copy of a tree has no boot id.
    pub boot_id: Option<String>,
    /// Path of the tree's root.
    pub root: String,
    /// Name of the profile, or `ladder`.
    pub profile: String,
    /// The files, in the order in which they are written.
    pub steps: Vec<Step>,
}

/// Why a record does not apply to this machine as it runs now.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RecordError {
    /// It is of another boot, so that its settings no longer exist.
    #[error(
        "it is of another boot ({was}; this is {is}): what was changed then is gone, as the kernel starts with its own settings. \
         Nothing is to be put back"
    )]
    OtherBoot {
        /// The boot of the record.
        was: String,
        /// This boot.
        is: String,
    },
    /// It is of another tree.
    #[error(
        "it is of the tree {was}, not of {is}: name that one with --root, or remove the record where that tree is gone for good"
    )]
    OtherTree {
        /// The tree of the record.
        was: String,
        /// This tree.
        is: String,
    },
    /// A program of another version wrote it.
    #[error("it has version {found}, and {VERSION} is known here: use the program that wrote it")]
    Version {
        /// The version in the record.
        found: u32,
    },
}

/// The identity of the boot of a tree; `None` if a copy has none.
///
/// # Errors
/// The identity cannot be read, or the machine itself has none.
pub fn boot_id(tree: &Tree) -> Reading<Option<String>> {
    match tree.read("/proc/sys/kernel/random/boot_id") {
        Ok(id) => Ok(Some(id)),
        Err(Lack::Absent { .. }) if !tree.is_machine() => Ok(None),
        Err(lack) => Err(lack),
    }
}

impl Record {
    /// A record of the files that are about to be changed.
    pub fn new(boot_id: Option<String>, root: String, profile: String, steps: Vec<Step>) -> Self {
        Self { schema_version: VERSION, boot_id, root, profile, steps }
    }

    /// Checks that the record belongs to this boot of this tree.
    ///
    /// # Errors
    /// Where the record belongs instead.
    pub fn check(&self, boot_id: Option<&str>, root: &str) -> Result<(), RecordError> {
        let said = |id: Option<&str>| id.unwrap_or("without identity").to_owned();
        if self.schema_version != VERSION {
            return Err(RecordError::Version { found: self.schema_version });
        }
        // A reboot discards all settings, whichever tree they were changed through.
        if self.boot_id.is_some() && boot_id.is_some() && self.boot_id.as_deref() != boot_id {
            return Err(RecordError::OtherBoot { was: said(self.boot_id.as_deref()), is: said(boot_id) });
        }
        if self.root != root {
            return Err(RecordError::OtherTree { was: self.root.clone(), is: root.to_owned() });
        }
        if self.boot_id.as_deref() != boot_id {
            return Err(RecordError::OtherBoot { was: said(self.boot_id.as_deref()), is: said(boot_id) });
        }
        Ok(())
    }
}

//! What was there before, and to which boot it belongs.

use super::step::Step;
use crate::lack::{Lack, Reading};
use crate::tree::Tree;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Version of records.
const VERSION: u32 = 1;

/// A record of what is being changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    schema_version: u32,
    /// The boot that it belongs to; none where a copy of a tree has none.
    pub boot_id: Option<String>,
    /// The root of the tree.
    pub root: String,
    /// Name of the profile, or `ladder`.
    pub profile: String,
    /// What is changed.
    pub steps: Vec<Step>,
}

/// A record that is not of this machine as it runs now.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RecordError {
    /// Its settings are gone.
    #[error(
        "it is of another boot ({was}; this is {is}): what was changed then is gone, as the kernel starts with its own settings. \
         Nothing is to be put back"
    )]
    OtherBoot {
        /// That of the record.
        was: String,
        /// This one.
        is: String,
    },
    /// It is another tree's.
    #[error(
        "it is of the tree {was}, not of {is}: name that one with --root, or remove the record where that tree is gone for good"
    )]
    OtherTree {
        /// That of the record.
        was: String,
        /// This one.
        is: String,
    },
    /// It was written by a program of another version.
    #[error("it has version {found}, and {VERSION} is known here: use the program that wrote it")]
    Version {
        /// What it says.
        found: u32,
    },
}

/// The identity of the boot that a tree is of; none where a copy has none.
///
/// # Errors
/// Where it cannot be read, and where a machine itself has none.
pub fn boot_id(tree: &Tree) -> Reading<Option<String>> {
    match tree.read("/proc/sys/kernel/random/boot_id") {
        Ok(id) => Ok(Some(id)),
        Err(Lack::Absent { .. }) if !tree.is_machine() => Ok(None),
        Err(lack) => Err(lack),
    }
}

impl Record {
    /// A record of what is about to be changed.
    pub fn new(boot_id: Option<String>, root: String, profile: String, steps: Vec<Step>) -> Self {
        Self { schema_version: VERSION, boot_id, root, profile, steps }
    }

    /// Whether it belongs to this boot of this tree.
    ///
    /// # Errors
    /// To what it belongs.
    pub fn check(&self, boot_id: Option<&str>, root: &str) -> Result<(), RecordError> {
        let said = |id: Option<&str>| id.unwrap_or("without identity").to_owned();
        if self.schema_version != VERSION {
            return Err(RecordError::Version { found: self.schema_version });
        }
        // Of a machine that was started anew nothing is left, whichever tree it was seen by.
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

//! What is asked, as it goes over the socket. The answer is `{"ok": VALUE}` or `{"error": TEXT}`.

use crate::config::{Compression, Place};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The error of a server that has done nothing of what was asked, as other changes go on.
pub const TOO_MANY_CHANGES: &str = "too many changes at once: try again";

/// Longest request line in bytes: an Open CAS file may be 256 KiB, quoted.
pub const REQUEST_MAX_BYTES: usize = 1 << 20;

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// Everything the daemon tells.
    Status,
    /// Classes, policies and rules.
    ClassList,
    /// Changes a class.
    ClassSet {
        /// Its name.
        name: String,
        /// What changes.
        change: ClassUpdate,
    },
    /// Adds a class.
    ClassAdd {
        /// Its name.
        name: String,
        /// Where its writes go.
        place: Place,
        /// All else; what is absent has its default.
        rest: ClassUpdate,
    },
    /// Merges an Open CAS io-class file.
    ClassImport {
        /// The file.
        text: String,
    },
    /// Sources of evidence.
    EvidenceList,
    /// Looks for a source of evidence.
    EvidenceAttach {
        /// The disk; the only one where left out.
        disk: Option<String>,
        /// Block device above its export.
        device: Option<PathBuf>,
        /// Where its file system is mounted.
        mount: Option<PathBuf>,
        /// Whether the kernel is asked about writes.
        hints: bool,
        /// Whether files are mapped.
        files: bool,
    },
    /// Ends the sources of a disk.
    EvidenceDetach {
        /// The disk; the only one where left out.
        disk: Option<String>,
    },
    /// Makes a disk a block device of the kernel, if it is none; how far that has come.
    DeviceAttach {
        /// The disk; the only one where left out.
        disk: Option<String>,
    },
    /// The block device of a disk.
    Device {
        /// The disk; the only one where left out.
        disk: Option<String>,
    },
    /// What a scrub does, after what is asked of it.
    Scrub {
        /// What is asked.
        action: ScrubAction,
    },
    /// Disks.
    DiskList,
    /// Adds a disk.
    DiskAdd {
        /// Its name.
        name: String,
        /// Its size.
        size_bytes: u64,
        /// Whether to export it under its name.
        export: bool,
        /// What it is laid over.
        #[serde(default)]
        base: Option<String>,
    },
    /// Ends the adoption of a disk.
    DiskDetachBase {
        /// Its name.
        name: String,
    },
    /// Discards and removes a disk.
    DiskRemove {
        /// Its name.
        name: String,
    },
    /// Changes the size of a disk.
    DiskResize {
        /// Its name.
        name: String,
        /// New size.
        size_bytes: u64,
    },
}

/// What may be asked of a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScrubAction {
    /// To begin, or to go on.
    Start,
    /// To wait until it is started again.
    Pause,
    /// How far it is.
    Status,
}

/// Changes to a class; what is absent stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassUpdate {
    /// Where its writes go.
    pub place: Option<Place>,
    /// Share of the fast tier.
    pub share: Option<f64>,
    /// Order of its rules.
    pub priority: Option<u16>,
    /// Read cache.
    pub read_cache: Option<bool>,
    /// Compression of what is written to the capacity tier from now on.
    pub compress: Option<Compression>,
    /// Rules.
    pub rules: Option<Vec<String>>,
}

impl From<ClassUpdate> for forebay_prism::ClassChange {
    fn from(update: ClassUpdate) -> Self {
        Self {
            place: update.place.map(Into::into),
            read_cache: update.read_cache,
            compress: update.compress.map(|compression| compression.0),
            share: update.share,
            priority: update.priority,
            rules: update.rules,
        }
    }
}

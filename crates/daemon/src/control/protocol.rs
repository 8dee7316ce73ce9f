//! Requests on the control socket. The answer is `{"ok": VALUE}` or `{"error": TEXT}`.

use crate::config::{Compression, Place};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The error of a server that is busy with other changes and has done nothing of this request.
pub const TOO_MANY_CHANGES: &str = "too many changes at once: try again";

/// Longest request line in bytes: an Open CAS file may be 256 KiB, quoted.
pub const REQUEST_MAX_BYTES: usize = 1 << 20;

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// The whole status.
    Status,
    /// Classes, policies and rules.
    ClassList,
    /// Changes a class.
    ClassSet {
        /// Name of the class.
        name: String,
        /// The settings to change.
        change: ClassUpdate,
    },
    /// Adds a class.
    ClassAdd {
        /// Name of the class.
        name: String,
        /// Where its writes go.
        place: Place,
        /// All other settings; an absent one has its default.
        rest: ClassUpdate,
    },
    /// Merges an Open CAS io-class file.
    ClassImport {
        /// Text of the file.
        text: String,
    },
    /// Lists the sources of evidence.
    EvidenceList,
    /// Begins to look for a source of evidence.
    EvidenceAttach {
        /// Name of the disk; may be absent where there is only one.
        disk: Option<String>,
        /// Block device above the disk's export.
        device: Option<PathBuf>,
        /// Mount point of its file system.
        mount: Option<PathBuf>,
        /// Whether kernel probes report writes.
        hints: bool,
        /// Whether files are mapped to blocks.
        files: bool,
    },
    /// Ends all sources of evidence of a disk.
    EvidenceDetach {
        /// Name of the disk; may be absent where there is only one.
        disk: Option<String>,
    },
    /// Makes a disk a block device of the kernel unless it already is one. The answer says how far this has come.
    DeviceAttach {
        /// Name of the disk; may be absent where there is only one.
        disk: Option<String>,
    },
    /// Asks for the block device of a disk.
    Device {
        /// Name of the disk; may be absent where there is only one.
        disk: Option<String>,
    },
    /// Controls the scrub. The answer is its state afterwards.
    Scrub {
        /// The action.
        action: ScrubAction,
    },
    /// Lists the disks.
    DiskList,
    /// Adds a disk.
    DiskAdd {
        /// Name of the disk.
        name: String,
        /// Size in bytes, a multiple of 4 KiB.
        size_bytes: u64,
        /// Whether to export the disk under its name.
        export: bool,
        /// Path or URI of the device that the disk is laid over; `None` for an empty disk.
        #[serde(default)]
        base: Option<String>,
    },
    /// Ends the adoption of a disk from its base.
    DiskDetachBase {
        /// Name of the disk.
        name: String,
    },
    /// Discards all data of a disk and removes it.
    DiskRemove {
        /// Name of the disk.
        name: String,
    },
    /// Changes the size of a disk.
    DiskResize {
        /// Name of the disk.
        name: String,
        /// New size in bytes, a multiple of 4 KiB.
        size_bytes: u64,
    },
}

/// Actions on the scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScrubAction {
    /// Begins a scrub, or continues a paused one.
    Start,
    /// Pauses the scrub until the next start.
    Pause,
    /// Changes nothing; only reports progress.
    Status,
}

/// Changes to a class. An absent setting stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassUpdate {
    /// Where its writes go.
    pub place: Option<Place>,
    /// Share of the fast tier, 0.0 to 1.0.
    pub share: Option<f64>,
    /// Order in which its rules are tried: smaller numbers first.
    pub priority: Option<u16>,
    /// Whether data read from the capacity tier is copied to the fast tier.
    pub read_cache: Option<bool>,
    /// Compression of data written to the capacity tier from now on.
    pub compress: Option<Compression>,
    /// Rules; they replace all earlier ones.
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

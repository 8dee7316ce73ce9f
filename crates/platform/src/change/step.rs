//! One file of a plan, in the form that a record keeps.

use super::setting::{SETTINGS, Setting};
use serde::{Deserialize, Serialize};

/// A file that is changed, or that the kernel changes along with another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Name of the setting.
    pub setting: String,
    /// Name of the device; `None` for a setting of the machine.
    pub device: Option<String>,
    /// Path of the file, without links.
    pub path: String,
    /// Its text before, byte for byte.
    pub text: String,
    /// The value before.
    pub from: String,
    /// The value that the plan writes; `None` if the file is only restored.
    pub to: Option<String>,
    /// Index of the step with which the kernel changes this file.
    pub moved_by: Option<usize>,
}

impl Step {
    /// Whether the value changes.
    pub fn is_change(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to != self.from)
    }

    /// The setting to which this file belongs; `None` if no setting of this name has such a file.
    pub fn known(&self) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.name == self.setting && setting.files.has(&self.path))
    }
}

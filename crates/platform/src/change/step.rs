//! One file of a plan, as a record keeps it.

use super::setting::{SETTINGS, Setting};
use serde::{Deserialize, Serialize};

/// A file that is changed, or that the kernel changes along with another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Name of the setting.
    pub setting: String,
    /// The device, where it is one's.
    pub device: Option<String>,
    /// The file, without links.
    pub path: String,
    /// Its text before, byte for byte.
    pub text: String,
    /// The value before.
    pub from: String,
    /// The value that it gets; none where it is only put back.
    pub to: Option<String>,
    /// Number of the step with which the kernel changes this one.
    pub moved_by: Option<usize>,
}

impl Step {
    /// It gets another value than it had.
    pub fn is_change(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to != self.from)
    }

    /// The setting whose file this is; none where no setting of that name has such a file.
    pub fn known(&self) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.name == self.setting && setting.files.has(&self.path))
    }
}

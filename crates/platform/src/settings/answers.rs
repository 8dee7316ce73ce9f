//! Facts that a drive reports only when a command asks for them, and that no file of the kernel shows.
//!
//! Nothing here sends commands: an implementation of [`Ask`] does. A capture keeps the answers as a JSON file for
//! each drive, below [`FOLDER`]; a tree is read from there. The file contains nothing that identifies the drive.

use crate::lack::{Lack, Reading};
use crate::tree::Tree;
use serde::{Deserialize, Serialize};

/// Where a capture keeps the answers: a file `NAME.json` for each drive.
pub const FOLDER: &str = "/forebay/drives";

/// Sends commands to drives.
pub trait Ask {
    /// Asks the drive of this name, such as `nvme0n1`, for all facts that its kind can report.
    fn ask(&self, name: &str) -> Answers;
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer<T> {
    /// The drive's answer.
    Said(T),
    /// Why there is no answer.
    Unknown(String),
}

/// All answers of a drive; `None` for a question that does not apply to its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Wear and state.
    pub health: Option<Answer<Health>>,
    /// Its power states.
    pub power_states: Option<Answer<Vec<PowerState>>>,
    /// Number of its power state when it was asked.
    pub power_state: Option<Answer<u8>>,
    /// The transitions between power states that it makes by itself; `None` if it makes none.
    pub sleep: Option<Answer<Vec<Transition>>>,
    /// How a disk stops itself.
    pub stop: Option<Answer<Stop>>,
}

/// Wear and state of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Bits: 0 spare low, 1 temperature, 2 unreliable, 3 read-only, 4 its memory is not saved at a power cut, 5 a
    /// region of its memory is unreliable.
    pub critical_warning_bits: u8,
    /// The vendor's estimate of the used life in percent; 255 stands for anything above 254 %.
    pub percentage_used_percent: u8,
    /// Remaining spare capacity, and the threshold below which it counts as low, in percent; `None` if the drive does
    /// not report it.
    pub spare_percent: Option<(u8, u8)>,
    /// Uncorrected errors of the medium; `None` if the drive does not count them.
    pub media_errors: Option<u64>,
    /// Temperature, in degrees Celsius.
    pub temperature_celsius: Option<i32>,
    /// Temperature from which it warns, in degrees Celsius.
    pub warning_celsius: Option<i32>,
}

/// A power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerState {
    /// Greatest power, in milliwatts; 0: not reported.
    pub max_power_mw: u32,
    /// Whether the drive performs I/O in this state.
    pub is_operational: bool,
    /// Longest time to enter it, in microseconds.
    pub entry_us: u32,
    /// Longest time to leave it, in microseconds.
    pub exit_us: u32,
}

/// A transition between power states that a drive makes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// Number of the state that it leaves.
    pub from: u8,
    /// Number of the state that it enters.
    pub to: u8,
    /// Time without I/O before the transition, in milliseconds.
    pub idle_ms: u32,
}

/// How a disk stops itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Level of Advanced Power Management, `None` if that is off; below 128 the disk may stop.
    pub power_management: Option<u8>,
    /// Whether it has timers of its own (extended power conditions) that are on.
    pub has_power_conditions: bool,
}

impl Answers {
    /// The answers of a drive: from `asker` if there is one, otherwise from the file of a capture.
    ///
    /// # Errors
    /// There is neither an asker nor a file, or the file cannot be parsed.
    pub(crate) fn of(tree: &Tree, name: &str, asker: Option<&dyn Ask>) -> Reading<Self> {
        let path = format!("{FOLDER}/{name}.json");
        let unreadable = |error: serde_json::Error| Lack::unreadable(&path, error.to_string());
        if let Some(asker) = asker {
            let answers = asker.ask(name);
            tree.remember_text(path.clone(), serde_json::to_string_pretty(&answers).map_err(unreadable)?);
            return Ok(answers);
        }
        // A machine's own tree contains only the kernel's facts; this file occurs in captures only.
        if tree.is_machine() {
            return Err(Lack::absent(&path));
        }
        serde_json::from_str(&tree.read(&path)?).map_err(unreadable)
    }
}

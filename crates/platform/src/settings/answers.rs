//! What a drive says only when it is asked by a command, which no file of the kernel shows.
//!
//! Nothing here sends commands: who can, answers a [`Ask`]. A capture keeps the answers as a file of JSON for each drive, below
//! [`FOLDER`], from which a tree is read. There is nothing in it that tells who the drive is.

use crate::lack::{Lack, Reading};
use crate::tree::Tree;
use serde::{Deserialize, Serialize};

/// Where a capture keeps answers: a file `NAME.json` for each drive.
pub const FOLDER: &str = "/forebay/drives";

/// Sends commands to drives.
pub trait Ask {
    /// Asks the drive of that name, such as `nvme0n1`.
    fn ask(&self, name: &str) -> Answers;
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer<T> {
    /// What was said.
    Said(T),
    /// Why there is none.
    Unknown(String),
}

/// All that a drive was asked; none where a drive of its kind is not asked that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Its wear and its state.
    pub health: Option<Answer<Health>>,
    /// The power states that it has.
    pub power_states: Option<Answer<Vec<PowerState>>>,
    /// Number of the one that it was in when it was asked.
    pub power_state: Option<Answer<u8>>,
    /// When it changes its power state by itself; none where it does not.
    pub sleep: Option<Answer<Vec<Transition>>>,
    /// How a disk stops itself.
    pub stop: Option<Answer<Stop>>,
}

/// Wear and state of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Bits: 0 spare low, 1 temperature, 2 unreliable, 3 read-only, 4 its memory is not saved at a power cut, 5 a region of its
    /// memory is unreliable.
    pub critical_warning_bits: u8,
    /// The vendor's estimate of the life used; 255 stands for anything above 254 %.
    pub percentage_used_percent: u8,
    /// Spare capacity left, and below what it counts as low; none where the drive says nothing of it.
    pub spare_percent: Option<(u8, u8)>,
    /// Errors of the medium that it could not mend, where it counts them.
    pub media_errors: Option<u64>,
    /// Temperature, in degrees Celsius.
    pub temperature_celsius: Option<i32>,
    /// Temperature from which it warns.
    pub warning_celsius: Option<i32>,
}

/// A power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerState {
    /// Power at most, in milliwatts; 0: not said.
    pub max_power_mw: u32,
    /// I/O is done in it.
    pub is_operational: bool,
    /// Time to enter it, at most, in microseconds.
    pub entry_us: u32,
    /// Time to leave it, at most, in microseconds.
    pub exit_us: u32,
}

/// A change of state that a drive makes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The state that it leaves.
    pub from: u8,
    /// The state that it enters.
    pub to: u8,
    /// After so long without I/O, in milliseconds.
    pub idle_ms: u32,
}

/// How a disk stops itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Level of Advanced Power Management, where that is on; below 128 the disk may stop.
    pub power_management: Option<u8>,
    /// It has timers of its own (extended power conditions), and they are on.
    pub has_power_conditions: bool,
}

impl Answers {
    /// The answers of a drive: from who asks it, else from the file of a capture.
    ///
    /// # Errors
    /// Where nobody asks and there is no such file, and where it cannot be understood.
    pub(crate) fn of(tree: &Tree, name: &str, asker: Option<&dyn Ask>) -> Reading<Self> {
        let path = format!("{FOLDER}/{name}.json");
        let unreadable = |error: serde_json::Error| Lack::unreadable(&path, error.to_string());
        if let Some(asker) = asker {
            let answers = asker.ask(name);
            tree.remember_text(path.clone(), serde_json::to_string_pretty(&answers).map_err(unreadable)?);
            return Ok(answers);
        }
        // A machine's own files say what its kernel says; this one is of captures.
        if tree.is_machine() {
            return Err(Lack::absent(&path));
        }
        serde_json::from_str(&tree.read(&path)?).map_err(unreadable)
    }
}

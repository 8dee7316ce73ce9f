//! Profiles of hosts, and the ones that the model brings along.

use forebay_block::mistakes::nearest;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a host costs. Read from TOML; unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Whose machine it is and which of its published figures the numbers were taken from.
    pub about: String,
    /// Processor time from the application's call to the doorbell of the drive, in nanoseconds.
    pub submit_ns: u64,
    /// Processor time from the moment the thread runs again to the application's having the result, in nanoseconds.
    pub complete_ns: u64,
    /// Processor time for each I/O that the source's latency leaves out, in nanoseconds: the load generator's own book
    /// keeping, and what of the submission lies before its clock starts (fio's completion latency begins when the system
    /// call that submits returns).
    pub between_ns: u64,
    /// How the thread learns of the end of an I/O.
    pub wait: Wait,
    /// What takes the core away from the thread; at most 8.
    #[serde(default, rename = "stall")]
    pub stalls: Vec<Stall>,
}

/// How a thread learns of the end of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Wait {
    /// The drive interrupts.
    Interrupt {
        /// Delivery and handler, on the thread's core, in nanoseconds.
        handler_ns: u64,
        /// Wake-up and context switch, only where the thread sleeps, in nanoseconds.
        wake_ns: u64,
    },
    /// The thread looks again and again.
    Poll {
        /// Time between two looks, in nanoseconds.
        every_ns: u64,
    },
}

/// Something else that runs on the thread's core now and then.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// What it is.
    pub cause: String,
    /// Mean time from the end of one to the begin of the next, in nanoseconds; at least 1000.
    pub every_ns: u64,
    /// How long it has the core, in nanoseconds.
    pub cost_ns: u64,
    /// Whether it comes at equal intervals, as a timer does, or at random ones, from none to twice the mean.
    #[serde(default)]
    pub regular: bool,
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// There is none of this name.
    #[error("there is no host profile {name:?}{}", near.map_or_else(|| format!(": there are {}", NAMES.join(", ")), |near| format!("; did you mean {near:?}?")))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest name there is, where one is near.
        near: Option<&'static str>,
    },
    /// Text that is not a profile.
    #[error("host profile: {0}")]
    Syntax(String),
    /// A number outside its range.
    #[error("host profile: {key} is {value}, allowed are {least} to {most}")]
    Range {
        /// Key in the TOML.
        key: &'static str,
        /// What it says.
        value: u64,
        /// Least allowed.
        least: u64,
        /// Most allowed.
        most: u64,
    },
}

/// The profiles' texts: each a TOML file with one table for a profile.
pub(super) const TEXTS: [&str; 4] = [
    include_str!("../../profiles/windows.toml"),
    include_str!("../../profiles/linux.toml"),
    include_str!("../../profiles/ladder.toml"),
    include_str!("../../profiles/plain.toml"),
];

/// Names of the profiles, in the order in which lists show them.
pub const NAMES: [&str; 18] = [
    "none",
    "windows-inbox",
    "windows-intel",
    "linux-anandtech",
    "linux-anandtech-sync",
    "queue-depth-paper",
    "ladder-stock",
    "ladder-stock-polled",
    "ladder-governor",
    "ladder-governor-polled",
    "ladder-irqbalance",
    "ladder-irqbalance-polled",
    "ladder-affinity",
    "ladder-affinity-polled",
    "ladder-2.3ghz",
    "ladder-2.3ghz-polled",
    "ladder-3.0ghz",
    "ladder-3.0ghz-polled",
];

/// Names of all profiles with what each is.
#[must_use]
pub fn names() -> Vec<(&'static str, String)> {
    NAMES.iter().map(|&name| (name, Profile::named(name).map(|profile| profile.about).unwrap_or_default())).collect()
}

impl Profile {
    /// A profile of [`NAMES`].
    ///
    /// # Errors
    /// [`ProfileError::Unknown`], with the nearest name.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        for text in TEXTS {
            if let Some(profile) = Self::tables(text)?.remove(name) {
                return Ok(profile);
            }
        }
        Err(ProfileError::Unknown { name: name.to_owned(), near: nearest(name, NAMES) })
    }

    /// A profile from TOML text of its own.
    ///
    /// # Errors
    /// [`ProfileError::Syntax`] and [`ProfileError::Range`].
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text).map_err(|error| ProfileError::Syntax(error.to_string()))?;
        profile.check()?;
        Ok(profile)
    }

    pub(super) fn tables(text: &str) -> Result<BTreeMap<String, Self>, ProfileError> {
        let tables: BTreeMap<String, Self> =
            toml::from_str(text).map_err(|error| ProfileError::Syntax(error.to_string()))?;
        for profile in tables.values() {
            profile.check()?;
        }
        Ok(tables)
    }

    fn check(&self) -> Result<(), ProfileError> {
        /// A second: more than any host takes for a step.
        const LONGEST_NS: u64 = 1_000_000_000;
        let range = |key, value, least, most| {
            if (least..=most).contains(&value) { Ok(()) } else { Err(ProfileError::Range { key, value, least, most }) }
        };
        range("submit_ns", self.submit_ns, 0, LONGEST_NS)?;
        range("complete_ns", self.complete_ns, 0, LONGEST_NS)?;
        range("between_ns", self.between_ns, 0, LONGEST_NS)?;
        match self.wait {
            Wait::Interrupt { handler_ns, wake_ns } => {
                range("wait.interrupt.handler_ns", handler_ns, 0, LONGEST_NS)?;
                range("wait.interrupt.wake_ns", wake_ns, 0, LONGEST_NS)?;
            }
            Wait::Poll { every_ns } => range("wait.poll.every_ns", every_ns, 0, LONGEST_NS)?,
        }
        range("number of stalls", self.stalls.len() as u64, 0, 8)?;
        for stall in &self.stalls {
            // A cause that comes more often than every microsecond would be the work itself.
            range("stall.every_ns", stall.every_ns, 1000, 1 << 50)?;
            range("stall.cost_ns", stall.cost_ns, 0, LONGEST_NS)?;
        }
        Ok(())
    }
}

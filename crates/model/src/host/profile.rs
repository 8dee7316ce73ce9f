//! Host profiles, and those that come with the model.

use forebay_block::mistakes::nearest;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Costs of a host. Read from TOML; unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The source's machine, and the published figures from which the numbers come.
    pub about: String,
    /// Processor time from the application's call to the drive's doorbell, in nanoseconds.
    pub submit_ns: u64,
    /// Processor time from the moment the thread runs again until the application has the result, in nanoseconds.
    pub complete_ns: u64,
    /// Processor time per I/O that the source's latency leaves out, in nanoseconds: the load generator's bookkeeping, and the part of the
    /// submission before its clock starts (fio's completion latency begins when the submitting system call returns).
    pub between_ns: u64,
    /// How the thread notices a completion.
    pub wait: Wait,
    /// Causes that take the core away from the thread; at most 8.
    #[serde(default, rename = "stall")]
    pub stalls: Vec<Stall>,
}

/// How a thread notices a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Wait {
    /// By an interrupt of the drive.
    Interrupt {
        /// Delivery and handler on the thread's core, in nanoseconds.
        handler_ns: u64,
        /// Wake-up and context switch, only where the thread sleeps, in nanoseconds.
        wake_ns: u64,
    },
    /// By polling.
    Poll {
        /// Time between two polls, in nanoseconds.
        every_ns: u64,
    },
}

/// Other work that runs on the thread's core from time to time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Description of the cause.
    pub cause: String,
    /// Mean time from the end of one stall to the start of the next, in nanoseconds; at least 1000.
    pub every_ns: u64,
    /// How long a stall holds the core, in nanoseconds.
    pub cost_ns: u64,
    /// Regular intervals, as of a timer, or random ones between 0 and twice the mean.
    #[serde(default)]
    pub regular: bool,
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No profile has this name.
    #[error("there is no host profile {name:?}{}", near.map_or_else(|| format!(": there are {}", NAMES.join(", ")), |near| format!("; did you mean {near:?}?")))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The nearest known name, where one is similar.
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
        /// Its value.
        value: u64,
        /// Least allowed value.
        least: u64,
        /// Greatest allowed value.
        most: u64,
    },
}

/// Texts of the profiles: TOML files with one table per profile.
pub(super) const TEXTS: [&str; 4] = [
    include_str!("../../profiles/windows.toml"),
    include_str!("../../profiles/linux.toml"),
    include_str!("../../profiles/ladder.toml"),
    include_str!("../../profiles/plain.toml"),
];

/// Names of the profiles, in display order.
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

/// Names of all profiles, each with its description.
#[must_use]
pub fn names() -> Vec<(&'static str, String)> {
    NAMES.iter().map(|&name| (name, Profile::named(name).map(|profile| profile.about).unwrap_or_default())).collect()
}

impl Profile {
    /// Returns a profile of [`NAMES`].
    ///
    /// # Errors
    /// [`ProfileError::Unknown`] with the nearest name.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        for text in TEXTS {
            if let Some(profile) = Self::tables(text)?.remove(name) {
                return Ok(profile);
            }
        }
        Err(ProfileError::Unknown { name: name.to_owned(), near: nearest(name, NAMES) })
    }

    /// Parses a profile from a TOML text.
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
        /// A second: more than any step takes on a host.
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
            // A cause that came more often than every microsecond would be the thread's work itself.
            range("stall.every_ns", stall.every_ns, 1000, 1 << 50)?;
            range("stall.cost_ns", stall.cost_ns, 0, LONGEST_NS)?;
        }
        Ok(())
    }
}

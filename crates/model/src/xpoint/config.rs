//! Parameters of an XPoint drive, as in its preset.

use crate::endurance::Life;
use serde::Deserialize;

/// Unit that the controller stripes over the dies, in bytes.
pub const BLOCK_BYTES: u64 = 4096;

/// Parameters of a drive. Read from TOML; unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Capacity that the host sees, in bytes; a multiple of 4096.
    pub capacity_bytes: u64,
    /// Media channels, 1 to 64.
    pub channels: u32,
    /// Dies per channel, 1 to 64.
    pub dies_per_channel: u32,
    /// Channels over which a 4 KiB block is striped, one die on each; divides `channels`.
    pub stripe_channels: u32,
    /// Fixed latency of a command in controller and link, half before the media and half after, in nanoseconds. It delays no other command.
    pub controller_ns: u64,
    /// Least time between two commands that the controller starts, in nanoseconds.
    pub command_interval_ns: u64,
    /// Commands that the controller processes at once, 1 to 65536; others wait in arrival order.
    pub commands: u32,
    /// Additional latency of a command that does not consist of whole aligned blocks, in nanoseconds: firmware processes it instead of the
    /// hardware path.
    pub slow_path_ns: u64,
    /// Payload of the link towards the host, in bytes a second.
    pub link_read_bytes_per_s: u64,
    /// Payload of the link towards the drive, in bytes a second.
    pub link_write_bytes_per_s: u64,
    /// How long a read block's data holds its channels, in nanoseconds.
    pub channel_read_ns: u64,
    /// How long a written block's data holds its channels, in nanoseconds.
    pub channel_write_ns: u64,
    /// Time that a channel takes to change direction, in nanoseconds.
    pub turnaround_ns: u64,
    /// Time from the start of a read in the dies until the data is in their registers, in nanoseconds.
    pub die_read_ns: u64,
    /// Time after a read in which the dies cannot start another operation, in nanoseconds.
    pub die_read_recovery_ns: u64,
    /// Time from data in the die registers until it is in the cells, in nanoseconds.
    pub die_write_ns: u64,
    /// Time after a write in which the dies cannot start another operation, in nanoseconds.
    pub die_write_recovery_ns: u64,
    /// Data registers of a die, 1 to 8: with two, data moves while the dies process the next block.
    pub registers: u32,
    /// Background refresh of the media.
    pub refresh: Refresh,
    /// Wear levelling by moving data.
    pub levelling: Levelling,
    /// Rated wear; not rated where left out.
    pub endurance: Option<Endurance>,
}

/// Rated wear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endurance {
    /// Bytes that the host may write over the warranty.
    pub written_bytes: u64,
    /// Warranty in years of 365 days, 1 to 100.
    pub years: u32,
}

/// Wear levelling: after a number of writes to a set of dies, the set is occupied while data in it is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Levelling {
    /// Blocks written to a set between two moves; 0 disables levelling.
    pub every_writes: u64,
    /// How long a move occupies the set, in nanoseconds.
    pub length_ns: u64,
    /// Bytes that a move writes, a multiple of 4096.
    pub moved_bytes: u64,
}

/// Background refresh: each set of dies is occupied for a while, periodically.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// Time between two refreshes of one set of dies, in nanoseconds; 0 disables refresh.
    pub period_ns: u64,
    /// How long one refresh occupies the set, in nanoseconds; shorter than the period.
    pub length_ns: u64,
    /// Factor by which refreshes are more frequent after a long time without power, 1 to 1000.
    pub fast_factor: u64,
    /// How long that higher frequency lasts, in nanoseconds.
    pub fast_for_ns: u64,
    /// Whether the drive was without power for long before time 0.
    #[serde(default)]
    pub after_long_power_off: bool,
}

/// Why a configuration cannot be a drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not TOML, an unknown key, or a value of another type.
    #[error("cannot read the preset of an XPoint drive: {0}")]
    Syntax(String),
    /// A number is outside its range.
    #[error("{key} is {value}, allowed are {least} to {most}")]
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
    /// Two numbers contradict each other.
    #[error("{0}")]
    Unfit(&'static str),
}

/// Upper bound of every time, one minute, so that sums cannot overflow.
const LONGEST_NS: u64 = 60_000_000_000;

impl Config {
    /// Parses and checks a preset.
    ///
    /// # Errors
    /// [`ConfigError`] where the text is not TOML of this form, or the parameters do not form a valid drive.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| ConfigError::Syntax(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// The same drive with another capacity, rounded down to whole blocks but at least one, and its rated writes in proportion. The number
    /// of channels and dies stays: real drives of one family differ in the capacity of a die or in the number of modules.
    #[must_use]
    pub fn scaled(mut self, size_bytes: u64) -> Self {
        let whole_bytes = u128::from(self.capacity_bytes.max(1));
        self.capacity_bytes = (size_bytes / BLOCK_BYTES).max(1) * BLOCK_BYTES;
        if let Some(endurance) = &mut self.endurance {
            let written = u128::from(endurance.written_bytes) * u128::from(self.capacity_bytes) / whole_bytes;
            endurance.written_bytes = u64::try_from(written).unwrap_or(u64::MAX);
        }
        self
    }

    /// Writes that the media endures; none where the preset does not rate them. Media that is written in place takes exactly the host's
    /// writes.
    #[must_use]
    pub fn life(&self) -> Option<Life> {
        let Endurance { written_bytes, years } = self.endurance?;
        let (capacity_bytes, media_bytes) = (self.capacity_bytes as f64, written_bytes as f64);
        Some(Life { capacity_bytes, media_bytes, years: f64::from(years) })
    }

    /// Number of sets: dies that work together on one block.
    #[must_use]
    pub fn sets(&self) -> u32 {
        self.channels / self.stripe_channels.max(1) * self.dies_per_channel
    }

    /// Checks all parameters.
    ///
    /// # Errors
    /// [`ConfigError`] with the key and its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let range = |key, value: u64, least, most| {
            if (least..=most).contains(&value) { Ok(()) } else { Err(ConfigError::Range { key, value, least, most }) }
        };
        range("capacity_bytes", self.capacity_bytes, BLOCK_BYTES, 1 << 60)?;
        range("channels", self.channels.into(), 1, 64)?;
        range("dies_per_channel", self.dies_per_channel.into(), 1, 64)?;
        range("stripe_channels", self.stripe_channels.into(), 1, self.channels.into())?;
        range("commands", self.commands.into(), 1, 65536)?;
        range("levelling.moved_bytes", self.levelling.moved_bytes, 0, 1 << 40)?;
        range("registers", self.registers.into(), 1, 8)?;
        range("link_read_bytes_per_s", self.link_read_bytes_per_s, 1_000_000, 1 << 40)?;
        range("link_write_bytes_per_s", self.link_write_bytes_per_s, 1_000_000, 1 << 40)?;
        for (key, value) in [
            ("controller_ns", self.controller_ns),
            ("command_interval_ns", self.command_interval_ns),
            ("slow_path_ns", self.slow_path_ns),
            ("channel_read_ns", self.channel_read_ns),
            ("channel_write_ns", self.channel_write_ns),
            ("turnaround_ns", self.turnaround_ns),
            ("die_read_ns", self.die_read_ns),
            ("die_read_recovery_ns", self.die_read_recovery_ns),
            ("die_write_ns", self.die_write_ns),
            ("die_write_recovery_ns", self.die_write_recovery_ns),
            ("levelling.length_ns", self.levelling.length_ns),
            ("refresh.length_ns", self.refresh.length_ns),
        ] {
            range(key, value, 0, LONGEST_NS)?;
        }
        if let Some(endurance) = self.endurance {
            range("endurance.written_bytes", endurance.written_bytes, 1, u64::MAX)?;
            range("endurance.years", endurance.years.into(), 1, 100)?;
        }
        range("refresh.fast_factor", self.refresh.fast_factor, 1, 1000)?;
        if !self.capacity_bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(ConfigError::Unfit("capacity_bytes is not a multiple of 4096"));
        }
        if !self.channels.is_multiple_of(self.stripe_channels) {
            return Err(ConfigError::Unfit("stripe_channels does not divide channels"));
        }
        let refresh = &self.refresh;
        if refresh.period_ns != 0 && refresh.period_ns / refresh.fast_factor <= refresh.length_ns {
            return Err(ConfigError::Unfit("refresh.length_ns is not below refresh.period_ns / refresh.fast_factor"));
        }
        Ok(())
    }
}

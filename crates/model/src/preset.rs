//! Drives by name: each a TOML file in `presets/`, with the source of every number.

use crate::endurance::Life;
use crate::nand::{self, Nand};
use crate::ssd::Ssd;
use crate::xpoint::{self, XPoint};
use forebay_block::mistakes::nearest;

/// Texts of the XPoint drives.
const XPOINT: [(&str, &str); 2] =
    [("p4800x", include_str!("../presets/p4800x.toml")), ("800p", include_str!("../presets/800p.toml"))];

/// Names of all drives with a line of description, in display order.
pub const NAMES: [(&str, &str); 13] = [
    ("p4800x", "Intel Optane SSD DC P4800X 375 GB: XPoint, PCIe 3.0 x4"),
    ("800p", "Intel Optane SSD 800P 118 GB: XPoint, PCIe 3.0 x2"),
    ("p3700", "Intel SSD DC P3700 800 GB: MLC"),
    ("micron9100", "Micron 9100 MAX 2.4 TB: MLC, 40 % spare"),
    ("p4500", "Intel SSD DC P4500: TLC"),
    ("p4510", "Intel SSD DC P4510: TLC"),
    ("p4610", "Intel SSD DC P4610: TLC, more spare"),
    ("p4320", "Intel SSD D5-P4320: QLC"),
    ("960evo", "Samsung SSD 960 EVO 1 TB: TLC with a single-level cache, for clients"),
    ("960evo-250", "Samsung SSD 960 EVO 250 GB: a quarter of its dies"),
    ("tlc", "a modern TLC drive of no maker"),
    ("qlc", "a modern QLC drive of no maker"),
    ("slc", "a modern low-latency SLC drive of no maker"),
];

/// Parameters of a drive, by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Drive {
    /// XPoint.
    XPoint(Box<xpoint::Config>),
    /// NAND flash.
    Nand(Box<nand::Config>),
}

/// Why there is no such drive.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum PresetError {
    /// No preset has this name.
    #[error("there is no model {name:?}{}; models: {}", near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default(), list())]
    Unknown {
        /// The name asked for.
        name: String,
        /// The nearest known name, where one is similar.
        near: Option<&'static str>,
    },
    /// The parameters do not form a valid XPoint drive.
    #[error("model: {0}")]
    XPoint(#[from] xpoint::ConfigError),
    /// The parameters do not form a valid NAND drive.
    #[error("model: {0}")]
    Nand(#[from] nand::ConfigError),
}

fn list() -> String {
    NAMES.map(|(name, _)| name).join(", ")
}

impl Drive {
    /// Returns a drive of [`NAMES`].
    ///
    /// # Errors
    /// [`PresetError::Unknown`] with the nearest name; any other error is a fault of the preset.
    pub fn named(name: &str) -> Result<Self, PresetError> {
        if let Some((_, text)) = XPOINT.iter().find(|(known, _)| *known == name) {
            return Ok(Self::XPoint(Box::new(xpoint::Config::from_toml(text)?)));
        }
        if nand::PRESETS.iter().any(|(known, _)| *known == name) {
            return Ok(Self::Nand(Box::new(nand::Config::preset(name)?)));
        }
        Err(PresetError::Unknown { name: name.to_owned(), near: nearest(name, NAMES.map(|(name, _)| name)) })
    }

    /// The same drive with another capacity in bytes; see `scaled` of each kind for what stays the same.
    ///
    /// # Errors
    /// [`PresetError::Nand`] where a NAND drive cannot have this size.
    pub fn scaled(self, size_bytes: u64) -> Result<Self, PresetError> {
        match self {
            Self::XPoint(config) => Ok(Self::XPoint(Box::new(config.scaled(size_bytes)))),
            Self::Nand(config) => Ok(Self::Nand(Box::new(config.scaled(size_bytes)?))),
        }
    }

    /// Capacity that the host will see, in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        match self {
            Self::XPoint(config) => config.capacity_bytes,
            Self::Nand(config) => config.capacity_bytes,
        }
    }

    /// Whether a power cut may lose acknowledged writes until a flush completes.
    #[must_use]
    pub fn has_volatile_cache(&self) -> bool {
        match self {
            // A write is acknowledged when it is in the cells.
            Self::XPoint(_) => false,
            Self::Nand(config) => !config.buffer.capacitors,
        }
    }

    /// The best unit for writing and freeing, in bytes: a block over all dies. `None` for drives that collect die by die and for XPoint.
    #[must_use]
    pub fn band_bytes(&self) -> Option<u64> {
        match self {
            Self::XPoint(_) => None,
            Self::Nand(config) => config.superblock_bytes(),
        }
    }

    /// Writes that the media endures; `None` where the preset does not rate it.
    #[must_use]
    pub fn life(&self) -> Option<Life> {
        match self {
            Self::XPoint(config) => config.life(),
            Self::Nand(config) => config.life(),
        }
    }

    /// Builds the drive as it leaves the factory.
    ///
    /// # Errors
    /// [`PresetError`] where the parameters do not form a valid drive.
    pub fn build(self, seed: u64) -> Result<Box<dyn Ssd>, PresetError> {
        match self {
            Self::XPoint(config) => Ok(Box::new(XPoint::new(*config, seed)?)),
            Self::Nand(config) => Ok(Box::new(Nand::new(nand::Config { seed, ..*config })?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::{Command, Op};

    #[test]
    fn every_preset_is_a_drive() {
        assert_eq!(NAMES.len(), XPOINT.len() + nand::PRESETS.len());
        for (name, about) in NAMES {
            assert!(!about.is_empty());
            let whole = Drive::named(name).unwrap();
            assert!(whole.capacity_bytes() > 50_000_000_000, "{name}");
            let size_bytes = 4 << 30;
            let mut ssd = whole.scaled(size_bytes).unwrap().build(1).unwrap();
            assert!(ssd.capacity_bytes().abs_diff(size_bytes) < size_bytes / 10, "{name}");
            let command = Command { tag: 7, op: Op::Write, offset_bytes: 4096, len_bytes: 4096, stream: 0 };
            ssd.submit(1000, command);
            let mut done = Vec::new();
            ssd.advance(1_000_000_000, &mut done);
            assert_eq!(done.len(), 1, "{name}");
            assert_eq!(done[0].tag, 7);
            assert!(done[0].at_ns > 1000);
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let near = |name: &str| match Drive::named(name) {
            Err(PresetError::Unknown { near, .. }) => near.map(str::to_owned),
            other => panic!("{other:?}"),
        };
        assert_eq!(near("p4800").as_deref(), Some("p4800x"));
        assert_eq!(near("p4511").as_deref(), Some("p4510"));
        assert_eq!(near("800").as_deref(), Some("800p"));
        assert_eq!(near("floppy-drive"), None);
        assert_eq!(near(""), None);
    }
}

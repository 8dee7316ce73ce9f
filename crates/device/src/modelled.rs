//! Modelled SSDs as targets: `model:NAME` in virtual time, `emulated:NAME` in real time over memory or a file.

use forebay_block::size::{SizeError, format_size, parse_size_bytes};
use forebay_model::host::{Profile, ProfileError};
use forebay_model::preset::{Drive, PresetError};
use forebay_model::ssd::{Past, Ssd};
use std::fmt;
use std::path::PathBuf;

/// The host profile where the user names none: the one with which most published figures of modelled drives were
/// measured.
pub const DEFAULT_HOST: &str = "linux-anandtech";
/// A size of this many MiB or more that is refused is not refused for being too small.
const SMALL_MAX_MIB: u64 = 16 << 10;
/// Largest default size of a flash drive: its map takes 8 bytes of memory per 4 KiB.
const FLASH_DEFAULT_BYTES: u64 = 32 << 30;
/// How often the filled part is overwritten at random before a model is used: enough to reach a steady state.
const RANDOM_PASSES: f64 = 2.0;

/// A modelled SSD as the user wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelUri {
    /// Name of the preset.
    pub name: String,
    /// Size in bytes; `None`: the drive's own, for flash at most 32 GiB.
    pub size_bytes: Option<u64>,
    /// Percentage that was written before, sequentially and then again at random. 0: as new. `None`: flash was
    /// written once completely, in sequence.
    pub fill_percent: Option<u32>,
    /// Profile of the host's cost; `None` for the default. In real time the host is the real one.
    pub host: Option<String>,
    /// Where an emulated SSD keeps its data; `None` for a model in virtual time.
    pub store: Option<Store>,
}

/// Where an emulated SSD keeps its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// Memory, lost with the process.
    Ram,
    /// A file or block device.
    Path(PathBuf),
}

/// The reason why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No such drive exists, or not in this size.
    #[error("{0}")]
    Preset(#[from] PresetError),
    /// The size is too small for the parts of the drive.
    #[error("size={} is too small for the parts of {name}: give it at least size={}", format_size(*size_bytes), format_size(*least_bytes))]
    TooSmall {
        /// Name of the drive.
        name: String,
        /// The size asked for, in bytes.
        size_bytes: u64,
        /// The smallest size that works, in bytes.
        least_bytes: u64,
    },
    /// No such host profile exists.
    #[error("{0}")]
    Host(#[from] ProfileError),
}

/// What is wrong with the notation of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelForm {
    /// An unknown parameter.
    Unknown(String),
    /// A size that cannot be parsed.
    Size(SizeError),
    /// Another mistake, in words.
    Form(&'static str),
}

impl ModelUri {
    /// Parameters of `model:`, for messages.
    pub const MODEL_PARAMETERS: &str = "size, fill, host";
    /// Parameters of `emulated:`, for messages.
    pub const EMULATED_PARAMETERS: &str = "size, fill, store";

    /// Parses the part behind the colon.
    ///
    /// # Errors
    /// [`ModelForm`].
    pub fn parse(rest: &str, is_emulated: bool) -> Result<Self, ModelForm> {
        let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
        if name.is_empty() {
            return Err(ModelForm::Form("names no drive: write e.g. model:p4800x; forebay models lists them"));
        }
        let mut uri = Self { name: name.to_owned(), size_bytes: None, fill_percent: None, host: None, store: None };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let is_again = match key {
                "size" => uri.size_bytes.is_some(),
                "fill" => uri.fill_percent.is_some(),
                "host" => uri.host.is_some(),
                "store" => uri.store.is_some(),
                _ => false,
            };
            if is_again {
                return Err(ModelForm::Form("has one parameter twice"));
            }
            match key {
                "size" => {
                    let size = parse_size_bytes(value).map_err(ModelForm::Size)?;
                    if size < 1 << 20 {
                        return Err(ModelForm::Form("is too small: at least 1 MiB"));
                    }
                    uri.size_bytes = Some(size / 4096 * 4096);
                }
                "fill" => {
                    let digits = value.strip_suffix('%').unwrap_or(value);
                    let percent = digits.parse().ok().filter(|percent| *percent <= 100);
                    uri.fill_percent =
                        Some(percent.ok_or(ModelForm::Form("has a fill that is no percentage, 0 to 100"))?);
                }
                "host" if !is_emulated => uri.host = Some(value.to_owned()),
                "store" if is_emulated && value == "ram" => uri.store = Some(Store::Ram),
                "store" if is_emulated && value.starts_with('/') => uri.store = Some(Store::Path(value.into())),
                "store" if is_emulated => {
                    return Err(ModelForm::Form("has a store that is neither \"ram\" nor a path that begins with /"));
                }
                _ => return Err(ModelForm::Unknown(key.to_owned())),
            }
        }
        if is_emulated && uri.size_bytes.is_none() {
            return Err(ModelForm::Form("lacks size=: write e.g. emulated:p4800x?size=1GiB&store=ram"));
        }
        if is_emulated {
            uri.store.get_or_insert(Store::Ram);
        }
        Ok(uri)
    }

    /// The drive's parts, in the size asked for.
    ///
    /// # Errors
    /// [`ModelError::Preset`], [`ModelError::TooSmall`].
    pub fn drive(&self) -> Result<Drive, ModelError> {
        let drive = Drive::named(&self.name)?;
        let is_flash = matches!(drive, Drive::Nand(_));
        let size_bytes = match self.size_bytes {
            Some(size_bytes) => size_bytes,
            None if is_flash => drive.capacity_bytes().min(FLASH_DEFAULT_BYTES),
            None => return Ok(drive),
        };
        if size_bytes == drive.capacity_bytes() {
            return Ok(drive);
        }
        drive.scaled(size_bytes).map_err(|error| self.too_small(error))
    }

    /// The error of a drive of that size, in terms of the size asked for where a larger one works.
    fn too_small(&self, error: PresetError) -> ModelError {
        let least = self.size_bytes.and_then(|size_bytes| Some((size_bytes, self.least_bytes(size_bytes)?)));
        match least {
            Some((size_bytes, least_bytes)) => {
                ModelError::TooSmall { name: self.name.clone(), size_bytes, least_bytes }
            }
            None => error.into(),
        }
    }

    /// The least size in whole MiB beyond `size_bytes` in which the drive works; `None` where its failure has another
    /// cause.
    fn least_bytes(&self, size_bytes: u64) -> Option<u64> {
        let can_be = |mib: u64| {
            let drive = Drive::named(&self.name).and_then(|drive| drive.scaled(mib << 20));
            drive.and_then(|drive| drive.build(0)).is_ok()
        };
        let mut low = size_bytes >> 20;
        let mut high = low.max(1);
        while !can_be(high) {
            // A drive that fails even with that does not fail because of its size.
            high = high.checked_mul(2).filter(|mib| *mib <= SMALL_MAX_MIB)?;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if can_be(middle) { high = middle } else { low = middle }
        }
        Some(high << 20)
    }

    /// Builds the drive, and fills it as configured.
    ///
    /// # Errors
    /// [`ModelError::Preset`], [`ModelError::TooSmall`].
    pub fn build(&self, seed: u64) -> Result<Box<dyn Ssd>, ModelError> {
        let drive = self.drive()?;
        let is_flash = matches!(drive, Drive::Nand(_));
        let mut ssd = drive.build(seed).map_err(|error| self.too_small(error))?;
        match self.fill_percent {
            Some(0) => {}
            Some(percent) => ssd.age(Past { filled: f64::from(percent) / 100.0, random_passes: RANDOM_PASSES }),
            // Reads of unwritten flash touch no flash and would say nothing about the drive.
            None if is_flash => ssd.age(Past { filled: 1.0, random_passes: 0.0 }),
            None => {}
        }
        Ok(ssd)
    }

    /// The profile of the host's cost.
    ///
    /// # Errors
    /// [`ModelError::Host`].
    pub fn profile(&self) -> Result<Profile, ModelError> {
        Ok(Profile::named(self.host.as_deref().unwrap_or(DEFAULT_HOST))?)
    }

    /// A description for results: size and previous writes.
    #[must_use]
    pub fn description(&self, size_bytes: u64) -> String {
        let past = match self.fill_percent {
            Some(0) => "nothing written before".to_owned(),
            Some(percent) => format!("{percent} % written, then {RANDOM_PASSES:.0} times as much over it at random"),
            None if matches!(Drive::named(&self.name), Ok(Drive::Nand(_))) => {
                "all written once, sequentially".to_owned()
            }
            None => "in-place media".to_owned(),
        };
        let host = match self.store {
            None => format!("host {}, virtual time", self.host.as_deref().unwrap_or(DEFAULT_HOST)),
            Some(_) => "real time".to_owned(),
        };
        format!("model of {}, {}, {past}; {host}", self.name, format_size(size_bytes))
    }
}

impl fmt::Display for ModelUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.store.is_some() { "emulated:" } else { "model:" })?;
        f.write_str(&self.name)?;
        let mut separator = '?';
        let mut put = |f: &mut fmt::Formatter<'_>, key: &str, value: &str| {
            let written = write!(f, "{separator}{key}={value}");
            separator = '&';
            written
        };
        if let Some(size_bytes) = self.size_bytes {
            put(f, "size", &format_size(size_bytes))?;
        }
        if let Some(percent) = self.fill_percent {
            put(f, "fill", &percent.to_string())?;
        }
        if let Some(host) = &self.host {
            put(f, "host", host)?;
        }
        match &self.store {
            Some(Store::Ram) => put(f, "store", "ram"),
            Some(Store::Path(path)) => put(f, "store", &path.to_string_lossy()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_equal() {
        for (text, emulated) in [
            ("p4800x", false),
            ("p3700?size=1GiB&fill=90&host=none", false),
            ("tlc?size=2GiB&store=ram", true),
            ("slc?size=1GiB&fill=10&store=/tmp/x", true),
        ] {
            let uri = ModelUri::parse(text, emulated).unwrap();
            let scheme = if emulated { "emulated:" } else { "model:" };
            assert_eq!(uri.to_string(), format!("{scheme}{text}"));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let fails = |text, emulated| ModelUri::parse(text, emulated).unwrap_err();
        assert!(matches!(fails("", false), ModelForm::Form(_)));
        assert_eq!(fails("p4800x?store=ram", false), ModelForm::Unknown("store".into()));
        assert_eq!(fails("p4800x?size=1GiB&host=none", true), ModelForm::Unknown("host".into()));
        // Regression: the last one of two equal parameters counted, without an error.
        for text in ["p4800x?size=1GiB&size=2GiB", "p4800x?fill=1&fill=1", "p4800x?host=none&host=none"] {
            assert_eq!(fails(text, false), ModelForm::Form("has one parameter twice"), "{text}");
        }
        assert_eq!(fails("p4800x?size=1GiB&store=ram&store=/x", true), ModelForm::Form("has one parameter twice"));
        for text in ["p4800x?fill=101", "p4800x?fill=x", "p4800x?size=4KiB"] {
            assert!(matches!(fails(text, false), ModelForm::Form(_)), "{text}");
        }
        assert!(matches!(fails("p4800x", true), ModelForm::Form(_)), "an emulated drive needs a size");
        assert!(matches!(fails("p4800x?size=1GiB&store=here", true), ModelForm::Form(_)));
        // Regression: the message was "model: geometry.blocks_per_plane is 7: 8 to 1048576".
        for name in ["p4610", "p4510", "p3700", "tlc", "qlc", "slc", "960evo"] {
            let refused = ModelUri::parse(&format!("{name}?size=1MiB"), false).unwrap().build(1).err();
            let Some(ModelError::TooSmall { least_bytes, .. }) = refused else { panic!("{name}: {refused:?}") };
            let of = |bytes: u64| ModelUri::parse(&format!("{name}?size={bytes}"), false).unwrap().build(1);
            assert!(of(least_bytes).is_ok() && of(least_bytes - (1 << 20)).is_err(), "{name}: {least_bytes}");
            let text = of(1 << 20).err().unwrap().to_string();
            assert!(
                text.starts_with("size=1MiB is too small for the parts of") && text.contains("at least size="),
                "{text}"
            );
        }
        let unknown = ModelUri::parse("p4800y", false).unwrap().build(1).err().unwrap().to_string();
        assert!(unknown.contains("p4800x"), "{unknown}");
        let uri = ModelUri::parse("p4800x?host=linux", false).unwrap();
        assert!(uri.profile().is_err());
    }
}

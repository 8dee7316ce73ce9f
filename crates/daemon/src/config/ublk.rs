//! `ublk` of an `[[export]]`.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// Count of device numbers that the driver accepts (`UBLK_MAX_UBLKS` of drivers/block/ublk_drv.c).
const NUMBERS: u32 = 1 << 20;

/// Which block device of this machine's kernel serves an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ublk {
    /// The device that an earlier server left for this export, else any free number.
    Auto,
    /// `/dev/ublkbN`.
    Number(u32),
}

/// The forms in which `ublk` may be written, for the schema and for reading.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum UblkForms {
    Number(u32),
    Text(String),
}

impl<'de> Deserialize<'de> for Ublk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match UblkForms::deserialize(deserializer) {
            Ok(UblkForms::Number(number)) if number < NUMBERS => Ok(Self::Number(number)),
            Ok(UblkForms::Text(text)) if text == "auto" => Ok(Self::Auto),
            _ => Err(serde::de::Error::custom("ublk is \"auto\" or the number of a device, such as 0 for /dev/ublkb0")),
        }
    }
}

impl Ublk {
    /// The configured device number; `None` with `"auto"`.
    pub fn number(self) -> Option<u32> {
        match self {
            Self::Auto => None,
            Self::Number(number) => Some(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_or_a_number() {
        #[derive(Debug, Deserialize)]
        struct Part {
            ublk: Ublk,
        }
        let read = |text: &str| toml::from_str::<Part>(text).map(|part| part.ublk.number());
        assert_eq!(read("ublk = \"auto\""), Ok(None));
        assert_eq!(read("ublk = 7"), Ok(Some(7)));
        for bad in ["ublk = \"7\"", "ublk = -1", "ublk = 1048576", "ublk = true"] {
            assert!(read(bad).unwrap_err().to_string().contains("ublk is \"auto\" or"), "{bad}");
        }
    }
}

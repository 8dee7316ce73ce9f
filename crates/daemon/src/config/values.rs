//! Types of values with their own notation: sizes, durations, targets, places.

use crate::text::chain;
use forebay_block::mistakes::shown;
use forebay_block::size::parse_size_bytes;
use forebay_device::{Target, TargetError};
use forebay_export::Listen;
use forebay_export::server::AddressError;
use forebay_placement::grouping::Kind as GroupingKind;
use forebay_prism::Compress;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::net::SocketAddr;

/// A size in bytes, written as a number or as `64MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// The forms in which a size may be written, for the schema and for reading.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum SizeForms {
    Number(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = SizeForms::deserialize(deserializer)
            .map_err(|_| serde::de::Error::custom("a size is a number of bytes or a text such as \"64MiB\""))?;
        match value {
            SizeForms::Number(bytes) => Ok(Self(bytes)),
            SizeForms::Text(text) => parse_size_bytes(&text).map(Self).map_err(serde::de::Error::custom),
        }
    }
}

/// An address to listen at. A host name is resolved once, when the file is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address as the file writes it.
    pub text: String,
    /// The resolved address.
    pub at: Listen,
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at = text.parse().map_err(|error: AddressError| serde::de::Error::custom(chain(&error.into())))?;
        Ok(Self { text, at })
    }
}

/// A share of a whole, 0.0 to 1.0, written as a number or as `25%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

/// The forms in which a share may be written, for the schema and for reading.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum ShareForms {
    Number(f64),
    Text(String),
}

/// Parses `0.25` or `25%`.
///
/// # Errors
/// The text is not a share from 0.0 to 1.0; the message shows the notation.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let wrong = || format!("{:?} is not a share: write a number from 0.0 to 1.0, or such as \"25%\"", shown(text));
    let trimmed = text.trim();
    let (number, whole) = trimmed.strip_suffix('%').map_or((trimmed, 1.0), |number| (number.trim_end(), 100.0));
    let value = number.parse::<f64>().map_err(|_| wrong())? / whole;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(wrong()) }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = ShareForms::deserialize(deserializer)
            .map_err(|_| serde::de::Error::custom("a share is a number from 0.0 to 1.0, or a text such as \"25%\""))?;
        match value {
            // A number out of range is refused later, where the message can name the class.
            ShareForms::Number(share) => Ok(Self(share)),
            ShareForms::Text(text) => parse_share(&text).map(Self).map_err(serde::de::Error::custom),
        }
    }
}

/// Compression of a class, written as `off`, `lz4` or `zstd:3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compression(pub Compress);

impl<'de> Deserialize<'de> for Compression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Compression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Permissions of a socket, written in octal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(pub u32);

impl<'de> Deserialize<'de> for SocketMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = "a socket's mode is a text in octal from \"0000\" to \"0777\", such as \"0660\"";
        let text = String::deserialize(deserializer).map_err(|_| serde::de::Error::custom(wrong))?;
        let mode = u32::from_str_radix(&text, 8).ok().filter(|&mode| mode <= 0o777);
        mode.map(Self).ok_or_else(|| serde::de::Error::custom(wrong))
    }
}

/// Address and port at which HTTP is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpAddress(pub SocketAddr);

impl<'de> Deserialize<'de> for HttpAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = "metrics are served at an address and a port, such as \"127.0.0.1:9650\" or \"[::1]:9650\"";
        let text = String::deserialize(deserializer).map_err(|_| serde::de::Error::custom(wrong))?;
        text.parse().map(Self).map_err(|_| serde::de::Error::custom(wrong))
    }
}

/// Latency threshold of one request, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTime(pub u64);

impl<'de> Deserialize<'de> for LogTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let ns = forebay_block::size::parse_time_ns(&text).map_err(serde::de::Error::custom)?;
        if ns == 0 {
            return Err(serde::de::Error::custom("every request takes longer than 0s"));
        }
        Ok(Self(ns))
    }
}

/// How long the event loop polls for new requests before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Nanoseconds; 0 turns polling off.
    pub ns: u64,
}

/// Polling time of `poll = true`, in nanoseconds.
const POLL_DEFAULT_NS: u64 = 100_000;
/// Longest polling time accepted, in nanoseconds.
const POLL_MAX_NS: u64 = 1_000_000_000;

/// The forms in which polling may be written, for the schema and for reading.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum PollForms {
    Flag(bool),
    Text(String),
}

impl<'de> Deserialize<'de> for Poll {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = "poll is true, false, or a duration from \"1us\" to \"1s\" (ns, us, ms, s)";
        let value = PollForms::deserialize(deserializer).map_err(|_| serde::de::Error::custom(wrong))?;
        let ns = match value {
            PollForms::Flag(false) => 0,
            PollForms::Flag(true) => POLL_DEFAULT_NS,
            PollForms::Text(text) => duration_ns(&text).ok_or_else(|| serde::de::Error::custom(wrong))?,
        };
        Ok(Self { ns })
    }
}

fn duration_ns(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let factor = match unit.trim() {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    let ns = number.parse::<u64>().ok()?.checked_mul(factor)?;
    (1..=POLL_MAX_NS).contains(&ns).then_some(ns)
}

/// A device by path or URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetText(pub Target);

impl<'de> Deserialize<'de> for TargetText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let target: Result<Target, TargetError> = text.parse();
        target.map(Self).map_err(|why| serde::de::Error::custom(why.in_pool()))
    }
}

/// Where the writes of a class go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Lives on the fast tier.
    Fast,
    /// Acknowledged from the fast tier, later moved to the capacity tier in whole bands.
    Stage,
    /// Straight to the capacity tier. Short writes that are to be compressed pass through the fast tier first.
    Capacity,
    /// To both tiers at once.
    Both,
}

/// Longest path of a Unix socket (unix(7): 108 bytes with the final zero).
pub const SOCKET_PATH_MAX: usize = 107;

/// All places with their names in the configuration.
pub const PLACES: [(&str, Place); 4] =
    [("fast", Place::Fast), ("stage", Place::Stage), ("capacity", Place::Capacity), ("both", Place::Both)];

impl From<Place> for forebay_prism::Place {
    fn from(place: Place) -> Self {
        match place {
            Place::Fast => Self::Fast,
            Place::Stage => Self::Stage,
            Place::Capacity => Self::Capacity,
            Place::Both => Self::Both,
        }
    }
}

/// Which connections to an export must use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TlsWord {
    /// All of them.
    Required,
    /// Those by TCP; connections by Unix sockets need none.
    Network,
    /// None of them.
    Optional,
}

/// Lifetime grouping on the capacity tier, written as the name of its policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grouping(pub GroupingKind);

impl<'de> Deserialize<'de> for Grouping {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let known = GroupingKind::ALL.map(|kind| kind.name().to_lowercase()).join(", ");
        let wrong = || serde::de::Error::custom(format!("{:?} is no grouping; there are {known}", shown(&text)));
        GroupingKind::of_name(&text).map(Self).ok_or_else(wrong)
    }
}

/// Blocks of data and of parity in a row, written as `4+2`. As many capacity devices may be lost as there are blocks
/// of parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redundancy(pub forebay_volume::parity::Redundancy);

impl<'de> Deserialize<'de> for Redundancy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// The name of a place as the configuration writes it.
pub fn place_name(place: forebay_prism::Place) -> &'static str {
    match place {
        forebay_prism::Place::Fast => "fast",
        forebay_prism::Place::Stage => "stage",
        forebay_prism::Place::Capacity => "capacity",
        forebay_prism::Place::Both => "both",
    }
}

#[cfg(test)]
mod tests {
    use super::{Grouping, GroupingKind, duration_ns, parse_share};

    #[test]
    fn groupings_are_those_of_the_table_and_others_are_answered_with_them() {
        let of = |text: &str| {
            toml::from_str::<std::collections::BTreeMap<String, Grouping>>(&format!("grouping = {text:?}"))
        };
        assert_eq!(of("sepbit").unwrap()["grouping"], Grouping(GroupingKind::SepBit));
        assert_eq!(of("midas-like").unwrap()["grouping"], Grouping(GroupingKind::Midas));
        let error = of("lru").unwrap_err().to_string();
        assert!(error.contains("is no grouping") && error.contains("sepbit"), "{error}");
    }

    #[test]
    fn shares_are_numbers_or_percent() {
        assert_eq!((parse_share("25%"), parse_share("0.25"), parse_share(" 100 % ")), (Ok(0.25), Ok(0.25), Ok(1.0)));
        for wrong in ["", "%", "25", "-1%", "101%", "NaN", "a quarter"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_have_units_and_limits() {
        assert_eq!(duration_ns("50us"), Some(50_000));
        assert_eq!(duration_ns("1s"), Some(1_000_000_000));
        for wrong in ["", "5", "us", "2s", "0us", "-1us", "99999999999999999999s"] {
            assert_eq!(duration_ns(wrong), None, "{wrong}");
        }
    }
}

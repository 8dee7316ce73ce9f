//! Names of the objects. A name holds the range of the device, the time of writing and the checksum of the content.
//! So opening needs only the list of names, and a repeated request stores the same bytes under the same name.

use std::fmt;
use std::str::FromStr;

/// When an object was made: the opening, and a counter within it. The greater sequence is the newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Sequence {
    /// Number of the opening.
    pub(crate) epoch: u32,
    /// Counter within the epoch, from 1 on.
    pub(crate) counter: u64,
}

/// The content of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Data with this CRC32C.
    Data {
        /// The checksum.
        crc: u32,
    },
    /// Zeros. They are not stored: the object is empty.
    Zeros,
}

/// The name of an object, which holds a range of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectName {
    /// When the object was made.
    pub(crate) sequence: Sequence,
    /// Offset of its range on the device, in bytes.
    pub(crate) start_bytes: u64,
    /// Length of its range, in bytes.
    pub(crate) len_bytes: u64,
    /// Kind of content.
    pub(crate) content: Content,
}

impl ObjectName {
    /// End of its range on the device, in bytes.
    pub(crate) fn end_bytes(&self) -> u64 {
        self.start_bytes + self.len_bytes
    }

    /// Path of the object below the prefix.
    pub(crate) fn path(&self) -> String {
        format!("data/{self}")
    }

    /// Bytes stored in the object; 0 for zeros.
    pub(crate) fn stored_bytes(&self) -> u64 {
        match self.content {
            Content::Data { .. } => self.len_bytes,
            Content::Zeros => 0,
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sequence { epoch, counter } = self.sequence;
        write!(f, "{epoch:08x}-{counter:012x}-{:016x}-{:010x}-", self.start_bytes, self.len_bytes)?;
        match self.content {
            Content::Data { crc } => write!(f, "{crc:08x}"),
            Content::Zeros => f.write_str("zeros"),
        }
    }
}

/// The text is not the name of a data object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoName;

impl FromStr for ObjectName {
    type Err = NoName;

    fn from_str(text: &str) -> Result<Self, NoName> {
        let mut parts = text.split('-');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let numbers = (number(), number(), number(), number());
        let (Some(epoch), Some(counter), Some(start_bytes), Some(len_bytes)) = numbers else { return Err(NoName) };
        let content = match parts.next() {
            Some("zeros") => Content::Zeros,
            Some(crc) => Content::Data { crc: u32::from_str_radix(crc, 16).map_err(|_| NoName)? },
            None => return Err(NoName),
        };
        let epoch = u32::try_from(epoch).map_err(|_| NoName)?;
        let name = Self { sequence: Sequence { epoch, counter }, start_bytes, len_bytes, content };
        // Only the exact notation is accepted: signs, capitals or missing digits show that another program wrote the
        // name.
        let is_range = len_bytes > 0 && start_bytes.checked_add(len_bytes).is_some();
        if is_range && name.to_string() == text { Ok(name) } else { Err(NoName) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_what_is_none() {
        let good = "00000001-000000000002-0000000000001000-0000000200-1a2b3c4d";
        assert!(good.parse::<ObjectName>().is_ok());
        for text in [
            "",
            "x",
            "00000001-000000000002-0000000000001000-0000000200",
            "00000001-000000000002-0000000000001000-0000000000-zeros",
            "00000001-000000000002-ffffffffffffffff-0000000200-zeros",
            "1-2-1000-200-1a2b3c4d",
            "00000001-000000000002-0000000000001000-0000000200-1A2B3C4D",
            "00000001-000000000002-0000000000001000-0000000200-1a2b3c4d-x",
            "+0000001-000000000002-0000000000001000-0000000200-1a2b3c4d",
        ] {
            assert_eq!(text.parse::<ObjectName>(), Err(NoName), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn reads_back(epoch: u32, counter in 0..1u64 << 48, start in 0..1u64 << 60, len in 1..1u64 << 40, crc: Option<u32>) {
            let content = crc.map_or(Content::Zeros, |crc| Content::Data { crc });
            let sequence = Sequence { epoch, counter };
            let name = ObjectName { sequence, start_bytes: start, len_bytes: len, content };
            prop_assert_eq!(name.to_string().parse(), Ok(name));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<ObjectName>();
        }
    }
}

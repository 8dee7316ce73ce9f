//! How the data of a class is compressed on the capacity tier: `off`, `lz4`, or `zstd:LEVEL`.

use forebay_block::mistakes::shown;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use thiserror::Error;

/// Levels of zstd that can be configured.
pub const ZSTD_LEVELS: RangeInclusive<u8> = 1..=19;
/// The level if none is given, which is zstd's own default.
const ZSTD_LEVEL_DEFAULT: u8 = 3;

/// Compression of a class. A change while a pool is served applies to data moved from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compress {
    /// Blocks are stored uncompressed.
    #[default]
    Off,
    /// LZ4: a few microseconds for each 4 KiB.
    Lz4,
    /// Zstandard with this level, one of [`ZSTD_LEVELS`].
    Zstd(u8),
}

/// The text is no valid compression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{:?} is no compression: `off`, `lz4`, or `zstd:LEVEL` with a level from {} to {}", shown(text), ZSTD_LEVELS.start(), ZSTD_LEVELS.end())]
pub struct CompressError {
    /// The text as given.
    pub text: String,
}

impl FromStr for Compress {
    type Err = CompressError;

    fn from_str(text: &str) -> Result<Self, CompressError> {
        let level = match text {
            "off" => return Ok(Self::Off),
            "lz4" => return Ok(Self::Lz4),
            "zstd" => Some(ZSTD_LEVEL_DEFAULT),
            _ => text.strip_prefix("zstd:").and_then(|level| level.parse().ok()),
        };
        let level = level.filter(|level| ZSTD_LEVELS.contains(level));
        level.map(Self::Zstd).ok_or_else(|| CompressError { text: text.to_owned() })
    }
}

impl fmt::Display for Compress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

impl Compress {
    /// The stored form, one byte: 0 off, 255 LZ4, otherwise the level of zstd.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::Lz4 => u8::MAX,
            Self::Zstd(level) => level,
        }
    }

    /// Decodes [`Compress::to_byte`]; `None` for an invalid byte.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Off),
            u8::MAX => Some(Self::Lz4),
            level => ZSTD_LEVELS.contains(&level).then_some(Self::Zstd(level)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for (text, compress) in [
            ("off", Compress::Off),
            ("lz4", Compress::Lz4),
            ("zstd:1", Compress::Zstd(1)),
            ("zstd:19", Compress::Zstd(19)),
        ] {
            assert_eq!(text.parse(), Ok(compress));
            assert_eq!(compress.to_string(), text);
            assert_eq!(Compress::from_byte(compress.to_byte()), Some(compress));
        }
        assert_eq!("zstd".parse(), Ok(Compress::Zstd(3)));
        for bad in ["", "on", "LZ4", "zstd:", "zstd:0", "zstd:20", "zstd:300", "zstd:-1", "zstd:3 "] {
            let error = bad.parse::<Compress>().unwrap_err();
            assert!(error.to_string().contains("zstd:LEVEL"), "{error}");
        }
        assert_eq!((20..255).filter_map(Compress::from_byte).count(), 0);
    }
}

//! Pre-shared keys: lines of `identity:key in hexadecimal`, as GnuTLS's psktool writes them and libnbd and QEMU read them.

use std::collections::HashMap;
use std::fmt;
use thiserror::Error;

/// Shortest key accepted, in bytes. RFC 9257, "Security Considerations": at least 128 bits.
const KEY_BYTES_MIN: usize = 16;
/// Longest key accepted, in bytes: the longest that psktool makes.
const KEY_BYTES_MAX: usize = 64;
/// Longest identity accepted, in bytes: the limit of OpenSSL for TLS 1.2 clients, which is ample for a name.
const IDENTITY_BYTES_MAX: usize = 128;
/// Most keys in a file.
const KEYS_MAX: usize = 4096;

/// The reason why a file of keys cannot be used. Keys are never shown.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum KeyFileError {
    /// A line is not `identity:key`.
    #[error(
        "line {0} is not identity:key, with 16 to 64 bytes of key in hexadecimal and an identity of 1 to 128 bytes"
    )]
    Line(usize),
    /// An identity occurs twice.
    #[error("line {line} names identity {identity:?} a second time")]
    Twice {
        /// Number of the second line.
        line: usize,
        /// The identity.
        identity: String,
    },
    /// The file holds no key.
    #[error("there is no key in it")]
    Empty,
    /// The file holds too many keys.
    #[error("there are more than {KEYS_MAX} keys in it")]
    TooMany,
}

/// Keys by identity.
#[derive(Default)]
pub struct Keys(HashMap<String, Vec<u8>>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

impl Keys {
    /// Parses the lines of a file. Empty lines and lines that start with `#` are ignored.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        let mut keys = HashMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // An identity may contain colons, a key may not.
            let parsed = line.rsplit_once(':').and_then(|(identity, key)| Some((identity, bytes_of(key)?)));
            let Some((identity, key)) = parsed else {
                return Err(KeyFileError::Line(number));
            };
            let fits = (1..=IDENTITY_BYTES_MAX).contains(&identity.len()) && !identity.contains(char::is_control);
            if !fits || !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&key.len()) {
                return Err(KeyFileError::Line(number));
            }
            if keys.insert(identity.to_owned(), key).is_some() {
                return Err(KeyFileError::Twice { line: number, identity: identity.to_owned() });
            }
            if keys.len() > KEYS_MAX {
                return Err(KeyFileError::TooMany);
            }
        }
        if keys.is_empty() { Err(KeyFileError::Empty) } else { Ok(Self(keys)) }
    }

    /// The key of an identity; `None` where there is none.
    pub fn of(&self, identity: &str) -> Option<&[u8]> {
        self.0.get(identity).map(Vec::as_slice)
    }
}

fn bytes_of(hexadecimal: &str) -> Option<Vec<u8>> {
    let digits = hexadecimal.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    // Two digits of four bits each make a byte.
    digits.chunks_exact(2).map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_psktool_writes() {
        let keys = Keys::parse(
            "# clients\n\nalice:000102030405060708090a0b0c0d0e0F\nurn:b:ffffffffffffffffffffffffffffffff\n",
        )
        .unwrap();
        assert_eq!(keys.of("alice"), Some(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15][..]));
        assert_eq!(keys.of("urn:b"), Some(&[255; 16][..]));
        assert_eq!(keys.of("Alice"), None);
    }

    #[test]
    fn refuses_what_is_no_key() {
        let key = "00112233445566778899aabbccddeeff";
        for (text, expected) in [
            (String::new(), KeyFileError::Empty),
            ("# nothing\n".to_owned(), KeyFileError::Empty),
            (format!("a:{key}\nalice\n"), KeyFileError::Line(2)),
            (format!(":{key}"), KeyFileError::Line(1)),
            (format!("a:{}", &key[2..]), KeyFileError::Line(1)),
            (format!("a:{key}0"), KeyFileError::Line(1)),
            (format!("a:{key}zz"), KeyFileError::Line(1)),
            (format!("a:{}", key.repeat(5)), KeyFileError::Line(1)),
            (format!("{}:{key}", "a".repeat(129)), KeyFileError::Line(1)),
            (format!("a:{key}\n\na:{key}"), KeyFileError::Twice { line: 3, identity: "a".to_owned() }),
        ] {
            assert_eq!(Keys::parse(&text).unwrap_err(), expected, "{text}");
        }
    }
}

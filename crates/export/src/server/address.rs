//! The addresses at which a server listens.

use crate::access::{Admission, Client, Security};
use crate::exports::Export;
use forebay_block::mistakes::shown;
use std::borrow::Cow;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// An address to listen on: `unix:PATH` or `tcp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP socket.
    Tcp(SocketAddr),
}

/// The reason why an address cannot be parsed.
#[derive(Debug, Error)]
pub enum AddressError {
    /// Neither `unix:` nor `tcp:`.
    #[error("{:?} is not an address to listen on: write unix:/path/to/socket or tcp:127.0.0.1:10809", shown(.0))]
    Scheme(String),
    /// No path, or no address.
    #[error("{:?} names no socket", shown(.0))]
    Empty(String),
    /// The host or port cannot be resolved.
    #[error("{:?} is not a host and port", shown(address))]
    Resolve {
        /// The address as given.
        address: String,
        /// The reason.
        source: std::io::Error,
    },
}

impl FromStr for Listen {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err(AddressError::Empty(text.to_owned()))
            } else {
                Ok(Self::Unix(PathBuf::from(path)))
            };
        }
        let Some(address) = text.strip_prefix("tcp:") else {
            return Err(AddressError::Scheme(text.to_owned()));
        };
        address
            .to_socket_addrs()
            .map_err(|source| AddressError::Resolve { address: address.to_owned(), source })?
            .next()
            .map(Self::Tcp)
            .ok_or_else(|| AddressError::Empty(text.to_owned()))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl Listen {
    /// URI of an export at this address (`doc/uri.md` of the NBD project): `nbd+unix:///EXPORT?socket=PATH` or
    /// `nbd://HOST:PORT/EXPORT`.
    #[must_use]
    pub fn uri(&self, export: &str) -> String {
        self.uri_by("nbd", export)
    }

    /// URI of an export for clients at this address, with `nbds` where they need TLS. `None` where the export cannot
    /// be reached here.
    #[must_use]
    pub fn uri_of(&self, export: &Export) -> Option<String> {
        let client = Client { network: matches!(self, Self::Tcp(_)), security: Security::Offered };
        match export.access.admits(&client) {
            Admission::Granted => Some(self.uri_by("nbd", &export.name)),
            Admission::NeedsTls => Some(self.uri_by("nbds", &export.name)),
            Admission::Hidden => None,
        }
    }

    /// URI of an export for virtual machines at this address: `vhost+unix:///EXPORT?socket=PATH`.
    #[must_use]
    pub fn vhost_uri(&self, export: &str) -> String {
        self.uri_by("vhost", export)
    }

    fn uri_by(&self, scheme: &str, export: &str) -> String {
        let export = percent_encoded(export.as_bytes(), b"/");
        match self {
            Self::Unix(path) => {
                let path = percent_encoded(reachable(path).as_os_str().as_encoded_bytes(), b"/");
                format!("{scheme}+unix:///{export}?socket={path}")
            }
            Self::Tcp(address) => format!("{scheme}://{address}/{export}"),
        }
    }
}

/// Longest path of a Unix socket (unix(7): 108 bytes with the final zero).
const SOCKET_PATH_MAX: usize = 107;

/// The path of a socket for clients that are elsewhere: in full, unless no socket may be reached by one so long.
fn reachable(path: &Path) -> Cow<'_, Path> {
    match std::path::absolute(path) {
        Ok(full) if full.as_os_str().len() <= SOCKET_PATH_MAX => Cow::Owned(full),
        _ => Cow::Borrowed(path),
    }
}

/// Keeps the unreserved characters of RFC 3986 and those of `also`.
fn percent_encoded(bytes: &[u8], also: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses_and_writes_uris() {
        let unix: Listen = "unix:/run/a b.sock".parse().unwrap();
        assert_eq!(unix.to_string(), "unix:/run/a b.sock");
        assert_eq!(unix.uri("db?1"), "nbd+unix:///db%3F1?socket=/run/a%20b.sock");
        let tcp: Listen = "tcp:127.0.0.1:10809".parse().unwrap();
        assert_eq!(tcp.uri("db"), "nbd://127.0.0.1:10809/db");
        // Elsewhere nobody found it.
        let relative: Listen = "unix:run/s".parse().unwrap();
        let full = std::path::absolute("run/s").unwrap();
        assert_eq!(relative.uri("db"), format!("nbd+unix:///db?socket={}", full.display()));
        let long: Listen = format!("unix:{}", "d/".repeat(50)).parse().unwrap();
        assert!(long.uri("db").ends_with(&format!("socket={}", "d/".repeat(50))));
        for bad in ["", "/run/x", "unix:", "tcp:", "tcp:127.0.0.1", "tcp:127.0.0.1:70000"] {
            assert!(bad.parse::<Listen>().is_err(), "{bad}");
        }
    }
}

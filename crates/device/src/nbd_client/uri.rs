//! NBD URIs (NetworkBlockDevice/nbd, doc/uri.md): `nbd://host[:port]/export`, `nbd+unix:///export?socket=/path`.

use super::stream::Endpoint;
use forebay_block::mistakes::shown;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The port assigned by IANA.
const DEFAULT_PORT: u16 = 10809;

/// An export and its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdUri {
    /// Address of the server.
    pub endpoint: Endpoint,
    /// Name of the export; empty for the server's default.
    pub export: String,
}

/// An error in a URI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{:?} {what}; write nbd+unix:///EXPORT?socket=/PATH or nbd://127.0.0.1:10809/EXPORT", shown(text))]
pub struct NbdUriError {
    /// The URI.
    pub text: String,
    /// What is wrong with it.
    pub what: &'static str,
}

impl FromStr for NbdUri {
    type Err = NbdUriError;

    fn from_str(text: &str) -> Result<Self, NbdUriError> {
        let fail = |what| NbdUriError { text: text.to_owned(), what };
        if let Some(rest) = text.strip_prefix("nbd+unix://") {
            let (path, query) = rest.split_once('?').ok_or_else(|| fail("names no socket"))?;
            let export = path.strip_prefix('/').ok_or_else(|| fail("names a host with a Unix socket"))?;
            let mut sockets = Vec::new();
            for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
                let socket = parameter.strip_prefix("socket=");
                sockets.push(socket.ok_or_else(|| fail("has a parameter other than socket="))?);
            }
            let socket = match sockets[..] {
                [] | [""] => return Err(fail("names no socket")),
                [socket] => socket,
                _ => return Err(fail("names two sockets")),
            };
            let decode = |part| decode(part).ok_or_else(|| fail("has a % that two hex digits do not follow"));
            let endpoint = Endpoint::Unix(PathBuf::from(decode(socket)?));
            return Ok(Self { endpoint, export: decode(export)? });
        }
        let rest = text.strip_prefix("nbd://").ok_or_else(|| fail("is no NBD URI"))?;
        let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
        let endpoint = match address(authority) {
            Some(address) => Endpoint::Tcp(address),
            None => host(authority).ok_or_else(|| fail("names no host"))?,
        };
        if export.contains('?') {
            return Err(fail("has a parameter, and nbd:// takes none (a ? in a name is written %3F)"));
        }
        let export = decode(export).ok_or_else(|| fail("has a % that two hex digits do not follow"))?;
        Ok(Self { endpoint, export })
    }
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = encode(&self.export);
        match &self.endpoint {
            Endpoint::Tcp(address) => write!(f, "nbd://{address}/{export}"),
            Endpoint::Host { name, port } => write!(f, "nbd://{name}:{port}/{export}"),
            Endpoint::Unix(path) => write!(f, "nbd+unix:///{export}?socket={}", encode(&path.to_string_lossy())),
        }
    }
}

/// Escapes all but RFC 3986's unreserved characters and the slash.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

/// A host name (RFC 1123, section 2.1), which is resolved when the client connects.
fn host(authority: &str) -> Option<Endpoint> {
    let (name, port) = authority.split_once(':').map_or((authority, None), |(name, port)| (name, Some(port)));
    let port = port.map_or(Some(DEFAULT_PORT), |port| port.parse().ok())?;
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    // The last label of a host name is never all digits: such a text is a mistyped address.
    let is_name = name.len() <= 253
        && name.split('.').all(is_label)
        && name.rsplit('.').next().is_some_and(|last| !last.bytes().all(|byte| byte.is_ascii_digit()));
    is_name.then(|| Endpoint::Host { name: name.to_owned(), port })
}

/// An address, or `localhost`.
fn address(authority: &str) -> Option<SocketAddr> {
    let authority = match authority.strip_prefix("localhost") {
        Some(port) => format!("127.0.0.1{port}"),
        None => authority.to_owned(),
    };
    let with_default = || {
        let bare = authority.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&authority);
        bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, DEFAULT_PORT))
    };
    authority.parse().ok().or_else(with_default)
}

fn decode(text: &str) -> Option<String> {
    String::from_utf8(crate::escape::unescape(text)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_forms() {
        let parse = |text: &str| text.parse::<NbdUri>();
        let tcp = |address: &str| Endpoint::Tcp(address.parse().unwrap());
        for (text, endpoint, export) in [
            ("nbd://127.0.0.1:1/a%20b", tcp("127.0.0.1:1"), "a b"),
            ("nbd://localhost", tcp("127.0.0.1:10809"), ""),
            ("nbd://[::1]/x", tcp("[::1]:10809"), "x"),
            ("nbd://vm-1.example:1/x", Endpoint::Host { name: "vm-1.example".into(), port: 1 }, "x"),
            ("nbd://ip6-localhost/x", Endpoint::Host { name: "ip6-localhost".into(), port: 10809 }, "x"),
            ("nbd+unix:///db?socket=/run/s", Endpoint::Unix("/run/s".into()), "db"),
            ("nbd+unix:///a/b?socket=/run/%26%3F", Endpoint::Unix("/run/&?".into()), "a/b"),
        ] {
            let uri = NbdUri { endpoint, export: export.to_owned() };
            assert_eq!(parse(&uri.to_string()).as_ref(), Ok(&uri), "{text}");
            assert_eq!(parse(text), Ok(uri), "{text}");
        }
        for text in [
            "",
            "nbd:",
            "nbd://127.0.0.256/x",
            "nbd://a..b/x",
            "nbd://a:b/x",
            "nbd:///x",
            "nbd+unix:///x",
            "nbd+unix://h/x?socket=/s",
            "nbd://127.0.0.1/%f",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

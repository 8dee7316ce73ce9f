//! Determines the identity that a client has proven in its handshake.

use crate::access::Identity;
use openssl::ex_data::Index;
use openssl::nid::Nid;
use openssl::ssl::{Ssl, SslRef, SslVersion};
use openssl::x509::X509Ref;

/// Most names taken from one certificate.
const NAMES_MAX: usize = 64;

/// What a client claimed about its pre-shared key; stored beside the TLS session.
#[derive(Clone, Debug, Default)]
pub struct Offered {
    /// The last identity that it named; empty where it is not text.
    pub identity: String,
    /// Whether a key of this identity exists.
    pub known: bool,
}

/// The proven identity; `None` where the client proved none.
///
/// A pre-shared key counts only where the session was made from it. A client may name an identity whose key it lacks,
/// and then continue with a certificate. Sessions are neither cached nor resumed by tickets here, so a session that
/// counts as "reused" comes from a pre-shared key.
pub fn proven(ssl: &SslRef, index: Index<Ssl, Offered>) -> Option<Identity> {
    if ssl.version2() != Some(SslVersion::TLS1_3) {
        return None;
    }
    if ssl.session_reused() {
        let offered = ssl.ex_data(index).filter(|offered| offered.known)?;
        return Some(Identity { names: vec![offered.identity.clone()], by_key: true });
    }
    let certificate = ssl.peer_certificate()?;
    Some(Identity { names: names_of(&certificate), by_key: false })
}

/// The names in a verified certificate.
fn names_of(certificate: &X509Ref) -> Vec<String> {
    let common = certificate.subject_name().entries_by_nid(Nid::COMMONNAME).filter_map(|entry| {
        // Decoded by its own encoding: a string with two bytes per character, read as plain bytes, would be another
        // name. And a name with a NUL must not be cut there: "alice\0.example" is not alice.
        entry.data().to_string().ok().filter(|name| !name.contains(['\0', char::REPLACEMENT_CHARACTER]))
    });
    let mut names: Vec<String> = common.take(NAMES_MAX).collect();
    for alternative in certificate.subject_alt_names().iter().flatten() {
        let name = [alternative.dnsname(), alternative.email(), alternative.uri()].into_iter().flatten().next();
        if let Some(name) = name
            && names.len() < NAMES_MAX
            && !names.iter().any(|known| known == name)
        {
            names.push(name.to_owned());
        }
    }
    names.retain(|name| !name.is_empty() && !name.contains(char::is_control));
    names
}

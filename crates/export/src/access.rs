//! Who may see an export: over which kind of socket, with or without TLS, and under which names.

/// From where an export can be reached, what it requires of a client, and whom it admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether NBD clients are offered the export at all. An export that is only a block device is not offered: two
    /// writers that do not know of each other would damage its data.
    pub nbd: bool,
    /// Whether clients over TCP see it; clients over Unix sockets always may.
    pub network: bool,
    /// Which connections must use TLS.
    pub tls: TlsNeed,
    /// Names that are admitted; empty: all clients. A client has a name only in TLS, so an export with names requires
    /// TLS everywhere.
    pub names: Vec<String>,
}

impl Default for Access {
    fn default() -> Self {
        Self { nbd: true, network: true, tls: TlsNeed::Never, names: Vec::new() }
    }
}

/// Which connections must use TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsNeed {
    /// None.
    #[default]
    Never,
    /// Connections over TCP.
    Network,
    /// All connections, including those over Unix sockets.
    Always,
}

/// What is known of a session's client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Whether it is connected over TCP.
    pub network: bool,
    /// Whether it uses TLS, or could.
    pub security: Security,
}

/// The security of a client's connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// Unencrypted, and TLS is not available.
    #[default]
    Plain,
    /// Unencrypted, and the client may ask for TLS.
    Offered,
    /// In TLS, with this proven identity.
    Secured(Identity),
}

/// The identity that a client has proven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The names in its certificate (common names of the subject; DNS names, e-mail addresses and URIs of the
    /// alternative names), or the identity of its pre-shared key.
    pub names: Vec<String>,
    /// Whether it was proven by a pre-shared key.
    pub by_key: bool,
}

/// Whether a client may use an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The client may use the export.
    Granted,
    /// The client must begin TLS first, which is available.
    NeedsTls,
    /// The export does not exist for this client.
    Hidden,
}

impl Access {
    /// Whether this client may use the export.
    #[must_use]
    pub fn admits(&self, client: &Client) -> Admission {
        if !self.nbd || (client.network && !self.network) {
            return Admission::Hidden;
        }
        let needs_tls = match self.tls {
            TlsNeed::Never => !self.names.is_empty(),
            TlsNeed::Network => client.network || !self.names.is_empty(),
            TlsNeed::Always => true,
        };
        match &client.security {
            Security::Secured(identity)
                if self.names.is_empty() || identity.names.iter().any(|name| self.names.contains(name)) =>
            {
                Admission::Granted
            }
            Security::Secured(_) => Admission::Hidden,
            _ if !needs_tls => Admission::Granted,
            Security::Offered => Admission::NeedsTls,
            Security::Plain => Admission::Hidden,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Security {
        Security::Secured(Identity { names: names.iter().map(|name| (*name).to_owned()).collect(), by_key: false })
    }

    #[test]
    fn who_is_let_in() {
        use Admission::{Granted, Hidden, NeedsTls};
        let access = |network, tls, names: &[&str]| Access {
            nbd: true,
            network,
            tls,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let (plain, offered) = (Security::Plain, Security::Offered);
        for (access, from_network, security, expected) in [
            (Access::default(), true, plain.clone(), Granted),
            (Access { nbd: false, ..Access::default() }, false, plain.clone(), Hidden),
            (access(false, TlsNeed::Never, &[]), true, named(&["a"]), Hidden),
            (access(false, TlsNeed::Never, &[]), false, plain.clone(), Granted),
            (access(true, TlsNeed::Network, &[]), true, offered.clone(), NeedsTls),
            // Without TLS available, the answer must not be "TLS required".
            (access(true, TlsNeed::Network, &[]), true, plain.clone(), Hidden),
            (access(true, TlsNeed::Network, &[]), false, offered.clone(), Granted),
            (access(true, TlsNeed::Network, &[]), true, named(&[]), Granted),
            (access(true, TlsNeed::Always, &[]), false, offered.clone(), NeedsTls),
            (access(true, TlsNeed::Always, &["a", "b"]), true, named(&["x", "b"]), Granted),
            (access(true, TlsNeed::Always, &["a"]), true, named(&["A", "a.b"]), Hidden),
            (access(true, TlsNeed::Always, &["a"]), true, named(&[]), Hidden),
            // Names require TLS whatever `tls` says.
            (access(true, TlsNeed::Never, &["a"]), false, offered, NeedsTls),
            (access(true, TlsNeed::Never, &["a"]), false, plain, Hidden),
        ] {
            let client = Client { network: from_network, security };
            assert_eq!(access.admits(&client), expected, "{access:?} {client:?}");
        }
    }
}

//! Who may see an export: over which kind of socket, with TLS or without, and under which names.

/// From where an export can be reached, what it asks of a client, and whom it lets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether it is offered to clients of NBD at all; one that is a block device alone is not, as two writers that do not know
    /// of each other harm what is on it.
    pub nbd: bool,
    /// Whether clients that come by TCP see it; those of Unix sockets always may.
    pub network: bool,
    /// Which connections must be in TLS.
    pub tls: TlsNeed,
    /// Names that are let in; empty: all. A client has a name only in TLS, so an export with names needs it everywhere.
    pub names: Vec<String>,
}

impl Default for Access {
    fn default() -> Self {
        Self { nbd: true, network: true, tls: TlsNeed::Never, names: Vec::new() }
    }
}

/// Which connections must be in TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsNeed {
    /// None.
    #[default]
    Never,
    /// Those by TCP.
    Network,
    /// All, also those by Unix sockets.
    Always,
}

/// The client of a session, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Whether it came by TCP.
    pub network: bool,
    /// How it is connected.
    pub security: Security,
}

/// How a client is connected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// In the clear, and TLS is not to be had.
    #[default]
    Plain,
    /// In the clear, and it may ask for TLS.
    Offered,
    /// In TLS, under this identity.
    Secured(Identity),
}

/// Whom a client has proved to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The names of its certificate (common names of the subject; DNS names, e-mail addresses and URIs of the alternative
    /// names), or the identity of its pre-shared key.
    pub names: Vec<String>,
    /// Whether it was a pre-shared key.
    pub by_key: bool,
}

/// What an export says to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may use the export.
    Granted,
    /// Not without TLS, which it can have.
    NeedsTls,
    /// For this client there is no such export.
    Hidden,
}

impl Access {
    /// What the export says to this client.
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
            // Without TLS to be had, "TLS required" must not be answered.
            (access(true, TlsNeed::Network, &[]), true, plain.clone(), Hidden),
            (access(true, TlsNeed::Network, &[]), false, offered.clone(), Granted),
            (access(true, TlsNeed::Network, &[]), true, named(&[]), Granted),
            (access(true, TlsNeed::Always, &[]), false, offered.clone(), NeedsTls),
            (access(true, TlsNeed::Always, &["a", "b"]), true, named(&["x", "b"]), Granted),
            (access(true, TlsNeed::Always, &["a"]), true, named(&["A", "a.b"]), Hidden),
            (access(true, TlsNeed::Always, &["a"]), true, named(&[]), Hidden),
            // Names need TLS even where the need was set otherwise.
            (access(true, TlsNeed::Never, &["a"]), false, offered, NeedsTls),
            (access(true, TlsNeed::Never, &["a"]), false, plain, Hidden),
        ] {
            let client = Client { network: from_network, security };
            assert_eq!(access.admits(&client), expected, "{access:?} {client:?}");
        }
    }
}

//! Who may see an export, and who may reach it from other machines: `export.tls`, `export.allow`, `server.allow_remote`.

use super::model::{Config, Export};
use super::values::TlsWord;
use anyhow::{Result, anyhow, ensure};
use forebay_export::{Access, Listen, TlsNeed};

/// Most names in one `allow`.
const NAMES_MAX: usize = 1024;

impl Config {
    /// Whether Unix sockets are first made for this user alone. They are where a mode or group is configured, until
    /// it is applied.
    pub fn has_private_sockets(&self) -> bool {
        self.server.socket_mode.is_some() || self.server.socket_group.is_some()
    }

    /// Which clients may see an export, over all addresses that serve it.
    pub fn access(&self, export: &Export) -> Access {
        let name = self.export_name(export);
        let mut doors = self.export.iter().filter(|other| self.export_name(other) == name).filter_map(Export::listen);
        Access {
            nbd: doors.clone().next().is_some(),
            network: doors.any(|door| matches!(door, Listen::Tcp(_))),
            tls: self.tls_need(export),
            names: export.allow.clone().unwrap_or_default(),
        }
    }

    /// Which clients may see a disk that is exported without a section of its own.
    pub fn access_by_default(&self) -> Access {
        Access { tls: if self.tls.is_some() { TlsNeed::Network } else { TlsNeed::Never }, ..Access::default() }
    }

    fn tls_need(&self, export: &Export) -> TlsNeed {
        match export.tls {
            Some(TlsWord::Required) => TlsNeed::Always,
            Some(TlsWord::Network) => TlsNeed::Network,
            Some(TlsWord::Optional) => TlsNeed::Never,
            None if export.allow.is_some() => TlsNeed::Always,
            None => self.access_by_default().tls,
        }
    }

    /// Checks `[tls]` and what the configuration allows to other machines.
    pub(super) fn check_network(&self) -> Result<()> {
        if let Some(tls) = &self.tls {
            tls.check()?;
        }
        let mut remote = None;
        for export in &self.export {
            let at = export.door();
            ensure!(
                self.tls.is_some() || (export.tls.is_none() && export.allow.is_none()),
                "the export at {at} has `tls` or `allow`, but there is no [tls] section: add one with the certificates or \
                 pre-shared keys"
            );
            if let Some(names) = &export.allow {
                ensure!(
                    !names.is_empty() && names.len() <= NAMES_MAX && names.iter().all(|name| !name.is_empty()),
                    "export.allow at {at} has {} names; it has 1 to {NAMES_MAX} that are not empty. Leave it out to let in all \
                     that [tls] lets in",
                    names.len()
                );
                ensure!(
                    export.tls.is_none_or(|word| word == TlsWord::Required),
                    "the export at {at} has `allow`, and a client has a name only in TLS: make its `tls` \"required\", or leave \
                     that out"
                );
            }
            if let Some(Listen::Tcp(address)) = export.listen()
                && !address.ip().is_loopback()
            {
                ensure!(
                    self.server.allow_remote,
                    "export.nbd {at} can be reached by others: use 127.0.0.1, or set server.allow_remote = true and add a [tls] \
                     section (docs/operating.md, \"Exports for other machines\")"
                );
                remote.get_or_insert(at);
            }
        }
        remote.map_or(Ok(()), |at| self.check_reached_at(at))
    }

    /// Checks that exports may be served at `remote`, an address that other machines can reach.
    ///
    /// # Errors
    /// An export could be used there without TLS.
    pub fn check_reached_at(&self, remote: &str) -> Result<()> {
        if self.server.allow_remote_without_tls {
            return Ok(());
        }
        ensure!(
            self.tls.is_some(),
            "exports can be reached by others at {remote}, and without TLS by anybody, readable on the way: add a [tls] section \
             (docs/operating.md, \"Exports for other machines\"). Where the network is as trusted as this machine, set \
             server.allow_remote_without_tls = true beside server.allow_remote; that is what allow_remote alone meant before"
        );
        let open = self.export.iter().find(|export| {
            let access = self.access(export);
            access.network && access.tls == TlsNeed::Never
        });
        open.map_or(Ok(()), |open| {
            Err(anyhow!(
                "export {:?} has tls = \"optional\", and the server listens at {remote} as well, where anybody could reach it \
                 without TLS: make it \"network\" or \"required\", or set server.allow_remote_without_tls = true if that is meant",
                self.export_name(open)
            ))
        })
    }
}

//! `[tls]`: the files that TLS needs.

use anyhow::{Result, ensure};
use forebay_export::TlsFiles;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// `[tls]`: TLS 1.3 for exports, by certificates of both sides, by pre-shared keys, or by either.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The server's certificate, with the chain up to its authority; PEM.
    pub certificate: Option<PathBuf>,
    /// The private key of `certificate`; PEM.
    pub key: Option<PathBuf>,
    /// Certificate authorities (PEM), one of which must have issued a client's certificate; needed beside
    /// `certificate`.
    pub client_ca: Option<PathBuf>,
    /// Pre-shared keys of clients: one `identity:key` a line, as psktool writes them.
    pub psk_file: Option<PathBuf>,
}

impl Tls {
    /// The files in the form that the server reads.
    pub fn files(&self) -> TlsFiles {
        TlsFiles {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            client_ca: self.client_ca.clone(),
            psk_file: self.psk_file.clone(),
        }
    }

    /// Files with secrets, and their keys in the configuration.
    pub fn secrets(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let key = self.key.iter().map(|path| ("tls.key", path));
        key.chain(self.psk_file.iter().map(|path| ("tls.psk_file", path)))
    }

    /// Checks that the files form a complete set.
    ///
    /// # Errors
    /// The file that is missing, or a path that is not absolute.
    pub fn check(&self) -> Result<()> {
        let files = self.files();
        files.check()?;
        for path in files.iter() {
            ensure!(path.is_absolute(), "in [tls] {} is not an absolute path", path.display());
        }
        Ok(())
    }
}

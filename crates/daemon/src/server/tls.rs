//! Loads the configured TLS files, and checks the permissions of those with secrets.

use crate::config::Config;
use anyhow::{Context, Result};
use forebay_export::TlsContext;
use std::os::unix::fs::MetadataExt;
use tracing::warn;

/// The TLS context; `None` where TLS is not configured.
///
/// # Errors
/// A file is missing, or does not hold what it should.
pub fn load(config: &Config) -> Result<Option<TlsContext>> {
    let Some(tls) = &config.tls else {
        return Ok(None);
    };
    let context = TlsContext::load(&tls.files()).context("[tls]")?;
    for (key, path) in tls.secrets() {
        // The file was just read, so its metadata can be read, too.
        let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.mode());
        if mode & 0o077 != 0 {
            warn!(
                cause = "secret readable by others",
                advice = "Take their permission away: chmod go= FILE",
                "{key} {} has mode {:04o}: others of this machine may read the secret in it",
                path.display(),
                mode & 0o7777
            );
        }
    }
    Ok(Some(context))
}

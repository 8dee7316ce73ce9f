//! TLS as it is configured: its files read, and those with secrets looked at.

use crate::config::Config;
use anyhow::{Context, Result};
use forebay_export::TlsContext;
use std::os::unix::fs::MetadataExt;
use tracing::warn;

/// What TLS is begun with; `None` where it is not configured.
///
/// # Errors
/// Where a file is missing or does not hold what it should.
pub fn load(config: &Config) -> Result<Option<TlsContext>> {
    let Some(tls) = &config.tls else {
        return Ok(None);
    };
    let context = TlsContext::load(&tls.files()).context("[tls]")?;
    for (key, path) in tls.secrets() {
        // It was read a moment ago.
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

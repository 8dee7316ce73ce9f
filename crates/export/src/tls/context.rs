//! The TLS context of the server: certificates, keys and settings, read from files.

use super::identity::Offered;
use super::keys::{KeyFileError, Keys};
use openssl::error::ErrorStack;
use openssl::ex_data::Index;
use openssl::ssl::{
    Ssl, SslContext, SslContextBuilder, SslFiletype, SslMethod, SslOptions, SslSessionCacheMode, SslVerifyMode,
    SslVersion,
};
use openssl::x509::X509;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use thiserror::Error;

/// The cipher suites in the server's order. OpenSSL binds pre-shared keys to SHA-256, and falls back to certificates
/// once a suite with another hash is chosen (SSL_CTX_set_psk_server_callback(3), "NOTES"). So suites with SHA-256
/// come first. ChaCha20 is preferred to AES where the client prefers it because it has no AES instructions.
const SUITES: &str = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384";

/// The files of TLS. Either all of the first three are set or none; there are certificates, pre-shared keys, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate with the chain to its root, PEM.
    pub certificate: Option<PathBuf>,
    /// The private key of `certificate`, PEM.
    pub key: Option<PathBuf>,
    /// The authorities that must have issued clients' certificates, PEM.
    pub client_ca: Option<PathBuf>,
    /// Pre-shared keys, in the format of psktool.
    pub psk_file: Option<PathBuf>,
}

impl TlsFiles {
    /// Checks that the set of files is complete.
    ///
    /// # Errors
    /// [`TlsError::Incomplete`].
    pub fn check(&self) -> Result<(), TlsError> {
        let count = [&self.certificate, &self.key, &self.client_ca].iter().filter(|path| path.is_some()).count();
        if count == 3 || count == 0 && self.psk_file.is_some() { Ok(()) } else { Err(TlsError::Incomplete) }
    }

    /// All files that are set.
    pub fn iter(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.certificate, &self.key, &self.client_ca, &self.psk_file].into_iter().flatten()
    }
}

/// The reason why TLS cannot be set up with these files.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The set of files is incomplete.
    #[error(
        "[tls] needs `certificate`, `key` and `client_ca` together, or `psk_file`, or all four: a client must prove who it is"
    )]
    Incomplete,
    /// A file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} holds no {what}: {}", .path.display(), reason(.source))]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// What the file should hold.
        what: &'static str,
        /// The error.
        source: ErrorStack,
    },
    /// The file of pre-shared keys cannot be used.
    #[error("{}: {source}", .path.display())]
    Keys {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        source: KeyFileError,
    },
    /// The TLS library refuses.
    #[error("TLS cannot be set up: {}", reason(.0))]
    Library(#[from] ErrorStack),
}

/// The last error of the TLS library, in its own words.
pub fn reason(stack: &ErrorStack) -> String {
    let last = stack.errors().last();
    last.and_then(openssl::error::Error::reason).map_or_else(|| "no reason given".to_owned(), str::to_owned)
}

/// The settings with which connections begin TLS. Cheap to clone; a connection keeps the context that it began with.
#[derive(Clone)]
pub struct TlsContext {
    context: SslContext,
    offered: Index<Ssl, Offered>,
}

impl fmt::Debug for TlsContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsContext")
    }
}

impl TlsContext {
    /// Reads the files and sets up the context.
    ///
    /// # Errors
    /// A file is missing, or does not hold what it should.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        files.check()?;
        let offered = offered_index()?;
        let mut builder = SslContext::builder(SslMethod::tls_server())?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_3))?;
        builder.set_max_proto_version(Some(SslVersion::TLS1_3))?;
        // No TLS session outlives its connection. A client's permissions are checked whenever it connects, and no
        // ticket can replace a certificate or key that was withdrawn.
        builder.set_session_cache_mode(SslSessionCacheMode::OFF);
        builder.set_options(
            SslOptions::NO_TICKET
                | SslOptions::NO_RENEGOTIATION
                | SslOptions::CIPHER_SERVER_PREFERENCE
                | SslOptions::PRIORITIZE_CHACHA,
        );
        builder.set_num_tickets(0)?;
        builder.set_ciphersuites(SUITES)?;
        // Required where clients are verified, although no session is resumed.
        builder.set_session_id_context(b"forebay")?;
        if let (Some(certificate), Some(key), Some(client_ca)) = (&files.certificate, &files.key, &files.client_ca) {
            certificates(&mut builder, certificate, key, client_ca)?;
        }
        if let Some(path) = &files.psk_file {
            let keys = Keys::parse(&read(path)?).map_err(|source| TlsError::Keys { path: path.clone(), source })?;
            builder.set_psk_server_callback(move |ssl, identity, into| {
                let identity = identity.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
                let key = keys.of(identity).and_then(|key| Some((key, into.get_mut(..key.len())?)));
                ssl.set_ex_data(
                    offered,
                    Offered { identity: identity.chars().take(128).collect(), known: key.is_some() },
                );
                // 0: there is no key for this identity.
                Ok(key.map_or(0, |(key, into)| {
                    into.copy_from_slice(key);
                    key.len()
                }))
            });
        }
        Ok(Self { context: builder.build(), offered })
    }

    /// A new TLS session, and the index of the data that it keeps on its client's offer.
    pub(super) fn session(&self) -> Result<(Ssl, Index<Ssl, Offered>), ErrorStack> {
        Ok((Ssl::new(&self.context)?, self.offered))
    }
}

/// The index of the extra data of a session. One index serves the whole process, because indices are never freed.
fn offered_index() -> Result<Index<Ssl, Offered>, ErrorStack> {
    static INDEX: OnceLock<Index<Ssl, Offered>> = OnceLock::new();
    match INDEX.get() {
        Some(index) => Ok(*index),
        None => Ssl::new_ex_index().map(|index| *INDEX.get_or_init(|| index)),
    }
}

fn certificates(
    builder: &mut SslContextBuilder,
    certificate: &Path,
    key: &Path,
    client_ca: &Path,
) -> Result<(), TlsError> {
    let content = |path: &Path, what| {
        let path = path.to_owned();
        move |source| TlsError::Content { path, what, source }
    };
    // Read here first, because the library only says "system lib" about a missing file.
    for path in [certificate, key] {
        read(path)?;
    }
    builder.set_certificate_chain_file(certificate).map_err(content(certificate, "certificate chain in PEM"))?;
    builder
        .set_private_key_file(key, SslFiletype::PEM)
        .map_err(content(key, "private key in PEM of that certificate"))?;
    builder.check_private_key().map_err(content(key, "private key of that certificate"))?;
    let authorities = read(client_ca)?;
    let authorities =
        X509::stack_from_pem(authorities.as_bytes()).map_err(content(client_ca, "certificate authority in PEM"))?;
    if authorities.is_empty() {
        return Err(content(client_ca, "certificate authority in PEM")(ErrorStack::get()));
    }
    for authority in authorities {
        builder.add_client_ca(&authority)?;
        builder.cert_store_mut().add_cert(authority)?;
    }
    builder.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
    Ok(())
}

fn read(path: &Path) -> Result<String, TlsError> {
    std::fs::read_to_string(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

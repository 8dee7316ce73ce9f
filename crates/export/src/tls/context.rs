//! What the server shows and asks for in TLS, read from files.

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

/// In the server's order. OpenSSL binds pre-shared keys to SHA-256 and falls back to certificates once a suite with another
/// hash is chosen (SSL_CTX_set_psk_server_callback(3), "NOTES"), so those come first; ChaCha20 goes before AES where the
/// client prefers it, being without instructions for AES.
const SUITES: &str = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384";

/// The files. Either the first three are all there, or none is; there are certificates or keys or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate and what leads to a root, PEM.
    pub certificate: Option<PathBuf>,
    /// Its private key, PEM.
    pub key: Option<PathBuf>,
    /// The authorities whose clients are let in, PEM.
    pub client_ca: Option<PathBuf>,
    /// Pre-shared keys, as psktool writes them.
    pub psk_file: Option<PathBuf>,
}

impl TlsFiles {
    /// Whether they make sense together.
    ///
    /// # Errors
    /// Where they do not.
    pub fn check(&self) -> Result<(), TlsError> {
        let count = [&self.certificate, &self.key, &self.client_ca].iter().filter(|path| path.is_some()).count();
        if count == 3 || count == 0 && self.psk_file.is_some() { Ok(()) } else { Err(TlsError::Incomplete) }
    }

    /// Those that are there.
    pub fn iter(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.certificate, &self.key, &self.client_ca, &self.psk_file].into_iter().flatten()
    }
}

/// Why TLS cannot be had with these files.
#[derive(Debug, Error)]
pub enum TlsError {
    /// Files that do not make sense together.
    #[error(
        "[tls] needs `certificate`, `key` and `client_ca` together, or `psk_file`, or all four: a client must prove who it is"
    )]
    Incomplete,
    /// A file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{} holds no {what}: {}", .path.display(), reason(.source))]
    Content {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// Why.
        source: ErrorStack,
    },
    /// Keys that cannot be used.
    #[error("{}: {source}", .path.display())]
    Keys {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: KeyFileError,
    },
    /// The library refuses.
    #[error("TLS cannot be set up: {}", reason(.0))]
    Library(#[from] ErrorStack),
}

/// The last error of the library, in its words.
pub fn reason(stack: &ErrorStack) -> String {
    let last = stack.errors().last();
    last.and_then(openssl::error::Error::reason).map_or_else(|| "no reason given".to_owned(), str::to_owned)
}

/// What connections need to speak TLS. Cheap to clone; a connection keeps the one that it started with.
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
    /// Reads the files.
    ///
    /// # Errors
    /// Where a file is missing or does not hold what it should.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        files.check()?;
        let offered = offered_index()?;
        let mut builder = SslContext::builder(SslMethod::tls_server())?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_3))?;
        builder.set_max_proto_version(Some(SslVersion::TLS1_3))?;
        // No session outlives its connection: what a client may do is looked up when it connects, and a key or certificate
        // that was taken away is not replaced by a ticket.
        builder.set_session_cache_mode(SslSessionCacheMode::OFF);
        builder.set_options(
            SslOptions::NO_TICKET
                | SslOptions::NO_RENEGOTIATION
                | SslOptions::CIPHER_SERVER_PREFERENCE
                | SslOptions::PRIORITIZE_CHACHA,
        );
        builder.set_num_tickets(0)?;
        builder.set_ciphersuites(SUITES)?;
        // Needed where clients are verified, although nothing is resumed.
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
                // 0: no key of that identity.
                Ok(key.map_or(0, |(key, into)| {
                    into.copy_from_slice(key);
                    key.len()
                }))
            });
        }
        Ok(Self { context: builder.build(), offered })
    }

    /// A session of its own, and where it keeps what its client offered.
    pub(super) fn session(&self) -> Result<(Ssl, Index<Ssl, Offered>), ErrorStack> {
        Ok((Ssl::new(&self.context)?, self.offered))
    }
}

/// Names the place of a value beside each session; one for the process, since they are never given back.
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
    // Read here first: of a file that is not there the library says no more than "system lib".
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

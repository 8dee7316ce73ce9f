//! Signs requests to the store by OpenSSL, which also does the TLS of exports.

use object_store::client::{CryptoProvider, DigestAlgorithm, DigestContext, HmacContext, Signer, SigningAlgorithm};
use object_store::{Error, Result};
use openssl::error::ErrorStack;
use openssl::hash::{DigestBytes, Hasher, MessageDigest};
use openssl::pkey::PKey;

/// Adapter of OpenSSL for the store's client.
#[derive(Debug)]
pub(crate) struct OpenSsl;

fn failed(source: ErrorStack) -> Error {
    Error::Generic { store: "OpenSSL", source: Box::new(source) }
}

fn unsupported(what: &str) -> Error {
    Error::NotSupported { source: what.into() }
}

impl CryptoProvider for OpenSsl {
    fn digest(&self, algorithm: DigestAlgorithm) -> Result<Box<dyn DigestContext>> {
        match algorithm {
            DigestAlgorithm::Sha256 => {
                let hasher = Hasher::new(MessageDigest::sha256()).map_err(failed)?;
                Ok(Box::new(Digest { hasher, failure: None, digest: None }))
            }
            _ => Err(unsupported("only SHA-256 is needed for S3")),
        }
    }

    fn hmac(&self, algorithm: DigestAlgorithm, secret: &[u8]) -> Result<Box<dyn HmacContext>> {
        match algorithm {
            DigestAlgorithm::Sha256 => {
                Ok(Box::new(Hmac { secret: secret.to_vec(), message: Vec::new(), code: Vec::new() }))
            }
            _ => Err(unsupported("only SHA-256 is needed for S3")),
        }
    }

    fn sign(&self, _algorithm: SigningAlgorithm, _pem: &[u8]) -> Result<Box<dyn Signer>> {
        Err(unsupported("S3 needs no RSA"))
    }
}

struct Digest {
    hasher: Hasher,
    failure: Option<ErrorStack>,
    digest: Option<DigestBytes>,
}

impl DigestContext for Digest {
    fn update(&mut self, data: &[u8]) {
        if let Err(error) = self.hasher.update(data) {
            self.failure = Some(error);
        }
    }

    fn finish(&mut self) -> Result<&[u8]> {
        if let Some(error) = self.failure.take() {
            return Err(failed(error));
        }
        Ok(self.digest.insert(self.hasher.finish().map_err(failed)?))
    }
}

/// Collects its input, because a request to be signed has only a few hundred bytes.
struct Hmac {
    secret: Vec<u8>,
    message: Vec<u8>,
    code: Vec<u8>,
}

impl HmacContext for Hmac {
    fn update(&mut self, data: &[u8]) {
        self.message.extend_from_slice(data);
    }

    fn finish(&mut self) -> Result<&[u8]> {
        let key = PKey::hmac(&self.secret).map_err(failed)?;
        let mut signer = openssl::sign::Signer::new(MessageDigest::sha256(), &key).map_err(failed)?;
        self.code = signer.sign_oneshot_to_vec(&self.message).map_err(failed)?;
        Ok(&self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn matches_the_published_vectors() {
        // Test vectors: FIPS 180-2, appendix B.1; RFC 4231, test case 2.
        let mut digest = OpenSsl.digest(DigestAlgorithm::Sha256).unwrap();
        digest.update(b"a");
        digest.update(b"bc");
        assert_eq!(hex(digest.finish().unwrap()), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let mut hmac = OpenSsl.hmac(DigestAlgorithm::Sha256, b"Jefe").unwrap();
        hmac.update(b"what do ya want ");
        hmac.update(b"for nothing?");
        assert_eq!(hex(hmac.finish().unwrap()), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}

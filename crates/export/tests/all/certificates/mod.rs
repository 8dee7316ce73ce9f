//! Certificates for tests, made on the spot.

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509NameBuilder};

/// A certificate and its key.
pub struct Issued {
    pub certificate: X509,
    pub key: PKey<Private>,
}

impl Issued {
    pub fn certificate_pem(&self) -> Vec<u8> {
        self.certificate.to_pem().unwrap()
    }

    pub fn key_pem(&self) -> Vec<u8> {
        self.key.private_key_to_pem_pkcs8().unwrap()
    }
}

/// Issues a certificate for a name, signed by `authority` or by itself; valid from `from` to `until`, seconds from now.
pub fn issue(name: &str, authority: Option<&Issued>, validity: (i64, i64)) -> Issued {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
    issue_for(key, name, authority, validity)
}

/// As [`issue`], for a key that is there.
pub fn issue_for(key: PKey<Private>, name: &str, authority: Option<&Issued>, (from, until): (i64, i64)) -> Issued {
    let mut subject = X509NameBuilder::new().unwrap();
    subject.append_entry_by_nid(Nid::COMMONNAME, name).unwrap();
    let subject = subject.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    let mut serial = BigNum::new().unwrap();
    serial.rand(64, openssl::bn::MsbOption::MAYBE_ZERO, false).unwrap();
    builder.set_serial_number(&serial.to_asn1_integer().unwrap()).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    builder.set_not_before(&Asn1Time::from_unix(now + from).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::from_unix(now + until).unwrap()).unwrap();
    builder.set_subject_name(&subject).unwrap();
    builder.set_pubkey(&key).unwrap();
    match authority {
        Some(authority) => {
            builder.set_issuer_name(authority.certificate.subject_name()).unwrap();
            let context = builder.x509v3_context(Some(&authority.certificate), None);
            let names = SubjectAlternativeName::new().dns(&format!("{name}.test")).build(&context).unwrap();
            builder.append_extension(names).unwrap();
            builder.sign(&authority.key, MessageDigest::sha256()).unwrap();
        }
        None => {
            builder.set_issuer_name(&subject).unwrap();
            builder.append_extension(BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
            builder.sign(&key, MessageDigest::sha256()).unwrap();
        }
    }
    Issued { certificate: builder.build(), key }
}

//! TLS of the server, by rustls: one certificate for both protocols, which can be exchanged while the server runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rowmill::{Error, ErrorKind, Result};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256, Sha384, Sha512};
use tokio_rustls::TlsAcceptor;

/// The files of a certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that vouch for it.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// The certificate that new connections get.
pub(crate) struct ServerTls {
    files: TlsFiles,
    current: RwLock<LoadedCertificate>,
}

#[derive(Clone)]
struct LoadedCertificate {
    config: Arc<ServerConfig>,
    end_point: Option<Arc<[u8]>>,
}

impl ServerTls {
    pub(crate) fn load(files: TlsFiles) -> Result<ServerTls> {
        let current = RwLock::new(LoadedCertificate::read(&files)?);
        Ok(ServerTls { files, current })
    }

    /// Reads the files again. If they cannot be used, the certificate of before stays.
    pub(crate) fn reload(&self) -> Result<()> {
        let loaded = LoadedCertificate::read(&self.files)?;
        *self.current.write() = loaded;
        Ok(())
    }

    /// What does the handshake of a new connection, and the hash of the certificate that it uses, for the channel
    /// binding of SCRAM.
    pub(crate) fn acceptor(&self) -> (TlsAcceptor, Option<Arc<[u8]>>) {
        let LoadedCertificate { config, end_point } = self.current.read().clone();
        (TlsAcceptor::from(config), end_point)
    }
}

impl LoadedCertificate {
    fn read(files: &TlsFiles) -> Result<LoadedCertificate> {
        let TlsFiles { certificate, key } = files;
        let chain =
            CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| unusable("certificate", certificate, &error))?;
        let Some(first) = chain.first() else {
            return Err(unusable("certificate", certificate, &"it has no certificate"));
        };
        let end_point = end_point_hash(first).map(Arc::from);
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("private key", key, &error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
            .map_err(|error| unusable("certificate", certificate, &error))?;
        Ok(LoadedCertificate { config: Arc::new(config), end_point })
    }
}

fn unusable(what: &str, path: &Path, reason: &dyn std::fmt::Display) -> Error {
    let message = format!("the {what} in \"{}\" cannot be used: {reason}", path.display());
    Error::new(ErrorKind::InvalidParameter, message).hint("PEM files of a certificate and of its key are needed")
}

/// The hash of a certificate as the channel binding `tls-server-end-point` defines it (RFC 5929): by the hash of the
/// certificate's own signature, or by SHA-256 in place of MD5 and SHA-1. `None` for signatures without one hash.
fn end_point_hash(certificate: &[u8]) -> Option<Vec<u8>> {
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA_SHA2: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
    let (_, certificate_body, _) = der_item(certificate)?;
    let (_, _, after_content) = der_item(certificate_body)?;
    let (_, algorithm, _) = der_item(after_content)?;
    let (_, oid, _) = der_item(algorithm)?;
    let hash = match (oid.strip_prefix(RSA), oid.strip_prefix(ECDSA_SHA2)) {
        (Some([4 | 5 | 11]), _) | (_, Some([2])) => Sha256::digest(certificate).to_vec(),
        (Some([12]), _) | (_, Some([3])) => Sha384::digest(certificate).to_vec(),
        (Some([13]), _) | (_, Some([4])) => Sha512::digest(certificate).to_vec(),
        _ => return None,
    };
    Some(hash)
}

/// The first item of a text in DER: its tag, its content, and what follows it.
fn der_item(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match *first {
        short @ ..0x80 => (usize::from(short), rest),
        long => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            if digits.len() > 4 {
                return None;
            }
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((*tag, content, after))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn files(folder: &Path) -> TlsFiles {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files = TlsFiles { certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
        std::fs::write(&files.certificate, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        files
    }

    #[test]
    fn a_certificate_is_exchanged_and_a_broken_one_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let tls = ServerTls::load(files.clone()).unwrap();
        let first = tls.acceptor().1.unwrap();
        self::files(folder.path());
        tls.reload().unwrap();
        let second = tls.acceptor().1.unwrap();
        assert_ne!(first, second);
        std::fs::write(&files.key, "no key").unwrap();
        assert!(tls.reload().is_err());
        assert_eq!(tls.acceptor().1.unwrap(), second);
        std::fs::write(&files.certificate, "").unwrap();
        assert!(ServerTls::load(files).is_err());
    }

    #[test]
    fn a_certificate_signed_with_sha256_is_hashed_with_it() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let der = made.cert.der();
        assert_eq!(end_point_hash(der).unwrap(), Sha256::digest(der).to_vec());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = end_point_hash(&bytes);
        }
    }
}

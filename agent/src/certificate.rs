//! The certificate of the REST API: made at the first start, signed by itself. Clients know it by
//! its fingerprint, or by a copy of the file.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use muster_tls::Tls;
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::key_file;
use crate::paths::Paths;

/// It has no end that anybody would live to see: one that ends unforeseen stops every client.
const LAST_YEAR: i32 = 2099;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    /// A file cannot be read or written.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// What the files hold cannot be used.
    #[error(
        "{certificate} and {key} are no certificate with its key: {why}; put the right ones there, \
         or remove both for a new certificate, which clients must be told of"
    )]
    Damaged {
        /// One file.
        certificate: PathBuf,
        /// The other.
        key: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// None can be made.
    #[error("cannot make a certificate: {0}")]
    Make(String),
}

/// Reads the certificate and its key; makes them where one is missing, for these names.
///
/// # Errors
/// [`CertificateError`].
pub(crate) fn open(paths: &Paths, host: &str, address: IpAddr) -> Result<Tls, CertificateError> {
    let (certificate, key) = (paths.rest_certificate(), paths.rest_key());
    if !(certificate.exists() && key.exists()) {
        let made =
            make(host, address).map_err(|error| CertificateError::Make(error.to_string()))?;
        // The key first: a crash in between leaves no certificate whose key is lost.
        write(&key, made.key.as_bytes())?;
        write(&certificate, made.certificate.as_bytes())?;
    }
    let damaged = |why: String| CertificateError::Damaged {
        certificate: certificate.clone(),
        key: key.clone(),
        why,
    };
    let chain = CertificateDer::pem_slice_iter(&read(&certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| damaged(error.to_string()))?;
    let private = PrivateKeyDer::from_pem_slice(&read(&key)?);
    let private = private.map_err(|error| damaged(error.to_string()))?;
    Tls::new(chain, private).map_err(|error| damaged(error.to_string()))
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    std::fs::read(path).map_err(|source| CertificateError::File {
        path: path.to_owned(),
        source,
    })
}

fn write(path: &Path, content: &[u8]) -> Result<(), CertificateError> {
    key_file::write_private(path, content).map_err(|source| CertificateError::File {
        path: path.to_owned(),
        source,
    })
}

/// In PEM.
struct GeneratedPem {
    certificate: String,
    key: String,
}

fn make(host: &str, address: IpAddr) -> Result<GeneratedPem, rcgen::Error> {
    // P-256: browsers do not take the mesh's Ed25519.
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::new(names(host))?;
    let own = [
        address,
        Ipv4Addr::LOCALHOST.into(),
        Ipv6Addr::LOCALHOST.into(),
    ];
    let own = own.into_iter().map(SanType::IpAddress);
    params.subject_alt_names.extend(own);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(LAST_YEAR, 12, 31);
    params.is_ca = IsCa::NoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let name = format!("Muster on {host}");
    // Longer ones are no valid common name.
    let name: String = name.chars().take(64).collect();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.self_signed(&key)?;
    Ok(GeneratedPem {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

/// Names of this machine that can stand in a certificate.
fn names(host: &str) -> Vec<String> {
    let short = host.split('.').next().unwrap_or_default();
    let mut names = vec!["localhost".to_owned()];
    for name in [short, host] {
        let is_name = !name.is_empty() && name.is_ascii() && !names.iter().any(|it| it == name);
        if is_name {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use muster_tls::{CertificateTrust, ConnectError, connect};
    use rustls::RootCertStore;

    use super::*;

    fn paths() -> (tempfile::TempDir, Paths) {
        let directory = tempfile::tempdir().unwrap();
        let paths = Paths::new(Some(directory.path()));
        std::fs::create_dir_all(&paths.state).unwrap();
        (directory, paths)
    }

    fn open_here(paths: &Paths) -> Result<Tls, CertificateError> {
        open(paths, "n1.example", [10, 0, 0, 1].into())
    }

    #[test]
    fn it_is_made_once_and_its_key_is_private() {
        let (_directory, paths) = paths();
        let first = open_here(&paths).unwrap();
        assert_eq!(open_here(&paths).unwrap().fingerprint, first.fingerprint);
        let key = std::fs::metadata(paths.rest_key()).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(paths.rest_certificate()).unwrap();
        assert_ne!(open_here(&paths).unwrap().fingerprint, first.fingerprint);
    }

    #[test]
    fn damage_is_told_with_the_remedy() {
        let (_directory, paths) = paths();
        open_here(&paths).unwrap();
        std::fs::write(paths.rest_key(), "nonsense").unwrap();
        let error = open_here(&paths).unwrap_err().to_string();
        assert!(error.contains("remove both"), "{error}");
    }

    #[tokio::test]
    async fn clients_take_it_by_fingerprint_or_as_a_file_under_its_names() {
        let (_directory, paths) = paths();
        let tls = open_here(&paths).unwrap();
        let mut roots = RootCertStore::empty();
        let pem = std::fs::read(paths.rest_certificate()).unwrap();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let roots = CertificateTrust::Roots(Arc::new(roots));
        let known = CertificateTrust::Fingerprint(tls.fingerprint);
        let other = CertificateTrust::Fingerprint(muster_tls::Fingerprint([0; 32]));
        for (host, trust, is_taken) in [
            ("n1.example", roots.clone(), true),
            ("n1", roots.clone(), true),
            ("10.0.0.1", roots.clone(), true),
            ("127.0.0.1", roots.clone(), true),
            ("other.example", roots, false),
            ("other.example", known, true),
            ("n1.example", other, false),
            ("n1.example", CertificateTrust::Nothing, false),
            ("n1.example", CertificateTrust::Anything, true),
        ] {
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            let accepting = muster_tls::accept(&tls, theirs);
            let (connected, _) = tokio::join!(connect(ours, host, trust.clone()), accepting);
            match connected {
                Ok((_, seen)) => assert_eq!((seen, is_taken), (tls.fingerprint, true)),
                Err(ConnectError::Unknown { seen, .. }) => {
                    assert_eq!(
                        (seen, is_taken),
                        (tls.fingerprint, false),
                        "{host} {trust:?}"
                    );
                }
                Err(error) => panic!("{host} {trust:?}: {error}"),
            }
        }
    }
}

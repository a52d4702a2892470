//! The certificate of the REST API: the files that agent.toml names, or one that is made at the first
//! start, signed by itself. Clients know that one by its fingerprint, or by a copy of the file.

pub(crate) mod pair;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use muster_tls::{Fingerprint, ShownCertificate};
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
    date_time_ymd,
};
use tokio::sync::watch;

use self::pair::{CertificatePair, PairFault, PairFiles};
use crate::config::TlsConfig;
use crate::key_file;
use crate::loops::certificate::CertificateLoop;
use crate::paths::Paths;

/// It has no end that anybody would live to see: one that ends unforeseen stops every client.
const LAST_YEAR: i32 = 2099;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    /// A file cannot be written.
    #[error("cannot write {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// What the agent's own files hold cannot be used.
    #[error(
        "{fault}; put the right files there, or remove rest.crt and rest.key for a new \
         certificate, which clients must be told of"
    )]
    Damaged {
        /// What is wrong.
        fault: PairFault,
    },
    /// What the configured files hold cannot be used, and there is to be no other one.
    #[error("[tls] in agent.toml: {fault}; {}", .fault.remedy())]
    Named {
        /// What is wrong.
        fault: PairFault,
    },
    /// None can be made.
    #[error("cannot make a certificate: {0}")]
    Make(String),
}

/// What REST proves itself with now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RestCertificate {
    /// The file it is from.
    pub(crate) file: PathBuf,
    /// Its fingerprint.
    pub(crate) fingerprint: Fingerprint,
    /// Whether no authority has signed it.
    pub(crate) is_self_signed: bool,
    /// Valid until then, in seconds since the epoch.
    pub(crate) until_s: i64,
    /// Why it is not what it should be, if so.
    pub(crate) problem: Option<CertificateProblem>,
}

/// What is wrong with the certificate's files, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateProblem {
    /// What is wrong. It names the file.
    pub(crate) text: String,
    /// What to do.
    pub(crate) remedy: String,
}

impl RestCertificate {
    /// What is told of a pair from this file.
    pub(crate) fn of(file: PathBuf, pair: &CertificatePair) -> Self {
        Self {
            file,
            fingerprint: pair.tls.fingerprint,
            is_self_signed: pair.is_self_signed,
            until_s: pair.until_s,
            problem: None,
        }
    }
}

impl CertificateProblem {
    /// The problem that a fault is.
    pub(crate) fn of(fault: &PairFault) -> Self {
        Self {
            text: fault.to_string(),
            remedy: fault.remedy(),
        }
    }
}

/// The certificate as it is at any time, for those who tell of it; without one where everybody is
/// answered in clear.
#[derive(Clone, Debug, Default)]
pub(crate) struct CertificateNow(Option<watch::Receiver<RestCertificate>>);

impl CertificateNow {
    /// What is shown now.
    pub(crate) fn get(&self) -> Option<RestCertificate> {
        self.0.as_ref().map(|state| state.borrow().clone())
    }

    /// Its fingerprint, as it is told.
    pub(crate) fn fingerprint(&self) -> Option<String> {
        self.get().map(|shown| shown.fingerprint.to_string())
    }

    /// What is wrong with it, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        let problem = self.get()?.problem?;
        Some(format!(
            "REST's certificate: {}; {}",
            problem.text, problem.remedy
        ))
    }
}

/// A certificate that is shown, and what looks after its files.
pub(crate) struct OpenedCertificate {
    /// For the gateway.
    pub(crate) shown: ShownCertificate,
    /// For those who tell of it.
    pub(crate) now: CertificateNow,
    /// To be run.
    pub(crate) follow: CertificateLoop,
}

/// Opens the certificate that the configuration names, or the agent's own one, which is made for these
/// names where it is missing. None where everybody is answered in clear.
///
/// # Errors
/// [`CertificateError`].
pub(crate) fn open(
    config: &TlsConfig,
    paths: &Paths,
    host: &str,
    address: IpAddr,
) -> Result<Option<OpenedCertificate>, CertificateError> {
    if !config.enabled {
        return Ok(None);
    }
    let own = || own_pair(paths, host, address);
    let Some(files) = config.files() else {
        let (files, pair) = own()?;
        let state = RestCertificate::of(files.certificate.clone(), &pair);
        return Ok(Some(opened(config, files, pair, state)));
    };
    match files.parse(&files.content()) {
        Ok(pair) => {
            let mut state = RestCertificate::of(files.certificate.clone(), &pair);
            let fault = files.time_fault(&pair, pair::now_s());
            state.problem = fault.as_ref().map(CertificateProblem::of);
            log_problem(&state);
            Ok(Some(opened(config, files, pair, state)))
        }
        Err(fault) if !config.self_signed => Err(CertificateError::Named { fault }),
        // The node is not to be lost for a file. Clients that know an authority refuse this one.
        Err(fault) => {
            let (stand_in, pair) = own()?;
            let mut state = RestCertificate::of(stand_in.certificate, &pair);
            state.problem = Some(CertificateProblem::of(&fault));
            log_problem(&state);
            Ok(Some(opened(config, files, pair, state)))
        }
    }
}

fn log_problem(state: &RestCertificate) {
    if let Some(CertificateProblem { text, remedy }) = &state.problem {
        let shown = state.file.display();
        tracing::error!(%shown, "REST's certificate is not as it should be: {text}; {remedy}");
    }
}

fn opened(
    config: &TlsConfig,
    files: PairFiles,
    pair: CertificatePair,
    state: RestCertificate,
) -> OpenedCertificate {
    let pair = pair.strict(config.strict_transport_s);
    let (sender, shown) = ShownCertificate::new(pair.tls);
    let (state, now) = watch::channel(state);
    OpenedCertificate {
        shown,
        now: CertificateNow(Some(now)),
        follow: CertificateLoop::new(files, config.strict_transport_s, sender, state),
    }
}

/// The agent's own certificate and key; made where one of them is missing.
fn own_pair(
    paths: &Paths,
    host: &str,
    address: IpAddr,
) -> Result<(PairFiles, CertificatePair), CertificateError> {
    let files = PairFiles {
        certificate: paths.rest_certificate(),
        key: paths.rest_key(),
    };
    if !(files.certificate.exists() && files.key.exists()) {
        let made =
            make(host, address).map_err(|error| CertificateError::Make(error.to_string()))?;
        // The key first: a crash in between leaves no certificate whose key is lost.
        write(&files.key, made.key.as_bytes())?;
        write(&files.certificate, made.certificate.as_bytes())?;
    }
    let pair = files.parse(&files.content());
    let pair = pair.map_err(|fault| CertificateError::Damaged { fault })?;
    Ok((files, pair))
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

    use muster_tls::{CertificateTrust, ConnectError, Tls, connect};
    use rustls::RootCertStore;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    fn paths() -> (tempfile::TempDir, Paths) {
        let directory = tempfile::tempdir().unwrap();
        let paths = Paths::new(Some(directory.path()));
        std::fs::create_dir_all(&paths.state).unwrap();
        (directory, paths)
    }

    fn open_here(paths: &Paths) -> Result<Tls, CertificateError> {
        let opened = open(
            &TlsConfig::default(),
            paths,
            "n1.example",
            [10, 0, 0, 1].into(),
        )?;
        Ok(opened.unwrap().shown.now())
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
        assert!(error.contains("remove rest.crt and rest.key"), "{error}");
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

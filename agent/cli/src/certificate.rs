//! Whether the agent's certificate is the one that the user knows.

use std::path::Path;
use std::sync::Arc;

use muster_tls::{CertificateTrust, ConnectError};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncRead, AsyncWrite};

use super::endpoint::KnownCertificate;
use super::error::{CliError, TransportCause};

impl KnownCertificate {
    /// Speaks TLS with `host`, whose certificate must be the known one.
    pub(super) async fn connect<S>(
        &self,
        stream: S,
        host: &str,
    ) -> Result<impl AsyncRead + AsyncWrite + Send + Unpin + use<S>, TransportCause>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let connected = muster_tls::connect(stream, host, self.trust()?).await;
        match connected {
            Ok((stream, _)) => Ok(stream),
            Err(ConnectError::Unknown { seen, why }) => Err(Box::new(CliError::Certificate {
                host: host.to_owned(),
                seen,
                why,
            })),
            Err(ConnectError::Broken(error)) => {
                Err(format!("it does not speak TLS: {error}").into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn trust(&self) -> Result<CertificateTrust, CliError> {
        match self {
            Self::Fingerprint(fingerprint) => Ok(CertificateTrust::Fingerprint(*fingerprint)),
            Self::File(path) => Ok(CertificateTrust::Roots(Arc::new(roots(path)?))),
            Self::ByAuthorities => Ok(by_authorities()),
        }
    }
}

/// Those that an authority has signed which this machine trusts; none, if it trusts none.
fn by_authorities() -> CertificateTrust {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match roots.is_empty() {
        true => CertificateTrust::Nothing,
        false => CertificateTrust::Roots(Arc::new(roots)),
    }
}

fn roots(path: &Path) -> Result<RootCertStore, CliError> {
    let text = std::fs::read(path).map_err(|source| CliError::Read {
        path: path.to_owned(),
        source,
    })?;
    let wrong = |why: String| CliError::Usage(format!("--cacert {}: {why}", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("it holds no certificate in PEM form".to_owned()));
    }
    Ok(roots)
}

//! TLS of the REST API: what a server proves that it is itself with, and how clients tell.
//!
//! The gateway is the server, and a client of other gateways; the command line is a client. This
//! crate opens no connection: it is given one.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs as provider, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore};
use rustls::{ServerConfig, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

/// The first byte of every TLS connection. No HTTP method begins so.
pub const FIRST_BYTE: u8 = 0x16;
const PREFIX: &str = "sha256:";

/// The certificate of the REST API, and its key.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    /// Of the certificate.
    pub fingerprint: Fingerprint,
    /// How many seconds browsers are to come by TLS alone, once they have seen this certificate;
    /// 0 if they are not told so.
    pub strict_transport_s: u32,
}

/// The certificate that is shown to new connections: another one takes its place when the files
/// change. Connections that are open go on with theirs.
#[derive(Clone, Debug)]
pub struct ShownCertificate(watch::Receiver<Tls>);

impl ShownCertificate {
    /// The first one, and where the next ones are put.
    pub fn new(first: Tls) -> (watch::Sender<Tls>, Self) {
        let (sender, shown) = watch::channel(first);
        (sender, Self(shown))
    }

    /// The one for a connection that begins now.
    pub fn now(&self) -> Tls {
        self.0.borrow().clone()
    }
}

impl From<Tls> for ShownCertificate {
    /// One that stays.
    fn from(tls: Tls) -> Self {
        Self::new(tls).1
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls({})", self.fingerprint)
    }
}

impl Tls {
    /// Of a chain of certificates, the server's own first, and the key of the first.
    ///
    /// # Errors
    /// When there is no certificate, or the key is not its own.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let own = chain
            .first()
            .ok_or(rustls::Error::NoCertificatesPresented)?;
        let fingerprint = Fingerprint::of(own);
        let mut config = ServerConfig::builder_with_provider(crypto())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            fingerprint,
            strict_transport_s: 0,
        })
    }
}

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

/// The SHA-256 of a certificate, shown as `sha256:` and 64 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

/// A text that is no fingerprint.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no fingerprint: write sha256: and 64 hexadecimal digits")]
pub struct NoFingerprint(String);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    /// Also takes capital letters, and colons between bytes, as other programs write them.
    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let wrong = || NoFingerprint(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let digits = lower.strip_prefix(PREFIX).ok_or_else(wrong)?;
        let digits = digits.replace(':', "");
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            let pair = digits.get(at * 2..at * 2 + 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

/// Which certificates a client takes.
#[derive(Clone, Debug)]
pub enum CertificateTrust {
    /// The one with this fingerprint, whatever its names.
    Fingerprint(Fingerprint),
    /// Those that are among these, or signed by one of them, and bear the host's name.
    Roots(Arc<RootCertStore>),
    /// None. For telling the fingerprint.
    Nothing,
    /// Any certificate: the client compares the fingerprint before it sends anything.
    Anything,
}

/// Why there is no connection by TLS.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server showed a certificate that is not taken.
    #[error("the certificate is not taken: {why}")]
    Unknown {
        /// Its fingerprint.
        seen: Fingerprint,
        /// Why not.
        why: String,
    },
    /// The server does not speak TLS, or broke off.
    #[error(transparent)]
    Broken(#[from] io::Error),
    /// There can be no such name in a certificate.
    #[error("{0:?} is no host name")]
    Name(String),
    /// This machine's cryptography cannot be used.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// Answers a client that begins to speak TLS.
///
/// # Errors
/// When it does not go on so, or breaks off.
pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    tls: &Tls,
    stream: S,
) -> io::Result<server::TlsStream<S>> {
    tls.acceptor.accept(stream).await
}

/// Speaks TLS over a connection to `host`. Also gives the fingerprint of its certificate.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    host: &str,
    trust: CertificateTrust,
) -> Result<(client::TlsStream<S>, Fingerprint), ConnectError> {
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| ConnectError::Name(host.to_owned()))?;
    let verifier = Arc::new(CertificateVerifier::new(trust)?);
    let mut config = ClientConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier.clone())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let connected = connected.await;
    match (connected, verifier.seen()) {
        (Ok(stream), Some((seen, None))) => Ok((stream, seen)),
        (Ok(_), None) => Err(rustls::Error::NoCertificatesPresented.into()),
        (_, Some((seen, Some(why)))) => Err(ConnectError::Unknown { seen, why }),
        (Err(error), _) => Err(error.into()),
    }
}

/// Looks at the server's certificate, and remembers it.
#[derive(Debug)]
struct CertificateVerifier {
    trust: CertificateTrust,
    roots: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
    seen: Mutex<Option<(Fingerprint, Option<String>)>>,
}

impl CertificateVerifier {
    fn new(trust: CertificateTrust) -> Result<Self, rustls::Error> {
        let crypto = crypto();
        let algorithms = crypto.signature_verification_algorithms;
        let roots = match &trust {
            CertificateTrust::Roots(roots) => {
                let built = WebPkiServerVerifier::builder_with_provider(roots.clone(), crypto);
                let built = built.build();
                Some(built.map_err(|error| rustls::Error::General(error.to_string()))?)
            }
            _ => None,
        };
        Ok(Self {
            trust,
            roots,
            algorithms,
            seen: Mutex::default(),
        })
    }

    /// The certificate, and why it was not taken.
    fn seen(&self) -> Option<(Fingerprint, Option<String>)> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }
}

/// Why authorities do not vouch for a certificate.
fn rejection(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "no authority that is trusted here has signed it".to_owned()
        }
        error => error.to_string(),
    }
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let fingerprint = Fingerprint::of(end_entity);
        let refused = || Err(CertificateError::ApplicationVerificationFailure.into());
        let verified = match (&self.trust, &self.roots) {
            (CertificateTrust::Anything, _) => Ok(ServerCertVerified::assertion()),
            (CertificateTrust::Fingerprint(known), _) if *known == fingerprint => {
                Ok(ServerCertVerified::assertion())
            }
            (CertificateTrust::Fingerprint(_), _) => refused(),
            (_, Some(roots)) => {
                roots.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            (_, None) => refused(),
        };
        let why = verified.as_ref().err().map(|error| match &self.trust {
            CertificateTrust::Fingerprint(_) => "it has another fingerprint".to_owned(),
            CertificateTrust::Roots(_) => rejection(error),
            CertificateTrust::Nothing | CertificateTrust::Anything => {
                "nothing says whose it is".to_owned()
            }
        });
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((fingerprint, why));
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_is_shown_and_as_others_show_it() {
        let bytes: [u8; 32] = std::array::from_fn(|at| u8::try_from(at * 7).unwrap_or(0));
        let fingerprint = Fingerprint(bytes);
        let shown = fingerprint.to_string();
        assert_eq!(shown.len(), 71);
        assert_eq!(shown.parse::<Fingerprint>().unwrap(), fingerprint);
        let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        let colons = format!("SHA256:{}", pairs.join(":"));
        assert_eq!(colons.parse::<Fingerprint>().unwrap(), fingerprint);
        for wrong in ["", "sha256:", "sha256:00", &shown[7..], &shown[..70]] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong:?}");
        }
        assert!(
            format!("sha256:{}", "é".repeat(32))
                .parse::<Fingerprint>()
                .is_err()
        );
    }
}

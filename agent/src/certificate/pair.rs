//! A certificate and its key, in two PEM files: read, and judged.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_tls::Tls;
use rustls::Error as TlsError;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// More is no certificate, nor a key.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Rights that nobody may have on a key: its group may read it at most.
const OPEN_MODE: u32 = 0o037;

/// Where the two are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PairFiles {
    /// The server's own certificate, then those that lead to the authority.
    pub(crate) certificate: PathBuf,
    /// The key of the first one.
    pub(crate) key: PathBuf,
}

/// Why the two files cannot be used. Every variant names the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PairFault {
    /// It cannot be read.
    #[error("{path} cannot be read: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// Too many may read it.
    #[error(
        "the key in {path} may be read by every user of this machine, or changed by its group (mode {mode:04o})"
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It holds no certificate.
    #[error("{path} holds no certificate in PEM form: {why}")]
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It holds no key.
    #[error("{path} holds no private key in PEM form: {why}")]
    NoKey {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// They do not belong together.
    #[error("the key in {key} is not that of the first certificate in {certificate}")]
    Mismatch {
        /// One file.
        certificate: PathBuf,
        /// The other.
        key: PathBuf,
    },
    /// TLS cannot use it.
    #[error("the certificate in {path} cannot be used: {why}")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// Its time is over.
    #[error("the certificate in {path} has expired on {at}")]
    Expired {
        /// The file.
        path: PathBuf,
        /// When.
        at: String,
    },
    /// Its time has not come.
    #[error(
        "the certificate in {path} is not valid before {at}; the clock of this machine shows {now}"
    )]
    Early {
        /// The file.
        path: PathBuf,
        /// From when on.
        at: String,
        /// What time it is here.
        now: String,
    },
}

impl PairFault {
    /// What to do about it.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::Unreadable { path, .. } => {
                format!("put {} there, readable by root", path.display())
            }
            Self::Open { path, .. } => format!("chmod 600 {}", path.display()),
            Self::NoCertificate { .. } => {
                "write the server's certificate there, then those of its issuers, each between \
                 BEGIN CERTIFICATE and END CERTIFICATE"
                    .to_owned()
            }
            Self::NoKey { .. } => {
                "write the key there without a passphrase, as PKCS#8, PKCS#1 or SEC1".to_owned()
            }
            Self::Mismatch { .. } => {
                "put a certificate and its own key there; the server's certificate comes first in \
                 its file"
                    .to_owned()
            }
            Self::Unfit { .. } => "have another certificate issued, for a server".to_owned(),
            Self::Expired { .. } => "have the certificate renewed".to_owned(),
            Self::Early { .. } => "set the clock, or have another certificate issued".to_owned(),
        }
    }
}

/// What both files hold, read at one time.
pub(crate) struct PairContent {
    certificate: Result<Vec<u8>, PairFault>,
    key: Result<Vec<u8>, PairFault>,
}

/// A certificate that belongs to its key.
#[derive(Clone, Debug)]
pub(crate) struct CertificatePair {
    /// What is shown of it.
    pub(crate) tls: Tls,
    /// Whether no authority has signed it.
    pub(crate) is_self_signed: bool,
    /// Valid from then on, in seconds since the epoch.
    pub(crate) from_s: i64,
    /// Valid until then.
    pub(crate) until_s: i64,
}

impl PairFiles {
    /// Reads both. Blocks.
    pub(crate) fn content(&self) -> PairContent {
        PairContent {
            certificate: read(&self.certificate),
            key: read(&self.key).and_then(|key| match mode(&self.key) {
                mode if mode & OPEN_MODE == 0 => Ok(key),
                mode => Err(PairFault::Open {
                    path: self.key.clone(),
                    mode,
                }),
            }),
        }
    }

    /// What the content is, whenever it is valid.
    pub(crate) fn parse(&self, content: &PairContent) -> Result<CertificatePair, PairFault> {
        let chain = self.chain(content.certificate.as_ref().map_err(Clone::clone)?)?;
        let key = self.key(content.key.as_ref().map_err(Clone::clone)?)?;
        let own = chain.first().map(|own| own.to_vec()).unwrap_or_default();
        let unfit = |why: String| PairFault::Unfit {
            path: self.certificate.clone(),
            why,
        };
        let (_, facts) =
            X509Certificate::from_der(&own).map_err(|error| unfit(error.to_string()))?;
        let tls = Tls::new(chain, key).map_err(|error| match error {
            TlsError::InconsistentKeys(_) => PairFault::Mismatch {
                certificate: self.certificate.clone(),
                key: self.key.clone(),
            },
            error => unfit(error.to_string()),
        })?;
        Ok(CertificatePair {
            tls,
            is_self_signed: facts.issuer().as_raw() == facts.subject().as_raw(),
            from_s: facts.validity().not_before.timestamp(),
            until_s: facts.validity().not_after.timestamp(),
        })
    }

    fn chain(&self, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PairFault> {
        let wrong = |why: &str| PairFault::NoCertificate {
            path: self.certificate.clone(),
            why: why.to_owned(),
        };
        let chain = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| wrong(&error.to_string()))?;
        match chain.is_empty() {
            true => Err(wrong("there is none")),
            false => Ok(chain),
        }
    }

    fn key(&self, text: &[u8]) -> Result<PrivateKeyDer<'static>, PairFault> {
        let is_locked = text
            .windows(b"ENCRYPTED".len())
            .any(|word| word == b"ENCRYPTED");
        PrivateKeyDer::from_pem_slice(text).map_err(|error| PairFault::NoKey {
            path: self.key.clone(),
            why: match error {
                _ if is_locked => "it has a passphrase".to_owned(),
                pem::Error::NoItemsFound => "there is none".to_owned(),
                error => error.to_string(),
            },
        })
    }

    /// Why the certificate is not valid at `now_s`, if so.
    pub(crate) fn time_fault(&self, pair: &CertificatePair, now_s: i64) -> Option<PairFault> {
        let path = self.certificate.clone();
        if now_s > pair.until_s {
            let at = moment(pair.until_s);
            return Some(PairFault::Expired { path, at });
        }
        (now_s < pair.from_s).then(|| PairFault::Early {
            path,
            at: moment(pair.from_s),
            now: moment(now_s),
        })
    }
}

impl CertificatePair {
    /// The same pair, with HSTS for this many seconds. A self-signed pair gets none: browsers would refuse the
    /// next one.
    pub(crate) fn strict(mut self, seconds: u32) -> Self {
        self.tls.strict_transport_s = if self.is_self_signed { 0 } else { seconds };
        self
    }
}

impl PairContent {
    /// Another one for another content, or another reason that there is none.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for part in [&self.certificate, &self.key] {
            match part {
                Ok(bytes) => digest.update(Sha256::digest(bytes)),
                Err(fault) => digest.update(Sha256::digest(fault.to_string())),
            }
        }
        digest.finalize().into()
    }
}

/// A moment in words, in UTC.
pub(crate) fn moment(seconds: i64) -> String {
    let since = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    // The end of the year 9999, which stands for "never", is the last that can be written.
    let since = since.min(Duration::from_secs(253_402_300_799));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}

/// Now, in seconds since the epoch.
pub(crate) fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

fn read(path: &Path) -> Result<Vec<u8>, PairFault> {
    let fault = |why: String| PairFault::Unreadable {
        path: path.to_owned(),
        why,
    };
    let facts = std::fs::metadata(path).map_err(|error| fault(error.to_string()))?;
    // A pipe would hang.
    if !facts.is_file() {
        return Err(fault("it is no file".to_owned()));
    }
    if facts.len() > FILE_BYTES_MAX {
        return Err(fault(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    std::fs::read(path).map_err(|error| fault(error.to_string()))
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).map_or(0, |facts| facts.permissions().mode() & 0o7777)
}

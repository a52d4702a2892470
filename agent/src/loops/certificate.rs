//! Looks at the files of REST's certificate, and shows what they hold as soon as they have changed.
//!
//! It reads them again and again in place of waiting for events: files are replaced by renames and by
//! links at any level of their path, on file systems that tell of no events.

use std::time::Duration;

use muster_tls::Tls;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::certificate::pair::{CertificatePair, PairFault, PairFiles, now_s};
use crate::certificate::{CertificateProblem, RestCertificate};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);
/// Looks after which files that did not change are judged again: time passes.
const LOOKS_UNTIL_STALE: u32 = 30;

/// The loop.
#[derive(Debug)]
pub(crate) struct CertificateLoop {
    files: PairFiles,
    /// How long browsers are told to come by TLS alone.
    strict_transport_s: u32,
    shown: watch::Sender<Tls>,
    state: watch::Sender<RestCertificate>,
    /// What the files held at the last look.
    last: Option<[u8; 32]>,
    /// What of it is shown.
    taken: Option<[u8; 32]>,
    /// Looks since the files were judged, if they have been judged as they are now.
    judged: Option<u32>,
}

impl CertificateLoop {
    /// A loop over these files.
    pub(crate) fn new(
        files: PairFiles,
        strict_transport_s: u32,
        shown: watch::Sender<Tls>,
        state: watch::Sender<RestCertificate>,
    ) -> Self {
        Self {
            files,
            strict_transport_s,
            shown,
            state,
            last: None,
            taken: None,
            judged: None,
        }
    }

    /// Looks until nobody wants to know any more.
    pub(crate) async fn run(mut self) {
        while !self.state.is_closed() {
            sleep(PAUSE).await;
            // A dead disk hangs the call.
            let looked = tokio::task::spawn_blocking(move || {
                self.look(now_s());
                self
            });
            match looked.await {
                Ok(back) => self = back,
                Err(error) => {
                    tracing::error!(%error, "the certificate's files are not looked at any more");
                    return;
                }
            }
        }
    }

    /// One look.
    pub(crate) fn look(&mut self, now_s: i64) {
        let content = self.files.content();
        let digest = content.digest();
        let is_same = self.last.replace(digest) == Some(digest);
        self.judged = match self.judged {
            Some(looks) if is_same && looks < LOOKS_UNTIL_STALE => {
                self.judged = Some(looks + 1);
                return;
            }
            judged => judged.filter(|_| is_same),
        };
        match self.files.parse(&content) {
            Ok(pair) => self.offered(pair.strict(self.strict_transport_s), digest, now_s),
            // One of two files may have been replaced, and the other one follows: a second look.
            Err(_) if !is_same => return,
            Err(fault) => self.blamed(&fault),
        }
        self.judged = Some(0);
    }

    /// The files hold a certificate with its key.
    fn offered(&mut self, pair: CertificatePair, digest: [u8; 32], now_s: i64) {
        let fault = self.files.time_fault(&pair, now_s);
        let state = self.state.borrow().clone();
        let is_stand_in = state.file != self.files.certificate;
        let is_known = !is_stand_in && state.fingerprint == pair.tls.fingerprint;
        // What is valid is not given up for what is not.
        let is_better = is_known || is_stand_in || state.until_s < now_s;
        if let (Some(fault), false) = (&fault, is_better) {
            return self.blamed(fault);
        }
        if self.taken.replace(digest) != Some(digest) {
            self.take(&pair, is_known);
        }
        match fault {
            Some(fault) => self.blamed(&fault),
            None => self.cleared(),
        }
    }

    fn take(&self, pair: &CertificatePair, is_known: bool) {
        let file = self.files.certificate.clone();
        if !is_known {
            tracing::info!(
                file = %file.display(),
                fingerprint = %pair.tls.fingerprint,
                "REST shows another certificate now"
            );
        }
        self.shown.send_replace(pair.tls.clone());
        self.state.send_modify(|state| {
            let problem = state.problem.take();
            *state = RestCertificate {
                problem,
                ..RestCertificate::of(file, pair)
            };
        });
    }

    fn blamed(&self, fault: &PairFault) {
        let problem = Some(CertificateProblem::of(fault));
        let before = self.state.borrow().clone();
        if before.problem == problem {
            return;
        }
        let (shown, remedy) = (before.fingerprint, fault.remedy());
        tracing::error!(%shown, "REST's certificate is not as it should be: {fault}; {remedy}");
        self.state.send_modify(|state| state.problem = problem);
    }

    fn cleared(&self) {
        self.state.send_if_modified(|state| {
            let had = state.problem.take().is_some();
            if had {
                tracing::info!("REST's certificate is as it should be again");
            }
            had
        });
    }
}

#[cfg(test)]
mod tests;

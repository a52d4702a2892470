//! The doctor: looks for what may be wrong with this machine and with the way to the others, and
//! says what to do about it.
//!
//! Probing and judging are apart: a file here reads figures (from a root that tests make up, or
//! by doing the thing itself), and judges them in functions that ask nobody.

mod certificate;
mod engine;
mod fsync;
mod kernel;
mod limits;
mod network;
mod socket;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use muster_exec::engine::Engine;
use muster_model::finding::{Finding, Grade};
use tokio::sync::Mutex;

use crate::certificate::CertificateNow;
use crate::certificate::pair::now_s;
use crate::documents::policy::PolicyInForce;
use crate::port;
use crate::sockets;

#[cfg(test)]
pub(crate) use self::network::NoPeers;
pub(crate) use self::network::{Contact, ContactReport, Peers};

/// What the doctor looks at.
#[derive(Debug)]
pub(crate) struct DoctorTargets {
    /// The root that `proc` is mounted under.
    pub(crate) root: PathBuf,
    /// The directory that holds the agent's state.
    pub(crate) state: PathBuf,
    /// Where REST is served.
    pub(crate) http: SocketAddr,
    /// Why it is not served there, if so.
    pub(crate) http_problem: port::PortProblem,
    /// What it proves itself with.
    pub(crate) certificate: CertificateNow,
    /// Why jobs of before are not known, if so.
    pub(crate) lost_log: Option<String>,
    /// Where others reach this machine.
    pub(crate) address: IpAddr,
    /// First and last port that tasks are given.
    pub(crate) task_ports: (u16, u16),
    /// The cluster's policy: how many processes and threads one task may have.
    pub(crate) policy: PolicyInForce,
    /// The container engine.
    pub(crate) engine: Arc<dyn Engine>,
    /// The other members.
    pub(crate) peers: Arc<dyn Peers>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Doctor {
    parts: DoctorTargets,
    /// What is measured must not be disturbed by a second look.
    at_work: Mutex<()>,
}

impl Doctor {
    pub(crate) fn new(parts: DoctorTargets) -> Self {
        Self {
            parts,
            at_work: Mutex::new(()),
        }
    }

    /// Looks at everything, the worst first. `None` while another look is under way.
    pub(crate) async fn examine(&self) -> Option<Vec<Finding>> {
        let _only = self.at_work.try_lock().ok()?;
        let parts = &self.parts;
        let members = parts.peers.count().await;
        let http_problem = parts.http_problem.borrow().clone();
        let (fsync, engine, http, network) = tokio::join!(
            fsync::check(parts.state.clone()),
            engine::check(parts.engine.as_ref()),
            socket::answers(
                (parts.http, http_problem),
                parts.certificate.get().is_some(),
                parts.address,
                members
            ),
            network::check(parts.peers.as_ref()),
        );
        let mut findings = vec![fsync, http];
        findings.extend(engine);
        findings.push(certificate::check(
            parts.certificate.get().as_ref(),
            parts.http.ip(),
            now_s(),
        ));
        findings.extend(parts.lost_log.as_deref().map(lost_log));
        findings.extend(self.local(members, parts.peers.port().await));
        findings.extend(network);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.grade));
        Some(findings)
    }

    /// What can be read of the kernel at once.
    fn local(&self, members: u64, mesh: Option<u16>) -> Vec<Finding> {
        let DoctorTargets {
            root,
            task_ports,
            policy,
            ..
        } = &self.parts;
        let sockets = sockets::read(root);
        let mut findings = Vec::new();
        if let Some(port) = mesh {
            findings.extend(socket::mesh(&sockets, port));
        }
        let dropped = socket::dropped(&sockets, mesh);
        let needs = kernel::Needs {
            members,
            task_ports: *task_ports,
            task_pids: policy.now().tasks.pids,
            dropped,
        };
        findings.extend(kernel::check(root, &needs));
        findings
    }
}

fn lost_log(problem: &str) -> Finding {
    let remedy = "restore the file; nothing is wrong any more after the next start of the agent";
    Finding::ok("state", "job log", problem).but(Grade::Fail, remedy)
}

/// `finding` as it is if `well`, else a warning with this remedy.
fn warn_unless(well: bool, finding: Finding, remedy: &str) -> Finding {
    if well {
        finding
    } else {
        finding.but(Grade::Warn, remedy)
    }
}

#[cfg(test)]
mod tests;

//! What is known of this node, put together for people.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_model::finding::{Finding, Grade};
use muster_model::mesh::Health;
use muster_model::node::{Capacity, NodeView};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::certificate::CertificateNow;
use crate::failures::RuleTester;
use crate::health::{NodeHealth, NodeParts, fabric_problems};
use crate::identity::NodeIdentity;
use crate::images::NodeImages;
use crate::known_faults;
use crate::loops::disk::DiskState;
use crate::loops::hardware::HardwareState;
use crate::loops::node::NodeHandle;
use crate::port;
use crate::sessions::TaskSessions;
use crate::stacks::StackTaker;
use crate::vc::VcHandle;

/// The node is shown also while its virtual cluster hangs, on a disk say; after this, without it.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// How long leaders elsewhere may take.
const LEADERS_LIMIT: Duration = Duration::from_secs(3);

/// Sources of the node's view.
#[derive(Clone, Debug)]
pub(crate) struct NodeStatus {
    /// Who it is.
    pub(crate) identity: NodeIdentity,
    /// Its ledger.
    pub(crate) node: NodeHandle,
    /// The virtual clusters that it serves.
    pub(crate) vc: VcHandle,
    /// The container engine's name, or why it does not answer.
    pub(crate) engine: watch::Receiver<Result<String, String>>,
    /// The hardware, with what is wrong with it.
    pub(crate) hardware: HardwareState,
    /// The health of its parts.
    pub(crate) health: NodeHealth,
    /// The same by the names that people give parts.
    pub(crate) parts: NodeParts,
    /// Tries failure rules on its failures.
    pub(crate) tester: RuleTester,
    /// Looks what its tasks do.
    pub(crate) stacks: StackTaker,
    /// Serves sessions in its tasks.
    pub(crate) sessions: TaskSessions,
    /// What is wrong with the disk that holds the state.
    pub(crate) disk: DiskState,
    /// Why REST and the mesh are not served, if so.
    pub(crate) ports: [port::PortProblem; 2],
    /// Why jobs of before are not known, if so.
    pub(crate) lost_log: Option<String>,
    /// REST's certificate, if it has one.
    pub(crate) certificate: CertificateNow,
    /// The images that are here, and those on their way here.
    pub(crate) images: Arc<NodeImages>,
    /// When the agent started.
    pub(crate) started: Instant,
}

impl NodeStatus {
    /// Why the disk takes no more jobs, if so.
    pub(crate) fn disk_problem(&self) -> Option<String> {
        self.disk.borrow().clone()
    }

    fn port_problems(&self) -> impl Iterator<Item = String> {
        self.ports
            .iter()
            .filter_map(|problem| problem.borrow().clone())
    }

    /// The node as it is now, but for its rack, which the mesh knows; `None` when the agent is
    /// ending.
    pub(crate) async fn view(&self) -> Option<NodeView> {
        let ledger = self.node.view().await?;
        let engine = self.engine.borrow().clone();
        let devices = ledger.capacity.devices.iter().filter_map(|device| {
            let fault = device.fault.as_ref()?;
            Some(format!(
                "device {} ({}) is not granted: {fault}",
                device.index, device.model
            ))
        });
        let hardware = self.hardware.borrow().problems.clone();
        let health = self.health.now().checks;
        let fabric = fabric_problems(&ledger.capacity, &health);
        let cells = timeout(ANSWER_LIMIT, self.vc.cell_problems()).await;
        let problems = [
            self.disk_problem()
                .map(|text| format!("no new jobs are accepted: {text}")),
            self.vc
                .problem()
                .map(|text| format!("jobs are not accepted: {text}")),
            self.node
                .problem()
                .map(|text| format!("nothing is granted: {text}")),
            engine
                .as_ref()
                .err()
                .map(|text| format!("no task can start: {text}")),
        ];
        Some(NodeView {
            id: self.identity.node.clone(),
            host_name: self.identity.host_name.clone(),
            address: self.identity.address,
            rack: String::new(),
            problems: problems
                .into_iter()
                .flatten()
                .chain(self.port_problems())
                .chain(self.certificate.problem())
                .chain(self.lost_log.clone())
                .chain(hardware)
                .chain(cells.unwrap_or_default())
                .chain(devices)
                .chain(fabric)
                .collect(),
            capacity: ledger.capacity,
            free: ledger.free,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            engine_faults: engine
                .as_ref()
                .map_or_else(|_| Vec::new(), |engine| engine_faults(engine)),
            engine,
            tasks: ledger.tasks,
            pulls: self.images.pulls().list(),
            certificate: self.certificate.fingerprint(),
            health,
        })
    }

    /// How each part of the agent is, with what was seen of it.
    pub(crate) async fn health(&self) -> Health {
        let (ledger, log, jobs) = tokio::join!(self.ledger(), self.log(), self.jobs());
        let parts = [self.engine(), self.disk(), self.hardware()];
        let checks = parts.into_iter().chain([ledger, log, jobs]).collect();
        Health {
            uptime_s: self.started.elapsed().as_secs(),
            checks,
        }
    }

    fn engine(&self) -> Finding {
        match &*self.engine.borrow() {
            Ok(version) => Finding::ok("engine", "containerd", format!("{version} answers")),
            Err(why) => failed("engine", "containerd", why, "restart containerd"),
        }
    }

    fn disk(&self) -> Finding {
        match &*self.disk.borrow() {
            None => Finding::ok("disk", "state", "it can be written and has room"),
            Some(why) => failed("disk", "state", why, "make room, or mount it again"),
        }
    }

    fn hardware(&self) -> Finding {
        let probed = self.hardware.borrow();
        let devices = &probed.capacity.devices;
        let faulty = devices.iter().filter(|one| one.fault.is_some()).count();
        let evidence = format!("{} devices, {faulty} of them faulty", devices.len());
        let finding = Finding::ok("hardware", "devices", evidence);
        match probed.problems.first() {
            Some(why) => failed("hardware", "devices", why, "see dmesg"),
            None if faulty > 0 => finding.but(Grade::Warn, "see below what each of them has"),
            None => finding,
        }
    }

    /// The node's loop: it owns the ledger.
    async fn ledger(&self) -> Finding {
        let asked = Instant::now();
        let answer = timeout(ANSWER_LIMIT, self.node.view()).await;
        loop_finding("ledger", &asked, answer.is_ok(), self.node.problem())
    }

    /// The logs that this node has copies of.
    async fn log(&self) -> Finding {
        let asked = Instant::now();
        let answer = timeout(ANSWER_LIMIT, self.vc.is_alive()).await;
        loop_finding("job log", &asked, answer == Ok(true), self.vc.problem())
    }

    /// Whoever leads the virtual clusters, here or elsewhere.
    async fn jobs(&self) -> Finding {
        let answer = timeout(LEADERS_LIMIT, self.vc.answer()).await;
        let why = match answer {
            Ok(Ok(())) => return Finding::ok("jobs", "leaders", "all of them answer".to_owned()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", LEADERS_LIMIT.as_secs()),
        };
        let remedy = "`muster cluster status` says who keeps the jobs: see to those machines";
        failed("jobs", "leaders", why, remedy)
    }
}

fn loop_finding(subject: &str, asked: &Instant, answers: bool, problem: Option<String>) -> Finding {
    let took = asked.elapsed().as_millis();
    match problem {
        Some(why) => failed("loop", subject, why, "see the agent's log"),
        None if answers => Finding::ok("loop", subject, format!("answers in {took} ms")),
        None => {
            let why = format!("no answer within {} s", ANSWER_LIMIT.as_secs());
            failed(
                "loop",
                subject,
                why,
                "see what the disk does: muster doctor",
            )
        }
    }
}

/// The known faults of the versions in `engine`, a sentence each.
fn engine_faults(engine: &str) -> Vec<String> {
    let faults = known_faults::of(engine).into_iter();
    faults
        .map(|fault| format!("{}: {}", fault.subject, fault.evidence))
        .collect()
}

fn failed(check: &str, subject: &str, why: impl Display, remedy: &str) -> Finding {
    Finding::ok(check, subject, why.to_string()).but(Grade::Fail, remedy)
}

/// `8 Tesla V100, 96 cores, 768 GiB`: what a machine has, in a few words.
pub(crate) fn summary(capacity: &Capacity) -> String {
    let mut models: BTreeMap<&str, usize> = BTreeMap::new();
    for device in &capacity.devices {
        *models.entry(&device.model).or_default() += 1;
    }
    let mut parts: Vec<String> = models
        .into_iter()
        .map(|(model, count)| format!("{count} {model}"))
        .collect();
    parts.push(format!("{} cores", capacity.cpu));
    parts.push(format!("{} GiB", capacity.memory_mb / 1024));
    parts.join(", ")
}

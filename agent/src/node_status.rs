//! What is known of this node, put together for people.

use std::time::Duration;

use muster_model::node::NodeView;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::identity::Identity;
use crate::loops::disk::DiskState;
use crate::loops::hardware::HardwareState;
use crate::loops::node::NodeHandle;
use crate::loops::vc::VcHandle;

/// The node is shown also while its virtual cluster hangs, on a disk say; after this, without it.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Sources of the node's view.
#[derive(Clone, Debug)]
pub(crate) struct NodeStatus {
    /// Who it is.
    pub(crate) identity: Identity,
    /// Its ledger.
    pub(crate) node: NodeHandle,
    /// Its virtual cluster.
    pub(crate) vc: VcHandle,
    /// The container engine's name, or why it does not answer.
    pub(crate) engine: watch::Receiver<Result<String, String>>,
    /// The hardware, with what is wrong with it.
    pub(crate) hardware: HardwareState,
    /// What is wrong with the disk that holds the state.
    pub(crate) disk: DiskState,
}

impl NodeStatus {
    /// Why the disk takes no more jobs, if so.
    pub(crate) fn disk_problem(&self) -> Option<String> {
        self.disk.borrow().clone()
    }

    /// The node as it is now; `None` when the agent is ending.
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
        let cells = timeout(ANSWER_LIMIT, self.vc.read(|view| view.problems())).await;
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
            problems: problems
                .into_iter()
                .flatten()
                .chain(hardware)
                .chain(cells.ok().and_then(Result::ok).unwrap_or_default())
                .chain(devices)
                .collect(),
            capacity: ledger.capacity,
            free: ledger.free,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            engine,
            tasks: ledger.tasks,
        })
    }
}

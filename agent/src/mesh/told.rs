//! What this node tells all others: its addresses and problems, its routing record, and how its agent feels.

use std::net::SocketAddr;
use std::time::Duration;

use muster_control::member::routing::RoutingRecord;
use muster_gossip::mesh::{MeshEvent, MeshInput};
use muster_gossip::net::driver::MeshHandle;
use muster_gossip::record::{self, NodeBody};
use muster_model::node::NodeView;
use tokio::sync::watch;

use crate::node_status::{NodeStatus, summary};
use crate::waits::AgentWaits;

/// How often this node is looked at. What did not change is not told again.
const PAUSE: Duration = Duration::from_secs(2);
/// How often it is asked how its agent feels.
const FEEL_PAUSE: Duration = Duration::from_secs(1);
/// Most problems that are told.
const PROBLEMS_MAX: usize = 8;
/// Longest sentence that is told, in characters.
const PROBLEM_MAX: usize = 240;

/// What does not change while the agent lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessFacts {
    /// Names this life.
    pub(crate) run: u64,
    /// The port of the mesh.
    pub(crate) port: u16,
}

/// Tells again and again, until the mesh ends. `routing`: what this member says of its copies.
pub(crate) async fn run(
    mesh: MeshHandle,
    node: NodeStatus,
    mut routing: watch::Receiver<RoutingRecord>,
    said: ProcessFacts,
) {
    let mut events = mesh.events();
    // A record without a log store would tell others that all copies here are lost.
    if routing.wait_for(|record| record.store != 0).await.is_err() {
        return;
    }
    let mut cluster_map = 0;
    loop {
        let Some(view) = node.view().await else {
            return;
        };
        let address = SocketAddr::new(node.identity.address_now(), said.port);
        let copies = routing.borrow_and_update().clone();
        // Until the others know that there is a newer one, tokens that were revoked are good there.
        let is_news = copies.cluster_map > cluster_map;
        cluster_map = copies.cluster_map;
        let body = body(&view, copies, said.run, address);
        let input = match is_news {
            true => MeshInput::News(body),
            false => MeshInput::Node(body),
        };
        if mesh.input(input).await.is_err() {
            return;
        }
        let pause = tokio::time::sleep(PAUSE);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                // Who leads is news that others wait for.
                Ok(()) = routing.changed() => break,
                event = events.recv() => match event {
                    Ok(event) => log(&event),
                    Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                    Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                },
            }
        }
    }
}

/// Tells how the agent feels, apart from the above: that waits for loops which may be stuck.
pub(crate) async fn feel(mesh: MeshHandle, feels: AgentWaits) {
    let mut told = record::SelfHealth::default();
    loop {
        tokio::time::sleep(FEEL_PAUSE).await;
        let ages = feels.ages();
        if ages == told {
            continue;
        }
        told = ages;
        if mesh.input(MeshInput::Health(ages)).await.is_err() {
            return;
        }
    }
}

/// All that is told of the node, of what is known of it.
fn body(view: &NodeView, routing: RoutingRecord, run: u64, address: SocketAddr) -> NodeBody {
    let routing = RoutingRecord {
        summary: summary(&view.capacity),
        ..routing
    };
    let problems = view.problems.iter().take(PROBLEMS_MAX);
    NodeBody {
        run,
        addresses: vec![address],
        agent_version: view.agent_version.clone(),
        problems: problems
            .map(|text| text.chars().take(PROBLEM_MAX).collect())
            .collect(),
        payload: routing.encode(),
    }
}

/// Tells what happens in the mesh to the log.
fn log(event: &MeshEvent) {
    match event {
        MeshEvent::Reach { member, reach } => {
            tracing::info!(member = member.0, ?reach, "a member is seen otherwise");
        }
        // The core of this member tells of them as alarms.
        MeshEvent::Cloned | MeshEvent::Expelled | MeshEvent::MassFailure => {}
        MeshEvent::Members | MeshEvent::Node(_) | MeshEvent::Replacement => {}
    }
}

#[cfg(test)]
mod tests {
    use muster_model::node::{Capacity, Device, DeviceId, Free, NodeTask};

    use super::*;

    /// A machine with eight devices, of which so many are free.
    fn view(free: u32) -> NodeView {
        let id = |index: u32| DeviceId(format!("GPU-{index}"));
        let device = |index: u32| Device {
            memory_mb: 16_160,
            ..Device::simulated(id(index).0, index, "Tesla V100")
        };
        let holds = |index: u32| NodeTask {
            job: "alice~train".to_owned(),
            vc: "default".parse().unwrap(),
            task: format!("worker:{index}"),
            uid: format!("a-{index}"),
            state: "Held".to_owned(),
            devices: vec![index],
            cpu: 1,
            memory_mb: 1024,
        };
        NodeView {
            id: "n1".parse().unwrap(),
            host_name: "n1".to_owned(),
            address: [10, 0, 0, 1].into(),
            rack: String::new(),
            capacity: Capacity {
                cpu: 96,
                memory_mb: 768 << 10,
                devices: (0..8).map(device).collect(),
                levels: Vec::new(),
                port_first: 15_000,
                port_last: 32_767,
            },
            free: Free {
                cpu: 88 + free,
                memory_mb: u64::from(760 + free) << 10,
                devices: (0..free).map(|index| (index, id(index))).collect(),
                ports: 100 + free,
            },
            agent_version: "0.1.0".to_owned(),
            engine: Ok("containerd 1.6.20".to_owned()),
            engine_faults: Vec::new(),
            problems: Vec::new(),
            tasks: (free..8).map(holds).collect(),
            health: Vec::new(),
            pulls: Vec::new(),
            certificate: None,
        }
    }

    fn told(view: &NodeView) -> NodeBody {
        body(
            view,
            RoutingRecord::default(),
            1,
            ([10, 0, 0, 1], 7742).into(),
        )
    }

    #[test]
    fn an_allocation_makes_no_new_record() {
        assert_eq!(told(&view(8)), told(&view(0)));
    }

    #[test]
    fn a_device_that_is_new_makes_one() {
        let mut less = view(8);
        less.capacity.devices.pop();
        let said = |view: &NodeView| {
            let routing = RoutingRecord::decode(&told(view).payload);
            routing.unwrap().summary
        };
        assert_eq!(said(&view(8)), "8 Tesla V100, 96 cores, 768 GiB");
        assert_eq!(said(&less), "7 Tesla V100, 96 cores, 768 GiB");
    }
}

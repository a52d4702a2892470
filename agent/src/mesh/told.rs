//! What this node tells the others: its addresses, hardware and problems, and how its agent feels.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use muster_consensus::{GroupId, StoreId};
use muster_control::groups::copies::voters_of;
use muster_gossip::Mesh;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::{Input, Reach};
use muster_gossip::net::driver::MeshHandle;
use muster_gossip::record::{self, NODE_PAYLOAD_MAX, NodeBody};
use muster_model::node::{Free, NodeView};
use serde::{Deserialize, Serialize};

use crate::accounts::Accounts;
use crate::affairs::Store;
use crate::cluster::mesh::summary;
use crate::groups::ClusterGroup;
use crate::node_status::NodeStatus;
use crate::vc::Vcs;
use crate::waits::Waits;

/// How often this node is looked at. What did not change is not told again.
const PAUSE: Duration = Duration::from_secs(2);
/// How often it is asked how its agent feels.
const FEEL_PAUSE: Duration = Duration::from_secs(1);
/// Most problems that are told.
const PROBLEMS_MAX: usize = 8;
/// Longest sentence that is told, in characters.
const PROBLEM_MAX: usize = 240;

/// The members that vote in a group, as far as is heard.
pub(crate) fn voters(mesh: &Mesh, group: GroupId) -> BTreeSet<MemberId> {
    voters_told(&copies(mesh, group), |id| is_away(mesh, id))
}

/// The members that vote in a group: as its leader says, for who was off when somebody else got its vote has
/// said last that it votes. Where nobody leads who can be reached, all that said so.
pub(super) fn voters_told(
    copies: &[(MemberId, Copy)],
    is_away: impl Fn(MemberId) -> bool,
) -> BTreeSet<MemberId> {
    match leader_of(copies, is_away) {
        Some((_, copy)) => copy.voters.iter().copied().collect(),
        None => {
            let those = copies.iter().filter(|(_, copy)| copy.votes);
            those.map(|(id, _)| *id).collect()
        }
    }
}

/// Who leads. Whoever led last and cannot be reached leads no more, as far as can be said here.
pub(super) fn leader_of(
    copies: &[(MemberId, Copy)],
    is_away: impl Fn(MemberId) -> bool,
) -> Option<&(MemberId, Copy)> {
    let first = copies.first();
    first.filter(|(id, copy)| copy.leads > 0 && !is_away(*id))
}

/// Whether a member cannot be reached.
pub(super) fn is_away(mesh: &Mesh, member: MemberId) -> bool {
    mesh.reach(member) == Reach::Unreachable
}

/// What does not change while the agent lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    /// Names this life.
    pub(crate) run: u64,
    /// The port of the mesh.
    pub(crate) port: u16,
}

/// The inventory that a node record carries. Frozen in its first byte: a change takes the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inventory {
    /// `8 Tesla V100, 96 cores, 768 GiB`.
    pub(crate) summary: String,
    /// Models of the devices and how many of each, the faulty among them.
    pub(crate) devices: Vec<(String, u32)>,
    /// Faulty ones.
    pub(crate) faulty: u32,
    /// CPU cores.
    pub(crate) cpu: u32,
    /// Memory in MiB.
    pub(crate) memory_mb: u64,
    /// Groups of devices near to each other, widest first: level and sizes.
    pub(crate) levels: Vec<(String, Vec<u32>)>,
    /// Devices free.
    pub(crate) free_devices: u32,
    /// Cores free.
    pub(crate) free_cpu: u32,
    /// Memory free, in MiB.
    pub(crate) free_memory_mb: u64,
    /// Names its log store: made with it, so that an empty one is not taken for the one before.
    pub(crate) store: u64,
    /// Its copies of the logs of groups.
    pub(crate) copies: Vec<Copy>,
    /// The version of the briefing that is known there, if it has a copy; else 0. What a few say
    /// is enough, and a new version makes no other record new.
    pub(crate) briefing: u64,
}

/// What a node says of its copy of a group's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Copy {
    /// The group's number.
    pub(crate) group: u64,
    /// Whether it votes.
    pub(crate) votes: bool,
    /// In which term it leads; 0: it does not.
    pub(crate) leads: u64,
    /// The members that vote, by the word of who leads; empty from all others, who may not know of the
    /// last change.
    pub(crate) voters: Vec<MemberId>,
}

/// What a node says of its groups.
#[derive(Clone, Debug, Default)]
struct Told {
    store: u64,
    copies: Vec<Copy>,
    briefing: u64,
}

/// First byte of an inventory.
const VERSION: u8 = 4;

impl Inventory {
    fn of(view: &NodeView, told: Told) -> Self {
        let Free {
            cpu,
            memory_mb,
            devices,
            ..
        } = &view.free;
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let mut models: Vec<(String, u32)> = Vec::new();
        for device in &view.capacity.devices {
            match models.iter_mut().find(|(model, _)| *model == device.model) {
                Some((_, known)) => *known += 1,
                None => models.push((device.model.clone(), 1)),
            }
        }
        let faulty = view.capacity.devices.iter().filter(|d| d.fault.is_some());
        let levels = view.capacity.levels.iter().map(|level| {
            let sizes = level.groups.iter().map(|group| count(group.len()));
            (level.level.to_string(), sizes.collect())
        });
        Self {
            summary: summary(&view.capacity),
            faulty: count(faulty.count()),
            devices: models,
            cpu: view.capacity.cpu,
            memory_mb: view.capacity.memory_mb,
            levels: levels.collect(),
            free_devices: count(devices.len()),
            free_cpu: *cpu,
            free_memory_mb: *memory_mb,
            store: told.store,
            copies: told.copies,
            briefing: told.briefing,
        }
    }

    /// As bytes for a record; empty if they do not fit into one.
    pub(super) fn encode(&self) -> Vec<u8> {
        let bytes = postcard::to_extend(self, vec![VERSION]).unwrap_or_default();
        if bytes.len() > NODE_PAYLOAD_MAX {
            Vec::new()
        } else {
            bytes
        }
    }

    /// From a record's bytes, if they are of a known version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [VERSION, body @ ..] => postcard::from_bytes(body).ok(),
            _ => None,
        }
    }
}

/// What a member says of itself, as far as this node has heard.
pub(super) fn inventory(mesh: &Mesh, member: MemberId) -> Option<Inventory> {
    Inventory::decode(&mesh.member(member)?.node?.payload)
}

/// The log store of a member, if it said which it is.
pub(crate) fn store(mesh: &Mesh, member: MemberId) -> Option<Store> {
    let inventory = inventory(mesh, member)?;
    Some(Store {
        id: StoreId(inventory.store),
        copies: inventory.copies.len(),
    })
}

/// The numbers of the groups of whose logs a member says that it has copies.
pub(super) fn holds(mesh: &Mesh, member: MemberId) -> BTreeSet<u64> {
    let copies = inventory(mesh, member).map(|inventory| inventory.copies);
    let copies = copies.unwrap_or_default().into_iter();
    copies.map(|copy| copy.group).collect()
}

/// Members that say they have a copy of a group's log: who leads in the newest term first, and last
/// those that cannot be reached.
pub(super) fn copies(mesh: &Mesh, group: GroupId) -> Vec<(MemberId, Copy)> {
    let copy = |id| {
        let inventory = inventory(mesh, id)?;
        let mut copies = inventory.copies.into_iter();
        Some((id, copies.find(|copy| copy.group == group.0)?))
    };
    let mut copies: Vec<_> = mesh.members().filter_map(copy).collect();
    copies.sort_by_key(|(id, copy)| (is_away(mesh, *id), Reverse(copy.leads), !copy.votes));
    copies
}

/// Tells again and again, until the mesh ends.
pub(crate) async fn run(
    mesh: MeshHandle,
    node: NodeStatus,
    cluster: ClusterGroup,
    accounts: Accounts,
    said: Said,
) {
    let mut briefed = accounts.watch();
    let mut events = mesh.events();
    let mut led = cluster.groups().led();
    let mut seat = node.vc.seat();
    loop {
        let Some(view) = node.view().await else {
            return;
        };
        let address = SocketAddr::new(node.identity.address_now(), said.port);
        let told = told(&cluster, node.vc.groups(), &accounts).await;
        let inventory = Inventory::of(&view, told);
        let body = body(&view, &inventory, said.run, address);
        if mesh.input(Input::Node(body)).await.is_err() {
            return;
        }
        let pause = tokio::time::sleep(PAUSE);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                // Who leads is news that others wait for.
                Ok(()) = led.changed() => break,
                Ok(()) = seat.changed() => break,
                Ok(()) = briefed.changed() => break,
                event = events.recv() => match event {
                    Ok(event) => super::member::log(&event),
                    Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                    Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                },
            }
        }
    }
}

/// Tells how the agent feels, apart from the above: that waits for loops which may be stuck.
pub(crate) async fn feel(mesh: MeshHandle, feels: Waits) {
    let mut told = record::SelfHealth::default();
    loop {
        tokio::time::sleep(FEEL_PAUSE).await;
        let ages = feels.ages();
        if ages == told {
            continue;
        }
        told = ages;
        if mesh.input(Input::Health(ages)).await.is_err() {
            return;
        }
    }
}

async fn told(cluster: &ClusterGroup, vcs: Vcs, accounts: &Accounts) -> Told {
    let mut copies = Vec::new();
    for group in [cluster.id()].into_iter().chain(vcs.into_values()) {
        let copy = cluster.groups().look(group, move |local| {
            let view = local.standing.view;
            Copy {
                group: group.0,
                votes: view.voters.contains(&view.replica),
                leads: if view.leads { view.term } else { 0 },
                voters: if view.leads {
                    voters_of(&view)
                } else {
                    Vec::new()
                },
            }
        });
        copies.extend(copy.await.ok().flatten());
    }
    let briefed = cluster.look(|state, standing| {
        let leads = standing.view.leads;
        if leads { state.briefed() } else { 0 }
    });
    let briefed = briefed.await.ok().flatten();
    let store = cluster.groups().store().await;
    Told {
        store: store.map_or(0, |store| store.0),
        copies,
        briefing: briefed.map_or(0, |led| led.max(accounts.version())),
    }
}

fn body(view: &NodeView, inventory: &Inventory, run: u64, address: SocketAddr) -> NodeBody {
    let problems = view.problems.iter().take(PROBLEMS_MAX);
    NodeBody {
        run,
        addresses: vec![address],
        agent_version: view.agent_version.clone(),
        problems: problems
            .map(|text| text.chars().take(PROBLEM_MAX).collect())
            .collect(),
        payload: inventory.encode(),
    }
}

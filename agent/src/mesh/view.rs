//! The mesh as users see it, made of the core.

use std::collections::BTreeMap;

use muster_consensus::GroupId;
use muster_control::answers::cluster::hash::hex;
use muster_control::member::routing::{self, AdvertisedCopy, RoutingRecord};
use muster_gossip::Mesh;
use muster_gossip::documents::BodyVerdict;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::{KnownMember, Reach};
use muster_gossip::record::{self, DocumentId, Vote};
use muster_model::id::VcName;
use muster_model::mesh as shown;

use crate::documents;
use crate::vc::Vcs;
use crate::visibility::{self, SeenMember, WatchLink, Works};

/// What is shown of a mesh: everything but what only the agent knows.
#[derive(Debug)]
pub(crate) struct ShownMesh {
    /// Everybody who was ever admitted.
    pub(crate) members: Vec<shown::MemberView>,
    /// Who holds the cluster state, as those say who have a copy of its log.
    pub(crate) leadership: shown::Leadership,
    /// Who leads each virtual cluster, the same way.
    pub(crate) vcs: BTreeMap<VcName, shown::Leadership>,
    /// Groups that hear each other.
    pub(crate) islands: Vec<Vec<String>>,
    /// Links that work one way.
    pub(crate) one_way: Vec<shown::OneWay>,
    /// Digest of all records.
    pub(crate) digest: String,
    /// What was dropped, and why.
    pub(crate) counters: BTreeMap<String, u64>,
    /// Documents that somebody edited.
    pub(crate) documents: Vec<shown::DocumentView>,
    /// Whether another machine has this node's key.
    pub(crate) cloned: bool,
}

fn leadership(mesh: &Mesh, group: GroupId) -> shown::Leadership {
    let name = |id| mesh.member(id).map(|member| member.body.name.clone());
    led(&routing::copies(mesh, group), name, |id| {
        routing::is_away(mesh, id)
    })
}

/// Who decides, by what those say who have copies: who leads first, and last those that are away.
fn led(
    copies: &[(MemberId, AdvertisedCopy)],
    name: impl Fn(MemberId) -> Option<String>,
    is_away: impl Fn(MemberId) -> bool,
) -> shown::Leadership {
    let leader = routing::leader_of(copies, &is_away);
    let voters = routing::voters_told(copies, &is_away);
    // Who leads counts on one that has lost its copy until somebody else has caught up.
    let has_vote = |id: MemberId| copies.iter().any(|(of, copy)| *of == id && copy.votes);
    let is_there = |id: &MemberId| has_vote(*id) && !is_away(*id);
    let named = |those: &mut dyn Iterator<Item = MemberId>| {
        let mut names: Vec<String> = those.filter_map(&name).collect();
        names.sort_unstable();
        names
    };
    // One that was replaced while it was off may find no copy any more.
    let others = copies
        .iter()
        .filter(|(id, copy)| !copy.votes || !is_away(*id));
    let others = others.map(|(id, _)| *id);
    shown::Leadership {
        leader: leader.and_then(|(id, _)| name(*id)),
        voters: named(&mut voters.iter().copied()),
        away: named(&mut voters.iter().copied().filter(|id| !is_there(id))),
        learners: named(&mut others.filter(|id| !voters.contains(id))),
    }
}

/// The view of `mesh`, whose cluster state and jobs these groups decide.
pub(crate) fn shown(mesh: &Mesh, cluster_service: GroupId, vcs: Vcs) -> ShownMesh {
    let members: Vec<_> = mesh.ever().filter_map(|id| mesh.member(id)).collect();
    let views: Vec<_> = members
        .iter()
        .map(|member| member_view(mesh, member))
        .collect();
    let admitted: Vec<_> = members
        .iter()
        .filter(|member| member.body.state == record::AdmissionState::Admitted)
        .collect();
    let seen: Vec<_> = admitted
        .iter()
        .map(|member| SeenMember {
            name: &member.body.name,
            reach: reach(member.reach),
        })
        .collect();
    let links = links(mesh, &admitted);
    ShownMesh {
        islands: visibility::islands(&seen, &links),
        one_way: visibility::one_way(&seen, &links),
        leadership: leadership(mesh, cluster_service),
        vcs: vcs
            .into_iter()
            .map(|(vc, group)| (vc, leadership(mesh, group)))
            .collect(),
        members: views,
        digest: format!("{:016x}", mesh.root()),
        counters: counters(mesh),
        documents: mesh
            .documents()
            .map(|(id, view)| document_view(mesh, id, &view))
            .collect(),
        cloned: mesh.is_cloned(),
    }
}

/// What the core dropped, by name.
fn counters(mesh: &Mesh) -> BTreeMap<String, u64> {
    let own = mesh.counters().list().into_iter();
    let own = own.map(|(name, count)| (name.to_owned(), count));
    let documents = mesh.document_counters().list().into_iter();
    let documents = documents.map(|(name, count)| (format!("documents_{name}"), count));
    own.chain(documents).collect()
}

const fn reach(reach: Reach) -> shown::MemberReach {
    match reach {
        Reach::Alive => shown::MemberReach::Alive,
        Reach::Suspect => shown::MemberReach::Suspect,
        Reach::Unreachable => shown::MemberReach::Unreachable,
    }
}

/// Every watcher and whom it watches.
fn links(mesh: &Mesh, members: &[&KnownMember<'_>]) -> Vec<WatchLink> {
    let place = |id: MemberId| members.iter().position(|member| member.id == id);
    let mut links = Vec::new();
    for (subject, member) in members.iter().enumerate() {
        for watcher in mesh.watchers(member.id) {
            let Some(watcher_place) = place(watcher) else {
                continue;
            };
            let vote = member.votes.iter().find(|(by, _)| *by == watcher);
            links.push(WatchLink {
                watcher: watcher_place,
                subject,
                works: match vote {
                    None => Works::BothWays,
                    Some((_, vote)) if vote.level == record::SuspicionLevel::Sick => {
                        Works::BothWays
                    }
                    Some((_, vote)) if vote.heard => Works::OnlyBack,
                    Some(_) => Works::Not,
                },
            });
        }
    }
    links
}

fn member_view(mesh: &Mesh, member: &KnownMember<'_>) -> shown::MemberView {
    let node = member.node.as_ref();
    let routing = node.and_then(|node| RoutingRecord::decode(&node.payload));
    shown::MemberView {
        id: member.id.0,
        name: member.body.name.clone(),
        rack: member.body.rack.clone(),
        key: member.body.key.to_string(),
        votes: member.body.votes,
        state: match member.body.state {
            record::AdmissionState::Admitted => shown::MemberState::Admitted,
            record::AdmissionState::Left => shown::MemberState::Left,
            record::AdmissionState::Expelled => shown::MemberState::Expelled,
        },
        reach: reach(member.reach),
        scheduling: None,
        why: member
            .votes
            .iter()
            .map(|(by, vote)| why(mesh, *by, vote))
            .chain(forger(mesh, member.forged))
            .collect(),
        addresses: node.map(|node| node.addresses.clone()).unwrap_or_default(),
        agent_version: node
            .map(|node| node.agent_version.clone())
            .unwrap_or_default(),
        incarnation: member.incarnation.0,
        age_s: member.said_ms.map(|ms| ms / 1000),
        reach_s: member.reach_ms.map(|ms| ms / 1000),
        devices: routing.map(|routing| routing.summary).unwrap_or_default(),
        problems: node.map(|node| node.problems.clone()).unwrap_or_default(),
    }
}

fn why(mesh: &Mesh, by: MemberId, vote: &Vote) -> String {
    let name = mesh
        .member(by)
        .map_or_else(|| by.0.to_string(), |by| by.body.name.clone());
    match (vote.level, vote.heard) {
        (record::SuspicionLevel::Sick, _) => format!("it told {name} that its agent is stuck"),
        (_, true) => format!("it does not answer {name}, which hears it: one way is cut"),
        (record::SuspicionLevel::Doubt, false) => {
            format!("{name} has not heard it for over a second")
        }
        (record::SuspicionLevel::Gone, false) => format!("{name} does not hear it any more"),
    }
}

/// What this node holds against one who sent it so many records with a wrong signature.
fn forger(mesh: &Mesh, forged: u64) -> Option<String> {
    let me = mesh.member(mesh.me())?.body.name.clone();
    (forged > 0).then(|| {
        format!(
            "it sent {me} {forged} records with a wrong signature: its memory is broken or its \
             key was stolen; muster cluster expel puts it out"
        )
    })
}

/// A document's name.
pub(crate) fn document_name(id: DocumentId) -> String {
    documents::about(id).map_or_else(
        || format!("document-{}", id.0),
        |about| about.name.to_owned(),
    )
}

fn document_view(
    mesh: &Mesh,
    id: DocumentId,
    view: &muster_gossip::documents::KnownDocument,
) -> shown::DocumentView {
    let header = &view.header;
    let named = |member: &MemberId| {
        let member = mesh.member(*member);
        member.map_or_else(String::new, |member| member.body.name.clone())
    };
    let stage = match &header.stage {
        record::HeaderStage::Distribute => shown::ActivationStage::Distribute,
        record::HeaderStage::Canary(canaries) => shown::ActivationStage::Canary {
            nodes: canaries.iter().map(named).collect(),
        },
        record::HeaderStage::Active => shown::ActivationStage::Active,
        record::HeaderStage::Withdrawn => shown::ActivationStage::Withdrawn {
            reason: String::new(),
        },
    };
    shown::DocumentView {
        name: document_name(id),
        newest: shown::DocumentVersion {
            version: header.version,
            stage,
            hash: hex(&header.hash),
            bytes: header.bytes,
            author: header.author.clone(),
            at_ms: header.at_ms,
            forced: header.forced,
        },
        active: header.active,
        coverage: coverage(mesh, view),
        here: shown::LocalDocument {
            has_newest: view.have,
            active: view.active.unwrap_or(0),
            problem: match &view.verdict {
                Some(BodyVerdict::Rejected(reason)) => reason.clone(),
                Some(BodyVerdict::Valid) | None => String::new(),
            },
        },
    }
}

fn coverage(mesh: &Mesh, view: &muster_gossip::documents::KnownDocument) -> shown::CoverageView {
    let has = |bits: &[u8], member: MemberId| {
        let byte = bits.get(member.index() / 8).copied().unwrap_or(0);
        byte >> (member.index() % 8) & 1 == 1
    };
    let bits = &view.coverage;
    let mut coverage = shown::CoverageView::default();
    for member in mesh.members() {
        let name = mesh
            .member(member)
            .map_or_else(String::new, |m| m.body.name.clone());
        let valid = has(&bits.valid, member);
        let active = has(&bits.active, member);
        let rejected = has(&bits.rejected, member);
        let reached = match view.header.stage {
            record::HeaderStage::Active => active,
            _ => valid,
        };
        coverage.members += 1;
        coverage.valid += u32::from(valid);
        coverage.active += u32::from(active);
        if rejected {
            let reason = match &view.verdict {
                Some(BodyVerdict::Rejected(reason)) if member == mesh.me() => reason.clone(),
                _ => String::new(),
            };
            coverage.rejected.push(shown::Rejection {
                member: name,
                reason,
            });
        } else if !reached {
            match mesh.reach(member) {
                Reach::Unreachable => coverage.unreachable.push(name),
                Reach::Alive | Reach::Suspect => coverage.missing.push(name),
            }
        }
    }
    coverage
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a group, by what members say: who leads says which of them vote.
    fn seen(leads: u64, voters: &[u32], away: &[u32]) -> shown::Leadership {
        let copy = |member: u32| {
            let (leads, voters) = match member {
                1 => (leads, voters.iter().copied().map(MemberId).collect()),
                _ => (0, Vec::new()),
            };
            let copy = AdvertisedCopy {
                group: 7,
                votes: member != 5,
                leads,
                voters,
            };
            (MemberId(member), copy)
        };
        let copies: Vec<_> = (1..=5).map(copy).collect();
        led(
            &copies,
            |id| Some(format!("n{}", id.0)),
            |id| away.contains(&id.0),
        )
    }

    #[test]
    fn who_votes_is_for_the_leader_to_say() {
        // n4 was off when n3 got its vote, and has said last that it votes.
        let now = seen(3, &[1, 2, 3], &[4]);
        assert_eq!(now.leader.as_deref(), Some("n1"));
        assert_eq!(now.voters, ["n1", "n2", "n3"]);
        assert_eq!(now.learners, ["n5"]);
        assert_eq!((now.away.len(), now.spare()), (0, Some(1)));
    }

    #[test]
    fn a_voter_that_is_away_is_one_failure() {
        let now = seen(3, &[1, 2, 3], &[3]);
        assert_eq!(now.away, ["n3"]);
        assert_eq!(now.spare(), Some(0));
    }

    #[test]
    fn a_voter_that_has_no_copy_is_one_failure() {
        // Its disk is lost, or it has not heard yet that it votes.
        let now = seen(3, &[1, 2, 5], &[]);
        assert_eq!(now.voters, ["n1", "n2", "n5"]);
        assert_eq!(now.away, ["n5"]);
    }

    #[test]
    fn where_nobody_leads_all_count_that_said_they_vote() {
        for now in [seen(0, &[], &[1, 2, 3]), seen(3, &[1, 2, 3], &[1, 2, 3])] {
            assert_eq!(now.leader, None);
            assert_eq!(now.voters, ["n1", "n2", "n3", "n4"]);
            assert_eq!((now.away.len(), now.spare()), (3, None));
        }
    }
}

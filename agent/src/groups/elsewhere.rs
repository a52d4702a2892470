//! Which of the cluster's groups go on without this node's copies, as the mesh's records on its disk
//! tell: asked when its own log is damaged, before anybody can be reached.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use muster_consensus::GroupId;
use muster_control::cluster::{ClusterMap, Lineage};
use muster_control::groups::copies::VOTERS_MAX;
use muster_control::member::routing::RoutingRecord;
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_gossip::record::{
    AdmissionState, MemberBody, NodeBody, Record, RecordKey, ReplacementBody,
};

use crate::mesh_file::{DatabaseError, MeshFile};

/// Of a single other voter it is not certain that it has heard of everything, and a group of two cannot go on
/// without either.
const OTHERS_MIN: usize = 2;
/// A majority of the most voters that a group has.
const MAJORITY_MAX: usize = VOTERS_MAX / 2 + 1;

/// Others that said last that they vote in a group.
#[derive(Clone, Copy, Debug, Default)]
struct Others {
    /// All of them. Who is no member any more may still be counted by the group.
    all: usize,
    /// Those that are members.
    members: usize,
}

impl Others {
    /// Whether those that are members are a majority with which the group goes on.
    fn go_on(self) -> bool {
        // This node is one more.
        let voters = self.all + 1;
        let majority = voters / 2 + 1;
        self.members >= majority.clamp(OTHERS_MIN, MAJORITY_MAX)
    }
}

/// What others have, by what they said last.
#[derive(Clone, Debug, Default)]
pub(crate) struct OtherReplicas {
    /// How many others vote in a group.
    voters: BTreeMap<GroupId, Others>,
    /// The groups that the cluster has, and what each is for; none if that is not known.
    groups: BTreeMap<GroupId, String>,
}

impl OtherReplicas {
    /// What `mesh_file`, the file of the mesh, holds for this member of `cluster`. `cluster_map`: what the
    /// member was told last.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn read(
        mesh_file: &Path,
        me: MemberId,
        cluster: ClusterId,
        cluster_map: Option<&ClusterMap>,
    ) -> Result<Self, DatabaseError> {
        if !mesh_file.exists() {
            // To open it would make it.
            return Ok(Self::default());
        }
        let records = MeshFile::open(mesh_file)?.records()?;
        Ok(Self::of(&records, me, cluster, cluster_map))
    }

    fn of(
        records: &[Arc<Record>],
        me: MemberId,
        cluster: ClusterId,
        cluster_map: Option<&ClusterMap>,
    ) -> Self {
        let members: BTreeSet<_> = records.iter().filter_map(|it| admitted(it)).collect();
        let mut voters: BTreeMap<GroupId, Others> = BTreeMap::new();
        for record in records {
            if let RecordKey::Node(member) = record.key
                && member != me
            {
                for group in votes(record) {
                    let others = voters.entry(group).or_default();
                    others.all += 1;
                    others.members += usize::from(members.contains(&member));
                }
            }
        }
        let groups = cluster_map.map(|cluster_map| groups(records, cluster, cluster_map));
        Self {
            voters,
            groups: groups.unwrap_or_default(),
        }
    }

    /// Where these groups, which are all, go on.
    #[cfg(test)]
    pub(crate) fn with(groups: &[GroupId]) -> Self {
        let groups = groups.iter();
        let two = Others { all: 2, members: 2 };
        Self {
            voters: groups.clone().map(|group| (*group, two)).collect(),
            groups: groups.map(|group| (*group, "a group".to_owned())).collect(),
        }
    }

    /// Whether a group goes on without this node, and has all that was committed.
    pub(crate) fn has(&self, group: GroupId) -> bool {
        let voters = self.voters.get(&group);
        voters.is_some_and(|others| others.go_on())
    }

    /// Why it is not known that all groups of the cluster do.
    pub(crate) fn doubt(&self) -> Option<String> {
        if self.groups.is_empty() {
            return Some("it is not known here which groups the cluster has".to_owned());
        }
        let mut groups = self.groups.iter();
        let (_, name) = groups.find(|(group, _)| !self.has(**group))?;
        Some(format!(
            "no majority of other machines is known to have the state of {name}, so that it might be lost"
        ))
    }

    /// What a group of the cluster is for, if that is known.
    pub(crate) fn name(&self, group: GroupId) -> Option<&str> {
        self.groups.get(&group).map(String::as_str)
    }
}

fn admitted(record: &Record) -> Option<MemberId> {
    let RecordKey::Member(member) = record.key else {
        return None;
    };
    let body: MemberBody = record.body().ok()?;
    (body.state == AdmissionState::Admitted).then_some(member)
}

/// The groups in which the writer of a record says that it votes.
fn votes(record: &Record) -> Vec<GroupId> {
    let body: Option<NodeBody> = record.body().ok();
    let routing = body.and_then(|body| RoutingRecord::decode(&body.payload));
    let copies = routing.map(|routing| routing.copies);
    let copies = copies.unwrap_or_default().into_iter();
    let votes = copies.filter(|copy| copy.votes);
    votes.map(|copy| GroupId(copy.group)).collect()
}

fn groups(
    records: &[Arc<Record>],
    cluster: ClusterId,
    cluster_map: &ClusterMap,
) -> BTreeMap<GroupId, String> {
    let mut records = records.iter();
    let said = records.find(|record| record.key == RecordKey::Replacement);
    let said: Option<ReplacementBody> = said.and_then(|record| record.body().ok());
    let own = GroupId(Lineage::of_cluster(cluster, said.as_ref()).group);
    let vcs = cluster_map.vcs.iter();
    let vcs = vcs.map(|born| (GroupId(born.group), format!("virtual cluster {}", born.vc)));
    vcs.chain([(own, "the cluster".to_owned())]).collect()
}

#[cfg(test)]
mod tests {
    use muster_control::cluster::{Hidden, Keys, VcCreation};
    use muster_gossip::key::NodeKey;
    use serde::Serialize;

    use super::*;
    use crate::mesh::unsigned;
    use muster_control::member::routing::AdvertisedCopy;

    const ME: MemberId = MemberId(1);

    fn record(key: RecordKey, body: &impl Serialize) -> Arc<Record> {
        unsigned::record(key, 1, body)
    }

    fn admission(member: u32, state: AdmissionState) -> Arc<Record> {
        let body = MemberBody {
            key: NodeKey([0; 32]),
            name: format!("n{member}"),
            rack: String::new(),
            votes: true,
            state,
        };
        record(RecordKey::Member(MemberId(member)), &body)
    }

    /// What a member says of its copies: group, and whether it votes.
    fn word(member: u32, copies: &[(u64, bool)]) -> Arc<Record> {
        let copies = copies.iter().map(|(group, votes)| AdvertisedCopy {
            group: *group,
            votes: *votes,
            leads: 0,
            voters: Vec::new(),
        });
        let routing = RoutingRecord {
            copies: copies.collect(),
            ..RoutingRecord::default()
        };
        let body = NodeBody {
            run: 1,
            addresses: Vec::new(),
            agent_version: String::new(),
            problems: Vec::new(),
            payload: routing.encode(),
        };
        record(RecordKey::Node(MemberId(member)), &body)
    }

    fn cluster_map(vcs: &[(&str, u64)]) -> ClusterMap {
        let creation = |(name, group): &(&str, u64)| VcCreation {
            vc: name.parse().unwrap(),
            group: *group,
            generation: 1,
            homes: Vec::new(),
            before: Vec::new(),
        };
        ClusterMap {
            cluster: ClusterId::default(),
            version: 1,
            keys: Keys {
                data: Hidden([0; 32]),
                link: Hidden([0; 32]),
                token: Hidden(Vec::new()),
                token_number: 1,
                retired: Vec::new(),
            },
            vcs: vcs.iter().map(creation).collect(),
            users: BTreeMap::new(),
            groups: BTreeMap::new(),
            closed: BTreeMap::new(),
            description: 0,
            policy: 0,
        }
    }

    fn known(records: &[Arc<Record>], cluster_map: Option<&ClusterMap>) -> OtherReplicas {
        OtherReplicas::of(records, ME, ClusterId::default(), cluster_map)
    }

    #[test]
    fn a_group_goes_on_with_two_members_that_vote_and_are_most_of_it() {
        let mut records = Vec::from([1, 2, 3].map(|id| admission(id, AdmissionState::Admitted)));
        records.extend([4, 5].map(|id| admission(id, AdmissionState::Expelled)));
        records.push(word(1, &[(8, true), (9, true), (10, true)]));
        records.push(word(2, &[(8, true), (9, true), (10, true), (12, true)]));
        records.push(word(3, &[(8, true), (9, false), (12, true)]));
        records.push(word(4, &[(9, true), (10, true), (12, true)]));
        records.push(word(5, &[(9, true), (10, true), (12, true)]));
        let known = known(&records, None);
        let has = [8, 9, 10, 11, 12].map(|group| known.has(GroupId(group)));
        assert_eq!(has, [true, false, false, false, false]);
    }

    #[test]
    fn all_goes_on_only_where_each_group_is_known_to() {
        let own = Lineage::of_cluster(ClusterId::default(), None).group;
        let told = cluster_map(&[("dev", 9), ("prod", 11)]);
        let records = |third: &[(u64, bool)]| {
            let mut records =
                Vec::from([1, 2, 3].map(|id| admission(id, AdmissionState::Admitted)));
            records.push(word(2, &[(own, true), (9, true), (11, true)]));
            records.push(word(3, third));
            records
        };
        let all = records(&[(own, true), (9, true), (11, true)]);
        assert_eq!(known(&all, Some(&told)).doubt(), None);
        let doubt = known(&all, None).doubt().unwrap();
        assert!(doubt.contains("which groups"), "{doubt}");
        let some = records(&[(own, true), (9, true), (11, false)]);
        let doubt = known(&some, Some(&told)).doubt().unwrap();
        assert!(doubt.contains("virtual cluster prod"), "{doubt}");
    }

    #[test]
    fn groups_have_names_as_the_member_was_told() {
        let known = known(&[], Some(&cluster_map(&[("prod", 9)])));
        assert_eq!(known.name(GroupId(9)), Some("virtual cluster prod"));
        let own = GroupId(Lineage::of_cluster(ClusterId::default(), None).group);
        assert_eq!(known.name(own), Some("the cluster"));
        assert_eq!(known.name(GroupId(10)), None);
    }
}

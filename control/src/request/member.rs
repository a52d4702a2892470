//! What a member is asked, whichever groups it leads.

use std::collections::BTreeSet;

use muster_gossip::record::ReplacementBody;
use muster_model::health::{HealthCheck, PersonMark};
use muster_model::id::{AttemptUid, NodeId};
use muster_model::image::ImageView;
use muster_model::inventory::InventoryProblem;
use muster_model::mesh::RecoveryView;
use muster_model::pull::Pull;
use muster_model::rule_test::RuleTest;
use muster_model::stacks::{StacksWish, TakenStacks};
use serde::{Deserialize, Serialize};

use super::Request;
use super::table::requests;
use crate::cluster::{ClusterMap, RecoverableCopy};

requests! {
    /// What a member is asked, whichever groups it leads.
    MemberRequest by OfMember:
        KeepBody,
        ReadBody,
        ListCopies,
        GetKnownClusterMap,
        RecoverCluster,
        Succeed,
        RenewLed,
        ListCommitted,
        CopyAge,
        ListPulls,
        ListImages,
        ListHealth,
        MarkPart,
        AcceptInventory,
        TestRules,
        TakeStacks,
}

/// A text that the log is about to name is to be kept. Only the leader of the `cluster` group may
/// ask that, of a member with a copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeepBody {
    /// The text.
    pub body: String,
}

impl Request for KeepBody {
    type Answer = ();
}

/// A text that the log names, for a copy that lacks it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadBody {
    /// Its SHA-256, in hex.
    pub hash: String,
}

impl Request for ReadBody {
    type Answer = String;
}

/// Which copies of these groups the member has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListCopies {
    /// By number.
    pub groups: Vec<u64>,
}

impl Request for ListCopies {
    type Answer = Vec<RecoverableCopy>;
}

/// What the member was told of the cluster, if that is newer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GetKnownClusterMap {
    /// The version that is known.
    pub known: u64,
}

impl Request for GetKnownClusterMap {
    type Answer = Option<ClusterMap>;
}

/// The cluster is to go on without most of the voters of its own group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecoverCluster {
    /// The voters that are lost for good; none named: only tell how it would go on.
    pub lost: BTreeSet<String>,
    /// The user who says so.
    pub by: String,
}

impl Request for RecoverCluster {
    type Answer = RecoveryView;

    fn may_repeat(&self) -> bool {
        self.lost.is_empty()
    }

    fn is_slow(&self) -> bool {
        true
    }
}

/// The member whose copy of the cluster's group knows most: the cluster is to go on from that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Succeed {
    /// In which group, in place of which.
    pub replacement: ReplacementBody,
    /// The user who says so.
    pub by: String,
}

impl Request for Succeed {
    type Answer = ();
}

/// A node asks for renewal of what it holds of these groups, as far as the member leads them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RenewLed {
    /// By number.
    pub groups: Vec<u64>,
    /// The node's name.
    pub node: NodeId,
}

impl Request for RenewLed {
    /// Those that it leads, by the word of a majority given after that was asked.
    type Answer = Vec<u64>;
}

/// Up to which entries those of these groups are committed that the member leads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListCommitted {
    /// By number.
    pub groups: Vec<u64>,
}

impl Request for ListCommitted {
    /// By group, the last entry that is committed there.
    type Answer = Vec<(u64, u64)>;
}

/// How old the member's copy of a virtual cluster's log is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyAge {
    /// The number of its group.
    pub group: u64,
}

impl Request for CopyAge {
    /// Milliseconds since it was known to be up to date; none if it never was.
    type Answer = Option<u64>;
}

/// Which images are on their way to the member for tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListPulls;

impl Request for ListPulls {
    type Answer = Vec<Pull>;
}

/// Which images are on the member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListImages;

impl Request for ListImages {
    type Answer = Vec<ImageView>;
}

/// What checks of the member's parts say, good ones included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListHealth;

impl Request for ListHealth {
    type Answer = Vec<HealthCheck>;
}

/// A person says something of a part of the member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MarkPart {
    /// The part, as the person names it: a device's id, index or PCI address, a port as
    /// `mlx5_0/1`, or `machine`.
    pub part: String,
    /// What.
    pub mark: PersonMark,
}

impl Request for MarkPart {
    /// What checks say of it then.
    type Answer = Vec<HealthCheck>;
}

/// What the member has now is what it should have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AcceptInventory;

impl Request for AcceptInventory {
    /// What was missed until then.
    type Answer = Vec<InventoryProblem>;
}

/// What failure rules would say of the failures that the member keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestRules {
    /// The text of the rules.
    pub rules: String,
}

impl Request for TestRules {
    type Answer = RuleTest;

    fn is_slow(&self) -> bool {
        true
    }
}

/// What tasks of the member do at this moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TakeStacks(pub StacksWish);

impl Request for TakeStacks {
    /// Of each attempt that was named.
    type Answer = Vec<(AttemptUid, TakenStacks)>;
}

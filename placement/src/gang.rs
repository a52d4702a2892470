//! What asks for cells, and where it was put.

use std::fmt;

use muster_model::cluster_spec::Level;
use muster_model::time::Time;

pub use crate::amount::{MachineAmount, Resource};

/// Lowest guaranteed priority.
pub const GUARANTEED_MIN: i32 = 0;
/// Highest priority.
pub const PRIORITY_MAX: i32 = 1000;
/// The priority of all opportunistic gangs.
pub const OPPORTUNISTIC: i32 = -1;
/// Most pods of a gang.
pub const PODS_MAX: u32 = 1 << 20;

/// A gang, by a number that is never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GangNumber(pub u64);

impl fmt::Display for GangNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gang {}", self.0)
    }
}

/// Where pods ask to be near to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near {
    /// Inside a machine: each pod's leaves lie in one such cell; node or rack: all pods do.
    pub level: Level,
    /// Whether it waits until that holds; else it is only tried.
    pub required: bool,
}

/// Pods of one gang that ask for the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GangMember {
    /// How many pods, at least 1.
    pub pods: u32,
    /// Leaf cells of each, at least 1, all of them on one machine.
    pub leaves: u32,
    /// The leaf type; empty for any.
    pub leaf_type: String,
    /// What each takes of its machine beside leaf cells.
    pub share: MachineAmount,
    /// How near they want to be.
    pub near: Option<Near>,
}

/// Pods that start together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gang {
    /// Which gang.
    pub id: GangNumber,
    /// Whose quota it uses.
    pub vc: String,
    /// Who asks, where users of a cluster share it fairly; empty for nobody in particular.
    pub user: String,
    /// -1 for opportunistic, 0 to 1000 for guaranteed.
    pub priority: i32,
    /// Whether it agrees to lose its quota but keep running while its devices are not needed.
    pub lazy: bool,
    /// Whether nobody here may have it end, though it be where another cluster is promised to: it
    /// was placed by somebody else, on a promise that is not known here to be there.
    pub stays: bool,
    /// Whether it may be started again from the beginning, by its owner's word.
    pub restartable: bool,
    /// The pinned cell it must lie in; empty for none.
    pub pinned: String,
    /// Its pods.
    pub members: Vec<GangMember>,
    /// Once it runs, no gang of its own cluster evicts it before. An owner's claim on what an
    /// opportunistic gang uses is never held up by it.
    pub fixed_until: Option<Time>,
    /// When it says that it will have ended. Explanations tell it; nothing is decided by it.
    pub ends_by: Option<Time>,
}

impl Gang {
    /// Whether it lives on what nobody was promised, or does not use at the moment.
    pub fn is_opportunistic(&self) -> bool {
        self.priority < GUARANTEED_MIN
    }

    /// The leaf type of its first member.
    pub(crate) fn leaf_type(&self) -> &str {
        self.members.first().map_or("", |member| &member.leaf_type)
    }

    /// How many pods it has.
    pub fn pods(&self) -> u64 {
        self.members
            .iter()
            .map(|member| u64::from(member.pods))
            .sum()
    }

    /// Leaf cells of all its pods.
    pub fn leaves(&self) -> u64 {
        let leaves = |member: &GangMember| u64::from(member.pods) * u64::from(member.leaves);
        self.members.iter().map(leaves).sum()
    }

    /// Whether any pod takes anything beside leaf cells.
    pub(crate) fn has_shares(&self) -> bool {
        self.members.iter().any(|member| !member.share.is_none())
    }

    /// What each pod takes beside leaf cells, in order.
    pub(crate) fn shares(&self) -> impl Iterator<Item = MachineAmount> {
        let each = |member: &GangMember| std::iter::repeat_n(member.share, member.pods as usize);
        self.members.iter().flat_map(each)
    }

    /// Leaf cells by pod, in order.
    pub(crate) fn sizes(&self) -> Vec<u32> {
        let each = |member: &GangMember| std::iter::repeat_n(member.leaves, member.pods as usize);
        self.members.iter().flat_map(each).collect()
    }
}

/// A leaf cell of the cluster, numbered chain by chain in the order of the spec.
pub type Leaf = u32;

/// Where a gang's pods go: the leaves of each pod, in the order of the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// By pod.
    pub pods: Vec<Vec<Leaf>>,
}

impl Placement {
    /// Every leaf, pod by pod.
    pub fn leaves(&self) -> impl Iterator<Item = Leaf> {
        self.pods.iter().flatten().copied()
    }
}

/// Two cells of one level of a chain exchange what they are promised to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swap {
    /// The chain, by its number.
    pub chain: usize,
    /// The level, 0 for leaves.
    pub level: usize,
    /// One cell, by its index in the level.
    pub a: u32,
    /// The other.
    pub b: u32,
}

/// Everything that starting a gang changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Where its pods go.
    pub placement: Placement,
    /// Exchanges that must come first, in order.
    pub swaps: Vec<Swap>,
    /// Gangs that go on as opportunistic ones: lazily preempted.
    pub demoted: Vec<GangNumber>,
}

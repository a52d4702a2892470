//! The groups of this node, opened from disk.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use muster_consensus::{
    GroupId, Host, HostOptions, HostOutput, LogStore, Removal, StoreError, StoreId, StoredGroup,
    Voting,
};
use muster_control::groups::name::GroupKind;
use muster_control::groups::{ApplyOutcome, GroupState, name};
use muster_gossip::member::MemberId;
use muster_model::time::Time;
use tokio::time::Instant;

use super::aside;
use super::disk::LogDisk;
use crate::groups::elsewhere::OtherReplicas;

/// Decides in which order copies lose patience with a silent leader: the same on all nodes.
const SEED: u64 = 0;
/// What to do about a damaged file of a node that has founded no cluster yet.
const NEW_REMEDY: &str = "put a backup of the file there, or move it away to begin without jobs";
/// The same of a member. A machine alone begins anew where the file is missing.
const MEMBER_REMEDY: &str = "put a backup of the file there; without one, move it away, start the \
    agent and see whether another member has a copy to go on from: `muster cluster recover` there, \
    with `--vc NAME` for a virtual cluster";

/// The groups of this node, opened from disk.
#[derive(Debug)]
pub(crate) struct OpenedStore {
    /// When the host's clock was at 0.
    pub(crate) started: Instant,
    /// All groups.
    pub(crate) host: Host<GroupState>,
    /// What is to be done about them now.
    pub(crate) outputs: Vec<HostOutput<ApplyOutcome>>,
    /// Their log store.
    pub(crate) disk: LogDisk,
}

/// Opens the groups in this file, and makes it if it is missing. `member` is this node's number in
/// its cluster, and what others have of its groups; none before it has founded one.
///
/// # Errors
/// When the file cannot be used, or what perhaps nobody else has a copy of is damaged. It stays where it is
/// then.
pub(crate) fn open(path: &Path, member: Option<&(MemberId, OtherReplicas)>) -> Result<OpenedStore> {
    let elsewhere = member.map(|(_, elsewhere)| elsewhere);
    let (store, found) = match load(path) {
        Err(error) => {
            make_room(error, path, elsewhere)?;
            load(path)?
        }
        Ok(loaded) => loaded,
    };
    let guard = CopyGuard {
        path,
        elsewhere,
        voting: voting(&found, store.id()),
    };
    let node = member.map_or(name::FOUNDER, |(member, _)| name::node(*member));
    let (started, now) = (Instant::now(), Time::default());
    let mut outputs = Vec::new();
    let options = HostOptions::new(node, store.id(), SEED);
    let host = Host::open(now, options, found, GroupState::of, &mut outputs);
    // Before the loop writes any of it.
    guard.check(&outputs)?;
    Ok(OpenedStore {
        started,
        host,
        outputs,
        disk: LogDisk::new(store),
    })
}

fn load(path: &Path) -> Result<(LogStore, Vec<StoredGroup>), StoreError> {
    let mut store = LogStore::open(path, StoreId(rand::random()))?;
    let found = store.load()?;
    Ok((store, found))
}

/// What to do about a damaged file.
const fn remedy(elsewhere: Option<&OtherReplicas>) -> &'static str {
    match elsewhere {
        None => NEW_REMEDY,
        Some(_) => MEMBER_REMEDY,
    }
}

/// Makes room for a new file, if this one could not be read for its damage and the cluster goes on without
/// what it held.
///
/// # Errors
/// In all other cases: nothing is moved then.
fn make_room(error: StoreError, path: &Path, elsewhere: Option<&OtherReplicas>) -> Result<()> {
    let remedy = remedy(elsewhere);
    match &error {
        StoreError::Damaged { .. } => replace(path, elsewhere).context(error),
        StoreError::Doubtful { .. } => {
            Err(anyhow::anyhow!("where that does not help, {remedy}").context(error))
        }
        StoreError::Storage { .. } | StoreError::Format { .. } => Err(error.into()),
    }
}

/// Puts the file aside. The new one has another identity, so that nobody takes its copies for those that made
/// promises.
///
/// # Errors
/// When the cluster needs what it held, or that is not known; or when the disk refuses.
fn replace(path: &Path, elsewhere: Option<&OtherReplicas>) -> Result<()> {
    let Some(elsewhere) = elsewhere else {
        anyhow::bail!("nobody else has what it held; {NEW_REMEDY}");
    };
    if let Some(doubt) = elsewhere.doubt() {
        anyhow::bail!("{doubt}; {MEMBER_REMEDY}");
    }
    let kept =
        aside::put(path).with_context(|| format!("{} cannot be moved aside", path.display()))?;
    tracing::error!(aside = %kept.display(),
        "the log of all groups is damaged and was put aside, with the jobs that this machine had before \
         it joined; the groups give it new copies");
    Ok(())
}

/// Sees to it that no copy ends here that its group may need.
struct CopyGuard<'a> {
    path: &'a Path,
    /// None: this node has founded no cluster yet.
    elsewhere: Option<&'a OtherReplicas>,
    /// Who votes besides, in the groups that have a copy here.
    voting: BTreeMap<GroupId, Voting>,
}

impl CopyGuard<'_> {
    /// A damaged copy is replaced by its group. What is left of it stays beside the log, in case that
    /// the others are lost as well.
    fn check(&self, outputs: &[HostOutput<ApplyOutcome>]) -> Result<()> {
        if let Some((group, problem)) = outputs.iter().find_map(foreign) {
            anyhow::bail!(
                "the state of {} in {} is of another release ({problem}); install the one that ran here before",
                self.name(group),
                self.path.display()
            );
        }
        let damaged: Vec<_> = outputs.iter().filter_map(damaged).collect();
        for (group, problem) in &damaged {
            anyhow::ensure!(self.goes_on(*group), self.refusal(*group, problem));
        }
        if damaged.is_empty() {
            return Ok(());
        }
        let kept = aside::copy(self.path).with_context(|| {
            format!(
                "{} is damaged in part and would be mended, but no copy of it as it is can be kept \
                 beside it; make room",
                self.path.display()
            )
        })?;
        for (group, problem) in damaged {
            tracing::error!(group = group.0, problem, aside = %kept.display(),
                "a copy of a group is damaged and ends");
        }
        Ok(())
    }

    /// Whether a group goes on without its copy here.
    fn goes_on(&self, group: GroupId) -> bool {
        match self.voting.get(&group) {
            Some(Voting::Alone) => false,
            Some(Voting::Shared) => true,
            Some(Voting::Unknown) | None => self.elsewhere.is_some_and(|it| it.has(group)),
        }
    }

    fn refusal(&self, group: GroupId, problem: &str) -> String {
        let remedy = remedy(self.elsewhere);
        format!(
            "the state of {} in {} is damaged ({problem}), and no other machine is known to have all of \
             it; {remedy}",
            self.name(group),
            self.path.display()
        )
    }

    fn name(&self, group: GroupId) -> String {
        let known = self.elsewhere.and_then(|it| it.name(group));
        known.map_or_else(|| nameless(group).to_owned(), str::to_owned)
    }
}

const fn nameless(group: GroupId) -> &'static str {
    match name::kind(group) {
        GroupKind::Cluster => "the cluster",
        GroupKind::Vc => "a virtual cluster",
    }
}

/// A copy that ends because it cannot be read, and why.
fn damaged(output: &HostOutput<ApplyOutcome>) -> Option<(GroupId, &str)> {
    match output {
        HostOutput::Removed {
            group,
            why: Removal::Unreadable(problem),
            ..
        } => Some((*group, problem)),
        _ => None,
    }
}

/// A copy that this release does not understand, and why.
fn foreign(output: &HostOutput<ApplyOutcome>) -> Option<(GroupId, &str)> {
    match output {
        HostOutput::Removed {
            group,
            why: Removal::Foreign(problem),
            ..
        } => Some((*group, problem)),
        _ => None,
    }
}

/// Who votes besides in the groups that have a copy here.
fn voting(found: &[StoredGroup], store: StoreId) -> BTreeMap<GroupId, Voting> {
    let voting = |found: &StoredGroup| match found {
        StoredGroup::Replica(stored) => Some((stored.group, stored.voting(store))),
        StoredGroup::Damaged(damaged) => Some((damaged.group, damaged.voting)),
        StoredGroup::Gone(..) => None,
    };
    found.iter().filter_map(voting).collect()
}

#[cfg(test)]
mod tests;

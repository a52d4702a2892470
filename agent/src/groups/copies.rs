//! Sees to who has copies of a group, while it is led here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_consensus::GroupId;
use muster_control::cluster::voters::Candidate;
use muster_control::groups::copies::{Places, Sightings, Step, next};
use muster_control::groups::{Error, name};
use muster_gossip::member::MemberId;
use muster_model::time::Time;
use tokio::time::Instant;

use super::handle::Groups;

/// How long somebody who said that it goes gets no copy again.
const GOING: Duration = Duration::from_secs(30);

/// Sees to the copies of a group.
#[derive(Debug)]
pub(crate) struct Copies {
    groups: Groups,
    group: GroupId,
    started: Instant,
    /// Members that are about to go: they give their copies away first.
    going: Mutex<BTreeMap<MemberId, Instant>>,
    sightings: Mutex<Sightings>,
}

impl Copies {
    pub(crate) fn new(groups: Groups, group: GroupId) -> Self {
        Self {
            groups,
            group,
            started: Instant::now(),
            going: Mutex::default(),
            sightings: Mutex::default(),
        }
    }

    /// Whether they are this group's.
    pub(crate) fn are_of(&self, group: GroupId) -> bool {
        self.group == group
    }

    /// Whether this node leads the group, and so sees to them.
    pub(crate) fn leads(&self) -> bool {
        self.groups.led().borrow().contains_key(&self.group)
    }

    /// Changes who has copies, if a change is due and this node leads.
    pub(crate) async fn see_to(&self, places: Places) {
        let candidates = self.candidates(&places);
        let group = self.group;
        let look = self.groups.look(group, move |local| {
            let standing = local.standing;
            let leads = standing.view.leads;
            leads.then(|| next(&standing, &candidates, &places, group))
        });
        let Ok(Some(Some(Some(step)))) = look.await else {
            return;
        };
        let done = match step {
            Step::Change(changes) => {
                tracing::info!(group = group.0, ?changes, "copies of a group change");
                self.groups.change(group, &changes).await
            }
            Step::HandOver(to) => self.groups.transfer(group, to).await,
        };
        if let Err(error) = done {
            tracing::debug!(%error, "copies of a group do not change yet");
        }
    }

    /// Who may have copies, but for those that are about to go.
    fn candidates(&self, places: &Places) -> Vec<Candidate> {
        let now = self.now();
        let mut sightings = self.sightings();
        sightings.update(now, places);
        sightings.candidates(now, places, &self.gone_soon())
    }

    /// By a clock that nobody sets.
    fn now(&self) -> Time {
        let passed = self.started.elapsed().as_micros();
        Time(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// A leader that was one before starts to watch anew.
    pub(crate) fn begin_to_watch(&self) {
        *self.sightings() = Sightings::default();
    }

    /// A member is about to go. Whether it has a copy still.
    ///
    /// # Errors
    /// When this node does not lead.
    pub(crate) async fn goes(&self, member: MemberId) -> Result<bool, Error> {
        self.note(member);
        // Who leads no more names who does.
        self.groups.read(self.group, |_| ()).await?;
        let look = self.groups.look(self.group, move |local| {
            let mut homes = local.standing.view.membership.homes.values();
            homes.any(|home| home.node == name::node(member))
        });
        Ok(look.await? == Some(true))
    }

    fn note(&self, member: MemberId) {
        let mut going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        going.insert(member, Instant::now());
    }

    fn gone_soon(&self) -> BTreeSet<MemberId> {
        let mut going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        going.retain(|_, at| at.elapsed() < GOING);
        going.keys().copied().collect()
    }

    fn sightings(&self) -> MutexGuard<'_, Sightings> {
        // Each change leaves it whole, so a panic elsewhere left no half of one.
        self.sightings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

//! The copies of the virtual clusters' logs, and who may have some.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_consensus::GroupId;
use muster_control::groups::copies::Places;

use crate::groups::Groups;
use crate::groups::copies::Copies;

/// The copies of the logs that this node serves.
#[derive(Clone, Debug)]
pub(crate) struct VcCopies {
    groups: Groups,
    /// Sees to those of a group.
    all: Arc<Mutex<BTreeMap<GroupId, Arc<Copies>>>>,
    /// Every member, as it was seen last.
    places: Arc<Mutex<Places>>,
}

impl VcCopies {
    pub(crate) fn new(groups: Groups) -> Self {
        Self {
            groups,
            all: Arc::default(),
            places: Arc::default(),
        }
    }

    /// Sees to the copies of these groups from now on.
    pub(crate) fn serve(&self, groups: impl IntoIterator<Item = GroupId>) {
        let mut all = whole(&self.all);
        let groups: BTreeSet<GroupId> = groups.into_iter().collect();
        all.retain(|group, _| groups.contains(group));
        for group in groups {
            let copies = || Arc::new(Copies::new(self.groups.clone(), group));
            all.entry(group).or_insert_with(copies);
        }
    }

    /// The groups that are served here.
    pub(crate) fn groups(&self) -> BTreeSet<GroupId> {
        whole(&self.all).keys().copied().collect()
    }

    /// Those of a group, if it is served here.
    pub(crate) fn of(&self, group: GroupId) -> Option<Arc<Copies>> {
        whole(&self.all).get(&group).cloned()
    }

    /// Those of the groups that are led here. The others begin to watch anew when they are.
    pub(crate) fn led(&self) -> Vec<Arc<Copies>> {
        let all: Vec<_> = whole(&self.all).values().cloned().collect();
        let (led, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|copies| copies.leads());
        for copies in others {
            copies.begin_to_watch();
        }
        led
    }

    /// This is how every member is seen now.
    pub(crate) fn seen(&self, places: Places) {
        *whole(&self.places) = places;
    }

    /// Makes the next change of one group's, if one is due and this node leads it.
    pub(crate) async fn see_to(&self, copies: &Copies) {
        let places = whole(&self.places).clone();
        copies.see_to(places).await;
    }
}

/// Each change leaves it whole, so a panic elsewhere left no half of one.
fn whole<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Alarms: what each member says is wrong, and what must hold of that.

use std::collections::BTreeSet;

use muster_control::member::MemberEvent;
use muster_control::member::alarms::Key;

use super::Cluster;

impl Cluster {
    /// A member tells of something: nothing is raised twice, and what is cleared was raised.
    pub(super) fn alarmed(&mut self, node: usize, event: &MemberEvent) {
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let is_right = match event {
            MemberEvent::Raised(trouble) => process.alarms.insert(trouble.key()),
            MemberEvent::Cleared { trouble, .. } => process.alarms.remove(&trouble.key()),
            MemberEvent::LeaderChanged { leader, before, .. } => leader != before,
            MemberEvent::Succeeded { .. } | MemberEvent::CopiesChange { .. } => true,
        };
        self.account.expect(is_right, || {
            format!("n{node} tells {event:?}, which does not follow from what it told before")
        });
    }

    /// The alarms that stand, by member. Those of machines that were expelled are no concern.
    pub(super) fn standing_alarms(&self) -> Vec<(usize, &BTreeSet<Key>)> {
        let machines = self.machines.iter();
        let members = machines.filter(|it| !self.outcasts.contains_key(&it.id));
        let standing = members.filter_map(|it| Some((it.id, &it.process.as_ref()?.alarms)));
        standing.filter(|(_, alarms)| !alarms.is_empty()).collect()
    }
}

//! A node's side: which of its tasks hold by a lease, when to ask for renewal, and when a lease is
//! over.

use std::collections::BTreeMap;

use muster_model::id::{AttemptUid, VcName};
use muster_model::time::Time;

use super::{GRACE_MS, LeaseTime};

/// After a request that nobody granted, the next one is sent so much sooner: this part of the time
/// between two renewals.
const SOONER: u64 = 4;
/// But no sooner than this, milliseconds.
const AGAIN_MS_MIN: u64 = 1_000;

/// A task that holds by a lease, or that something is set aside for, which may come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    /// Its attempt's uid.
    pub uid: AttemptUid,
    /// Its virtual cluster.
    pub vc: VcName,
    /// The lease, once its placement is committed.
    pub lease: Option<LeaseTime>,
    /// The task of an earlier round that it keeps the place of: it goes on with that one's lease.
    pub before: Option<AttemptUid>,
}

/// Who may renew a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseAuthority {
    /// The leader of the virtual cluster.
    Vc,
    /// The leader of the `cluster` group.
    Cluster,
}

/// A request for renewal: for everything that the node holds of a virtual cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewalRequest {
    /// The virtual cluster.
    pub vc: VcName,
    /// Who is asked.
    pub of: LeaseAuthority,
    /// Names the request: an answer to another one renews nothing.
    pub number: u64,
}

/// What the caller must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseOutput {
    /// Ask, and say how it went with [`LeaseHolder::answered`], whatever happens.
    Ask(RenewalRequest),
    /// The task's muster-init may let it run until then, on this node's clock since boot.
    Extend {
        /// The task.
        uid: AttemptUid,
        /// When its last process is gone.
        ends: Time,
    },
    /// The lease is over but for the grace: end the task if its muster-init does not.
    End {
        /// The task.
        uid: AttemptUid,
    },
}

/// The leases of a node.
#[derive(Clone, Debug, Default)]
pub struct LeaseHolder {
    tasks: BTreeMap<AttemptUid, LeasedTask>,
    vcs: BTreeMap<VcName, Renewal>,
    requests: u64,
}

#[derive(Clone, Debug)]
struct LeasedTask {
    vc: VcName,
    lease: Option<LeaseTime>,
    /// When it was granted; none if that was in an earlier life of the agent.
    since: Option<Time>,
    /// When its last process is gone; none before the first renewal of what an earlier life of
    /// the agent has left.
    ends: Option<Time>,
    /// It was told to end. Nothing renews it any more.
    over: bool,
}

/// The renewal of what is held of one virtual cluster.
#[derive(Clone, Debug, Default)]
struct Renewal {
    /// Requests on their way: when they were sent, by whom they go to.
    sent: BTreeMap<LeaseAuthority, (u64, Time)>,
    /// When the newest request that was granted was sent.
    granted: Option<Time>,
    /// When the next one is due.
    due: Time,
    /// Whether any was sent.
    asked: bool,
}

impl LeasedTask {
    /// When the task is told to end.
    fn last_call(&self) -> Option<Time> {
        let ends = self.ends.filter(|_| !self.over)?;
        Some(Time(ends.0.saturating_sub(GRACE_MS * 1000)))
    }
}

impl LeaseHolder {
    /// Takes what an earlier life of the agent has left. Until when it may run its muster-init
    /// knows.
    pub fn adopt(&mut self, now: Time, held: impl IntoIterator<Item = Leased>) {
        for Leased { uid, vc, lease, .. } in held {
            self.vcs.entry(vc.clone()).or_default().due = now;
            let task = LeasedTask {
                vc,
                lease,
                since: None,
                ends: None,
                over: false,
            };
            self.tasks.insert(uid, task);
        }
    }

    /// Takes what the ledger holds now. Whoever placed a task was heard to be its leader after it
    /// was granted: its lease counts from there. This must be called before the grant is told.
    pub fn follow(&mut self, now: Time, held: impl IntoIterator<Item = Leased>) {
        let mut known = std::mem::take(&mut self.tasks);
        for Leased {
            uid,
            vc,
            lease,
            before,
        } in held
        {
            let known_as = before.filter(|_| !known.contains_key(&uid));
            let known = known.remove(known_as.as_ref().unwrap_or(&uid));
            let mut task = known.unwrap_or(LeasedTask {
                vc,
                lease: None,
                since: Some(now),
                ends: None,
                over: false,
            });
            if let (None, Some(lease), Some(since)) = (task.lease, lease, task.since) {
                task.ends = Some(since.plus_millis(lease.wire_ms()));
                let due = since.plus_millis(lease.renew_ms());
                let first = || Renewal {
                    due,
                    ..Renewal::default()
                };
                let renewal = self.vcs.entry(task.vc.clone()).or_insert_with(first);
                renewal.due = renewal.due.min(due);
            }
            task.lease = lease;
            self.tasks.insert(uid, task);
        }
        let tasks = &self.tasks;
        let is_leased = |vc: &VcName| {
            let mut tasks = tasks.values();
            tasks.any(|task| task.vc == *vc && task.lease.is_some())
        };
        self.vcs.retain(|vc, _| is_leased(vc));
    }

    /// Until when a task may run, if it holds by a lease and that is known.
    pub fn ends(&self, uid: &AttemptUid) -> Option<Time> {
        self.tasks.get(uid)?.ends
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time, out: &mut Vec<LeaseOutput>) {
        for (uid, task) in &mut self.tasks {
            if task.last_call().is_some_and(|at| at <= now) {
                task.over = true;
                out.push(LeaseOutput::End { uid: uid.clone() });
            }
        }
        for vc in self.due(now) {
            self.ask(now, &vc, out);
        }
    }

    /// Whose renewal is to be asked for: if any is due, then also those that would be before long. So those
    /// with leases of one length come to be asked for together, and whoever leads several of them is sent
    /// one message.
    fn due(&self, now: Time) -> Vec<VcName> {
        let is_due = |within: &dyn Fn(&VcName) -> u64| {
            let vcs = self.vcs.iter();
            let due = vcs.filter(|(vc, renewal)| renewal.due <= now.plus_millis(within(vc)));
            due.map(|(vc, _)| vc.clone()).collect::<Vec<_>>()
        };
        let due = is_due(&|_| 0);
        if due.is_empty() {
            return due;
        }
        is_due(&|vc| pause(&self.tasks, vc) / 2)
    }

    /// A request was granted or not.
    pub fn answered(
        &mut self,
        request: &RenewalRequest,
        granted: bool,
        out: &mut Vec<LeaseOutput>,
    ) {
        let Some(renewal) = self.vcs.get_mut(&request.vc) else {
            return;
        };
        let Some((_, sent)) = renewal
            .sent
            .get(&request.of)
            .copied()
            .filter(|(number, _)| *number == request.number)
        else {
            return;
        };
        renewal.sent.remove(&request.of);
        if !granted || renewal.granted.is_some_and(|before| before >= sent) {
            return;
        }
        renewal.granted = Some(sent);
        let pause = pause(&self.tasks, &request.vc);
        renewal.due = sent.plus_millis(pause);
        for (uid, task) in &mut self.tasks {
            let ends = task.lease.map(|lease| sent.plus_millis(lease.wire_ms()));
            let longer = ends > task.ends && !task.over && task.vc == request.vc;
            if let Some(ends) = ends.filter(|_| longer) {
                task.ends = Some(ends);
                let uid = uid.clone();
                out.push(LeaseOutput::Extend { uid, ends });
            }
        }
    }

    /// When [`LeaseHolder::tick`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let ends = self.tasks.values().filter_map(LeasedTask::last_call);
        let asks = self.vcs.values().map(|renewal| renewal.due);
        ends.chain(asks).min()
    }

    /// Asks whoever has no request on its way: the virtual cluster's leader always, the other one
    /// when a renewal was missed.
    fn ask(&mut self, now: Time, vc: &VcName, out: &mut Vec<LeaseOutput>) {
        let every = pause(&self.tasks, vc);
        let Some(renewal) = self.vcs.get_mut(vc) else {
            return;
        };
        renewal.due = now.plus_millis((every / SOONER).max(AGAIN_MS_MIN));
        let missed = match renewal.granted {
            Some(granted) => granted.plus_millis(every) < now,
            None => renewal.asked,
        };
        renewal.asked = true;
        let mut of = vec![LeaseAuthority::Vc];
        if missed {
            of.push(LeaseAuthority::Cluster);
        }
        for of in of {
            if renewal.sent.contains_key(&of) {
                continue;
            }
            self.requests += 1;
            let number = self.requests;
            renewal.sent.insert(of, (number, now));
            let vc = vc.clone();
            out.push(LeaseOutput::Ask(RenewalRequest { vc, of, number }));
        }
    }
}

/// Between two renewals of what is held of a virtual cluster, milliseconds.
fn pause(tasks: &BTreeMap<AttemptUid, LeasedTask>, vc: &VcName) -> u64 {
    let leases = tasks.values().filter(|task| task.vc == *vc);
    let shortest = leases.filter_map(|task| task.lease).min();
    shortest.unwrap_or(LeaseTime::SHORTEST).renew_ms()
}

#[cfg(test)]
mod tests;

//! Carrying out admitted orders.

use std::collections::BTreeSet;

use muster_model::exit::Cause;
use muster_model::id::{AttemptUid, VcName};
use muster_model::launch::TaskSpec;

use super::grant::{Grant, Phase, State};
use super::record::put_grant;
use super::reserve::Request;
use super::tell::Heading;
use super::{Change, Latest, Ledger, Output, Step};
use crate::environment::Variables;
use crate::gang::Run;
use crate::lease::Lease;
use crate::order::{Command, Member, Order, Reply, Standing};

/// What carrying out an order leads to, before it is put in order.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) changes: Vec<Change>,
    pub(super) steps: Vec<Step>,
    /// Runs of other orders that it has changed something of.
    touched: BTreeSet<(VcName, Run)>,
}

impl Ledger {
    pub(super) fn carry_out(
        &mut self,
        order: Order,
        changes: Vec<Change>,
        port_is_free: &dyn Fn(u16) -> bool,
        out: &mut Vec<Output>,
    ) {
        let mut work = Work {
            changes,
            ..Work::default()
        };
        let Order {
            vc,
            run,
            fence,
            command,
            ..
        } = order;
        let (vc, run) = (&vc, &run);
        // Settle is about some tasks only; changes of the others still answer the order before.
        let is_settle = matches!(command, Command::Settle { .. });
        let (reply, members) = match command {
            Command::Reserve {
                job,
                asks,
                evictable,
                victims,
                ttl_ms,
            } => {
                let request = Request {
                    vc,
                    run,
                    job: &job,
                    asks: &asks,
                    evictable,
                    victims: &victims,
                    expires: self.now.plus_millis(ttl_ms),
                };
                let reply = self.reserve(&request, port_is_free);
                if matches!(reply, Reply::Granted(_)) {
                    work.changes.extend(self.reserved_records(&asks));
                }
                (reply, asks.into_iter().map(|ask| ask.member).collect())
            }
            Command::Launch {
                mut tasks,
                shared,
                grace_ms,
            } => {
                tasks.iter_mut().for_each(|task| add_shared(task, &shared));
                let members = tasks.iter().map(member_of).collect();
                let left = self.keep_places((vc, run), &tasks, &mut work);
                let end = |uid| Step::Stop {
                    uid,
                    cause: Cause::AttemptCompleted,
                    grace_ms,
                };
                work.steps.extend(left.into_iter().map(end));
                let victims = self.launch(run, tasks, &mut work);
                self.evict(victims, grace_ms, &mut work);
                self.standing_reply(run, members)
            }
            Command::Go { members } => {
                self.go(run, &members, &mut work);
                self.standing_reply(run, members)
            }
            Command::Stop {
                members,
                cause,
                grace_ms,
            } => {
                let earlier = self.earlier_rounds(vc, run, &members);
                let uids = members.iter().map(|member| member.uid.clone());
                let uids = uids.chain(earlier).collect();
                self.stop(uids, cause, grace_ms, &mut work);
                self.drop_reservations(vc, run);
                self.standing_reply(run, members)
            }
            Command::Settle { members } => {
                self.settle(&members);
                (Reply::Settled, members)
            }
        };
        if !is_settle {
            let latest = Latest { fence, members };
            self.latest.insert((vc.clone(), run.clone()), latest);
        }
        if !work.changes.is_empty() {
            self.persist(work.changes, out);
        }
        self.answer(&Heading { vc, run, fence }, reply, out);
        out.extend(work.steps.into_iter().map(Output::Step));
        for run in &work.touched {
            self.announce_run(run, out);
        }
        self.forget_latest();
    }

    /// Launches the tasks that have a place in the run; of the others there is nothing. Gives those that
    /// have to give way.
    fn launch(&mut self, run: &Run, tasks: Vec<TaskSpec>, work: &mut Work) -> BTreeSet<AttemptUid> {
        let mut victims = BTreeSet::new();
        let is_stale = |task: &&TaskSpec| {
            let grant = self.grants.get(&task.placement.uid);
            task.lease_s.is_some() && grant.is_some_and(Grant::is_from_earlier_life)
        };
        let stale = tasks.iter().filter(is_stale);
        let stale: Vec<AttemptUid> = stale.map(|task| task.placement.uid.clone()).collect();
        for uid in stale {
            self.forget(&uid);
        }
        for task in tasks {
            let grant = self.grants.get_mut(&task.placement.uid);
            let Some(grant) = grant.filter(|grant| grant.run == *run) else {
                continue;
            };
            match grant.state {
                State::Reserved { .. } => {
                    grant.state = State::Held(Phase::Starting { go: false });
                    grant.lease = task.lease_s.map(|seconds| Lease { seconds });
                    work.changes.push(put_grant(grant));
                }
                State::Held(Phase::Absent) => {
                    grant.state = State::Held(Phase::Starting { go: false });
                    if grant.clears.is_some() {
                        self.pending.insert(task.placement.uid.clone(), task);
                        continue;
                    }
                }
                State::Claimed { .. } | State::Evicting => {
                    if !matches!(grant.state, State::Evicting) {
                        grant.state = State::Evicting;
                        grant.lease = task.lease_s.map(|seconds| Lease { seconds });
                        work.changes.push(put_grant(grant));
                    }
                    victims.extend(grant.victims.iter().cloned());
                    self.pending.insert(task.placement.uid.clone(), task);
                    continue;
                }
                State::Held(_) | State::Draining | State::Ended { .. } => continue,
            }
            work.steps.push(Step::Create(Box::new(task)));
        }
        victims
    }

    /// Ends those that give way: what has no process at once, all others after the polite signal.
    fn evict(&mut self, victims: BTreeSet<AttemptUid>, grace_ms: u64, work: &mut Work) {
        for uid in victims {
            let Some(grant) = self.grants.get_mut(&uid) else {
                continue;
            };
            match grant.state {
                State::Held(phase) if phase != Phase::Absent => {
                    grant.state = State::Draining;
                    grant.is_evicted = true;
                    work.changes.push(put_grant(grant));
                    // Its gang is to give way with it, not when it has ended.
                    work.touched.insert((grant.vc.clone(), grant.run.clone()));
                    if grant.clears.is_none() {
                        work.steps.push(give_way(uid, grace_ms));
                    }
                }
                // A later agent is not to take that back either.
                State::Draining => {
                    grant.is_evicted = true;
                    work.changes.push(put_grant(grant));
                }
                State::Ended { .. } => {}
                State::Reserved { .. }
                | State::Claimed { .. }
                | State::Evicting
                | State::Held(_) => {
                    work.touched.insert((grant.vc.clone(), grant.run.clone()));
                    self.forget(&uid);
                }
            }
        }
    }

    fn go(&mut self, run: &Run, members: &[Member], work: &mut Work) {
        for member in members {
            let Some(grant) = self.grants.get_mut(&member.uid) else {
                continue;
            };
            if grant.run != *run {
                continue;
            }
            if let State::Held(phase) = &mut grant.state {
                match phase {
                    Phase::Ready => {
                        *phase = Phase::Running;
                        work.steps.push(Step::Go(member.uid.clone()));
                    }
                    Phase::Adopting { go } | Phase::Starting { go } => *go = true,
                    // Ran, and is no more: nobody launches it again.
                    Phase::Absent => self.forget(&member.uid),
                    Phase::Running => {}
                }
            }
        }
    }

    fn stop(&mut self, uids: Vec<AttemptUid>, cause: Cause, grace_ms: u64, work: &mut Work) {
        for uid in uids {
            let Some(grant) = self.grants.get_mut(&uid) else {
                continue;
            };
            match grant.state {
                State::Reserved { .. }
                | State::Claimed { .. }
                | State::Evicting
                | State::Held(Phase::Absent) => self.forget(&uid),
                // The container of the round before was told to end already, and of its own it has none.
                State::Held(_) if grant.clears.is_some() => grant.state = State::Draining,
                State::Held(_) => {
                    grant.state = State::Draining;
                    work.steps.push(Step::Stop {
                        uid,
                        cause,
                        grace_ms,
                    });
                }
                State::Draining | State::Ended { .. } => {}
            }
        }
    }

    fn settle(&mut self, members: &[Member]) {
        for Member { uid, .. } in members {
            let Some(grant) = self.grants.get_mut(uid) else {
                continue;
            };
            if let State::Ended { gone, settled, .. } = &mut grant.state {
                *settled = true;
                if *gone {
                    self.forget(uid);
                }
            }
        }
    }

    fn standing_reply(&self, run: &Run, members: Vec<Member>) -> (Reply, Vec<Member>) {
        (Reply::Standing(self.standings(run, &members)), members)
    }

    pub(super) fn standings(&self, run: &Run, members: &[Member]) -> Vec<(Member, Standing)> {
        let standing = |member: &Member| match self.grants.get(&member.uid) {
            Some(grant) if grant.run == *run => grant.standing(),
            Some(_) | None => Standing::Gone,
        };
        let each = members.iter();
        each.map(|member| (member.clone(), standing(member)))
            .collect()
    }

    /// Only runs that the node holds something of can change by themselves.
    pub(super) fn forget_latest(&mut self) {
        let grants = &self.grants;
        self.latest.retain(|_, latest| {
            let mut members = latest.members.iter();
            members.any(|member| grants.contains_key(&member.uid))
        });
    }
}

/// The order to a task to make room for whoever was promised what it uses.
pub(super) const fn give_way(uid: AttemptUid, grace_ms: u64) -> Step {
    Step::Stop {
        uid,
        cause: Cause::Preempted,
        grace_ms,
    }
}

/// Gives a task the variables that all tasks of its job have.
fn add_shared(task: &mut TaskSpec, shared: &Variables) {
    for (name, value) in shared {
        let own = task.environment.entry(name.clone());
        own.or_insert_with(|| value.clone());
    }
}

fn member_of(task: &TaskSpec) -> Member {
    Member {
        task: task.placement.task.clone(),
        uid: task.placement.uid.clone(),
    }
}

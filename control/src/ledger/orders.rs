//! Carrying out admitted orders.

use std::collections::BTreeSet;

use muster_model::exit::Cause;
use muster_model::id::{AttemptUid, VcName};
use muster_model::launch::TaskSpec;

use super::grant::{GrantState, HeldPhase, TaskGrant};
use super::record::put_grant;
use super::reserve::ReserveRequest;
use super::tell::Heading;
use super::{ExecutorStep, Latest, Ledger, LedgerChange, LedgerOutput};
use crate::environment::Variables;
use crate::gang::GangRun;
use crate::lease::LeaseTime;
use crate::order::{GangCommand, Order, OrderOutcome, RunMember, TaskStanding};

/// What carrying out an order leads to, before it is put in order.
#[derive(Debug, Default)]
pub(super) struct OrderEffects {
    pub(super) changes: Vec<LedgerChange>,
    pub(super) steps: Vec<ExecutorStep>,
    /// Runs of other orders that it has changed something of.
    touched: BTreeSet<(VcName, GangRun)>,
}

impl Ledger {
    pub(super) fn carry_out(
        &mut self,
        order: Order,
        changes: Vec<LedgerChange>,
        port_is_free: &dyn Fn(u16) -> bool,
        out: &mut Vec<LedgerOutput>,
    ) {
        let mut work = OrderEffects {
            changes,
            ..OrderEffects::default()
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
        let is_settle = matches!(command, GangCommand::Settle { .. });
        let (reply, members) = match command {
            GangCommand::Reserve {
                job,
                asks,
                evictable,
                victims,
                ttl_ms,
            } => {
                let request = ReserveRequest {
                    vc,
                    run,
                    job: &job,
                    asks: &asks,
                    evictable,
                    victims: &victims,
                    expires: self.now.plus_millis(ttl_ms),
                };
                let reply = self.reserve(&request, port_is_free);
                if matches!(reply, OrderOutcome::Granted(_)) {
                    work.changes.extend(self.reserved_records(&asks));
                }
                (reply, asks.into_iter().map(|ask| ask.member).collect())
            }
            GangCommand::Launch {
                mut tasks,
                shared,
                grace_ms,
            } => {
                tasks.iter_mut().for_each(|task| add_shared(task, &shared));
                let members = tasks.iter().map(member_of).collect();
                let left = self.keep_places((vc, run), &tasks, &mut work);
                let end = |uid| ExecutorStep::Stop {
                    uid,
                    cause: Cause::AttemptCompleted,
                    grace_ms,
                };
                work.steps.extend(left.into_iter().map(end));
                let victims = self.launch(run, tasks, &mut work);
                self.evict(victims, grace_ms, &mut work);
                self.standing_reply(run, members)
            }
            GangCommand::Go { members } => {
                self.go(run, &members, &mut work);
                self.standing_reply(run, members)
            }
            GangCommand::Stop {
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
            GangCommand::Settle { members } => {
                self.settle(&members);
                (OrderOutcome::Settled, members)
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
        out.extend(work.steps.into_iter().map(LedgerOutput::Step));
        for run in &work.touched {
            self.announce_run(run, out);
        }
        self.forget_latest();
    }

    /// Launches the tasks that have a place in the run; of the others there is nothing. Gives those that
    /// have to give way.
    fn launch(
        &mut self,
        run: &GangRun,
        tasks: Vec<TaskSpec>,
        work: &mut OrderEffects,
    ) -> BTreeSet<AttemptUid> {
        let mut victims = BTreeSet::new();
        let is_stale = |task: &&TaskSpec| {
            let grant = self.grants.get(&task.placement.uid);
            task.lease_s.is_some() && grant.is_some_and(TaskGrant::is_from_earlier_life)
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
                GrantState::Reserved { .. } => {
                    grant.state = GrantState::Held(HeldPhase::Starting { go: false });
                    grant.lease = task.lease_s.map(|seconds| LeaseTime { seconds });
                    work.changes.push(put_grant(grant));
                }
                GrantState::Held(HeldPhase::Absent) => {
                    grant.state = GrantState::Held(HeldPhase::Starting { go: false });
                    if grant.clears.is_some() {
                        self.pending.insert(task.placement.uid.clone(), task);
                        continue;
                    }
                }
                GrantState::Claimed { .. } | GrantState::Evicting => {
                    if !matches!(grant.state, GrantState::Evicting) {
                        grant.state = GrantState::Evicting;
                        grant.lease = task.lease_s.map(|seconds| LeaseTime { seconds });
                        work.changes.push(put_grant(grant));
                    }
                    victims.extend(grant.victims.iter().cloned());
                    self.pending.insert(task.placement.uid.clone(), task);
                    continue;
                }
                GrantState::Held(_) | GrantState::Draining | GrantState::Ended { .. } => continue,
            }
            work.steps.push(ExecutorStep::Create(Box::new(task)));
        }
        victims
    }

    /// Ends those that give way: what has no process at once, all others after the polite signal.
    fn evict(&mut self, victims: BTreeSet<AttemptUid>, grace_ms: u64, work: &mut OrderEffects) {
        for uid in victims {
            let Some(grant) = self.grants.get_mut(&uid) else {
                continue;
            };
            match grant.state {
                GrantState::Held(phase) if phase != HeldPhase::Absent => {
                    grant.state = GrantState::Draining;
                    grant.is_evicted = true;
                    work.changes.push(put_grant(grant));
                    // Its gang is to give way with it, not when it has ended.
                    work.touched.insert((grant.vc.clone(), grant.run.clone()));
                    if grant.clears.is_none() {
                        work.steps.push(give_way(uid, grace_ms));
                    }
                }
                // A later agent is not to take that back either.
                GrantState::Draining => {
                    grant.is_evicted = true;
                    work.changes.push(put_grant(grant));
                }
                GrantState::Ended { .. } => {}
                GrantState::Reserved { .. }
                | GrantState::Claimed { .. }
                | GrantState::Evicting
                | GrantState::Held(_) => {
                    work.touched.insert((grant.vc.clone(), grant.run.clone()));
                    self.forget(&uid);
                }
            }
        }
    }

    fn go(&mut self, run: &GangRun, members: &[RunMember], work: &mut OrderEffects) {
        for member in members {
            let Some(grant) = self.grants.get_mut(&member.uid) else {
                continue;
            };
            if grant.run != *run {
                continue;
            }
            if let GrantState::Held(phase) = &mut grant.state {
                match phase {
                    HeldPhase::Ready => {
                        *phase = HeldPhase::Running;
                        work.steps.push(ExecutorStep::Go(member.uid.clone()));
                    }
                    HeldPhase::Adopting { go } | HeldPhase::Starting { go } => *go = true,
                    // Ran, and is no more: nobody launches it again.
                    HeldPhase::Absent => self.forget(&member.uid),
                    HeldPhase::Running => {}
                }
            }
        }
    }

    fn stop(
        &mut self,
        uids: Vec<AttemptUid>,
        cause: Cause,
        grace_ms: u64,
        work: &mut OrderEffects,
    ) {
        for uid in uids {
            let Some(grant) = self.grants.get_mut(&uid) else {
                continue;
            };
            match grant.state {
                GrantState::Reserved { .. }
                | GrantState::Claimed { .. }
                | GrantState::Evicting
                | GrantState::Held(HeldPhase::Absent) => self.forget(&uid),
                // The container of the round before was told to end already, and of its own it has none.
                GrantState::Held(_) if grant.clears.is_some() => grant.state = GrantState::Draining,
                GrantState::Held(_) => {
                    grant.state = GrantState::Draining;
                    work.steps.push(ExecutorStep::Stop {
                        uid,
                        cause,
                        grace_ms,
                    });
                }
                GrantState::Draining | GrantState::Ended { .. } => {}
            }
        }
    }

    fn settle(&mut self, members: &[RunMember]) {
        for RunMember { uid, .. } in members {
            let Some(grant) = self.grants.get_mut(uid) else {
                continue;
            };
            if let GrantState::Ended { gone, settled, .. } = &mut grant.state {
                *settled = true;
                if *gone {
                    self.forget(uid);
                }
            }
        }
    }

    fn standing_reply(
        &self,
        run: &GangRun,
        members: Vec<RunMember>,
    ) -> (OrderOutcome, Vec<RunMember>) {
        (
            OrderOutcome::Standing(self.standings(run, &members)),
            members,
        )
    }

    pub(super) fn standings(
        &self,
        run: &GangRun,
        members: &[RunMember],
    ) -> Vec<(RunMember, TaskStanding)> {
        let standing = |member: &RunMember| match self.grants.get(&member.uid) {
            Some(grant) if grant.run == *run => grant.standing(),
            Some(_) | None => TaskStanding::Gone,
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
pub(super) const fn give_way(uid: AttemptUid, grace_ms: u64) -> ExecutorStep {
    ExecutorStep::Stop {
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

fn member_of(task: &TaskSpec) -> RunMember {
    RunMember {
        task: task.placement.task.clone(),
        uid: task.placement.uid.clone(),
    }
}

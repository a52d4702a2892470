//! What must hold whenever something happens.

use std::collections::BTreeSet;

use muster_consensus::GroupId;
use muster_control::cluster;
use muster_control::gang::GangRun;
use muster_control::groups;
use muster_control::ledger::ExecutorStep;
use muster_control::node::NodeInput;
use muster_control::vc::{Placed, TaskEnd, VcEntry};
use muster_model::exit::Cause;
use muster_model::id::{AttemptUid, JobKey, NodeId};
use muster_model::launch::{TaskPlacement, TaskSpec};
use muster_model::time::Time;

use super::Cluster;
use super::account::EntryKind;
use super::executor::Phase;
use super::machine::Machine;

/// What was granted before devices were not seen any more, or a machine was expelled, is placed within this,
/// ms: a round takes no longer.
const GRANTED_MS: u64 = 11_000;
/// Whose process a scenario ends in the midst of something stays away for so long, ms.
const TRAPPED_MS: u64 = 2_000;

impl Cluster {
    /// Somebody leads a group: whatever a user was promised is there.
    pub(super) fn elected(&mut self, node: usize, group: GroupId, term: u64) {
        if !self.account.leads(node, group, term) {
            return;
        }
        let process = self.machines[node].process.as_ref();
        let machine = process.and_then(|it| it.core.groups().host().machine(group));
        let Some(groups::GroupState::Vc(state)) = machine else {
            return;
        };
        if self.forgets.take_if(|it| *it == group).is_some() {
            let is_known = |key: &JobKey| state.job_id(key).is_some();
            self.account.forget(group, is_known);
            self.users.forget(group, is_known);
            return;
        }
        let of_it = |(of, _): &&(GroupId, _)| *of == group;
        let promised = self.account.promised.iter().filter(of_it);
        let missing = promised.filter(|(_, key)| state.job_id(key).is_none());
        let missing: Vec<_> = missing.map(|(_, key)| key.clone()).collect();
        self.account.expect(missing.is_empty(), || {
            format!("n{node} leads {group:?} and has no {missing:?}, which were accepted")
        });
    }

    /// Somebody applied an entry.
    pub(super) fn applied(
        &mut self,
        now: Time,
        node: usize,
        (group, index): (GroupId, u64),
        (bytes, took): (&[u8], bool),
    ) {
        let is_news = self.account.applied(node, (group, index), (bytes, took));
        if !is_news || !took {
            return;
        }
        if group == self.group {
            match cluster::ClusterEntry::decode(bytes) {
                Ok(cluster::ClusterEntry::DocumentEdited(edit)) => self.note_description(&edit),
                Ok(cluster::ClusterEntry::Recovered(creation)) => self.note_recovery(&creation),
                Ok(cluster::ClusterEntry::Expelled { member, .. }) => {
                    self.outcasts.insert(member.index(), now);
                }
                Ok(cluster::ClusterEntry::Replacement(_)) => self.note_restated(node),
                _ => {}
            }
            return;
        }
        let Ok(entry) = VcEntry::decode(bytes) else {
            return;
        };
        self.check_entry(now, group, &entry);
        self.check_cells(node, group, &entry);
        self.fill_disk(&entry);
        if self.trap == Some(EntryKind::of(&entry)) {
            // Whatever would follow from it is not done by this one any more.
            self.trap = None;
            self.machines[node].doomed = true;
            self.fallen.push((node, TRAPPED_MS));
        }
        self.account.note(group, index, &entry);
        self.figures.committed(now, (group, index), &entry);
    }

    /// The machines that a gang was just placed on cannot write any more, if they are to.
    fn fill_disk(&mut self, entry: &VcEntry) {
        if let VcEntry::Placed(placed) = entry
            && std::mem::take(&mut self.fills)
        {
            let mut members = placed.members.iter();
            for machine in &mut self.machines {
                machine.full |= members.any(|member| member.node == machine.name);
            }
        }
    }

    /// No cell is two virtual clusters' at a time, by their own logs, and nobody places within what
    /// another one has.
    fn check_cells(&mut self, node: usize, group: GroupId, entry: &VcEntry) {
        match entry {
            VcEntry::Bound { .. } | VcEntry::Released(_) => {
                let process = self.machines[node].process.as_ref();
                let machine = process.and_then(|it| it.core.groups().host().machine(group));
                if let Some(groups::GroupState::Vc(state)) = machine {
                    self.account.holds(group, state.own_cells().held());
                }
            }
            VcEntry::Placed(placed) if placed.is_within => self.account.within(group, placed),
            _ => {}
        }
    }

    fn check_entry(&mut self, now: Time, group: GroupId, entry: &VcEntry) {
        match entry {
            VcEntry::Placed(placed) => {
                self.check_fitness(now, group, placed);
                let running = self.running(now, group, |run| {
                    run.gang == placed.run.gang && run.attempt != placed.run.attempt
                });
                let overlaps = self.account.overlaps(group, &placed.run);
                self.account.expect(running.is_empty() || overlaps, || {
                    format!(
                        "{} of {group:?} was placed while {running:?} run",
                        placed.run
                    )
                });
            }
            VcEntry::Go { run, .. } => self.check_barrier(group, run),
            VcEntry::TaskEnded {
                uid,
                end:
                    TaskEnd::Exit(_)
                    | TaskEnd::Gone
                    | TaskEnd::Lost
                    | TaskEnd::Off
                    | TaskEnd::NotStarted,
                ..
            } => {
                let lives = self.machines.iter().find(|machine| {
                    let container = machine.executor.containers.get(uid);
                    // What waits for Go runs nothing.
                    container.is_some_and(|it| it.runs(now, machine.clock))
                });
                let lives = lives.map(|machine| machine.id);
                self.account.expect(lives.is_none(), || {
                    format!("{uid} runs on n{lives:?} after its end: {entry:?}")
                });
            }
            _ => {}
        }
    }

    /// Before a run's Go is committed each of its tasks has been all set where it was placed in that very
    /// round, whatever has become of it since.
    fn check_barrier(&mut self, group: GroupId, run: &GangRun) {
        let was_ready = |uid: &AttemptUid, node: &NodeId| {
            let mut machines = self.machines.iter();
            let machine = machines.find(|machine| machine.name == *node);
            machine.is_some_and(|it| it.executor.was_ready(uid))
        };
        let members = self.account.members(group, run);
        let late = members.filter(|(uid, node)| !was_ready(uid, node));
        let late: Vec<_> = late.map(|(uid, node)| format!("{uid} on {node}")).collect();
        self.account.expect(late.is_empty(), || {
            format!("{run} of {group:?} may start, and {late:?} never were ready in it")
        });
    }

    /// Nobody is placed on devices that are not seen, nor on machines that were expelled.
    fn check_fitness(&mut self, now: Time, group: GroupId, placed: &Placed) {
        let book = self.account.books.get(&group);
        let is_new = |uid| book.is_none_or(|book| !book.placed.contains_key(uid));
        let is_unfit = |task: &&TaskPlacement| {
            let mut machines = self.machines.iter();
            let machine = machines.find(|machine| machine.name == task.node);
            let blind = machine
                .and_then(|it| it.blind)
                .filter(|_| !task.devices.is_empty());
            let out = machine.and_then(|it| self.outcasts.get(&it.id).copied());
            let mut since = blind.into_iter().chain(out);
            since.any(|since| since.plus_millis(GRANTED_MS) < now)
        };
        let mut new = placed.members.iter().filter(|task| is_new(&task.uid));
        let unfit = new.find(is_unfit).map(|task| task.node.clone());
        self.account.expect(unfit.is_none(), || {
            format!(
                "{} was placed on {unfit:?}, which cannot have it",
                placed.run
            )
        });
    }

    /// Tasks whose commands run, of the runs that are meant.
    pub(super) fn running(
        &self,
        now: Time,
        group: GroupId,
        meant: impl Fn(&GangRun) -> bool,
    ) -> Vec<String> {
        let book = self.account.books.get(&group);
        let mut running = Vec::new();
        for machine in &self.machines {
            for (uid, container) in &machine.executor.containers {
                let run = book.and_then(|book| book.placed.get(uid));
                if run.is_some_and(|(run, _)| meant(run)) && container.runs(now, machine.clock) {
                    running.push(format!("{uid} on {}", machine.name));
                }
            }
        }
        running
    }

    /// No container without a committed placement there, no command before its round's Go, and none
    /// while another attempt runs; and what lives goes on unless there is a reason to end it.
    pub(super) fn check_step(&mut self, now: Time, node: usize, step: &ExecutorStep) {
        match step {
            ExecutorStep::Create(spec) => {
                let uid = &spec.placement.uid;
                let place = self.account.place(uid);
                let is_here = place.is_some_and(|at| *at.node == self.machines[node].name);
                let book = place.and_then(|at| self.account.books.get(&at.group));
                let end = book.and_then(|book| book.ended.get(uid));
                // Who does not wait for a node does not stop it either.
                let is_over = end
                    .is_some_and(|end| !matches!(end, TaskEnd::Overlapped | TaskEnd::NotStarted));
                self.account.expect(is_here && !is_over, || {
                    format!("{uid} is created on n{node}, where nobody placed it, or after its end")
                });
                let process = self.machines[node].process.as_ref();
                let tasks = process.map(|it| it.node.ledger().tasks());
                let mut tasks = tasks.into_iter().flatten();
                let is_held = tasks.any(|task| task.uid == uid.as_str() && task.state == "Held");
                self.account.expect(is_held, || {
                    format!("{uid} is created on n{node}, and its ledger holds nothing for it")
                });
                let is_on_disk = self.machines[node].holds_on_disk(uid);
                self.account.expect(is_on_disk, || {
                    format!("{uid} is created on n{node} before that is on its disk")
                });
            }
            ExecutorStep::Go(uid) => {
                let Some(place) = self.account.place(uid) else {
                    return self
                        .account
                        .expect(false, || format!("{uid} starts from nowhere"));
                };
                let (group, run, goes) = (place.group, place.run.clone(), place.goes);
                self.account.expect(goes, || {
                    format!("{uid} starts on n{node} before Go of {run} was committed")
                });
                if self.account.overlaps(group, &run) {
                    return;
                }
                let others = self.running(now, group, |other| {
                    other.gang == run.gang && other.attempt != run.attempt
                });
                let twin = self.twin(now, node, (group, uid));
                self.account
                    .expect(others.is_empty() && twin.is_none(), || {
                        format!("{uid} of {run} starts on n{node} while {others:?} {twin:?} run")
                    });
            }
            ExecutorStep::Stop { uid, cause, .. } => self.check_stop(now, node, (uid, *cause)),
            ExecutorStep::Remove(uid) => {
                let machine = &self.machines[node];
                let container = machine.executor.containers.get(uid);
                let lives = container.is_some_and(|it| it.lives(now, machine.clock));
                // No ledger is lost here: each knows what is on its machine, but for what it left behind in
                // a round that never had its Go.
                let place = self.account.place(uid);
                let is_left = place.is_some_and(|at| {
                    let book = self.account.books.get(&at.group);
                    book.is_some_and(|book| book.has_passed(at.run))
                });
                self.account.expect(!lives || is_left, || {
                    format!("{uid} is removed from n{node} while it lives")
                });
            }
            ExecutorStep::Adopt(_) => {}
        }
    }

    /// What lives is told to end only for its lease, for who was promised what it uses, or by what is committed.
    fn check_stop(&mut self, now: Time, node: usize, (uid, cause): (&AttemptUid, Cause)) {
        let Machine {
            name,
            executor,
            clock,
            ..
        } = &self.machines[node];
        let container = executor.containers.get(uid);
        let living = container.filter(|it| it.lives(now, *clock));
        let account = &mut self.account;
        match cause {
            Cause::LeaseEnded => {
                account.leases_ended += 1;
                let is_over = living.is_none_or(|it| it.is_last_call(clock.boot(now)));
                account.expect(is_over, || {
                    format!("{uid} on {name} is told that its lease ends, which it does not")
                });
            }
            Cause::Preempted => account.evicts(name, uid, |uid| executor.has_had(uid)),
            _ => {
                let is_right = living.is_none() || account.lets_end(uid);
                account.expect(is_right, || {
                    format!("{uid} on {name} is told to end for {cause:?}, which nobody settled")
                });
            }
        }
    }

    /// Another container whose commands run as this task.
    fn twin(&self, now: Time, node: usize, (group, uid): (GroupId, &AttemptUid)) -> Option<String> {
        let mine = &self.machines[node].executor.containers.get(uid)?.spec;
        let vc = self.account.vcs.get(&group)?;
        self.machines.iter().find_map(|machine| {
            let all = machine.executor.containers.values();
            let mut running = all.filter(|it| it.runs(now, machine.clock));
            let is_twin = |spec: &TaskSpec| {
                let (place, own) = (&spec.placement, &mine.placement);
                spec.job == mine.job && place.task == own.task && place.uid != own.uid
            };
            let found = running.find(|it| is_twin(&it.spec))?;
            let uid = &found.spec.placement.uid;
            Some(format!("{uid} of {vc} on {}", machine.name))
        })
    }

    /// The epochs of cells only rise, as long as a process lives.
    fn check_epochs(&mut self, node: usize) {
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let now = process.node.ledger().cell_epochs();
        if process.cell_epochs == *now {
            return;
        }
        let mut before = process.cell_epochs.iter();
        let is_less = |(leaf, epoch): &(&u32, &u64)| now.get(leaf).is_none_or(|now| now < epoch);
        let back = before.find(is_less).map(|(leaf, _)| *leaf);
        process.cell_epochs.clone_from(now);
        self.account.expect(back.is_none(), || {
            format!("the epoch of cell {back:?} of n{node} went back")
        });
    }

    /// The tasks that a machine has a place for, if this is an order for another life of its agent.
    pub(super) fn before_stale(&self, node: usize, input: &NodeInput) -> Option<BTreeSet<String>> {
        let NodeInput::Order { order, .. } = input else {
            return None;
        };
        let machine = &self.machines[node];
        let start = machine.process.as_ref()?.start;
        let is_stale = order.epoch != machine.epoch || order.start != start;
        is_stale.then(|| machine.placed())
    }

    /// Such an order has made no place.
    pub(super) fn check_stale(&mut self, node: usize, before: &BTreeSet<String>) {
        let placed = self.machines[node].placed();
        let new = placed.difference(before).next();
        self.account.expect(new.is_none(), || {
            format!("n{node} has a place for {new:?} by an order for another life of its agent")
        });
    }

    /// Nothing is granted twice, and containers share no device and no port.
    pub(super) fn check_ledger(&mut self, node: usize) {
        self.check_epochs(node);
        let machine = &self.machines[node];
        let Some(process) = &machine.process else {
            return;
        };
        let ledger = process.node.ledger();
        let tasks = ledger.tasks();
        let mut devices = BTreeSet::new();
        let mut twice = None;
        let (mut cpu, mut memory_mb) = (0, 0);
        for task in tasks.iter().filter(|task| task.state != "Free") {
            let claims = task.state == "Claimed";
            for device in &task.devices {
                if !devices.insert((device, claims)) {
                    twice = Some(format!("device {device} of n{node} is granted twice"));
                }
            }
            if !claims {
                cpu += task.cpu;
                memory_mb += task.memory_mb;
            }
        }
        let capacity = ledger.capacity();
        if cpu > capacity.cpu || memory_mb > capacity.memory_mb {
            twice = Some(format!(
                "{cpu} cores and {memory_mb} MiB of n{node} are granted"
            ));
        }
        let mut used = BTreeSet::new();
        let mut ports = BTreeSet::new();
        let alive = machine.executor.containers.values();
        let alive = alive.filter(|it| !matches!(it.phase, Phase::Ended(_)));
        for container in alive {
            let placement = &container.spec.placement;
            for port in placement.ports.iter().flat_map(|(_, ports)| ports) {
                if !ports.insert(port) {
                    twice = Some(format!("port {port} of n{node} is used twice"));
                }
            }
            for device in &placement.devices {
                if !used.insert(device) {
                    let uid = &placement.uid;
                    twice = Some(format!(
                        "{device:?} of n{node} is used twice, by {uid} as well"
                    ));
                }
            }
        }
        self.account
            .expect(twice.is_none(), || twice.unwrap_or_default());
    }

    /// However a container ended, that is what was committed of it.
    pub(super) fn check_exits(&mut self) {
        let mut wrong = Vec::new();
        for machine in &self.machines {
            for (uid, exit) in &machine.executor.exits {
                let Some(place) = self.account.place(uid) else {
                    wrong.push(format!("{uid} on {} was placed by nobody", machine.name));
                    continue;
                };
                let book = self.account.books.get(&place.group);
                match book.and_then(|book| book.ended.get(uid)) {
                    Some(TaskEnd::Exit(verdict)) if verdict.code() == exit.code() => {}
                    // What it said came after the others had given it up.
                    Some(
                        TaskEnd::Lost | TaskEnd::Overlapped | TaskEnd::Off | TaskEnd::NotStarted,
                    ) => {}
                    // The record of it was lost, and its machine had been told that there is one.
                    Some(TaskEnd::Gone) if self.account.was_recovered(place.group) => {}
                    Some(TaskEnd::Gone) => wrong.push(format!(
                        "{uid} ended with {}, its record says that {} had nothing of it",
                        exit.code(),
                        machine.name
                    )),
                    Some(TaskEnd::Exit(verdict)) => wrong.push(format!(
                        "{uid} ended with {}, its record says {}",
                        exit.code(),
                        verdict.code()
                    )),
                    None if book.is_some_and(|it| it.strays.contains(uid)) => {}
                    // In the round that followed it had another name.
                    None if book.is_some_and(|it| it.has_passed(place.run)) => {}
                    None => wrong.push(format!("{uid} ended with {}, in no record", exit.code())),
                }
            }
        }
        for what in wrong {
            self.account.expect(false, || what);
        }
    }
}

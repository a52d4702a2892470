//! An account of its own of everything that was committed and promised, and the rules that nothing may
//! break.

use std::collections::{BTreeMap, BTreeSet};

use muster_consensus::{GroupId, ReplicaId, StoreId, StoredChange, Write};
use muster_control::bound::BoundLeaves;
use muster_control::fence::Term;
use muster_control::gang::{GangRun, JobId};
use muster_control::order::Order;
use muster_control::vc::{AcceptedJob, Placed, TaskEnd, VcEntry};
use muster_model::exit::Cause;
use muster_model::id::{AttemptUid, JobKey, NodeId, VcName};
use muster_model::job::Partition;
use muster_model::state::{ExecutionType, PriorityClass};
use xxhash_rust::xxh3::xxh3_64;

/// Findings kept; more say the same.
const FINDINGS_MAX: usize = 20;

/// What an entry is about, as far as scenarios tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    Accept,
    Placed,
    Go,
    Stopping,
    Ended,
    Other,
}

impl EntryKind {
    pub(super) const fn of(entry: &VcEntry) -> Self {
        match entry {
            VcEntry::Accept(_) => Self::Accept,
            VcEntry::Placed(_) => Self::Placed,
            VcEntry::Go { .. } => Self::Go,
            VcEntry::Stopping { .. } => Self::Stopping,
            VcEntry::TaskEnded { .. } => Self::Ended,
            VcEntry::Elected { .. }
            | VcEntry::SetExecution { .. }
            | VcEntry::AddTag { .. }
            | VcEntry::RemoveTag { .. }
            | VcEntry::Bound { .. }
            | VcEntry::Released(_)
            | VcEntry::HourPassed
            | VcEntry::OnHold { .. }
            | VcEntry::Void { .. } => Self::Other,
        }
    }
}

/// What was committed in a virtual cluster.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// By the place of its entry.
    pub(super) jobs: BTreeMap<JobId, AcceptedJob>,
    /// By name, the newest.
    names: BTreeMap<JobKey, JobId>,
    /// Which run a task was placed in, and where.
    pub(super) placed: BTreeMap<AttemptUid, (GangRun, NodeId)>,
    going: BTreeSet<GangRun>,
    /// The same of runs of before some of its log was lost: they may be started again.
    going_before: BTreeSet<GangRun>,
    /// Placed before some of its log was lost: nothing else may have their names.
    placed_before: BTreeSet<AttemptUid>,
    /// Placed and not ended when some of its log was lost: their exits may be in no record.
    pub(super) strays: BTreeSet<AttemptUid>,
    /// Terms that its leaders have begun.
    terms: BTreeSet<Term>,
    /// Told to give way by the virtual cluster's own leader.
    gave_way: BTreeSet<GangRun>,
    /// Told to end by the virtual cluster's own leader, for whatever reason.
    stopping: BTreeSet<GangRun>,
    /// Told to end because they are placed anew.
    voided: BTreeSet<GangRun>,
    /// Attempts of jobs that are over because a task has not done its work.
    failed: BTreeSet<(JobId, u32)>,
    /// Jobs that their users have stopped.
    halted: BTreeSet<JobId>,
    pub(super) ended: BTreeMap<AttemptUid, TaskEnd>,
    /// Of tasks that were placed as its own, their cells.
    own: BTreeMap<AttemptUid, BoundLeaves>,
}

impl Book {
    /// A run is placed: in the rounds of its attempt before it nothing is placed any more.
    fn leave(&mut self, run: &GangRun) {
        let placed = &self.placed;
        self.own.retain(|uid, _| {
            let of = placed.get(uid).map(|(of, _)| of);
            !of.is_some_and(|of| follows(run, of))
        });
    }

    /// Whether a run never had its Go, in the log as it is now, and was followed by another round.
    pub(super) fn has_passed(&self, run: &GangRun) -> bool {
        let mut placed = self.placed.values();
        let goes = self.going.contains(run) && !self.going_before.contains(run);
        placed.any(|(of, _)| follows(of, run)) && !goes
    }

    /// Whether a run was told to give way by its own leader. Who ends a round ends those before it, where its
    /// machine has not heard of it yet.
    fn gives_way(&self, run: &GangRun) -> bool {
        let mut told = self.gave_way.iter();
        told.any(|of| of == run || follows(of, run))
    }

    /// A task of a run has ended so. Unless it did its work the whole attempt is over, but for a gang that is
    /// placed anew.
    fn note_end(&mut self, run: &GangRun, end: &TaskEnd) {
        let is_well = matches!(end, TaskEnd::Exit(verdict) if verdict.code() == 0);
        let is_placed_anew = run.gang.task.is_none() && self.voided.contains(run);
        if !is_well && !is_placed_anew {
            self.failed.insert((run.gang.job, run.attempt.job));
        }
    }

    /// Whether something that was committed lets a task of a run be told to end. Where some of the log was
    /// lost it may have been in that.
    fn lets_end(&self, run: &GangRun, uid: &AttemptUid) -> bool {
        let mut placed = self.placed.values();
        self.stopping.contains(run)
            || self.voided.contains(run)
            || self.failed.contains(&(run.gang.job, run.attempt.job))
            || self.halted.contains(&run.gang.job)
            || self.ended.contains_key(uid)
            || self.strays.contains(uid)
            || placed.any(|(of, _)| follows(of, run))
    }
}

/// Whether a run is a later round of the same attempt.
fn follows(later: &GangRun, run: &GangRun) -> bool {
    let attempt = |run: &GangRun| (run.gang.clone(), run.attempt);
    attempt(later) == attempt(run) && later.round > run.round
}

/// A task that was placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedTask<'a> {
    pub(super) group: GroupId,
    pub(super) run: &'a GangRun,
    pub(super) node: &'a NodeId,
    pub(super) goes: bool,
}

/// The account of a whole cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterAccount {
    /// The virtual clusters, by group.
    pub(super) vcs: BTreeMap<GroupId, VcName>,
    pub(super) books: BTreeMap<GroupId, Book>,
    /// Of every entry that anybody applied: its hash, and whether it changed anything.
    logs: BTreeMap<(GroupId, u64), (u64, bool)>,
    /// Who led in a term.
    terms: BTreeMap<(GroupId, u64), usize>,
    /// On which log store a copy's promises are.
    stores: BTreeMap<(GroupId, ReplicaId), StoreId>,
    /// Jobs of which a user was told that they are accepted.
    pub(super) promised: BTreeSet<(GroupId, JobKey)>,
    /// Submissions of which users were told that nothing came.
    denied: BTreeSet<(GroupId, AttemptUid)>,
    /// Tasks placed so far.
    pub(super) tasks: u64,
    /// Runs that were started.
    pub(super) started: u64,
    pub(super) lost: u64,
    pub(super) overlapped: u64,
    pub(super) leases_ended: u64,
    pub(super) preempted: u64,
    /// What each virtual cluster is bound to, by its own log.
    held: BTreeMap<GroupId, BoundLeaves>,
    /// All cells that any of them ever was bound to, in the newest epoch of each.
    ever: BoundLeaves,
    /// Groups of virtual clusters that were recovered: some of what they gave back may be forgotten.
    renewed: BTreeSet<GroupId>,
    /// Cells that were given to some virtual cluster, in all.
    pub(super) bound: u64,
    /// Told to give way by their machine.
    evicted: BTreeSet<AttemptUid>,
    pub(super) wrong: Vec<String>,
}

impl ClusterAccount {
    /// Something must hold.
    pub(super) fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.wrong.len() < FINDINGS_MAX {
            self.wrong.push(what());
        }
    }

    /// How many tasks ended, or were given up, because somebody could not be heard.
    pub(super) const fn unheard(&self) -> u64 {
        self.lost + self.overlapped + self.leases_ended
    }

    /// A machine applied an entry. Whether it is the first to do so.
    pub(super) fn applied(
        &mut self,
        node: usize,
        (group, index): (GroupId, u64),
        (bytes, took): (&[u8], bool),
    ) -> bool {
        let now = (xxh3_64(bytes), took);
        let known = self.logs.insert((group, index), now);
        self.expect(known.is_none_or(|known| known == now), || {
            format!("n{node} applied another entry at {index} of {group:?} than others did")
        });
        known.is_none()
    }

    /// A machine keeps something. A copy's promises are on one log store for ever: with another one it
    /// would speak for a member without knowing what that has promised.
    pub(super) fn keeps(&mut self, node: usize, store: StoreId, write: &Write) {
        for kept in &write.changes {
            let StoredChange::Promise(group, replica, _) = kept else {
                continue;
            };
            let first = *self.stores.entry((*group, *replica)).or_insert(store);
            self.expect(first == store, || {
                format!(
                    "n{node} is {replica:?} of {group:?}, whose promises are on another log store"
                )
            });
        }
    }

    /// Somebody leads a group. Whether nobody has in a later term: who stood still meanwhile finds out
    /// only afterwards.
    pub(super) fn leads(&mut self, node: usize, group: GroupId, term: u64) -> bool {
        let first = *self.terms.entry((group, term)).or_insert(node);
        self.expect(first == node, || {
            format!("n{first} and n{node} lead {group:?} in term {term}")
        });
        let newest = self.terms.range((group, 0)..=(group, u64::MAX)).next_back();
        newest.is_some_and(|((_, newest), _)| *newest == term)
    }

    /// A virtual cluster has these cells from now on: nobody else has any of them, unless they forgot that
    /// they gave it back.
    pub(super) fn holds(&mut self, group: GroupId, cells: &BoundLeaves) {
        let before = self.held.insert(group, cells.clone()).unwrap_or_default();
        self.bound += cells.without(&before).spans().count() as u64;
        let others = self.others(group);
        let both = others.filter(|(_, held)| held.meets(cells));
        let both: Vec<_> = both.map(|(other, _)| other).collect();
        self.expect(both.is_empty(), || {
            format!("{group:?} and {both:?} have the same cells")
        });
        self.rebinds(group, &cells.without(&cells.kept_of(&before)));
    }

    /// A virtual cluster has cells that it did not have: each in a newer epoch than anybody before, by which
    /// machines tell whose word is old.
    fn rebinds(&mut self, group: GroupId, cells: &BoundLeaves) {
        let newer = cells.without_newer(&self.ever);
        self.ever.extend(&newer);
        let is_known = !self.renewed.contains(&group);
        self.expect(!is_known || newer == *cells, || {
            format!(
                "{group:?} has cells in an epoch that is not newer than that of who had them before"
            )
        });
    }

    /// A gang is placed within its virtual cluster's cells: they are nobody else's.
    pub(super) fn within(&mut self, group: GroupId, placed: &Placed) {
        let members = placed.members.iter();
        let leaves = members.flat_map(|it| it.leaves.iter().map(|leaf| (&it.node, *leaf)));
        let cells = BoundLeaves::of(leaves, 0);
        let both = self.others(group).find(|(_, held)| held.meets(&cells));
        let both = both.map(|(other, _)| other);
        self.expect(both.is_none(), || {
            format!("{} of {group:?} is on cells of {both:?}", placed.run)
        });
    }

    /// What other virtual clusters have, as far as they have forgotten nothing.
    fn others(&self, group: GroupId) -> impl Iterator<Item = (GroupId, &BoundLeaves)> {
        let is_known = |of: GroupId| !self.renewed.contains(&of);
        let held = self.held.iter().map(|(of, held)| (*of, held));
        held.filter(move |(of, _)| *of != group && is_known(group) && is_known(*of))
    }

    /// A machine gets an order: who leads orders nothing before all of the terms before is applied.
    pub(super) fn ordered(&mut self, on: &NodeId, order: &Order) {
        let mut vcs = self.vcs.iter();
        let group = vcs.find_map(|(group, vc)| (*vc == order.vc).then_some(group));
        let book = group.and_then(|group| self.books.get(group));
        let has_begun = book.is_none_or(|book| book.terms.contains(&order.fence.term));
        self.expect(has_begun, || {
            format!(
                "{on} is given orders of {} by who has not begun {:?}",
                order.vc, order.fence
            )
        });
    }

    /// Tasks on a machine that hold by leases and have not ended.
    pub(super) fn leased_on(&self, node: &NodeId) -> Vec<AttemptUid> {
        let books = self.books.values();
        let placed = books.flat_map(|book| book.placed.iter().map(move |it| (book, it)));
        let leased = placed.filter(|(book, (uid, (run, on)))| {
            let job = book.jobs.get(&run.gang.job);
            let partition = job.map(|job| &job.spec.partition);
            let is_leased = matches!(partition, Some(Partition::FailoverAfter { .. }));
            let is_over = book.ended.contains_key(*uid) || book.has_passed(run);
            on == node && is_leased && !is_over
        });
        leased.map(|(_, (uid, _))| uid.clone()).collect()
    }

    /// Whoever was placed in a run, and where, but for those of before some of the log was lost: others may
    /// have been placed in their stead.
    pub(super) fn members(
        &self,
        group: GroupId,
        run: &GangRun,
    ) -> impl Iterator<Item = (&AttemptUid, &NodeId)> {
        let book = self.books.get(&group).into_iter();
        let placed = book.flat_map(|book| book.placed.iter().map(move |it| (book, it)));
        let is_lost = |book: &Book, uid| book.placed_before.contains(uid);
        let own = placed.filter(move |(book, (uid, (of, _)))| of == run && !is_lost(book, uid));
        own.map(|(_, (uid, (_, node)))| (uid, node))
    }

    /// Whether a task may be told to end, by what is committed.
    pub(super) fn lets_end(&self, uid: &AttemptUid) -> bool {
        self.place(uid).is_some_and(|place| {
            let book = self.books.get(&place.group);
            book.is_some_and(|book| book.lets_end(place.run, uid))
        })
    }

    /// Whether a job of this name has ever been placed.
    pub(super) fn was_placed(&self, group: GroupId, name: &JobKey) -> bool {
        let book = self.books.get(&group);
        book.is_some_and(|book| {
            let job = book.names.get(name);
            let mut runs = book.placed.values().map(|(run, _)| run);
            job.is_some_and(|job| runs.any(|run| run.gang.job == *job))
        })
    }

    /// Who a task belongs to.
    pub(super) fn place(&self, uid: &AttemptUid) -> Option<PlacedTask<'_>> {
        self.books.iter().find_map(|(group, book)| {
            let (run, node) = book.placed.get(uid)?;
            Some(PlacedTask {
                group: *group,
                run,
                node,
                goes: book.going.contains(run),
            })
        })
    }

    /// Whether a job does not wait for what runs on nodes that cannot be reached.
    pub(super) fn overlaps(&self, group: GroupId, run: &GangRun) -> bool {
        let book = self.books.get(&group);
        let job = book.and_then(|book| book.jobs.get(&run.gang.job));
        job.is_some_and(|job| job.spec.partition == Partition::Overlap)
    }

    /// A machine has a task give way, on which `known` says what containers it has ever had. What its own
    /// leader did not tell to was promised to nobody, and somebody else was placed there who is next.
    pub(super) fn evicts(
        &mut self,
        on: &NodeId,
        uid: &AttemptUid,
        known: impl Fn(&AttemptUid) -> bool,
    ) {
        self.preempted += 1;
        let Some(place) = self.place(uid) else {
            return self.expect(false, || format!("{uid} on {on} has no place to give away"));
        };
        let (group, run) = (place.group, place.run.clone());
        let Some(book) = self.books.get(&group) else {
            return;
        };
        if book.gives_way(&run) {
            return;
        }
        let job = book.jobs.get(&run.gang.job);
        let lent = job.is_some_and(|it| it.spec.priority == Some(PriorityClass::Oppo));
        let is_next = |book: &Book| {
            let mut placed = book.placed.iter();
            placed
                .any(|(uid, (_, node))| node == on && !book.ended.contains_key(uid) && !known(uid))
        };
        let mut others = self.books.iter().filter(|(of, _)| **of != group);
        let awaited = self.evicted.contains(uid) || others.any(|(_, book)| is_next(book));
        self.evicted.insert(uid.clone());
        self.expect(lent, || {
            format!("{uid} on {on} of {run} has to give way, and was promised what it uses")
        });
        self.expect(awaited, || {
            format!("{uid} on {on} of {run} has to give way for nobody")
        });
    }

    /// A virtual cluster goes on in another group, with all that is known of it.
    pub(super) fn recovered(&mut self, from: GroupId, to: GroupId) {
        if let Some(vc) = self.vcs.remove(&from) {
            self.vcs.insert(to, vc);
        }
        if let Some(held) = self.held.remove(&from) {
            self.held.insert(to, held);
        }
        self.renewed.insert(to);
        if let Some(book) = self.books.remove(&from) {
            self.books.insert(to, book);
        }
        // It begins with the entries of the other one.
        let log = self.logs.range((from, 0)..=(from, u64::MAX));
        let log: Vec<_> = log
            .map(|((_, index), entry)| ((to, *index), *entry))
            .collect();
        self.logs.extend(log);
        let regroup = |(group, key)| (if group == from { to } else { group }, key);
        self.promised = std::mem::take(&mut self.promised)
            .into_iter()
            .map(regroup)
            .collect();
    }

    /// Whether a virtual cluster goes on without some of its log.
    pub(super) fn was_recovered(&self, group: GroupId) -> bool {
        self.renewed.contains(&group)
    }

    /// A user was told that nothing came of a submission.
    pub(super) fn deny(&mut self, group: GroupId, uid: AttemptUid) {
        let jobs = self.books.get(&group).map(|book| &book.jobs);
        let mut jobs = jobs.into_iter().flat_map(BTreeMap::values);
        if let Some(job) = jobs.find(|job| job.uid == uid) {
            let wrong = format!("{} is accepted, and its user was told it is not", job.key);
            self.wrong.push(wrong);
        }
        self.denied.insert((group, uid));
    }

    /// What of a virtual cluster only machines knew that are lost for good is nobody's any more.
    pub(super) fn forget(&mut self, group: GroupId, is_known: impl Fn(&JobKey) -> bool) {
        self.promised
            .retain(|(of, key)| *of != group || is_known(key));
        let Some(book) = self.books.get_mut(&group) else {
            return;
        };
        book.names.retain(|key, _| is_known(key));
        // What of these was lost nobody can tell from what was not.
        book.going_before.extend(book.going.iter().cloned());
        book.placed_before.extend(book.placed.keys().cloned());
        let open = book.placed.keys();
        let open = open.filter(|uid| !book.ended.contains_key(*uid));
        book.strays.extend(open.cloned());
    }

    /// An entry of a virtual cluster was committed.
    pub(super) fn note(&mut self, group: GroupId, index: u64, entry: &VcEntry) {
        let mut wrong = None;
        let book = self.books.entry(group).or_default();
        match entry {
            VcEntry::Accept(job) => {
                // Said again of the same submission it changes nothing.
                let known = book.names.get(&job.key).and_then(|id| book.jobs.get(id));
                if known.is_none_or(|known| known.uid != job.uid) {
                    if self.denied.contains(&(group, job.uid.clone())) {
                        wrong = Some(format!("{}, which was told undone, is accepted", job.key));
                    }
                    if known.is_some() {
                        wrong = Some(format!("{} was accepted twice", job.key));
                    }
                    book.names.insert(job.key.clone(), JobId(index));
                    book.jobs.insert(JobId(index), AcceptedJob::clone(job));
                }
            }
            VcEntry::Placed(placed) => {
                self.tasks += placed.members.len() as u64;
                book.leave(&placed.run);
                for member in &placed.members {
                    if book.placed_before.contains(&member.uid) {
                        let uid = &member.uid;
                        wrong = Some(format!("{uid} is the name of a task of before a recovery"));
                    }
                    let at = (placed.run.clone(), member.node.clone());
                    book.placed.insert(member.uid.clone(), at);
                    if placed.is_within {
                        let leaves = member.leaves.iter().map(|leaf| (&member.node, *leaf));
                        let own = BoundLeaves::of(leaves, 0);
                        book.own.insert(member.uid.clone(), own);
                    }
                }
            }
            VcEntry::Go { run, .. } => {
                self.started += 1;
                if !book.going.insert(run.clone()) && !book.going_before.remove(run) {
                    wrong = Some(format!("{run} was started twice"));
                }
            }
            VcEntry::TaskEnded { run, uid, end, .. } => {
                if self.evicted.contains(uid) {
                    // All of its gang go with it.
                    book.gave_way.insert(run.clone());
                }
                self.lost += u64::from(*end == TaskEnd::Lost);
                self.overlapped += u64::from(*end == TaskEnd::Overlapped);
                book.note_end(run, end);
                book.ended.insert(uid.clone(), end.clone());
                book.own.remove(uid);
            }
            // Of a recovered one there may be tasks that nobody knows any more.
            VcEntry::Released(_) if self.renewed.contains(&group) => {}
            VcEntry::Released(cells) => {
                let on_it = book.own.iter().find(|(_, own)| own.meets(cells));
                if let Some((uid, _)) = on_it {
                    wrong = Some(format!("cells were released while {uid} is placed on them"));
                }
            }
            VcEntry::Stopping { run, cause, .. } => {
                book.stopping.insert(run.clone());
                if *cause == Cause::Preempted {
                    book.gave_way.insert(run.clone());
                }
            }
            VcEntry::Void { run, .. } => {
                book.voided.insert(run.clone());
            }
            VcEntry::SetExecution {
                job,
                value: ExecutionType::Stop,
                ..
            } => book.halted.extend(book.names.get(job)),
            VcEntry::Elected { term } => {
                book.terms.insert(*term);
            }
            VcEntry::SetExecution { .. }
            | VcEntry::AddTag { .. }
            | VcEntry::RemoveTag { .. }
            | VcEntry::Bound { .. }
            | VcEntry::OnHold { .. }
            | VcEntry::HourPassed => {}
        }
        if let Some(what) = wrong {
            self.expect(false, || what);
        }
    }
}

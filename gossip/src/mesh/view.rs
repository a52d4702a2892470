//! What this node believes, and whom it is linked with.

use std::collections::{BTreeSet, VecDeque};

use muster_model::time::Time;

use super::accept::VOTES_MAX;
use super::{Mesh, MeshEvent, MeshOutput, Reach};
use crate::member::{Incarnation, MemberId};
use crate::reach::{ReachChange, ReachFindings, VoteContext, Votes};
use crate::record::RecordKey;
use crate::roster::{Absent, BEYOND_MAX, RINGS};

/// With more voters than this the view is put together less often.
pub(super) const VOTERS_MANY: usize = 8;
/// Then when nothing was new for so long, ms, ...
const QUIET_MS: u64 = 40;
/// ... but so long after the first news at most, and 1 ms for so many voters, ...
const REFRESH_MS: u64 = 200;
const REFRESH_VOTERS: u64 = 2;
/// ... which are no more than this.
const REFRESH_MS_MAX: u64 = 700;
/// Most that are watched in the place of others who are lost.
const STAND_IN_MAX: usize = 512;
// All that a node watches may be gone, and others take what it says of that.
const _: () = assert!(STAND_IN_MAX + RINGS * (BEYOND_MAX + 2) <= VOTES_MAX);
/// Who hears no more of those it watches may be on a small island, and looks further.
const HEARS_FEW: usize = 1;
/// Failures within this are counted together, ms.
const MASS_MS: u64 = 60_000;
/// Fewer are never a mass failure.
const MASS_MIN: usize = 3;

/// What this node believes of others.
#[derive(Clone, Debug, Default)]
pub(super) struct ReachView {
    /// Everybody who is not simply alive, ascending: half of all where a cluster is cut in two.
    troubled: Box<[Trouble]>,
    /// What was found of the votes when it was put together.
    findings: ReachFindings,
    /// When records that it is made of changed first and last since it was put together.
    dirty: Option<(Time, Time)>,
    /// Those who asked this node, and are taken for heard therefore.
    asked_by: Vec<MemberId>,
    /// Until when, if what is believed depends on it.
    asked_until: Option<Time>,
    rewire: bool,
    wired: bool,
    /// Who came back since the links were chosen last.
    back: BTreeSet<MemberId>,
    failures: VecDeque<Time>,
    alarmed: Option<Time>,
}

/// A member that is not simply alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trouble {
    pub(super) member: MemberId,
    pub(super) reach: Reach,
    since: Time,
}

impl ReachView {
    /// A record changed that the view is made of.
    pub(super) fn soil(&mut self, now: Time) {
        let first = self.dirty.map_or(now, |(first, _)| first);
        self.dirty = Some((first, now));
    }

    /// The members changed.
    pub(super) fn rewire(&mut self, now: Time) {
        self.soil(now);
        self.rewire = true;
    }

    /// Everybody who is not simply alive, ascending.
    pub(super) fn troubled(&self) -> &[Trouble] {
        &self.troubled
    }

    fn trouble(&self, member: MemberId) -> Option<&Trouble> {
        let at = self.troubled.binary_search_by_key(&member, |t| t.member);
        at.ok().map(|at| &self.troubled[at])
    }

    /// What a member is.
    pub(super) fn reach(&self, member: MemberId) -> Reach {
        self.trouble(member)
            .map_or(Reach::Alive, |trouble| trouble.reach)
    }

    /// Since when it is that, if it is not simply alive.
    pub(super) fn since(&self, member: MemberId) -> Option<Time> {
        self.trouble(member).map(|trouble| trouble.since)
    }

    /// Replaces what is believed of all. Who is not what it was, ascending: what each was and is.
    fn set(
        &mut self,
        now: Time,
        reach: impl Iterator<Item = (MemberId, Reach)>,
    ) -> Vec<(MemberId, Reach, Reach)> {
        let before = std::mem::take(&mut self.troubled);
        let mut troubled = Vec::with_capacity(before.len());
        let mut changes = Vec::new();
        for (member, was, is) in side_by_side(&before, reach) {
            let reach = was.map_or(Reach::Alive, |was| was.reach);
            let since = was.filter(|_| reach == is).map_or(now, |was| was.since);
            if reach != is {
                changes.push((member, reach, is));
            }
            if is != Reach::Alive {
                troubled.push(Trouble {
                    member,
                    reach: is,
                    since,
                });
            }
        }
        self.troubled = troubled.into_boxed_slice();
        changes
    }

    /// Those whose places others take for now.
    pub(super) const fn lost(&self) -> &Absent {
        self.findings.lost()
    }
}

impl Mesh {
    /// Puts the view together anew if something changed. Whether the links have to change.
    pub(super) fn refresh(&mut self, now: Time, out: &mut Vec<MeshOutput>) -> bool {
        if !self.view.wired {
            self.view.rewire(now);
            self.view.wired = true;
            self.open_documents(now, out);
        }
        if self.refresh_due().is_none_or(|due| due > now) {
            return false;
        }
        let askers = self.askers(now);
        let until = askers.iter().map(|(_, until)| *until).min();
        let askers: Vec<_> = askers.into_iter().map(|(asker, _)| asker).collect();
        if self.news_due().is_none_or(|due| due > now) && askers == self.view.asked_by {
            // They have asked again meanwhile: nothing that is believed changes.
            self.view.asked_until = until;
            return false;
        }
        let mut findings = std::mem::take(&mut self.view.findings);
        let found = self.find(&askers, &mut findings);
        self.view.asked_until = until.filter(|_| found.asked);
        self.view.asked_by = askers;
        let changes = self.view.set(now, findings.reach());
        self.view.findings = findings;
        self.view.dirty = None;
        self.view.rewire = false;
        let changed = self.tell(now, &changes, out);
        found.moved || changed
    }

    /// When the view is to be put together anew: at once while few vote; where very many do, not
    /// before all that is new has come.
    pub(super) fn refresh_due(&self) -> Option<Time> {
        let news = self.news_due();
        [news, self.view.asked_until].into_iter().flatten().min()
    }

    fn news_due(&self) -> Option<Time> {
        let (first, last) = self.view.dirty?;
        if self.view.rewire || !self.is_stormy() {
            return Some(first);
        }
        let quiet = last.plus_millis(QUIET_MS);
        let longest = REFRESH_MS + self.store.voters() as u64 / REFRESH_VOTERS;
        Some(quiet.min(first.plus_millis(longest.min(REFRESH_MS_MAX))))
    }

    /// Whether so many vote that a part of the cluster may be lost.
    pub(super) fn is_stormy(&self) -> bool {
        self.store.voters() > VOTERS_MANY
    }

    /// Who asks this node, if it misses somebody: a cut may have left it nobody that it can ask.
    fn askers(&self, now: Time) -> Vec<(MemberId, Time)> {
        let misses = self.own.misses();
        let askers = self.watch.askers(now, &self.config).filter(|_| misses);
        askers.collect()
    }

    fn find(&mut self, askers: &[MemberId], findings: &mut ReachFindings) -> ReachChange {
        let on = VoteContext {
            roster: &self.roster,
            store: &self.store,
        };
        self.tallies.complete(on);
        let changed = self.tallies.take_changed();
        let votes = Votes::new(on, &self.tallies, self.identity.member);
        votes.find(&changed, askers, self.view.rewire, findings)
    }

    /// Tells what changed in the view. Whether anybody became unreachable or came back.
    fn tell(
        &mut self,
        now: Time,
        changes: &[(MemberId, Reach, Reach)],
        out: &mut Vec<MeshOutput>,
    ) -> bool {
        let mut wires = false;
        let mut back = false;
        for &(member, was, is) in changes {
            out.push(MeshOutput::Event(MeshEvent::Reach { member, reach: is }));
            wires |= was == Reach::Unreachable || is == Reach::Unreachable;
            if was == Reach::Unreachable {
                self.view.back.insert(member);
                back = true;
            }
            if is == Reach::Unreachable {
                self.view.failures.push_back(now);
            }
        }
        if back {
            self.watch.look_for_gone(now);
        }
        self.alarm(now, out);
        wires
    }

    /// Raises the alarm, once a minute at most, when a third fell silent within a minute.
    fn alarm(&mut self, now: Time, out: &mut Vec<MeshOutput>) {
        let recent = |at: &Time| now.micros_since(*at) < MASS_MS * 1000;
        while self.view.failures.front().is_some_and(|at| !recent(at)) {
            self.view.failures.pop_front();
        }
        let many = self.view.failures.len();
        let mass = many >= MASS_MIN && many * 3 > self.roster.len();
        if mass && self.view.alarmed.is_none_or(|at| !recent(&at)) {
            self.view.alarmed = Some(now);
            out.push(MeshOutput::Event(MeshEvent::MassFailure));
        }
    }

    /// Whom to watch and whom to be linked with. Those that were lost go on being watched, so
    /// that whoever comes back is noticed.
    pub(super) fn relink(&mut self, now: Time, out: &mut Vec<MeshOutput>) {
        let me = self.identity.member;
        let none = Absent::NOBODY;
        let lost = self.view.lost();
        let mut subjects: BTreeSet<_> = self.roster.watched(me, &none).iter().copied().collect();
        let mut links: BTreeSet<_> = self.roster.watchers(me, &none).iter().copied().collect();
        if !lost.is_empty() {
            // Few are left to stand in on a small island.
            let stand_in = self.roster.watched(me, lost);
            subjects.extend(stand_in.iter().take(STAND_IN_MAX));
            links.extend(self.roster.watchers(me, lost).iter());
        }
        // Downstream alone: five copies reach every node, ten would be twice the work.
        let there = |member: MemberId| self.reach(member) != Reach::Unreachable;
        let usual = self.roster.watched(me, &none);
        let mut downstream: BTreeSet<_> = usual.iter().copied().filter(|m| there(*m)).collect();
        downstream.extend(self.roster.next(me, there));
        links.extend(&subjects);
        links.extend(&downstream);
        let hears = usual.iter().filter(|member| !lost.contains(**member));
        if hears.count() <= HEARS_FEW {
            subjects.extend(self.roster.beyond(me, lost));
        }
        links.retain(|member| self.reach(*member) != Reach::Unreachable);
        let lives = subjects.iter().map(|member| {
            let version = self.store.version(RecordKey::Node(*member));
            (*member, Incarnation(version.incarnation))
        });
        let lives: Vec<_> = lives.collect();
        let watched: BTreeSet<_> = self.watch.watched().collect();
        if watched != subjects {
            self.watch.subjects(now, lives);
            self.own.votes_changed(now);
        }
        let back = std::mem::take(&mut self.view.back);
        self.push.links(now, me, &downstream, &back);
        self.repair.retain(|member| links.contains(&member));
        let list: Vec<_> = links.iter().copied().collect();
        self.with_documents(out, |documents, out| documents.links(now, &list, out));
        self.links = links;
    }
}

/// Those who are not simply alive, or were not, ascending: what was known, and what they are.
fn side_by_side(
    before: &[Trouble],
    after: impl Iterator<Item = (MemberId, Reach)>,
) -> impl Iterator<Item = (MemberId, Option<&Trouble>, Reach)> {
    let (mut before, mut after) = (before.iter().peekable(), after.peekable());
    std::iter::from_fn(move || {
        let was = before.peek().map(|trouble| trouble.member);
        let is = after.peek().map(|(member, _)| *member);
        let member = [was, is].into_iter().flatten().min()?;
        let was = before.next_if(|trouble| trouble.member == member);
        let is = after.next_if(|(other, _)| *other == member);
        Some((member, was, is.map_or(Reach::Alive, |(_, reach)| reach)))
    })
}

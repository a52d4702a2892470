//! Watching: one probe a second for each of the few that this node watches, and what their
//! silence means.
//!
//! Answers who can be reached, and nothing else.

mod subject;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use muster_model::time::Time;

use crate::frame::{Alert, ProbeAnswer};
use crate::member::{Incarnation, MemberId};
use crate::mesh::MeshOptions;
use crate::record::{SuspicionLevel, Vote};
use subject::WatchedMember;

/// A node that runs later than it wanted to by this has stalled: silence then says nothing of
/// those it watches.
const STALL_US: u64 = 150_000;
/// Who misses so many at once says of others only that they are gone, not that they may be: a part
/// of the cluster is lost, and every change of these words goes to all.
const GONE_MANY: usize = 3;
/// Slots of a period, where fewer watchers ask than these: two nodes ask each other more often than
/// once a second, so that a crash is missed as soon as by five.
const SLOTS_MIN: usize = 4;
/// Watchers of this node whose slots are remembered; there are seldom more than five.
const ASKERS_MAX: usize = 64;
/// An asker that was silent for so long has no slot any more.
const ASKER_MS: u64 = 5_000;

/// What this node knows of those it watches, and of those that watch it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeWatch {
    subjects: BTreeMap<MemberId, WatchedMember>,
    askers: BTreeMap<MemberId, Time>,
    /// When something is due, if that is known.
    due: Option<Time>,
    /// Whether that has to be found out anew.
    stale: bool,
    number: u32,
}

/// What watching wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchStep {
    /// Ask this one for a sign of life.
    Probe(MemberId, u32),
    /// Its other watchers have to look.
    Alert(Alert),
}

/// What an answer meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerEffect {
    /// What is held against it has changed.
    pub(crate) changed: bool,
    /// It was gone and is back.
    pub(crate) back: bool,
}

impl ProbeWatch {
    /// Watches exactly these. Who is new is asked at once.
    pub(crate) fn subjects(
        &mut self,
        now: Time,
        subjects: impl IntoIterator<Item = (MemberId, Incarnation)>,
    ) {
        let mut before = std::mem::take(&mut self.subjects);
        for (member, incarnation) in subjects {
            let known = before.remove(&member);
            let subject = known.unwrap_or_else(|| WatchedMember::new(now, incarnation));
            self.subjects.insert(member, subject);
        }
        self.stale = true;
    }

    /// Those it watches.
    pub(crate) fn watched(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.subjects.keys().copied()
    }

    /// Those that asked this node so lately that it would not hold them for gone, and until when
    /// that is so.
    pub(crate) fn askers(
        &self,
        now: Time,
        config: &MeshOptions,
    ) -> impl Iterator<Item = (MemberId, Time)> + '_ {
        let recent = config.gone_ms;
        let askers = self.askers.iter();
        let until = askers.map(move |(asker, at)| (*asker, at.plus_millis(recent)));
        until.filter(move |(_, until)| *until > now)
    }

    /// What is held against those watched, by subject.
    pub(crate) fn votes(&self) -> Vec<Vote> {
        let subjects = self.subjects.iter();
        let mut votes: Vec<_> = subjects
            .filter_map(|(member, subject)| subject.vote(*member))
            .collect();
        let gone = votes
            .iter()
            .filter(|vote| vote.level == SuspicionLevel::Gone);
        if gone.count() >= GONE_MANY {
            votes.retain(|vote| vote.level != SuspicionLevel::Doubt);
        }
        votes
    }

    /// To be called first with every input: a node that stalled takes back its open questions.
    /// Whether it did.
    pub(crate) fn wake(&mut self, now: Time) -> bool {
        let stalled = self.due.is_some_and(|due| now.micros_since(due) > STALL_US);
        if stalled {
            for subject in self.subjects.values_mut() {
                subject.abstain(now);
            }
            self.stale = true;
            self.due = None;
        }
        stalled
    }

    /// Does what is due. Whether anything held against anybody changed.
    pub(crate) fn tick(
        &mut self,
        now: Time,
        config: &MeshOptions,
        steps: &mut Vec<WatchStep>,
    ) -> bool {
        let mut changed = false;
        if !self.stale && self.due.is_none_or(|due| due > now) {
            return changed;
        }
        self.stale = true;
        for (member, subject) in &mut self.subjects {
            if subject.deadline(config) > now {
                continue;
            }
            changed |= subject.judge(now, config);
            if subject.alerts(now, config) {
                steps.push(WatchStep::Alert(Alert {
                    subject: *member,
                    incarnation: subject.incarnation(),
                }));
            }
            if subject.is_due(now) {
                self.number = self.number.wrapping_add(1);
                subject.ask(now, self.number, config);
                steps.push(WatchStep::Probe(*member, self.number));
            }
        }
        changed
    }

    /// When [`ProbeWatch::tick`] is due.
    pub(crate) fn deadline(&mut self, config: &MeshOptions) -> Option<Time> {
        if self.stale {
            let subjects = self.subjects.values();
            self.due = subjects.map(|subject| subject.deadline(config)).min();
            self.stale = false;
        }
        self.due
    }

    /// A sign of life came in.
    pub(crate) fn answer(
        &mut self,
        now: Time,
        from: MemberId,
        answer: &ProbeAnswer,
        config: &MeshOptions,
    ) -> AnswerEffect {
        let subject = self.subjects.get_mut(&from);
        self.stale |= subject.is_some();
        subject.map_or_else(AnswerEffect::default, |subject| {
            subject.answer(now, answer, config)
        })
    }

    /// Any other frame of `from` came in. Whether that changed what is held against it.
    pub(crate) fn heard(&mut self, now: Time, from: MemberId) -> bool {
        let Some(subject) = self.subjects.get_mut(&from) else {
            return false;
        };
        self.stale |= subject.is_gone();
        subject.heard(now)
    }

    /// Somebody else misses answers of one that this node watches too, or sees it back.
    pub(crate) fn look(&mut self, now: Time, member: MemberId) {
        if let Some(subject) = self.subjects.get_mut(&member) {
            subject.look(now);
            self.stale = true;
        }
    }

    /// Looks at all that are gone: the network has come back somewhere.
    pub(crate) fn look_for_gone(&mut self, now: Time) {
        for subject in self.subjects.values_mut().filter(|s| s.is_gone()) {
            subject.look(now);
            self.stale = true;
        }
    }

    /// A life of a watched member became known. Whether that voids something held against it.
    pub(crate) fn life(&mut self, now: Time, member: MemberId, incarnation: Incarnation) -> bool {
        let Some(subject) = self.subjects.get_mut(&member) else {
            return false;
        };
        self.stale = true;
        subject.life(now, incarnation)
    }

    /// A watcher asks, to be answered with `mine`. The answer tells it when to ask next, which
    /// spreads the watchers evenly over the second.
    pub(crate) fn asked(
        &mut self,
        now: Time,
        from: MemberId,
        mine: ProbeAnswer,
        config: &MeshOptions,
    ) -> ProbeAnswer {
        self.askers.insert(from, now);
        let quiet = ASKER_MS * 1000;
        self.askers.retain(|_, at| now.micros_since(*at) < quiet);
        if self.askers.len() > ASKERS_MAX {
            self.askers.pop_first();
        }
        ProbeAnswer {
            next_ms: self.slot(now, from, config),
            ..mine
        }
    }

    /// Time until the asker's slot, at least half a period from now. The slots are as far apart
    /// as with [`SLOTS_MIN`] watchers, however few there are; more share the usual period.
    fn slot(&self, now: Time, from: MemberId, config: &MeshOptions) -> u16 {
        let gap = (config.probe_ms / SLOTS_MIN.max(self.askers.len()) as u64).max(1);
        let rank = self
            .askers
            .keys()
            .take_while(|asker| **asker < from)
            .count() as u64;
        let period = gap * (self.askers.len() as u64).max(1);
        let earliest = now.as_millis() + period / 2;
        let wait = (rank * gap + period - earliest % period) % period;
        u16::try_from(period / 2 + wait).unwrap_or(u16::MAX)
    }
}

//! One that is watched.

use std::collections::VecDeque;

use muster_model::time::Time;

use super::AnswerEffect;
use crate::frame::ProbeAnswer;
use crate::member::{Incarnation, MemberId};
use crate::mesh::MeshOptions;
use crate::record::{SuspicionLevel, Vote};

/// Probes whose answers are still taken.
const OPEN_MAX: usize = 64;
/// Probes without an answer before there can be a vote, whatever the clock says.
const MISSES_MIN: u32 = 4;
/// Misses before the other watchers are told.
const MISSES_ALERT: u32 = 2;
/// A watched member may ask to be asked no more often than this.
const NEXT_MS_MIN: u64 = 100;
/// Between two alerts on the same silence.
const ALERT_MS: u64 = 400;
/// A watched member that was told of, or heard again, is asked this often for a while.
const LOOK_MS: u64 = 50;
/// For how long.
const LOOK_FOR_MS: u64 = 1_000;
/// One that stays gone is asked less often, in steps: after this long, this often.
const REVIVE_SLOWER: [(u64, u64); 2] = [(600_000, 5_000), (60_000, 1_000)];
/// A doubt that comes and goes is taken back later each time, at most this late.
const DAMP_MS_MAX: u64 = 16_000;
/// A link that was quiet for so long is forgiven one flip.
const FORGIVE_MS: u64 = 60_000;
/// Frames of one that does not answer count as heard for so long ...
const HEARD_MS: u64 = 2_000;
/// ... if they come so long after its silence began.
const HEARD_GRACE_MS: u64 = 500;

/// What a watcher knows of one it watches.
#[derive(Clone, Debug)]
pub(super) struct WatchedMember {
    incarnation: Incarnation,
    /// When to ask next.
    next: Time,
    /// Open questions: number and when they were asked, oldest first.
    open: VecDeque<(u32, Time)>,
    /// When the oldest question that counts was asked; `None` after an answer.
    silent_since: Option<Time>,
    /// When the newest question is missed.
    missed_at: Option<Time>,
    misses: u32,
    /// Usual round trip, µs.
    round_trip_us: u64,
    alerted: Option<Time>,
    level: Option<SuspicionLevel>,
    gone_since: Time,
    /// A doubt that is answered is kept until then.
    hold_until: Option<Time>,
    flips: u32,
    flipped: Time,
    heard: Option<Time>,
    look_until: Time,
}

impl WatchedMember {
    pub(super) fn new(now: Time, incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            next: now,
            open: VecDeque::new(),
            silent_since: None,
            missed_at: None,
            misses: 0,
            round_trip_us: 0,
            alerted: None,
            level: None,
            gone_since: now,
            hold_until: None,
            flips: 0,
            flipped: now,
            heard: None,
            look_until: Time(0),
        }
    }

    pub(super) const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    pub(super) fn is_gone(&self) -> bool {
        self.level == Some(SuspicionLevel::Gone)
    }

    pub(super) fn vote(&self, member: MemberId) -> Option<Vote> {
        Some(Vote {
            subject: member,
            incarnation: self.incarnation,
            level: self.level?,
            heard: self.is_heard(),
        })
    }

    /// Whether frames of it arrive although it does not answer. What was on its way when it fell
    /// silent does not count.
    fn is_heard(&self) -> bool {
        let both = self.silent_since.zip(self.heard);
        both.is_some_and(|(since, at)| at.micros_since(since) > HEARD_GRACE_MS * 1000)
    }

    /// Forgets open questions: this node was not there to hear the answers.
    pub(super) fn abstain(&mut self, now: Time) {
        self.open.clear();
        self.missed_at = None;
        self.misses = 0;
        if self.level != Some(SuspicionLevel::Gone) {
            self.silent_since = None;
        }
        self.next = self.next.min(now);
    }

    /// When something is to be done for it.
    pub(super) fn deadline(&self, config: &MeshOptions) -> Time {
        let vote = self.silent_since.and_then(|since| match self.level {
            Some(SuspicionLevel::Gone) => None,
            Some(SuspicionLevel::Doubt) => Some(since.plus_millis(config.gone_ms)),
            Some(SuspicionLevel::Sick) | None => Some(since.plus_millis(config.doubt_ms)),
        });
        // Before there are misses enough the clock alone decides nothing.
        let vote = vote.filter(|_| self.misses >= MISSES_MIN);
        [Some(self.next), self.missed_at, vote, self.hold_until]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(self.next)
    }

    /// Counts misses and decides on the vote. Whether the vote changed.
    pub(super) fn judge(&mut self, now: Time, config: &MeshOptions) -> bool {
        if self.missed_at.is_some_and(|at| at <= now) {
            self.missed_at = None;
            self.misses = self.misses.saturating_add(1);
            if self.misses == 1 {
                self.next = now;
            }
        }
        if self
            .heard
            .is_some_and(|at| now.micros_since(at) > HEARD_MS * 1000)
        {
            let was = self.is_heard();
            self.heard = None;
            if was && self.level.is_some() {
                return true;
            }
        }
        if self.hold_until.is_some_and(|until| until <= now) {
            self.hold_until = None;
            return self.set(now, None);
        }
        let Some(since) = self.silent_since.filter(|_| self.misses >= MISSES_MIN) else {
            return false;
        };
        let silence = now.micros_since(since) / 1000;
        if silence < config.doubt_ms {
            return false;
        }
        // A new silence: what an answer had put on its way out is said anew.
        self.hold_until = None;
        if silence >= config.gone_ms {
            self.set(now, Some(SuspicionLevel::Gone))
        } else {
            self.set(now, self.level.max(Some(SuspicionLevel::Doubt)))
        }
    }

    fn set(&mut self, now: Time, level: Option<SuspicionLevel>) -> bool {
        if self.level == level {
            return false;
        }
        if level == Some(SuspicionLevel::Gone) {
            self.gone_since = now;
        }
        self.level = level;
        true
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.next <= now
    }

    /// Whether the other watchers have to be told, which is then noted as done.
    pub(super) fn alerts(&mut self, now: Time, config: &MeshOptions) -> bool {
        let due = self
            .alerted
            .is_none_or(|at| now.micros_since(at) >= ALERT_MS * 1000);
        let silent = self
            .silent_since
            .is_some_and(|since| now.micros_since(since) < config.gone_ms * 1000);
        let alerts = due && silent && self.misses >= MISSES_ALERT;
        if alerts {
            self.alerted = Some(now);
        }
        alerts
    }

    /// Asks a question.
    pub(super) fn ask(&mut self, now: Time, number: u32, config: &MeshOptions) {
        self.open.push_back((number, now));
        if self.open.len() > OPEN_MAX {
            self.open.pop_front();
        }
        self.silent_since.get_or_insert(now);
        let wait_us = (config.answer_ms * 1000).max(self.round_trip_us * 4);
        self.missed_at.get_or_insert(Time(now.0 + wait_us));
        self.next = now.plus_millis(self.pause(now, config));
    }

    fn pause(&self, now: Time, config: &MeshOptions) -> u64 {
        if now < self.look_until {
            return LOOK_MS;
        }
        match self.level {
            Some(SuspicionLevel::Gone) => {
                let gone = now.micros_since(self.gone_since) / 1000;
                let slower = REVIVE_SLOWER.iter().find(|(after, _)| gone > *after);
                slower.map_or(config.revive_ms, |(_, pause)| *pause)
            }
            _ if self.misses > 0 => config.urgent_ms,
            _ => config.probe_ms,
        }
    }

    /// An answer came.
    pub(super) fn answer(
        &mut self,
        now: Time,
        answer: &ProbeAnswer,
        config: &MeshOptions,
    ) -> AnswerEffect {
        let asked = self.open.iter().position(|(n, _)| *n == answer.number);
        let known = answer.incarnation >= self.incarnation;
        let Some((at, (_, sent))) = asked.map(|at| (at, self.open[at])).filter(|_| known) else {
            return AnswerEffect::default();
        };
        self.open.drain(..=at);
        let trip = now.micros_since(sent);
        self.round_trip_us = if self.round_trip_us == 0 {
            trip
        } else {
            (self.round_trip_us * 7 + trip) / 8
        };
        let back = self.is_gone();
        let changed = self.relent(now, answer, config);
        self.silent_since = None;
        self.missed_at = None;
        self.misses = 0;
        self.alerted = None;
        self.look_until = Time(0);
        self.open.clear();
        let next = u64::from(answer.next_ms).clamp(NEXT_MS_MIN, config.probe_ms * 2);
        self.next = now.plus_millis(next);
        AnswerEffect { changed, back }
    }

    /// Takes back what was held against it, at once or, where that comes and goes, later.
    fn relent(&mut self, now: Time, answer: &ProbeAnswer, config: &MeshOptions) -> bool {
        if answer.health.exceeds(&config.sick) {
            self.hold_until = None;
            return self.set(now, Some(SuspicionLevel::Sick));
        }
        match self.level {
            None => false,
            Some(SuspicionLevel::Sick) => self.set(now, None),
            Some(SuspicionLevel::Doubt | SuspicionLevel::Gone) => {
                if self.hold_until.is_some() {
                    return self.set(now, Some(SuspicionLevel::Doubt));
                }
                let hold = self.damping(now);
                if hold == 0 {
                    return self.set(now, None);
                }
                self.hold_until = Some(now.plus_millis(hold));
                self.set(now, Some(SuspicionLevel::Doubt))
            }
        }
    }

    /// How long a doubt outlives the answer: nothing the first times.
    fn damping(&mut self, now: Time) -> u64 {
        let forgiven = now.micros_since(self.flipped) / 1000 / FORGIVE_MS;
        let forgiven = u32::try_from(forgiven).unwrap_or(u32::MAX);
        self.flips = self.flips.saturating_sub(forgiven) + 1;
        self.flipped = now;
        match self.flips {
            0..=2 => 0,
            flips => (500_u64 << (flips - 3).min(10)).min(DAMP_MS_MAX),
        }
    }

    /// A frame that is no answer came. Whether the vote changed by it.
    pub(super) fn heard(&mut self, now: Time) -> bool {
        let was = self.is_heard();
        self.heard = Some(now);
        if self.is_gone() && self.look_until <= now {
            self.look(now);
        }
        was != self.is_heard() && self.level.is_some()
    }

    /// Asks at once, and more often for a while.
    pub(super) fn look(&mut self, now: Time) {
        let asked = self
            .open
            .back()
            .is_some_and(|(_, at)| now.micros_since(*at) < LOOK_MS * 1000);
        if !asked {
            self.next = self.next.min(now);
        }
        if self.silent_since.is_some() || self.is_gone() {
            self.look_until = now.plus_millis(LOOK_FOR_MS);
        }
    }

    /// A later life of it began: what was held against the earlier one is void.
    pub(super) fn life(&mut self, now: Time, incarnation: Incarnation) -> bool {
        if incarnation <= self.incarnation {
            return false;
        }
        let held = self.level.is_some();
        let flips = (self.flips, self.flipped);
        *self = Self::new(now, incarnation);
        (self.flips, self.flipped) = flips;
        held
    }
}

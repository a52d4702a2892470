//! The alarms of this machine: numbered, kept for their readers, and told to the log.
//!
//! What is wrong is for the core of the member to say ([`muster_control::member::alarms`]). The newest
//! [`KEPT_MAX`] alarms are kept in memory, and all that stand. Numbers begin anew with each start of the agent,
//! so every answer names the start that its numbers are of.

mod text;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_control::member::MemberEvent;
use muster_control::member::alarms::{Key, Trouble};
use muster_model::alarm::{
    Alarm, AlarmKind, AlarmState, AlarmSubject, Alarms as Answer, AlarmsAfter,
};
use muster_model::time::Time;

/// Alarms that are kept; standing ones are kept besides.
const KEPT_MAX: usize = 1_000;

/// All of them. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Alarms(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The name of this machine.
    machine: String,
    /// Names this start.
    boot: String,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of the newest one.
    last: u64,
    newest: VecDeque<Alarm>,
    standing: BTreeMap<Key, Alarm>,
}

/// An alarm that has no number yet.
#[derive(Debug, PartialEq, Eq)]
struct News {
    kind: AlarmKind,
    state: AlarmState,
    subject: AlarmSubject,
    text: String,
}

impl Alarms {
    /// None yet, on the machine of this name.
    pub(crate) fn new(machine: &str) -> Self {
        Self(Arc::new(Shared {
            machine: machine.to_owned(),
            boot: format!("{:016x}", rand::random::<u64>()),
            kept: Mutex::default(),
        }))
    }

    /// Notes what the core of the member tells of troubles and leaders, and tells the log of it.
    pub(crate) fn note(&self, now: Time, event: &MemberEvent) {
        let Some(news) = text::news(&self.0.machine, event) else {
            return;
        };
        log(&news);
        let mut kept = self.kept();
        let alarm = kept.number(&self.0.boot, now, news);
        match event {
            MemberEvent::Raised(trouble) => kept.stands(trouble, alarm),
            MemberEvent::Cleared { trouble, .. } => kept.is_over(trouble),
            _ => {}
        }
    }

    /// Those that a reader does not have.
    pub(crate) fn after(&self, after: &AlarmsAfter) -> Answer {
        let kept = self.kept();
        let number = after.number_at(&self.0.boot, kept.last);
        let first = kept.newest.front().map_or(1, |alarm| alarm.number);
        let wanted = kept.newest.iter().filter(|alarm| alarm.number > number);
        let mut standing: Vec<Alarm> = kept.standing.values().cloned().collect();
        standing.sort_unstable_by_key(|alarm| alarm.number);
        Answer {
            boot: self.0.boot.clone(),
            last: kept.last,
            dropped: first > number + 1,
            standing,
            alarms: wanted.cloned().collect(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        let kept = self.0.kept.lock();
        kept.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Gives it a number, and forgets the oldest one if there are too many.
    fn number(&mut self, boot: &str, now: Time, news: News) -> Alarm {
        let News {
            kind,
            state,
            subject,
            text,
        } = news;
        self.last += 1;
        let alarm = Alarm {
            number: self.last,
            boot: boot.to_owned(),
            at_ms: now.as_millis(),
            kind,
            state,
            subject,
            text,
        };
        self.newest.push_back(alarm.clone());
        while self.newest.len() > KEPT_MAX {
            self.newest.pop_front();
        }
        alarm
    }

    fn stands(&mut self, trouble: &Trouble, alarm: Alarm) {
        self.standing.insert(trouble.key(), alarm);
    }

    fn is_over(&mut self, trouble: &Trouble) {
        self.standing.remove(&trouble.key());
    }
}

fn log(news: &News) {
    let News {
        kind,
        state,
        subject,
        text,
    } = news;
    match (state, kind) {
        (
            AlarmState::Raised,
            AlarmKind::MajorityLost | AlarmKind::Expelled | AlarmKind::KeyUsedTwice,
        ) => tracing::error!(%kind, %state, %subject, "{text}"),
        (AlarmState::Raised, _) => tracing::warn!(%kind, %state, %subject, "{text}"),
        (AlarmState::Cleared | AlarmState::Event, _) => {
            tracing::info!(%kind, %state, %subject, "{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_control::member::alarms::Clearing;
    use muster_gossip::member::MemberId;

    use super::*;

    fn lost(number: u32) -> Trouble {
        Trouble::MemberLost {
            member: MemberId(number),
            name: format!("n{number}"),
        }
    }

    fn back(number: u32) -> MemberEvent {
        MemberEvent::Cleared {
            trouble: lost(number),
            why: Clearing::Well,
        }
    }

    fn noted(events: impl IntoIterator<Item = MemberEvent>) -> Alarms {
        let alarms = Alarms::new("n1");
        for (second, event) in (1..).zip(events) {
            alarms.note(Time::from_millis(second * 1_000), &event);
        }
        alarms
    }

    fn numbers(alarms: &[Alarm]) -> Vec<u64> {
        alarms.iter().map(|alarm| alarm.number).collect()
    }

    #[test]
    fn a_reader_gets_what_it_does_not_have() {
        let alarms = noted([
            MemberEvent::Raised(lost(2)),
            MemberEvent::Raised(lost(3)),
            back(2),
        ]);
        let all = alarms.after(&AlarmsAfter::default());
        assert_eq!((numbers(&all.alarms), all.last), (vec![1, 2, 3], 3));
        assert_eq!(numbers(&all.standing), [2]);
        assert!(!all.dropped && all.alarms.iter().all(|it| it.boot == all.boot));
        let times: Vec<u64> = all.alarms.iter().map(|it| it.at_ms).collect();
        assert_eq!(times, [1_000, 2_000, 3_000]);
        let after = |number, boot: &str| {
            let boot = Some(boot.to_owned());
            numbers(&alarms.after(&AlarmsAfter { number, boot }).alarms)
        };
        assert_eq!(after(2, &all.boot), [3]);
        assert_eq!(after(3, &all.boot), [0; 0]);
        assert_eq!(after(3, "another"), [1, 2, 3], "it was started anew");
    }

    #[test]
    fn the_oldest_are_forgotten_and_a_reader_is_told_so() {
        let first = MemberEvent::Raised(lost(1));
        let many = (0..KEPT_MAX).map(|_| [MemberEvent::Raised(lost(2)), back(2)]);
        let alarms = noted([first].into_iter().chain(many.flatten()).take(KEPT_MAX + 1));
        let answer = |number| alarms.after(&AlarmsAfter { number, boot: None });
        let all = answer(0);
        assert_eq!((all.alarms.len(), all.alarms[0].number), (KEPT_MAX, 2));
        assert!(all.dropped);
        assert_eq!(numbers(&all.standing), [1], "it stands still");
        assert!(!answer(1).dropped, "the next one is there");
    }

    #[test]
    fn what_is_no_alarm_gets_no_number() {
        let alarms = noted([MemberEvent::Succeeded { generation: 2 }]);
        assert_eq!(alarms.after(&AlarmsAfter::default()).last, 0);
    }
}

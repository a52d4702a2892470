//! Questions to whoever leads a group: who that is is found out, and asked again until it answers or
//! patience is over.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use muster_consensus::GroupId;
use muster_control::cluster::{self, Binding};
use muster_control::coordinator::Bindings;
use muster_control::groups::{Error, Input, Machine, Outcome, Seen, name};
use muster_control::lease::{self, Request};
use muster_control::node;
use muster_gossip::frame::Carrier;
use muster_model::id::VcName;
use muster_model::time::Time;

use super::frame::{Answer, Frame, Question, What};
use super::machine::{Due, Outbox};
use super::{At, Cluster, Out};
use crate::sim::engine::Sending;

/// A try without an answer is given up after this, ms.
const TRY_MS: u64 = 1_000;
/// What a virtual cluster is bound to is asked for so long, ms: it is asked again.
const BIND_PATIENCE_MS: u64 = 3_000;
/// Before somebody else is asked, where nobody leads, ms.
const PAUSE_MS: u64 = 50;

/// Why something is asked.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// A user's job, by its number.
    Submit(u64),
    /// A user looks at a job that was lost so many times before.
    Look(u64, u32),
    Learn(GroupId, VcName),
    Renew(Request),
    Silence(GroupId, lease::Question),
    Brief,
    /// What is bound to the virtual cluster of a group, as of this version; before, or after it was asked
    /// for something.
    Bind(GroupId, u64),
    Bound(GroupId),
    /// An admin's change of the cluster.
    Admin(u64),
}

/// A question that waits for its answer.
#[derive(Clone, Debug)]
struct Ask {
    question: Arc<Question>,
    purpose: Purpose,
    tries: u32,
    until: Time,
}

/// What a process has asked.
#[derive(Debug, Default)]
pub(super) struct Asks {
    waiting: BTreeMap<u64, Ask>,
    /// Who led a group when it was last asked.
    hints: BTreeMap<GroupId, usize>,
}

impl Cluster {
    /// Asks whoever leads a group, for so many milliseconds.
    pub(super) fn ask(
        &mut self,
        (now, node): At,
        (question, purpose): (Question, Purpose),
        patience_ms: u64,
        out: &mut Out,
    ) {
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        // Another one than any that an earlier life has asked.
        let number = self.random.next();
        let ask = Ask {
            question: Arc::new(question),
            purpose,
            tries: 0,
            until: now.plus_millis(patience_ms),
        };
        process.asks.waiting.insert(number, ask);
        self.try_asking(now, node, number, out);
    }

    fn try_asking(&mut self, now: Time, node: usize, number: u64, out: &mut Out) {
        let affairs = self.affairs(node);
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let Some(ask) = process.asks.waiting.get_mut(&number) else {
            return;
        };
        if ask.until <= now {
            return self.answered((now, node), number, None, out);
        }
        // What the cluster's own group is asked is asked of the one that goes on with its affairs.
        if ask.question.group != affairs && name::kind(ask.question.group) == name::Kind::Cluster {
            Arc::make_mut(&mut ask.question).group = affairs;
        }
        ask.tries += 1;
        let (question, tries) = (ask.question.clone(), ask.tries);
        let to = self.whom(node, question.group, tries);
        let again = Due::Again(number, tries);
        self.machines[node].later(now.plus_millis(TRY_MS), again);
        if to == node {
            return self.asked((now, node), (node, number), &question, out);
        }
        self.send((now, node), to, Frame::Ask(number, question), out);
    }

    /// Who may lead it: by the own copy, by what was heard last, or any of those who have copies.
    fn whom(&mut self, node: usize, group: GroupId, tries: u32) -> usize {
        let machine = &self.machines[node];
        let hint = machine.process.as_ref();
        let hint = hint.and_then(|it| it.asks.hints.get(&group).copied());
        let known = machine.leader_seen(group).or(hint);
        if let Some(known) = known.filter(|_| !tries.is_multiple_of(3)) {
            return known;
        }
        let homes = self.homes(group);
        match homes.is_empty() || tries.is_multiple_of(5) {
            true => self.random.index(self.machines.len()),
            false => homes[self.random.index(homes.len())],
        }
    }

    /// Who has copies of a group: members say so, and that spreads before anything else is asked.
    fn homes(&self, group: GroupId) -> Vec<usize> {
        let machines = self.machines.iter();
        let homes = machines.filter(|machine| machine.store.has(group));
        homes.map(|machine| machine.id).collect()
    }

    /// A question is asked once more, if this try was the last.
    pub(super) fn again(
        &mut self,
        now: Time,
        node: usize,
        (number, tries): (u64, u32),
        out: &mut Out,
    ) {
        let process = self.machines[node].process.as_mut();
        let Some(asks) = process.map(|it| &mut it.asks) else {
            return;
        };
        let Some(ask) = asks.waiting.get(&number).filter(|ask| ask.tries == tries) else {
            return;
        };
        asks.hints.remove(&ask.question.group);
        self.try_asking(now, node, number, out);
    }

    /// Somebody asks this machine.
    pub(super) fn asked(
        &mut self,
        (now, node): At,
        from: (usize, u64),
        question: &Question,
        out: &mut Out,
    ) {
        let Some(process) = &self.machines[node].process else {
            return;
        };
        let input = input(from, process.outbox.clone(), question);
        self.keep(now, node, input, out);
    }

    /// Sends what the keeper has answered by now.
    pub(super) fn send_answers(&mut self, now: Time, node: usize, out: &mut Out) {
        for (to, number, answer) in self.machines[node].answers() {
            if to == node {
                self.hear_answer((now, node), node, (number, answer), out);
            } else {
                let answer = Frame::Answer(number, Arc::new(answer));
                self.send((now, node), to, answer, out);
            }
        }
    }

    /// An answer arrives.
    pub(super) fn hear_answer(
        &mut self,
        (now, node): At,
        from: usize,
        (number, answer): (u64, Answer),
        out: &mut Out,
    ) {
        let process = self.machines[node].process.as_mut();
        let Some(asks) = process.map(|it| &mut it.asks) else {
            return;
        };
        let Some(ask) = asks.waiting.get(&number) else {
            return;
        };
        let (group, tries) = (ask.question.group, ask.tries);
        match answer {
            Answer::Refused(Error::Elsewhere(leader)) => {
                let leader = usize::try_from(leader.0).unwrap_or(usize::MAX);
                let known = asks.hints.insert(group, leader);
                if known == Some(leader) && leader == from {
                    asks.hints.remove(&group);
                }
                let again = Due::Elsewhere(number, tries);
                self.machines[node].later(now.plus_millis(1), again);
            }
            Answer::Refused(_) => {
                asks.hints.remove(&group);
                let again = Due::Elsewhere(number, tries);
                self.machines[node].later(now.plus_millis(PAUSE_MS), again);
            }
            answer => {
                asks.hints.insert(group, from);
                self.answered((now, node), number, Some((from, answer)), out);
            }
        }
    }

    /// As [`Cluster::again`], of one that was answered: who was named stays known.
    pub(super) fn again_elsewhere(
        &mut self,
        now: Time,
        node: usize,
        (number, tries): (u64, u32),
        out: &mut Out,
    ) {
        let process = self.machines[node].process.as_ref();
        let ask = process.and_then(|it| it.asks.waiting.get(&number));
        if ask.is_some_and(|ask| ask.tries == tries) {
            self.try_asking(now, node, number, out);
        }
    }

    fn answered(
        &mut self,
        (now, node): At,
        number: u64,
        answer: Option<(usize, Answer)>,
        out: &mut Out,
    ) {
        let process = self.machines[node].process.as_mut();
        let Some(ask) = process.and_then(|it| it.asks.waiting.remove(&number)) else {
            return;
        };
        let (from, answer) = answer.map_or((None, None), |(from, it)| (Some(from), Some(it)));
        match ask.purpose {
            Purpose::Submit(job) => self
                .users
                .submitted(job, answer.as_ref(), &mut self.account),
            Purpose::Look(job, lost) => {
                let users = &self.users;
                users.looked((job, lost), answer.as_ref(), &mut self.account);
            }
            Purpose::Admin(number) => self.done(number, answer.as_ref()),
            Purpose::Brief => self.briefed(now, node, answer, out),
            Purpose::Bind(group, known) => {
                if let Some(Answer::Settled(_)) = answer {
                    self.ask_bound((now, node), group, known, out);
                }
            }
            Purpose::Bound(group) => {
                if let Some(Answer::Bound(news)) = answer {
                    self.keep(now, node, Input::Bound { group, news }, out);
                }
            }
            Purpose::Learn(group, vc) => match (from, answer) {
                (Some(from), Some(Answer::Term(generation, term))) => {
                    let leader = node::Leader {
                        reign: (generation, muster_control::fence::Term(term)),
                        node: super::number(from),
                    };
                    self.serve(now, node, node::Input::Learned { vc, leader }, out);
                }
                _ => self.machines[node].later(now.plus_millis(200), Due::Learn(group)),
            },
            Purpose::Renew(request) => {
                let granted = matches!(answer, Some(Answer::Renewed));
                self.serve(now, node, node::Input::Renewed { request, granted }, out);
            }
            Purpose::Silence(group, question) => {
                let silent = match answer {
                    Some(Answer::Silent(silent)) => Some(silent),
                    _ => None,
                };
                let silence = Input::Silence {
                    group,
                    question,
                    silent,
                };
                self.keep(now, node, silence, out);
            }
        }
    }

    /// The leader of a virtual cluster wants the cluster's to bind it, and to know who is bound to what.
    pub(super) fn bind(
        &mut self,
        (now, node): At,
        (group, vc): (GroupId, VcName),
        (known, binding): (u64, Box<Binding>),
        out: &mut Out,
    ) {
        if binding.is_empty() {
            return self.ask_bound((now, node), group, known, out);
        }
        let entry = cluster::Entry::Bound { vc, binding }.encode();
        let asked = Question {
            group: self.affairs(node),
            what: What::Propose(entry.unwrap_or_default().into()),
        };
        let purpose = Purpose::Bind(group, known);
        self.ask((now, node), (asked, purpose), BIND_PATIENCE_MS, out);
    }

    fn ask_bound(&mut self, at: At, group: GroupId, known: u64, out: &mut Out) {
        let asked = Question {
            group: self.affairs(at.1),
            what: What::Bound(known),
        };
        self.ask(at, (asked, Purpose::Bound(group)), BIND_PATIENCE_MS, out);
    }

    pub(super) fn send(&mut self, at: At, to: usize, frame: Frame, out: &mut Out) {
        self.echo(at, to, &frame);
        let bytes = frame.bytes();
        out.sends.push(Sending {
            to,
            carrier: Carrier::Stream,
            frame,
            bytes,
        });
    }
}

/// What a question is to the keeper of who is asked.
fn input((from, number): (usize, u64), outbox: Outbox, question: &Question) -> Input {
    let say = move |answer| {
        let mut outbox = outbox.lock().unwrap_or_else(PoisonError::into_inner);
        outbox.push((from, number, answer));
    };
    let group = question.group;
    let what = question.what.clone();
    if let What::Propose(entry) = &what {
        return Input::Propose {
            group,
            entry: entry.to_vec(),
            reply: Box::new(move |outcome| {
                say(match outcome {
                    Ok(Outcome::Vc(result)) => Answer::Applied(result),
                    Ok(Outcome::Cluster(result)) => Answer::Settled(result),
                    Ok(Outcome::Unreadable(_)) => Answer::Refused(Error::Unreadable),
                    Err(error) => Answer::Refused(error),
                });
            }),
        };
    }
    let heard = match &what {
        What::Renew(node) => Some(node.clone()),
        _ => None,
    };
    Input::Read {
        group,
        heard,
        reading: Box::new(move |seen| {
            say(match seen {
                Ok(seen) => look(&what, &seen),
                Err(error) => Answer::Refused(error),
            });
        }),
    }
}

fn look(what: &What, seen: &Seen<'_>) -> Answer {
    match (what, seen.machine) {
        (What::Term, Machine::Vc(state)) => match seen.coordinator {
            Some(it) => Answer::Term(it.generation(), state.term().0),
            None => Answer::Refused(Error::NoLeader),
        },
        (What::Renew(_), _) => Answer::Renewed,
        (What::Silent(node, for_ms), Machine::Cluster(_)) => {
            Answer::Silent(seen.silence_ms(node) >= *for_ms)
        }
        (What::Brief(have), Machine::Cluster(state)) => {
            let briefing = state.briefing().filter(|it| it.version > *have);
            Answer::Brief(briefing)
        }
        (What::Bound(known), Machine::Cluster(state)) => Answer::Bound(Bindings::of(state, *known)),
        (What::Job(key), Machine::Vc(state)) => {
            Answer::Job(state.summary(key).map(|job| job.state().is_final()))
        }
        _ => Answer::Refused(Error::Unreadable),
    }
}

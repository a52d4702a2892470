//! Questions to the leaders of groups, which the search of the agent finds.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use muster_consensus::GroupId;
use muster_control::cluster::{self, Binding};
use muster_control::coordinator::Bindings;
use muster_control::groups::{Error, Input, Machine, Outcome, Seen, name};
use muster_control::lease::{self, Request};
use muster_control::node;
use muster_control::request::Failure;
use muster_control::request::search::{AGAIN_MS, CANDIDATE_MS, Clues, LeaderSearch, Wanted};
use muster_gossip::frame::Carrier;
use muster_model::id::VcName;
use muster_model::time::Time;

use super::frame::{Answer, Frame, Question, What};
use super::machine::{Due, Outbox};
use super::{At, Cluster, Out};
use crate::sim::engine::Sending;
use crate::sim::mesh::member;

/// What a virtual cluster is bound to is asked for so long, ms: it is asked again.
const BIND_PATIENCE_MS: u64 = 3_000;

const UNSURE: Failure = Failure::Unknown(String::new());

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

impl Purpose {
    /// What matters of the question for the search. Twice does no more than once.
    const fn wanted(&self) -> Wanted {
        Wanted {
            may_repeat: true,
            changes: matches!(self, Self::Submit(_)),
            is_slow: false,
        }
    }
}

/// A question that waits for its answer.
#[derive(Clone, Debug)]
struct Ask {
    question: Arc<Question>,
    purpose: Purpose,
    search: LeaderSearch,
    tries: u32,
    /// When this try began.
    since: Time,
}

/// What a process has asked.
#[derive(Debug, Default)]
pub(super) struct Asks {
    waiting: BTreeMap<u64, Ask>,
}

impl Cluster {
    /// Asks the leader of a group, for so many milliseconds.
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
            search: LeaderSearch::new(purpose.wanted(), now.plus_millis(patience_ms)),
            purpose,
            tries: 0,
            since: now,
        };
        process.asks.waiting.insert(number, ask);
        self.try_asking((now, node), number, out);
    }

    fn try_asking(&mut self, (now, node): At, number: u64, out: &mut Out) {
        let affairs = self.affairs(node);
        let Some(ask) = self.waiting(node, number) else {
            return;
        };
        // What the cluster's own group is asked is asked of the one that decides for it by now.
        if ask.question.group != affairs && name::kind(ask.question.group) == name::Kind::Cluster {
            Arc::make_mut(&mut ask.question).group = affairs;
        }
        ask.tries += 1;
        ask.since = now;
        let (question, tries) = (ask.question.clone(), ask.tries);
        let clues = self.clues(node, question.group);
        let ask = self.waiting(node, number);
        let Some(to) = ask.and_then(|ask| ask.search.next(&clues)) else {
            let nobody = Failure::unavailable("nobody is known that may lead");
            return self.try_ended((now, node), number, Err(nobody), out);
        };
        let again = Due::Again(number, tries);
        self.machines[node].later(now.plus_millis(AGAIN_MS), again);
        if to == member(node) {
            return self.asked((now, node), (node, number), &question, out);
        }
        self.send((now, node), to.index(), Frame::Ask(number, question), out);
    }

    fn waiting(&mut self, node: usize, number: u64) -> Option<&mut Ask> {
        let process = self.machines[node].process.as_mut()?;
        process.asks.waiting.get_mut(&number)
    }

    /// What is known on a machine of the leader of a group.
    fn clues(&self, node: usize, group: GroupId) -> Clues {
        let here = self.machines[node].leader_seen(group).map(member);
        let mesh = self.mesh.core(node);
        mesh.map_or_else(Clues::default, |mesh| Clues::of(mesh, group, here))
    }

    /// A question waits for its answer still: the member that is asked may lead no more.
    pub(super) fn again(
        &mut self,
        now: Time,
        node: usize,
        (number, tries): (u64, u32),
        out: &mut Out,
    ) {
        let waits = |ask: &&mut Ask| ask.tries == tries;
        let Some(ask) = self.waiting(node, number).filter(waits) else {
            return;
        };
        let (group, since) = (ask.question.group, ask.since);
        let clues = self.clues(node, group);
        let ask = self.waiting(node, number);
        let is_overtaken = ask.is_some_and(|ask| ask.search.is_overtaken(&clues));
        if is_overtaken || since.plus_millis(CANDIDATE_MS) <= now {
            let silent = Failure::unknown("it does not answer");
            return self.try_ended((now, node), number, Err(silent), out);
        }
        let again = Due::Again(number, tries);
        self.machines[node].later(now.plus_millis(AGAIN_MS), again);
    }

    /// This machine is asked.
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

    /// An answer arrives. That of a member that is asked no more comes too late.
    pub(super) fn hear_answer(
        &mut self,
        at: At,
        from: usize,
        (number, answer): (u64, Answer),
        out: &mut Out,
    ) {
        let is_asked = |ask: &&mut Ask| ask.search.asked() == Some(member(from));
        if self.waiting(at.1, number).filter(is_asked).is_none() {
            return;
        }
        let answer = match answer {
            Answer::Refused(error) => Err(error.into()),
            answer => Ok((from, answer)),
        };
        self.try_ended(at, number, answer, out);
    }

    /// What came of one try.
    fn try_ended(
        &mut self,
        (now, node): At,
        number: u64,
        answer: Result<(usize, Answer), Failure>,
        out: &mut Out,
    ) {
        let Some(group) = self.waiting(node, number).map(|ask| ask.question.group) else {
            return;
        };
        let named = (self.is_former(node, group), "the group");
        let Some(ask) = self.waiting(node, number) else {
            return;
        };
        let tries = ask.tries;
        match ask.search.answered(now, answer, named) {
            Some(end) => self.answered((now, node), number, end, out),
            None => {
                let again = Due::Elsewhere(number, tries);
                self.machines[node].later(now.plus_millis(AGAIN_MS), again);
            }
        }
    }

    /// Whether another group has taken the place of a virtual cluster's, as far as the machine was told.
    fn is_former(&self, node: usize, group: GroupId) -> bool {
        let process = self.machines[node].process.as_ref();
        let briefing = process.and_then(|it| it.core.briefing());
        let served = briefing.is_some_and(|it| !it.vcs.is_empty());
        let mut births = briefing.into_iter().flat_map(|it| &it.vcs);
        let is_vc = name::kind(group) == name::Kind::Vc;
        is_vc && served && !births.any(|birth| birth.group == group.0)
    }

    /// The next member is asked.
    pub(super) fn again_elsewhere(
        &mut self,
        now: Time,
        node: usize,
        (number, tries): (u64, u32),
        out: &mut Out,
    ) {
        let waits = |ask: &&mut Ask| ask.tries == tries;
        if self.waiting(node, number).filter(waits).is_some() {
            self.try_asking((now, node), number, out);
        }
    }

    fn answered(
        &mut self,
        (now, node): At,
        number: u64,
        answer: Result<(usize, Answer), Failure>,
        out: &mut Out,
    ) {
        let process = self.machines[node].process.as_mut();
        let Some(ask) = process.and_then(|it| it.asks.waiting.remove(&number)) else {
            return;
        };
        if let Purpose::Submit(job) = ask.purpose {
            // What comes once more may be carried out long after it was given up.
            let answer = match &answer {
                Err(_) if self.echo_ms > 0 => Err(&UNSURE),
                answer => answer.as_ref().map(|(_, answer)| answer),
            };
            return self.users.submitted(job, answer, &mut self.account);
        }
        let (from, answer) = answer.map_or((None, None), |(from, it)| (Some(from), Some(it)));
        match ask.purpose {
            Purpose::Submit(_) => {}
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

//! The loop of the cluster's affairs: every member runs it, and answers while it leads.
//!
//! Beside the answers it takes the steps of documents, sees to who has copies of the group, and
//! fetches the bodies that its own copy lacks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::affairs::Affairs;
use crate::affairs::question::{Answer, Asker, Question, Rejection};

/// Questions that may wait.
const QUEUE_MAX: usize = 256;
/// Questions answered at the same time.
const AT_ONCE: usize = 64;
/// How often documents and copies are looked at for their next step.
const STEP_PAUSE: Duration = Duration::from_millis(500);
/// How long virtual clusters are waited for to say what cells they have, after the cluster has gone on from a
/// copy: each asks every ten seconds, and those without a leader for longer than this have to be recovered.
const HEAR_LIMIT: Duration = Duration::from_secs(60);
/// How often bodies are looked for.
const MEND_PAUSE: Duration = Duration::from_secs(10);

/// A question and who waits for its answer.
#[derive(Debug)]
struct Letter {
    from: Asker,
    question: Question,
    reply: oneshot::Sender<Answer>,
}

/// What others hold of the loop.
#[derive(Clone, Debug)]
pub(crate) struct ClusterHandle(mpsc::Sender<Letter>);

impl ClusterHandle {
    /// Asks this node, and waits for the answer.
    pub(crate) async fn ask(&self, from: Asker, question: Question) -> Answer {
        let (reply, answer) = oneshot::channel();
        let letter = Letter {
            from,
            question,
            reply,
        };
        if self.0.try_send(letter).is_err() {
            return unavailable("the agent is overloaded");
        }
        let ended = |_| {
            Answer::Rejected(Rejection::Unknown(
                "the agent is shutting down; it is not known whether this took effect".to_owned(),
            ))
        };
        answer.await.unwrap_or_else(ended)
    }
}

fn unavailable(why: &str) -> Answer {
    Answer::Rejected(Rejection::Unavailable(format!("{why}; try again")))
}

/// The loop itself.
#[derive(Debug)]
pub(crate) struct ClusterLoop {
    affairs: Arc<Affairs>,
    queue: mpsc::Receiver<Letter>,
}

/// A loop, to be run.
pub(crate) fn cluster(affairs: Affairs) -> (ClusterHandle, ClusterLoop) {
    let (sender, queue) = mpsc::channel(QUEUE_MAX);
    let affairs = Arc::new(affairs);
    (ClusterHandle(sender), ClusterLoop { affairs, queue })
}

impl ClusterLoop {
    /// Runs until nobody can ask any more.
    pub(crate) async fn run(self) {
        let Self { affairs, queue } = self;
        tokio::select! {
            () = answer(Arc::clone(&affairs), queue) => {}
            () = lead(&affairs) => {}
            () = mend(&affairs) => {}
        }
    }
}

/// Each question on its own: one that waits for a majority holds nobody up.
async fn answer(affairs: Arc<Affairs>, mut queue: mpsc::Receiver<Letter>) {
    let mut answering = JoinSet::new();
    loop {
        tokio::select! {
            letter = queue.recv(), if answering.len() < AT_ONCE => {
                let Some(letter) = letter else { return };
                let affairs = Arc::clone(&affairs);
                answering.spawn(async move {
                    let answer = affairs.answer(letter.from, letter.question).await;
                    // Whoever went away can ask again.
                    let _ = letter.reply.send(answer);
                });
            }
            Some(_) = answering.join_next() => {}
        }
    }
}

/// Does what the leader has to do, while this node leads.
async fn lead(affairs: &Affairs) {
    let mut led = affairs.group().groups().led();
    let mut pause = interval(STEP_PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reign = None;
    let mut told = 0;
    let mut since = Instant::now();
    loop {
        tokio::select! {
            changed = led.changed() => if changed.is_err() { return },
            _ = pause.tick() => {}
        }
        let group = affairs.group().id();
        let term = led
            .borrow_and_update()
            .get(&group)
            .map(|term| (group, *term));
        if reign != term {
            affairs.begin_to_watch();
            (reign, told, since) = (term, 0, Instant::now());
        }
        // What the copy says that it began with is not to be told as news.
        if term.is_none() || !affairs.begin().await {
            continue;
        }
        told = affairs.publish_since(told).await.unwrap_or(told);
        affairs.step().await;
        if since.elapsed() > HEAR_LIMIT {
            affairs.stop_waiting().await;
        }
        affairs.see_to_copies().await;
    }
}

async fn mend(affairs: &Affairs) {
    let mut pause = interval(MEND_PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pause.tick().await;
        affairs.mend_bodies().await;
    }
}

//! Real sockets on loopback.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::config::{PENDING_MAX, STRANGERS_PER_ADDRESS_MAX};
use super::*;
use crate::key::{NodeKey, Sign as _};
use crate::net::NetCounters;
use crate::net::keys::Ed25519Signer;

const PATIENCE: Duration = Duration::from_secs(30);

struct Node {
    key: NodeKey,
    address: SocketAddr,
    questions: Questions,
    inbound: mpsc::Receiver<Inbound>,
    counters: Arc<NetCounters>,
}

impl Node {
    async fn start() -> Self {
        let signer = Ed25519Signer::generate();
        let counters = Arc::<NetCounters>::default();
        let bound = bind(JoinNetConfig::default(), &signer, Arc::clone(&counters));
        let (questions, inbound) = bound.unwrap();
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listening = questions.listen(vec![anywhere], false).await.unwrap();
        Self {
            address: listening[0],
            key: signer.key(),
            questions,
            inbound,
            counters,
        }
    }

    fn stranger(&self) -> To {
        To {
            address: self.address,
            key: None,
        }
    }

    fn known(&self) -> To {
        To {
            key: Some(self.key),
            ..self.stranger()
        }
    }

    /// Answers everything with who asked and what.
    fn echo(mut self) -> (tokio::task::JoinHandle<()>, Questions, Arc<NetCounters>) {
        let task = tokio::spawn(async move {
            while let Some(inbound) = self.inbound.recv().await {
                let mut answer = inbound.from.0.to_vec();
                answer.extend(inbound.bytes);
                inbound.responder.answer(answer).await;
            }
        });
        (task, self.questions, self.counters)
    }

    fn count(&self, of: impl Fn(&NetCounters) -> &AtomicU64) -> u64 {
        of(&self.counters).load(Ordering::Relaxed)
    }
}

fn echoed(asker: &Node, bytes: &[u8]) -> Vec<u8> {
    [&asker.key.0[..], bytes].concat()
}

#[tokio::test]
async fn a_stranger_asks_to_join_and_hears_from_whom_the_answer_is() {
    let (one, two) = (Node::start().await, Node::start().await);
    let (to, key) = (one.stranger(), one.key);
    let (_task, _one, counters) = one.echo();
    for words in ["may I?", "and now?"] {
        let answer = two
            .questions
            .ask(to, QuestionProtocol::Join, words.into())
            .await;
        assert_eq!(answer, Ok((key, echoed(&two, words.as_bytes()))));
    }
    assert_eq!(counters.join_answered.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn members_alone_try_the_way() {
    let (one, two, three) = (
        Node::start().await,
        Node::start().await,
        Node::start().await,
    );
    let to = one.known();
    one.questions.members([two.key]);
    let (_task, one, _counters) = one.echo();
    let ask = |asker: &Node, bytes: Vec<u8>| {
        let questions = asker.questions.clone();
        async move { questions.ask(to, QuestionProtocol::Echo, bytes).await }
    };
    let body = vec![7; 2 << 10];
    assert_eq!(
        ask(&two, body.clone()).await.unwrap().1,
        echoed(&two, &body)
    );
    let refused = AskError::Unwelcome(to.address);
    assert_eq!(ask(&three, vec![1]).await, Err(refused.clone()));
    // What a connection is refused, the next one gets once the asker is a member.
    one.members([two.key, three.key]);
    assert_eq!(ask(&three, vec![1]).await.unwrap().1, echoed(&three, &[1]));
    one.members([two.key]);
    let late = ask(&three, vec![1]).await;
    assert!(matches!(late, Err(AskError::NoAnswer { .. })), "{late:?}");
}

/// Two questions at the same time make two connections, and whoever was asked may ask back over each.
#[tokio::test]
async fn over_each_connection_both_may_ask() {
    let (one, two) = (Node::start().await, Node::start().await);
    one.questions.members([two.key]);
    two.questions.members([one.key]);
    let (to_one, to_two) = (one.known(), two.known());
    let (key_one, key_two) = (one.key, two.key);
    let (_one_task, one, _) = one.echo();
    let (_two_task, two, _) = two.echo();
    let ask = |asker: &Questions, to: To| {
        let asker = asker.clone();
        async move { asker.ask(to, QuestionProtocol::Echo, vec![1]).await }
    };
    let both = tokio::join!(ask(&two, to_one), ask(&two, to_one), ask(&two, to_one));
    for answer in [both.0, both.1, both.2] {
        assert_eq!(answer.unwrap().0, key_one);
    }
    for _ in 0..8 {
        assert_eq!(ask(&one, to_two).await.unwrap().0, key_two);
    }
}

#[tokio::test]
async fn what_cannot_be_asked_is_said_so() {
    let (one, two) = (Node::start().await, Node::start().await);
    let other = To {
        key: Some(two.key),
        ..one.stranger()
    };
    let ask = |to, bytes| two.questions.ask(to, QuestionProtocol::Join, bytes);
    assert_eq!(
        ask(other, vec![]).await,
        Err(AskError::OtherNode(other.address))
    );
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let there = To { address, key: None };
    let silent = ask(there, vec![]).await.unwrap_err();
    assert!(matches!(silent, AskError::Busy { .. }), "{silent:?}");
    let hangs_up = std::thread::spawn(move || drop((listener.accept(), listener.accept())));
    let refused = ask(there, vec![]).await.unwrap_err();
    assert!(matches!(refused, AskError::Busy { .. }), "{refused:?}");
    assert!(silent.passes() && refused.passes());
    hangs_up.join().unwrap();
    let nobody = ask(there, vec![]).await.unwrap_err();
    assert_eq!(
        nobody.to_string(),
        format!("cannot reach {address}: Connection refused (os error 111)")
    );
    assert!(!nobody.passes(), "{nobody:?}");
    let most = QuestionProtocol::Join.request_bytes_max();
    let long = ask(one.stranger(), vec![0; most + 1]).await;
    assert_eq!(
        long,
        Err(AskError::TooLong {
            bytes: most + 1,
            most
        })
    );
}

#[tokio::test]
async fn a_question_that_nobody_answers_fails() {
    let (mut one, two) = (Node::start().await, Node::start().await);
    let to = one.stranger();
    let asking = two.questions.ask(to, QuestionProtocol::Join, vec![1]);
    let dropping = async { drop(one.inbound.recv().await.unwrap().responder) };
    let (answer, ()) = timeout(PATIENCE, futures::future::join(asking, dropping))
        .await
        .unwrap();
    assert!(
        matches!(answer, Err(AskError::NoAnswer { .. })),
        "{answer:?}"
    );
}

#[tokio::test]
async fn silent_and_many_connections_do_no_harm() {
    let (one, two) = (Node::start().await, Node::start().await);
    one.questions.members([two.key]);
    let to = one.known();
    // Two is in before the flood, as members are.
    let (_task, _one, counters) = one.echo();
    two.questions
        .ask(to, QuestionProtocol::Echo, vec![1])
        .await
        .unwrap();
    let mut silent = Vec::new();
    for _ in 0..2_000 {
        let address = to.address;
        let connect = tokio::task::spawn_blocking(move || TcpStream::connect(address));
        silent.extend(connect.await.unwrap());
    }
    let limited = || counters.join_limited.load(Ordering::Relaxed);
    let wait = async {
        while limited() < 2_000 - PENDING_MAX as u64 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wait)
        .await
        .expect("all but a few are turned away");
    let answer = two.questions.ask(to, QuestionProtocol::Echo, vec![2]).await;
    assert_eq!(answer.unwrap().1, echoed(&two, &[2]));
    drop(silent);
}

#[tokio::test]
async fn strangers_at_one_address_are_few() {
    let one = Node::start().await;
    let to = one.stranger();
    let (_task, _one, counters) = one.echo();
    let mut strangers = Vec::new();
    let mut answered = 0;
    for _ in 0..STRANGERS_PER_ADDRESS_MAX + 4 {
        let stranger = Node::start().await;
        let answer = stranger
            .questions
            .ask(to, QuestionProtocol::Join, vec![1])
            .await;
        answered += usize::from(answer.is_ok());
        strangers.push(stranger);
    }
    assert_eq!(answered, STRANGERS_PER_ADDRESS_MAX);
    assert_eq!(counters.join_limited.load(Ordering::Relaxed), 4);
    assert_eq!(strangers[0].count(|c| &c.join_limited), 0);
}

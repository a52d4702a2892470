//! Requests between members.

use super::*;

const LIMIT: Duration = Duration::from_secs(10);

/// Two members of one cluster.
fn pair() -> (Node, Node) {
    let (one, two) = (Node::start(1), Node::start(2));
    one.knows(&[&two]);
    two.knows(&[&one]);
    (one, two)
}

/// Answers what it is asked with the words behind it, until the endpoint ends.
fn echo(node: &Node) -> tokio::task::JoinHandle<()> {
    let mut requests = node.net.requests();
    tokio::spawn(async move {
        while let Some(asked) = requests.recv().await {
            let answer = [&asked.bytes[..], b" of ", &asked.from.0.to_le_bytes()].concat();
            asked.responder.answer(&answer).await;
        }
    })
}

async fn ask(from: &Node, to: &Node, bytes: &[u8]) -> Result<Vec<u8>, RequestError> {
    let at_once = (to.id, Delivery::AtLeastOnce);
    from.net.request(at_once, bytes, LIMIT).await
}

#[tokio::test]
async fn each_request_has_its_answer_however_long_both_are() {
    let (one, two) = pair();
    echo(&two);
    let long = vec![7; 3 << 20];
    let words: [&[u8]; 3] = [b"a", &long, b""];
    let asked = words.map(|words| ask(&one, &two, words));
    let answers = futures::future::join_all(asked).await;
    for (words, answer) in words.iter().zip(answers) {
        let expect = [words, b" of ".as_slice(), &1_u32.to_le_bytes()].concat();
        assert!(answer == Ok(expect), "of {} bytes", words.len());
    }
    let once = (two.id, Delivery::AtMostOnce);
    let answer = one.net.request(once, b"b", LIMIT).await;
    assert_eq!(answer.unwrap(), b"b of \x01\0\0\0");
    assert_eq!(two.count(|counters| &counters.requests_in), 4);
}

/// A member that is gone without a word: its link seems to be there.
#[tokio::test]
async fn what_must_not_be_sent_twice_is_not_sent_to_who_is_gone() {
    let (one, two) = pair();
    echo(&two);
    ask(&one, &two, b"a").await.unwrap();
    two.net.close_port();
    let once = (two.id, Delivery::AtMostOnce);
    let asked = one.net.request(once, b"b", LIMIT).await;
    assert_eq!(asked, Err(RequestError::Unreachable));
    let limit = Duration::from_millis(300);
    let at_once = (two.id, Delivery::AtLeastOnce);
    let asked = one.net.request(at_once, b"b", limit).await;
    assert!(matches!(asked, Err(RequestError::NoAnswer(_))), "{asked:?}");
}

#[tokio::test]
async fn who_cannot_be_asked_was_sent_nothing() {
    let (one, two, three) = (Node::start(1), Node::start(2), Node::start(3));
    assert_eq!(ask(&one, &two, b"a").await, Err(RequestError::Unknown));
    let long = vec![0; MESSAGE_BYTES_MAX + 1];
    one.knows(&[&two, &three]);
    let refused = ask(&one, &two, &long).await;
    assert_eq!(refused, Err(RequestError::TooLong(long.len())));
    two.net.close().await;
    let asked = ask(&one, &two, b"a").await;
    assert_eq!(asked, Err(RequestError::Unreachable));
    assert_eq!(one.count(|counters| &counters.requests_out), 0);
}

#[tokio::test]
async fn without_an_answer_it_is_not_known_what_became_of_it() {
    let (one, two) = pair();
    // Nobody takes requests there.
    let asked = ask(&one, &two, b"a").await;
    assert!(matches!(asked, Err(RequestError::NoAnswer(_))), "{asked:?}");
    two.counted(1, |counters| &counters.requests_refused).await;
    // Somebody does, and answers nothing in time.
    let mut requests = two.net.requests();
    let limit = Duration::from_millis(300);
    let at_once = (two.id, Delivery::AtLeastOnce);
    let asking = one.net.request(at_once, b"a", limit);
    let (asked, taken) = tokio::join!(asking, requests.recv());
    assert!(matches!(asked, Err(RequestError::NoAnswer(_))), "{asked:?}");
    drop(taken);
    // Or ends meanwhile.
    let asking = ask(&one, &two, b"a");
    let ending = async {
        let taken = requests.recv().await;
        two.net.close().await;
        drop(taken);
    };
    let (asked, ()) = tokio::join!(asking, ending);
    assert!(matches!(asked, Err(RequestError::NoAnswer(_))), "{asked:?}");
}

#[tokio::test]
async fn a_stranger_is_not_heard() {
    let (one, two) = (Node::start(1), Node::start(2));
    one.knows(&[&two]);
    let mut requests = two.net.requests();
    let limit = Duration::from_millis(500);
    let at_once = (two.id, Delivery::AtLeastOnce);
    let asked = one.net.request(at_once, b"a", limit).await;
    assert!(asked.is_err(), "{asked:?}");
    assert!(requests.try_recv().is_err());
    assert_eq!(two.count(|counters| &counters.requests_in), 0);
}

/// A link that another one replaces is closed once its requests have their answers.
#[tokio::test]
async fn a_request_outlives_the_place_of_its_link() {
    let (one, two) = pair();
    let mut requests = two.net.requests();
    let asking = ask(&one, &two, b"a");
    let answering = async {
        let asked = requests.recv().await.expect("the endpoint lives");
        // The same member on another connection, as after a restart that was not noticed.
        let signer = Ed25519Signer::from_bytes(&one.signer.seed()).unwrap();
        let again = Node::with(1, signer, QuicConfig::new(CLUSTER));
        again.knows(&[&two]);
        again.say(&two, Lane::Liveness, "hello");
        two.counted(1, |counters| &counters.duplicate_link).await;
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        asked.responder.answer(b"b").await;
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(answer, Ok(b"b".to_vec()));
}

/// A member that leaves hears that it has left.
#[tokio::test]
async fn who_is_removed_hears_the_answer_that_is_on_its_way() {
    let (one, two) = pair();
    let mut requests = two.net.requests();
    let asking = ask(&one, &two, b"a");
    let answering = async {
        let asked = requests.recv().await.expect("the endpoint lives");
        two.knows(&[]);
        // What it asks from then on is not heard.
        let late = ask(&one, &two, b"late").await;
        assert!(late.is_err(), "{late:?}");
        asked.responder.answer(b"b").await;
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(answer, Ok(b"b".to_vec()));
    assert!(requests.try_recv().is_err());
}

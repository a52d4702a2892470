//! Terminals of tasks on pages of the portal: who has one, and what goes over its WebSocket.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use muster_model::state::SubState;
use serde_json::{Value, json};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::pages::{ask, page};
use super::serving::Served;
use super::sessions::{TestSocket, served};
use super::setup::*;

const TERMINAL: &str = "/jobs/ann~job/tasks/worker/0/terminal";
const CONNECT: &str = "/jobs/ann~job/tasks/worker/0/terminal/connect?width=20&height=4";
const HERE: &str = "http://127.0.0.1";

/// A WebSocket of a browser, or the status of the refusal and what it says.
async fn connected(
    served: &Served,
    (token, origin): (&str, &str),
    path: &str,
) -> Result<TestSocket, (u16, String)> {
    let mut request = format!("ws://127.0.0.1{path}")
        .into_client_request()
        .unwrap();
    let headers = request.headers_mut();
    if !token.is_empty() {
        let cookie = format!("muster_session={token}");
        headers.insert("cookie", cookie.parse().unwrap());
    }
    headers.insert("origin", origin.parse().unwrap());
    match client_async(request, served.connect().await).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(answer)) => {
            let body = answer.body().clone().unwrap_or_default();
            let text = String::from_utf8_lossy(&body).into_owned();
            Err((answer.status().as_u16(), text))
        }
        Err(error) => panic!("{error}"),
    }
}

/// Sends a message, to a node that may have closed the connection by now.
async fn say(socket: &mut TestSocket, message: Value) {
    let message = Message::Text(message.to_string().into());
    let _ = socket.send(message).await;
}

/// The next message. None if none comes for half a second, or at the end.
async fn hear(socket: &mut TestSocket) -> Option<Value> {
    let patience = Duration::from_millis(500);
    loop {
        match tokio::time::timeout(patience, socket.next()).await {
            Ok(Some(Ok(Message::Text(text)))) => return Some(serde_json::from_str(&text).unwrap()),
            Err(_) | Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) => return None,
            Ok(Some(Ok(_))) => {}
        }
    }
}

/// Messages, each of which is shown, until one has this.
async fn hear_until(socket: &mut TestSocket, part: &str) -> Value {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    let mut heard = Vec::new();
    while tokio::time::Instant::now() < deadline {
        let Some(message) = hear(socket).await else {
            continue;
        };
        say(socket, json!("seen")).await;
        if message.to_string().contains(part) {
            return message;
        }
        heard.push(message);
    }
    panic!("{part:?} is not in {heard:?}");
}

#[tokio::test]
async fn what_is_typed_reaches_the_program_and_what_it_writes_the_page() {
    let served = served().await;
    for token in ["ann-token", "admin-token"] {
        let mut socket = connected(&served, (token, HERE), CONNECT).await.unwrap();
        let first = hear_until(&mut socket, "size").await;
        assert_eq!(first["size"], json!([20, 4]));
        // The fake says again what it reads.
        say(&mut socket, json!({"text": "\u{1b}[31mhello"})).await;
        let update = hear_until(&mut socket, "hello").await;
        assert_eq!(update["rows"], json!([[0, [["hello", "f1"]]]]));
        assert_eq!(update["cursor"], json!([5, 0, true]));
        say(&mut socket, json!({"key": ["ArrowDown", 0]})).await;
        let update = hear_until(&mut socket, "cursor").await;
        assert_eq!(update, json!({"cursor": [5, 1, true]}));
        // From now on the program wants other keys, and is told of sizes.
        say(
            &mut socket,
            json!({"text": "\u{1b}[?1h\u{1b}[?2004h\u{1b}[H"}),
        )
        .await;
        hear_until(&mut socket, "[0,0,true]").await;
        say(&mut socket, json!({"size": [9, 3]})).await;
        let update = hear_until(&mut socket, "Width").await;
        assert!(update.to_string().contains("\"Wid"), "{update}");
        say(&mut socket, json!({"key": ["d", 4]})).await;
        let end = hear_until(&mut socket, "end").await;
        assert_eq!(end, json!({"end": "The shell has ended with exit code 3."}));
        assert_eq!(hear(&mut socket).await, None);
    }
    served.stop().await;
}

#[tokio::test]
async fn a_page_that_shows_nothing_is_sent_little() {
    let served = served().await;
    let mut socket = connected(&served, ("ann-token", HERE), CONNECT)
        .await
        .unwrap();
    for number in 0..200 {
        say(
            &mut socket,
            json!({"paste": format!("{number}\n").repeat(100)}),
        )
        .await;
        // Longer than between two updates.
        if number % 10 == 0 {
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    }
    let mut heard = Vec::new();
    while let Some(message) = hear(&mut socket).await {
        heard.push(message);
    }
    // One more asks whether the page is there.
    assert!(heard.len() <= 3, "{heard:#?}");
    say(&mut socket, json!("seen")).await;
    let rest = hear_until(&mut socket, "199").await;
    let past = rest["past"].as_array().map_or(0, Vec::len);
    assert!(past <= 1000, "{past} rows");
    served.stop().await;
}

#[tokio::test]
async fn why_there_is_no_shell_is_said_on_the_page() {
    let served = served().await;
    let waits = CONNECT.replace("~job", "~waits");
    let mut socket = connected(&served, ("ann-token", HERE), &waits)
        .await
        .unwrap();
    let end = hear(&mut socket).await.unwrap();
    assert!(
        end["end"].as_str().unwrap().contains("worker:0 is"),
        "{end}"
    );
    let mut socket = connected(&served, ("ann-token", HERE), CONNECT)
        .await
        .unwrap();
    // No end of a line: that is the key Enter.
    say(&mut socket, json!({"text": "break"})).await;
    hear_until(&mut socket, "break").await;
    say(&mut socket, json!({"nothing": "that there is"})).await;
    say(&mut socket, json!({"key": ["c", 4]})).await;
    say(&mut socket, json!({"text": "\u{18}broken"})).await;
    let end = hear_until(&mut socket, "end").await;
    let why = end["end"].as_str().unwrap();
    assert!(
        why.contains("the connection to the task's node broke"),
        "{end}"
    );
    served.stop().await;
}

#[tokio::test]
async fn only_the_page_of_a_job_s_owner_is_connected() {
    let served = served().await;
    let other = CONNECT.replace("ann~", "admin~");
    let ann = ("ann-token", HERE);
    for (who, path, status, text) in [
        (ann, other.as_str(), 403, "not allowed"),
        (("program-token", HERE), CONNECT, 403, "Applications"),
        // The way to a login.
        (("", HERE), CONNECT, 303, ""),
        (("none", HERE), CONNECT, 303, ""),
        (
            ("ann-token", "http://127.0.0.1:20001"),
            CONNECT,
            403,
            "may not open a terminal",
        ),
        (
            ("ann-token", "https://elsewhere.example"),
            CONNECT,
            403,
            "may not open a terminal",
        ),
        (
            ("ann-token", "null"),
            CONNECT,
            403,
            "may not open a terminal",
        ),
        (
            ann,
            &CONNECT.replace("width=20", "width=0"),
            400,
            "width must be",
        ),
    ] {
        let (said, body) = connected(&served, who, path).await.err().unwrap();
        assert_eq!(said, status, "{who:?} {path}: {body}");
        assert!(body.contains(text), "{who:?} {path}: {body}");
    }
    let setup = &served.setup;
    let plain = ask(setup, "ann-token", "GET", CONNECT, "").await;
    assert_eq!(plain.status, 426, "{}", plain.text());
    for missing in [
        TERMINAL.replace("worker/0", "worker/7"),
        TERMINAL.replace("~job", "~none"),
    ] {
        let answer = ask(setup, "ann-token", "GET", &missing, "").await;
        assert_eq!(answer.status, 404, "{missing}: {}", answer.text());
    }
    served.stop().await;
}

#[tokio::test]
async fn the_page_of_a_job_leads_its_owner_to_terminals() {
    let setup = Setup::new();
    setup.fake.put(placed("ann~job", SubState::AttemptRunning));
    setup
        .fake
        .put(placed("ann~waits", SubState::AttemptPreparing));
    setup
        .fake
        .put(placed("admin~job", SubState::AttemptRunning));
    let link = "/jobs/ann%7Ejob/tasks/worker/1/terminal";
    for token in ["ann-token", "admin-token"] {
        let text = page(&setup, token, "/jobs/ann~job").await;
        assert!(text.contains(&format!("href=\"{link}\"")), "{text}");
    }
    for path in ["/jobs/admin~job", "/jobs/ann~waits"] {
        let text = page(&setup, "ann-token", path).await;
        assert!(!text.contains("/terminal"), "{path}: {text}");
    }
    let text = page(&setup, "ann-token", link).await;
    for part in [
        "<noscript>",
        "muster job exec -it ann~job:worker:1",
        "data-connect=\"/jobs/ann%7Ejob/tasks/worker/1/terminal/connect\"",
        "Ctrl+Shift+L",
        "/assets/terminal.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let script = text
        .split('"')
        .find(|it| it.starts_with("/assets/terminal."));
    let script = setup.guest("GET", script.unwrap()).await;
    assert_eq!(script.status, 200);
    assert!(script.text().contains("WebSocket"));
    for path in [TERMINAL, link] {
        let other = ask(
            &setup,
            "ann-token",
            "GET",
            &path.replace("ann", "admin"),
            "",
        )
        .await;
        assert_eq!(other.status, 403, "{}", other.text());
    }
}

//! Requests of an admin, and what is expected of the answers.

use serde_json::{Value, json};

use super::setup::*;

/// Asks, and expects this status and this message.
pub(super) async fn done(
    setup: &Setup,
    (method, path): (&str, &str),
    body: Value,
    status: u16,
    text: &str,
) {
    let path = format!("/api/v2/{path}");
    let answer = setup.send(ADMIN, method, &path, &body.to_string()).await;
    let got = (answer.status.as_u16(), answer.json());
    assert_eq!(got, (status, json!({"message": text})), "{method} {path}");
}

/// Asks, and expects this status, code, and part of the message.
pub(super) async fn refused(
    setup: &Setup,
    ask: (&str, &str, &str),
    body: &str,
    want: (u16, &str, &str),
) {
    let (token, method, path) = ask;
    let path = format!("/api/v2/{path}");
    let answer = setup.send(token, method, &path, body).await;
    let (status, code, part) = want;
    let json = answer.json();
    let got = (answer.status.as_u16(), json["code"].as_str().unwrap_or(""));
    assert_eq!(got, (status, code), "{method} {path} {body} {json}");
    let message = json["message"].as_str().unwrap();
    assert!(message.contains(part), "{method} {path} {body} {message}");
}

/// A user as an admin sees them.
pub(super) async fn user(setup: &Setup, name: &str) -> Value {
    setup
        .get(ADMIN, &format!("/api/v2/users/{name}"))
        .await
        .json()
}

/// The status of a login.
pub(super) async fn log_in(setup: &Setup, user: &str, password: &str) -> u16 {
    let body = json!({"username": user, "password": password}).to_string();
    let answer = setup.send("", "POST", "/api/v2/tokens", &body).await;
    answer.status.as_u16()
}

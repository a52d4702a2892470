//! The identity provider logs people out.

use muster_model::user_token::NewUserToken;
use serde_json::{Value, json};

use super::oidc::{Bench, sign, with};
use super::setup::*;
use crate::fake::{ISSUER, SigningKey};
use crate::port::Users as _;

const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
const LOGIN: &str = "vouched-token-of-ada";

fn claims(number: &str) -> Value {
    json!({
        "iss": ISSUER,
        "aud": "muster",
        "iat": crate::clock::now_s(),
        "exp": crate::clock::now_s() + 120,
        "jti": number,
        "sub": "s-17",
        "sid": "session-1",
        "events": {EVENT: {}},
    })
}

async fn log_out(bench: &Bench, token: &str) -> WholeAnswer {
    let body = format!("logout_token={token}&other=1");
    let ask = TestRequest {
        method: "POST",
        path: "/api/v1/authn/oidc/backchannel-logout",
        headers: &[("content-type", "application/x-www-form-urlencoded")],
        body: &body,
    };
    bench.setup.ask(ask).await
}

/// Ada has logged in, and has a token of a program.
async fn logged_in(bench: &Bench) -> String {
    let answer = bench.log_in(json!({})).await;
    assert_eq!(answer.status, 302, "{}", answer.text());
    let ada = "ada".parse().unwrap();
    let by = super::oidc::author();
    let issued = bench
        .setup
        .fake
        .issue_token(&by, &ada, NewUserToken::default());
    issued.await.unwrap().text.0
}

async fn is_valid(bench: &Bench, token: &str) -> bool {
    bench.setup.fake.check_token(token).await.is_ok()
}

#[tokio::test]
async fn a_logout_ends_the_logins_of_its_person_and_nothing_else() {
    let bench = Bench::new().await;
    let program = logged_in(&bench).await;
    let other = json!({"sub": "s-18", "preferred_username": "bob"});
    assert_eq!(bench.log_in(other).await.status, 302);
    let first = sign(&bench.key, &claims("j-1"));
    let answer = log_out(&bench, &first).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, ""));
    assert_eq!(answer.header("cache-control"), "no-store");
    assert!(!is_valid(&bench, LOGIN).await, "her login");
    assert!(is_valid(&bench, &program).await, "her program");
    assert!(is_valid(&bench, "vouched-token-of-bob").await, "others");
    assert!(
        is_valid(&bench, "ann-token").await,
        "users who were made here"
    );
    // A replay does not end a later login.
    logged_in(&bench).await;
    let again = log_out(&bench, &first).await;
    assert_eq!(again.status, 400, "{}", again.text());
    assert!(again.text().contains("used before"), "{}", again.text());
    assert!(is_valid(&bench, LOGIN).await);
    // A person who never logged in here.
    let stranger = with(&claims("j-2"), json!({"sub": "s-99"}));
    assert_eq!(
        log_out(&bench, &sign(&bench.key, &stranger)).await.status,
        200
    );
    let next = sign(
        &bench.key,
        &with(&claims("j-3"), json!({"sid": null, "exp": null})),
    );
    assert_eq!(log_out(&bench, &next).await.status, 200);
    assert!(!is_valid(&bench, LOGIN).await);
}

#[tokio::test]
async fn tokens_that_are_no_logout_tokens_for_this_cluster_end_nothing() {
    let bench = Bench::new().await;
    logged_in(&bench).await;
    let now_s = crate::clock::now_s();
    for (name, other, told) in [
        ("issuer", json!({"iss": "https://evil.example"}), "Issuer"),
        ("no issuer", json!({"iss": null}), "iss"),
        ("audience", json!({"aud": "another-client"}), "Audience"),
        ("no audience", json!({"aud": null}), "aud"),
        ("expired", json!({"exp": now_s - 120}), "Expired"),
        ("old", json!({"iat": now_s - 600, "exp": null}), "iat"),
        ("of the future", json!({"iat": now_s + 600}), "iat"),
        ("no time", json!({"iat": null}), "iat"),
        ("no events", json!({"events": null}), "events"),
        ("another event", json!({"events": {"x": {}}}), "events"),
        ("a plain event", json!({"events": {EVENT: true}}), "events"),
        ("a nonce", json!({"nonce": "n"}), "nonce"),
        ("no number", json!({"jti": null}), "jti"),
        ("nobody", json!({"sub": null, "sid": null}), "neither"),
        (
            "a session alone",
            json!({"sub": null}),
            "have the provider send both",
        ),
    ] {
        let token = sign(&bench.key, &with(&claims("j-1"), other));
        let answer = log_out(&bench, &token).await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.text());
        assert!(answer.text().contains("LogoutTokenError"), "{name}");
        assert!(answer.text().contains(told), "{name}: {}", answer.text());
    }
    let stranger = SigningKey::new("k1").unwrap();
    for token in [&sign(&stranger, &claims("j-1")), "nonsense", "a.b.c"] {
        assert_eq!(log_out(&bench, token).await.status, 400);
    }
    assert_eq!(log_out(&bench, "").await.status, 400);
    assert!(is_valid(&bench, LOGIN).await);
    // None of them has used up its number.
    assert_eq!(
        log_out(&bench, &sign(&bench.key, &claims("j-1")))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_logout_is_believed_with_new_keys_and_needs_a_provider() {
    let mut bench = Bench::new().await;
    logged_in(&bench).await;
    bench.key = SigningKey::new("k2").unwrap();
    bench.setup.fake.publish_keys(vec![bench.key.jwk()]);
    assert_eq!(
        log_out(&bench, &sign(&bench.key, &claims("j-1")))
            .await
            .status,
        200
    );
    assert!(!is_valid(&bench, LOGIN).await);
    let path = "/api/v1/authn/oidc/backchannel-logout";
    assert_eq!(Setup::new().guest("POST", path).await.status, 404);
}

//! Logins by the device flow: the whole way, over several nodes, and attacks on each step of it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::oidc::{Bench, node_with, oidc, sign, with};
use super::setup::*;
use crate::clock::now_s;
use crate::fake::{ISSUER, SigningKey};
use crate::gateway::Gateway;
use crate::oidc::device::DeviceFlight;
use crate::peer::RemoteEnd;
use crate::port::{DeviceOutcome, Users as _};

const BEGIN: &str = "/api/muster/v1/authn/device";
const POLL: &str = "/api/muster/v1/authn/device/token";

async fn post(setup: &Setup, path: &str, body: &Value) -> WholeAnswer {
    let ask = TestRequest {
        method: "POST",
        path,
        headers: &[("content-type", "application/json")],
        body: &body.to_string(),
    };
    setup.ask(ask).await
}

/// A login that begins; its handle.
async fn begin(setup: &Setup) -> String {
    let answer = post(setup, BEGIN, &json!({"name": "desk"})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["handle"].as_str().unwrap().to_owned()
}

async fn poll(setup: &Setup, handle: &str) -> WholeAnswer {
    post(setup, POLL, &json!({ "handle": handle })).await
}

/// There is no nonce in the device flow.
fn claims() -> Value {
    json!({
        "iss": ISSUER,
        "aud": "muster",
        "sub": "s-17",
        "exp": now_s() + 300,
        "preferred_username": "ada",
        "groups": ["/lab/vision"],
    })
}

impl Bench {
    /// The person logs in at the provider, which signs these claims.
    fn grant(&self, claims: &Value) {
        let token = sign(&self.key, claims);
        self.setup.fake.settle_device(DeviceOutcome::Granted(token));
    }

    /// The same cluster, at another node.
    fn other_node(&self) -> Setup {
        Setup {
            fake: Arc::clone(&self.setup.fake),
            gateway: Gateway::new(self.setup.fake.ports(), node_with(oidc())),
            peer: self.setup.peer,
        }
    }
}

#[tokio::test]
async fn a_person_logs_in_on_another_device_and_is_a_user_as_by_a_browser() {
    let bench = Bench::new().await;
    let answer = post(&bench.setup, BEGIN, &json!({"name": "desk"})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let begun = answer.json();
    let handle = begun["handle"].as_str().unwrap().to_owned();
    let mut shown = begun.clone();
    shown.as_object_mut().unwrap().remove("handle");
    let expect = json!({
        "userCode": "WDJB-MJHT",
        "verificationUri": "https://id.example/device",
        "verificationUriComplete": "https://id.example/device?user_code=WDJB-MJHT",
        "intervalSeconds": 5,
        "expiresInSeconds": 600,
    });
    assert_eq!(shown, expect);
    assert!(!handle.contains("device-1"), "the code is told: {handle}");
    for _ in 0..2 {
        let answer = poll(&bench.setup, &handle).await;
        assert_eq!(
            (answer.status.as_u16(), answer.text()),
            (202, r#"{"status":"pending"}"#)
        );
    }
    bench.setup.fake.settle_device(DeviceOutcome::SlowDown);
    let answer = poll(&bench.setup, &handle).await;
    assert_eq!(
        (answer.status.as_u16(), answer.text()),
        (202, r#"{"status":"slowDown"}"#)
    );
    bench.grant(&claims());
    let answer = poll(&bench.setup, &handle).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let expect = json!({"user": "ada", "token": "vouched-token-of-ada", "admin": false});
    assert_eq!(answer.json(), expect);
    assert_eq!(bench.groups("ada").await, ["default", "vision"]);
    assert_eq!(bench.changes("ada").await, ["user.add"]);
    let tokens = bench
        .setup
        .fake
        .token_views(&"ada".parse().unwrap())
        .await
        .unwrap();
    assert_eq!(tokens[0].name, "desk");
    let records = bench
        .setup
        .fake
        .audit(Some("ada"), 100)
        .await
        .unwrap()
        .records;
    assert!(
        records.iter().any(|it| it.action == "token.issue"),
        "{records:?}"
    );
}

#[tokio::test]
async fn any_node_can_be_asked_and_a_login_ends_once() {
    let bench = Bench::new().await;
    let (first, other) = (&bench.setup, bench.other_node());
    let handle = begin(first).await;
    assert_eq!(poll(&other, &handle).await.status, 202);
    bench.grant(&claims());
    let answer = poll(&other, &handle).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let again = poll(&other, &handle).await;
    assert_eq!(again.status, 400, "a replay: {}", again.text());
    assert!(again.text().contains("LoginHandleError"));
    // The other node remembers nothing of it: the provider refuses its code.
    let again = poll(first, &handle).await;
    assert_eq!(again.status, 401, "a replay elsewhere: {}", again.text());
    let two = begin(first).await;
    bench.grant(&with(
        &claims(),
        json!({"sub": "s-18", "preferred_username": "bob"}),
    ));
    let answer = poll(first, &two).await;
    assert_eq!(answer.json()["user"], "bob", "{}", answer.text());
}

#[tokio::test]
async fn a_person_may_refuse_or_take_too_long() {
    let bench = Bench::new().await;
    for (outcome, status, code) in [
        (DeviceOutcome::Denied, 403, "LoginDeniedError"),
        (DeviceOutcome::Expired, 400, "LoginExpiredError"),
    ] {
        let handle = begin(&bench.setup).await;
        bench.setup.fake.settle_device(outcome);
        let answer = poll(&bench.setup, &handle).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(answer.text().contains(code), "{}", answer.text());
        assert_eq!(poll(&bench.setup, &handle).await.status, 401);
    }
    assert!(bench.setup.fake.user("ada").await.is_err());
}

#[tokio::test]
async fn a_handle_is_good_for_as_long_as_its_code_and_the_provider_is_not_asked_after_that() {
    let bench = Bench::new().await;
    let handle = begin(&bench.setup).await;
    bench.grant(&claims());
    let key = bench.setup.gateway.config().log_link_key.borrow().clone();
    let sealed = |until_s| {
        let flight = DeviceFlight::open(&key, &handle).unwrap();
        DeviceFlight { until_s, ..flight }.seal(&key).unwrap()
    };
    let late = poll(&bench.setup, &sealed(now_s())).await;
    assert_eq!(late.status, 400, "{}", late.text());
    assert!(late.text().contains("LoginExpiredError"), "{}", late.text());
    // The code was not redeemed meanwhile.
    assert_eq!(poll(&bench.setup, &sealed(now_s() + 60)).await.status, 200);
}

#[tokio::test]
async fn a_handle_that_no_member_has_sealed_is_refused_unasked() {
    let bench = Bench::new().await;
    let handle = begin(&bench.setup).await;
    bench.grant(&claims());
    let flipped = match handle.strip_prefix('A') {
        Some(rest) => format!("B{rest}"),
        None => format!("A{}", &handle[1..]),
    };
    // A login of a browser is sealed with the same key, for another purpose.
    let begun = bench.setup.guest(
        "GET",
        "/api/v1/authn/oidc/login?redirect_uri=http%3A%2F%2Fportal.example%2F",
    );
    let begun = begun.await;
    let cookie = begun.header("set-cookie").split(';').next().unwrap();
    let cookie = cookie.strip_prefix("muster-login=").map(str::to_owned);
    let long = "A".repeat(64 << 10);
    for (name, forged) in [
        ("changed", flipped.as_str()),
        ("shorter", &handle[..handle.len() - 1]),
        ("the code itself", "device-1"),
        ("a browser's", cookie.as_deref().unwrap_or("x")),
        ("long", &long),
        ("no base64", "\u{e4}=/+"),
    ] {
        let answer = poll(&bench.setup, forged).await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.text());
        assert!(
            answer.text().contains("LoginHandleError"),
            "{name}: {}",
            answer.text()
        );
    }
    for body in [
        json!({}),
        json!({"handle": ""}),
        json!({"handle": 1}),
        json!({"handle": handle, "x": 1}),
    ] {
        let answer = post(&bench.setup, POLL, &body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.text().contains("InvalidParametersError"), "{body}");
    }
    let answer = poll(&bench.setup, &handle).await;
    assert_eq!(
        answer.status,
        200,
        "nothing was redeemed: {}",
        answer.text()
    );
}

#[tokio::test]
async fn id_tokens_that_are_not_for_this_cluster_are_refused() {
    let bench = Bench::new().await;
    let now_s = crate::clock::now_s();
    let stranger = SigningKey::new("k1").unwrap();
    let refused = async |name: &str, token: String| {
        let handle = begin(&bench.setup).await;
        bench
            .setup
            .fake
            .settle_device(DeviceOutcome::Granted(token));
        let answer = poll(&bench.setup, &handle).await;
        assert_eq!(answer.status, 401, "{name}: {}", answer.text());
        assert!(answer.text().contains("IdentityProviderError"), "{name}");
        assert_eq!(
            poll(&bench.setup, &handle).await.status,
            400,
            "{name}: ended"
        );
    };
    for (name, other) in [
        ("issuer", json!({"iss": "https://evil.example"})),
        ("audience", json!({"aud": "another-client"})),
        ("expired", json!({"exp": now_s - 120})),
        ("no subject", json!({"sub": null})),
        ("another party", json!({"azp": "another-client"})),
        ("a browser's login", json!({"nonce": "n-1"})),
    ] {
        refused(name, sign(&bench.key, &with(&claims(), other))).await;
    }
    refused("signature", sign(&stranger, &claims())).await;
    refused("no token", "nonsense".to_owned()).await;
    // A user who was made here is not this person.
    let ann = with(&claims(), json!({"preferred_username": "ann"}));
    refused("a local user", sign(&bench.key, &ann)).await;
    assert!(bench.setup.fake.user("ada").await.is_err());
}

#[tokio::test]
async fn without_a_device_flow_other_ways_are_named() {
    let ask = async |setup: &Setup| post(setup, BEGIN, &json!({})).await;
    let told = |answer: WholeAnswer| {
        assert_eq!(answer.status, 404);
        assert!(answer.text().contains("NoDeviceLoginError"));
        answer.text().to_owned()
    };
    let text = told(ask(&Setup::new()).await);
    assert!(
        text.contains("no identity provider") && text.contains("--password"),
        "{text}"
    );
    let bench = Bench::new().await;
    bench.setup.fake.set_device_flow(false);
    let text = told(ask(&bench.setup).await);
    assert!(
        text.contains("--password") && text.contains("browser"),
        "{text}"
    );
    let mut without = oidc();
    without.passwords = false;
    let bench = Bench::with(without).await;
    bench.setup.fake.set_device_flow(false);
    let text = told(ask(&bench.setup).await);
    assert!(
        !text.contains("--password") && text.contains("browser"),
        "{text}"
    );
    // A provider that refuses the client.
    let mut without = oidc();
    without.scopes = vec!["groups".to_owned()];
    let bench = Bench::with(without).await;
    let answer = ask(&bench.setup).await;
    assert_eq!(answer.status, 401, "{}", answer.text());
    let answer = post(&bench.setup, BEGIN, &json!({"name": " x"})).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
}

#[tokio::test]
async fn one_address_asks_the_provider_only_so_often() {
    let bench = Bench::new().await;
    let mut setup = bench.other_node();
    setup.peer = RemoteEnd::Tcp([10, 0, 1, 1].into());
    let handle = begin(&setup).await;
    let mut answers = Vec::new();
    for _ in 0..130 {
        answers.push(poll(&setup, &handle).await.status.as_u16());
    }
    assert!(answers[..119].iter().all(|it| *it == 202), "{answers:?}");
    assert!(answers[119..].iter().all(|it| *it == 429), "{answers:?}");
    assert_eq!(post(&setup, BEGIN, &json!({})).await.status, 429);
    setup.peer = RemoteEnd::Tcp([10, 0, 1, 2].into());
    assert_eq!(poll(&setup, &handle).await.status, 202, "another address");
    assert_eq!(setup.guest("GET", "/api/v1/authn/info").await.status, 200);
}

//! Logins by an identity provider: the whole way, and attacks on each step of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use muster_model::people::{GroupAcl, NewGroup, PeopleChange};
use serde_json::{Value, json};

use super::setup::*;
use crate::config::GatewayConfig;
use crate::fake::{ISSUER, SigningKey};
use crate::host_names::HostNames;
use crate::oidc::{OidcConfig, OidcLogins};
use crate::port::Users as _;

const PORTAL: &str = "http://portal.example/done";
const LOGIN: &str =
    "/api/v1/authn/oidc/login?redirect_uri=http%3A%2F%2Fportal.example%2Fdone&from=%2Fjobs";

pub(super) fn oidc() -> OidcConfig {
    let group = |name: &str| [name.parse().unwrap()].into();
    OidcConfig {
        issuer: ISSUER.to_owned(),
        client_id: "muster".to_owned(),
        scopes: vec!["openid".to_owned(), "groups".to_owned()],
        name_claim: "preferred_username".to_owned(),
        groups_claim: "groups".to_owned(),
        groups: BTreeMap::from([
            ("/lab/vision".to_owned(), group("vision")),
            ("/lab/speech".to_owned(), group("speech")),
            ("/lab/gone".to_owned(), group("gone")),
        ]),
        public_url: None,
        portals: vec!["http://portal.example".to_owned()],
        passwords: true,
    }
}

pub(super) struct Bench {
    pub(super) setup: Setup,
    pub(super) key: SigningKey,
}

/// A login that was begun: what the provider was asked, and the browser's cookie.
struct Begun {
    asked: BTreeMap<String, String>,
    cookie: String,
}

impl Bench {
    pub(super) async fn new() -> Self {
        Self::with(oidc()).await
    }

    pub(super) async fn with(oidc: OidcConfig) -> Self {
        let setup = Setup::with(node_with(oidc));
        let key = SigningKey::new("k1").unwrap();
        setup
            .fake
            .publish_keys(vec![json!({"kty": "odd"}), key.jwk()]);
        for name in ["vision", "speech", "other"] {
            let group = PeopleChange::AddGroup(NewGroup {
                name: name.parse().unwrap(),
                description: String::new(),
                external_name: String::new(),
                acl: GroupAcl::default(),
                extension: "{}".to_owned(),
            });
            setup.fake.change(&author(), group).await.unwrap();
        }
        Self { setup, key }
    }

    async fn ask(&self, path: &str, cookie: &str, host: &str) -> WholeAnswer {
        let headers = [("host", host), ("cookie", cookie)];
        self.setup
            .ask(TestRequest {
                method: "GET",
                path,
                headers: &headers,
                body: "",
            })
            .await
    }

    async fn begin(&self) -> Begun {
        self.begin_at(LOGIN).await
    }

    async fn begin_at(&self, path: &str) -> Begun {
        let answer = self.ask(path, "", "n1:7741").await;
        assert_eq!(answer.status, 302, "{}", answer.text());
        let place = location(&answer);
        let set = answer.headers["set-cookie"].to_str().unwrap().to_owned();
        for part in ["HttpOnly", "SameSite=Lax", "Max-Age=600", "Path=/"] {
            assert!(set.contains(part), "{set}");
        }
        Begun {
            asked: parameters(&place),
            cookie: set.split(';').next().unwrap().to_owned(),
        }
    }

    /// Comes back with a code for an ID token of these claims.
    async fn come_back(&self, begun: &Begun, claims: &Value) -> WholeAnswer {
        self.setup.fake.grant_code("c1", &sign(&self.key, claims));
        self.ask(&back(&begun.asked["state"]), &begun.cookie, "n1:7741")
            .await
    }

    /// The whole way, with these claims besides the usual ones.
    pub(super) async fn log_in(&self, claims: Value) -> WholeAnswer {
        let begun = self.begin().await;
        let claims = with(&claims_of(&begun), claims);
        self.come_back(&begun, &claims).await
    }

    /// What was changed of a user, the newest first. Tokens are none of it.
    pub(super) async fn changes(&self, name: &str) -> Vec<String> {
        let log = self.setup.fake.audit(Some(name), 100).await.unwrap();
        let actions = log.records.into_iter().map(|record| record.action);
        actions
            .filter(|action| action.starts_with("user."))
            .collect()
    }

    pub(super) async fn groups(&self, name: &str) -> Vec<String> {
        let user = self.setup.fake.user(name).await.unwrap();
        user.groups.iter().map(ToString::to_string).collect()
    }
}

/// A node that people log in to by the provider.
pub(super) fn node_with(oidc: OidcConfig) -> GatewayConfig {
    GatewayConfig {
        oidc: Some(Arc::new(OidcLogins::new(oidc))),
        host_names: HostNames::new(["n1".to_owned()]),
        ..config()
    }
}

pub(super) fn author() -> muster_model::people::Author {
    muster_model::people::Author {
        user: "admin".to_owned(),
        address: "socket".to_owned(),
        node: String::new(),
    }
}

fn location(answer: &WholeAnswer) -> String {
    answer.headers["location"].to_str().unwrap().to_owned()
}

fn parameters(place: &str) -> BTreeMap<String, String> {
    let query = place.split_once('?').unwrap().1;
    form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect()
}

fn back(state: &str) -> String {
    format!("/api/v1/authn/oidc/return?code=c1&state={state}")
}

fn claims_of(begun: &Begun) -> Value {
    json!({
        "iss": ISSUER,
        "aud": "muster",
        "sub": "s-17",
        "exp": crate::clock::now_s() + 300,
        "nonce": begun.asked["nonce"],
        "preferred_username": "ada",
        "email": "ada@example.org",
    })
}

/// The same with other members; `null` takes one out.
pub(super) fn with(claims: &Value, others: Value) -> Value {
    let mut claims = claims.clone();
    for (name, value) in others.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
        .as_object_mut()
        .unwrap()
        .retain(|_, it| !it.is_null());
    claims
}

pub(super) fn sign(key: &SigningKey, claims: &Value) -> String {
    let mut header = Header::new(Algorithm::ES256);
    header.kid = Some(key.id.clone());
    let key = EncodingKey::from_ec_der(key.private_der());
    jsonwebtoken::encode(&header, claims, &key).unwrap()
}

#[tokio::test]
async fn a_person_logs_in_and_is_a_user_with_the_groups_of_their_claims() {
    let bench = Bench::new().await;
    let begun = bench.begin().await;
    for (name, expect) in [
        ("response_type", "code"),
        ("client_id", "muster"),
        ("scope", "openid groups"),
        ("code_challenge_method", "S256"),
        ("redirect_uri", "http://n1:7741/api/v1/authn/oidc/return"),
        ("tenant", "1"),
    ] {
        assert_eq!(begun.asked[name], expect, "{name}");
    }
    let claims =
        json!({"groups": ["/lab/vision", "/lab/gone", "unknown"], "uid": "1017", "gid": 0});
    let answer = bench
        .come_back(&begun, &with(&claims_of(&begun), claims))
        .await;
    assert_eq!(answer.status, 302, "{}", answer.text());
    let place = location(&answer);
    assert!(place.starts_with(&format!("{PORTAL}?")), "{place}");
    let told = parameters(&place);
    for (name, expect) in [("user", "ada"), ("admin", "false"), ("from", "/jobs")] {
        assert_eq!(told[name], expect, "{name}");
    }
    assert_eq!(answer.headers["referrer-policy"], "no-referrer");
    let cleared = answer.headers["set-cookie"].to_str().unwrap();
    assert!(cleared.contains("Max-Age=0"), "{cleared}");
    let token = format!("Bearer {}", told["token"]);
    let answer = bench.setup.get(&token, "/api/v2/users/ada").await;
    assert_eq!(answer.status, 200);
    assert_eq!(bench.groups("ada").await, ["default", "vision"]);
    let ada = bench.setup.fake.user("ada").await.unwrap();
    assert_eq!(ada.email, "ada@example.org");
    let expect = json!({"issuer": ISSUER, "subject": "s-17", "uid": 1017});
    assert_eq!(ada.extension["oidc"], expect, "root's number is left out");
    // The provider saw the verifier of the challenge, and where it had sent the browser.
    let exchange = bench.setup.fake.code_exchanges().remove(0);
    assert_eq!(exchange.return_uri, begun.asked["redirect_uri"]);
    let digest =
        aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, exchange.verifier.as_bytes());
    use base64::Engine as _;
    let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(digest);
    assert_eq!(challenge, begun.asked["code_challenge"]);
    assert_eq!(bench.changes("ada").await, ["user.add"], "made once");
}

#[tokio::test]
async fn groups_follow_the_claims_and_others_stay() {
    let bench = Bench::new().await;
    bench.log_in(json!({"groups": "/lab/vision"})).await;
    let also = PeopleChange::ChangeUser {
        user: "ada".parse().unwrap(),
        patch: muster_model::people::UserPatch {
            groups: muster_model::people::GroupsChange {
                add: ["other".parse().unwrap()].into(),
                ..Default::default()
            },
            ..Default::default()
        },
    };
    bench.setup.fake.change(&author(), also).await.unwrap();
    bench.log_in(json!({"groups": ["/lab/speech"]})).await;
    assert_eq!(bench.groups("ada").await, ["default", "other", "speech"]);
    bench.log_in(json!({})).await;
    assert_eq!(bench.groups("ada").await, ["default", "other"]);
    let before = bench.changes("ada").await;
    bench.log_in(json!({})).await;
    assert_eq!(bench.changes("ada").await, before, "nothing changed");
}

#[tokio::test]
async fn a_local_user_is_nobody_elses() {
    let bench = Bench::new().await;
    for name in ["admin", "ann"] {
        let answer = bench.log_in(json!({"preferred_username": name})).await;
        assert_eq!(answer.status, 401, "{}", answer.text());
        assert!(
            answer.text().contains("is not this person"),
            "{}",
            answer.text()
        );
    }
    bench.log_in(json!({})).await;
    let other = bench.log_in(json!({"sub": "s-18"})).await;
    assert_eq!(other.status, 401, "another person of the same name");
    for (claims, told) in [
        (
            json!({"preferred_username": "a/b"}),
            "cannot be a user's name",
        ),
        (
            json!({"preferred_username": null}),
            "no claim preferred_username",
        ),
    ] {
        let answer = bench.log_in(claims).await;
        assert_eq!(answer.status, 401, "{}", answer.text());
        assert!(answer.text().contains(told), "{}", answer.text());
    }
}

#[tokio::test]
async fn id_tokens_that_are_not_for_this_login_are_refused() {
    let bench = Bench::new().await;
    let now_s = crate::clock::now_s();
    for (name, claims) in [
        ("nonce", json!({"nonce": "another"})),
        ("no nonce", json!({"nonce": null})),
        ("issuer", json!({"iss": "https://evil.example"})),
        ("no issuer", json!({"iss": null})),
        ("audience", json!({"aud": "another-client"})),
        ("no audience", json!({"aud": null})),
        ("no subject", json!({"sub": null})),
        ("expired", json!({"exp": now_s - 120})),
        ("no end", json!({"exp": null})),
        ("not yet", json!({"nbf": now_s + 600})),
        ("another party", json!({"azp": "another-client"})),
        (
            "several, no party",
            json!({"aud": ["muster", "another-client"]}),
        ),
    ] {
        let answer = bench.log_in(claims).await;
        assert_eq!(answer.status, 401, "{name}: {}", answer.text());
        assert!(!answer.headers.contains_key("location"), "{name}");
    }
    assert!(
        bench.setup.fake.user("ada").await.is_err(),
        "nobody was made"
    );
    let shared = json!({"aud": ["muster", "another-client"], "azp": "muster"});
    assert_eq!(bench.log_in(shared).await.status, 302);
}

#[tokio::test]
async fn signatures_of_others_are_refused_and_new_keys_of_the_provider_are_found() {
    let mut bench = Bench::new().await;
    let begun = bench.begin().await;
    let claims = claims_of(&begun);
    let part = |value: &Value| {
        use base64::Engine as _;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string())
    };
    let none = format!("{}.{}.", part(&json!({"alg": "none"})), part(&claims));
    // As if the public key were the secret of an HMAC.
    let secret = bench.key.jwk().to_string();
    let shared = jsonwebtoken::encode(
        &Header::new(Algorithm::HS256),
        &claims,
        &EncodingKey::from_secret(secret.as_bytes()),
    );
    let stranger = SigningKey::new("k1").unwrap();
    let right = sign(&bench.key, &claims);
    let (signed, _) = right.rsplit_once('.').unwrap();
    for (name, token) in [
        ("none", none),
        ("HMAC", shared.unwrap()),
        ("another key of the same name", sign(&stranger, &claims)),
        ("no signature", format!("{signed}.")),
        ("no token", "nonsense".to_owned()),
    ] {
        let begun = bench.begin().await;
        bench.setup.fake.grant_code("c1", &token);
        let answer = bench
            .ask(&back(&begun.asked["state"]), &begun.cookie, "n1:7741")
            .await;
        assert_eq!(answer.status, 401, "{name}: {}", answer.text());
    }
    // The provider signs with a new key, which was not there when its keys were read last.
    bench.key = SigningKey::new("k2").unwrap();
    bench.setup.fake.publish_keys(vec![bench.key.jwk()]);
    let answer = bench.log_in(json!({})).await;
    assert_eq!(answer.status, 302, "{}", answer.text());
}

#[tokio::test]
async fn keys_are_read_anew_where_one_of_that_name_is_of_a_wrong_kind() {
    for wrong in [
        json!({"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": "ES256"}),
        json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"}),
        json!({"kty": "OKP", "crv": "Ed25519", "x": "AQAB"}),
        json!({"kty": "EC", "crv": "P-384", "x": "AQAB", "y": "AQAB"}),
        json!({"kty": "EC", "crv": "P-256", "x": "AQAB", "y": "AQAB"}),
        json!({"kty": "oct", "k": "AQAB"}),
        json!({"kty": "odd"}),
    ] {
        let mut bench = Bench::new().await;
        let mut named = wrong.clone();
        named["kid"] = "k2".into();
        bench
            .setup
            .fake
            .publish_keys(vec![bench.key.jwk(), named.clone()]);
        assert_eq!(bench.log_in(json!({})).await.status, 302);
        bench.key = SigningKey::new("k2").unwrap();
        let answer = bench.log_in(json!({})).await;
        assert_eq!(answer.status, 401, "{wrong}: {}", answer.text());
        assert!(
            answer.text().contains("none of the provider's keys"),
            "{wrong}: {}",
            answer.text()
        );
        bench.setup.fake.publish_keys(vec![bench.key.jwk()]);
        let answer = bench.log_in(json!({})).await;
        assert_eq!(answer.status, 302, "{wrong}: {}", answer.text());
    }
}

async fn send_form(bench: &Bench, cookie: &str, kind: &str, body: &str) -> WholeAnswer {
    let headers = [
        ("host", "n1:7741"),
        ("cookie", cookie),
        ("content-type", kind),
    ];
    let ask = TestRequest {
        method: "POST",
        path: "/api/v2/authn/oidc/return",
        headers: &headers,
        body,
    };
    bench.setup.ask(ask).await
}

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

#[tokio::test]
async fn a_provider_may_answer_by_a_form() {
    let bench = Bench::new().await;
    // From another site, without the cookie: the browser comes back with both.
    let begun = bench.begin().await;
    let token = sign(&bench.key, &claims_of(&begun));
    bench.setup.fake.grant_code("c1", &token);
    let form = format!(
        "code=c1&state={}&id_token=x&session_state=y",
        begun.asked["state"]
    );
    let answer = send_form(&bench, "", FORM, &form).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    let place = location(&answer);
    assert_eq!(place, format!("?state={}&code=c1", begun.asked["state"]));
    assert!(bench.setup.fake.code_exchanges().is_empty());
    let path = format!("/api/v2/authn/oidc/return{place}");
    let answer = bench.ask(&path, "", "n1:7741").await;
    assert_eq!(answer.status, 400, "without the cookie: {}", answer.text());
    let answer = bench.ask(&path, &begun.cookie, "n1:7741").await;
    assert_eq!(answer.status, 302, "{}", answer.text());
    assert!(
        location(&answer).starts_with(PORTAL),
        "{}",
        location(&answer)
    );
    // From the same site, with the cookie.
    let begun = bench.begin().await;
    let token = sign(&bench.key, &claims_of(&begun));
    bench.setup.fake.grant_code("c1", &token);
    let form = format!("code=c1&state={}", begun.asked["state"]);
    let answer = send_form(&bench, &begun.cookie, FORM, &form).await;
    assert_eq!(answer.status, 302, "{}", answer.text());
    assert_eq!(parameters(&location(&answer))["user"], "ada");
    let again = send_form(&bench, &begun.cookie, FORM, &form).await;
    assert_eq!(again.status, 400, "a replay: {}", again.text());
}

#[tokio::test]
async fn forms_of_others_log_nobody_in() {
    let bench = Bench::new().await;
    let (begun, other) = (bench.begin().await, bench.begin().await);
    let form = format!("code=c1&state={}", begun.asked["state"]);
    let answer = send_form(&bench, &other.cookie, FORM, &form).await;
    assert_eq!(answer.status, 400, "another browser's: {}", answer.text());
    let refused = format!("error=access_denied&error_description=not+you&{form}");
    let answer = send_form(&bench, &begun.cookie, FORM, &refused).await;
    assert_eq!(answer.status, 401, "{}", answer.text());
    assert!(answer.text().contains("not you"), "{}", answer.text());
    let answer = send_form(&bench, &other.cookie, "application/json", "{}").await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(
        answer.text().contains("x-www-form-urlencoded"),
        "{}",
        answer.text()
    );
    assert!(bench.setup.fake.code_exchanges().is_empty());
    let odd = "state=%0d%0ax&code=%23%26&error=a%20b";
    let place = location(&send_form(&bench, "", FORM, odd).await);
    assert_eq!(place, "?state=%0D%0Ax&code=%23%26&error=a+b");
}

#[tokio::test]
async fn only_the_browser_that_began_a_login_ends_it_and_only_once() {
    let bench = Bench::new().await;
    let (begun, other) = (bench.begin().await, bench.begin().await);
    let token = sign(&bench.key, &claims_of(&begun));
    let state = &begun.asked["state"];
    let changed = format!("{}x", begun.cookie);
    for (name, state, cookie) in [
        ("no cookie", state, ""),
        ("another browser's cookie", state, other.cookie.as_str()),
        (
            "another login's state",
            &other.asked["state"],
            &begun.cookie,
        ),
        ("a changed cookie", state, &changed),
        ("a made-up cookie", state, "muster-login=AAAA"),
    ] {
        bench.setup.fake.grant_code("c1", &token);
        let answer = bench.ask(&back(state), cookie, "n1:7741").await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.text());
        assert!(answer.text().contains("LoginStateError"), "{name}");
    }
    assert!(bench.setup.fake.code_exchanges().is_empty());
    let first = bench.come_back(&begun, &claims_of(&begun)).await;
    assert_eq!(first.status, 302, "{}", first.text());
    let again = bench.come_back(&begun, &claims_of(&begun)).await;
    assert_eq!(again.status, 400, "a replay");
    assert_eq!(bench.setup.fake.code_exchanges().len(), 1);
}

#[tokio::test]
async fn the_provider_may_refuse() {
    let bench = Bench::new().await;
    let begun = bench.begin().await;
    let path = format!(
        "/api/v1/authn/oidc/return?error=access_denied&error_description=not%20you&state={}",
        begun.asked["state"]
    );
    let answer = bench.ask(&path, &begun.cookie, "n1:7741").await;
    assert_eq!(answer.status, 401);
    assert!(answer.text().contains("not you"), "{}", answer.text());
    let begun = bench.begin().await;
    let answer = bench
        .ask(&back(&begun.asked["state"]), &begun.cookie, "n1:7741")
        .await;
    assert_eq!(answer.status, 403, "an unknown code: {}", answer.text());
}

#[tokio::test]
async fn tokens_go_to_known_places_alone() {
    let bench = Bench::new().await;
    let asked = |place: &str| {
        let place: String = form_urlencoded::byte_serialize(place.as_bytes()).collect();
        format!("/api/v2/authn/oidc/login?redirect_uri={place}")
    };
    for (place, is_known) in [
        ("http://portal.example/a?b=c#d", true),
        ("http://PORTAL.example:80/a", true),
        ("http://n1:7741/status", true),
        ("https://portal.example/a", false),
        ("http://portal.example:8080/a", false),
        ("http://portal.example.evil/a", false),
        ("http://portal.example@evil.example/", false),
        ("http://evil.example\\@portal.example/", false),
        ("//portal.example/a", false),
        ("/a", false),
        ("javascript:alert(1)", false),
        ("", false),
    ] {
        let answer = bench.ask(&asked(place), "", "n1:7741").await;
        let expect = if is_known { 302 } else { 400 };
        assert_eq!(answer.status, expect, "{place}: {}", answer.text());
        let path = asked(place).replace("login", "logout");
        let answer = bench.ask(&path, "", "n1:7741").await;
        assert_eq!(answer.status, expect, "{place}: {}", answer.text());
    }
    let answer = bench.ask(LOGIN, "", "evil.example").await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    let path = asked(PORTAL).replace("login", "logout");
    let place = location(&bench.ask(&path, "", "n1").await);
    assert!(place.starts_with("https://id.example/end?"), "{place}");
    assert_eq!(parameters(&place)["post_logout_redirect_uri"], PORTAL);
}

#[tokio::test]
async fn behind_a_proxy_the_public_address_counts() {
    let mut oidc = oidc();
    oidc.public_url = Some("https://muster.example/".to_owned());
    let bench = Bench::with(oidc).await;
    let answer = bench.ask(LOGIN, "", "n1:7741").await;
    let asked = parameters(&location(&answer));
    assert_eq!(
        asked["redirect_uri"],
        "https://muster.example/api/v1/authn/oidc/return"
    );
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-muster-login="), "{cookie}");
    assert!(cookie.contains("; Secure"), "{cookie}");
}

#[tokio::test]
async fn clients_are_told_how_to_log_in_and_passwords_can_be_switched_off() {
    let mut oidc = oidc();
    let body = "username=ann&password=ann-password";
    let log_in = async |bench: &Bench| {
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let ask = TestRequest {
            method: "POST",
            path: "/api/v2/authn/basic/login",
            headers: &headers,
            body,
        };
        bench.setup.ask(ask).await.status
    };
    let bench = Bench::with(oidc.clone()).await;
    assert_eq!(log_in(&bench).await, 200);
    let info = bench.setup.guest("GET", "/api/v2/info").await;
    assert!(
        info.text().contains(r#""authnMethod":"OIDC""#),
        "{}",
        info.text()
    );
    let info = bench.setup.guest("GET", "/api/v1/authn/info").await;
    assert!(
        info.text().contains("/api/v1/authn/oidc/login"),
        "{}",
        info.text()
    );
    oidc.passwords = false;
    assert_eq!(log_in(&Bench::with(oidc).await).await, 403);
    let without = Setup::new();
    for path in ["login", "return", "logout"] {
        let path = format!("/api/v1/authn/oidc/{path}");
        assert_eq!(without.guest("GET", &path).await.status, 404);
    }
}

#[tokio::test]
async fn the_portals_own_page_logs_in_by_the_provider_and_shows_no_token() {
    let bench = Bench::new().await;
    let page = bench.ask("/login?next=%2Fnodes", "", "n1:7741").await;
    let link =
        "/api/v1/authn/oidc/login?redirect_uri=http%3A%2F%2Fn1%3A7741%2Fsigned-in&from=%2Fnodes";
    let shown = link.replace('&', "&amp;");
    assert!(page.text().contains(&shown), "{}", page.text());
    let begun = bench.begin_at(link).await;
    let claims = with(&claims_of(&begun), json!({}));
    let answer = bench.come_back(&begun, &claims).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    assert_eq!(location(&answer), "/nodes");
    let cookies = answer.headers.get_all("set-cookie").iter();
    let cookies: Vec<_> = cookies.map(|it| it.to_str().unwrap()).collect();
    assert!(
        cookies.iter().any(|it| it.contains("Max-Age=0")),
        "{cookies:?}"
    );
    let session = cookies.iter().find(|it| it.starts_with("muster_session="));
    let session = session.unwrap().split(';').next().unwrap();
    let nodes = bench.ask("/nodes", session, "n1:7741").await;
    assert_eq!(nodes.status, 200, "{}", nodes.text());
    // Nobody is led elsewhere by it.
    let away = link.replace("from=%2Fnodes", "from=https%3A%2F%2Felsewhere.example");
    let begun = bench.begin_at(&away).await;
    let claims = with(&claims_of(&begun), json!({}));
    assert_eq!(location(&bench.come_back(&begun, &claims).await), "/");
}

//! `muster login`, `logout`, `whoami`, `context` and `token` against an agent of canned answers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Parser as _;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::console::Console;
use super::context::{ContextFile, Contexts};
use super::endpoint::EndpointEnvironment;
use super::status::CliStatus;
use super::stub::{AgentStub, StubAnswer, TextFile};
use super::{Cli, execute};

const LOGIN: &str = "POST /api/v2/authn/basic/login";
const LOGOUT: &str = "DELETE /api/v2/authn/basic/logout";
const TOKENS: &str = "/api/muster/v1/tokens";

/// A user's home directory.
struct UserHome(TempDir);

impl UserHome {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> ContextFile {
        ContextFile(self.0.path().join("muster/contexts.json"))
    }

    fn contexts(&self) -> Contexts {
        self.file().read().unwrap()
    }

    /// `MUSTER_CONTEXT` is `context`.
    async fn muster(&self, context: &str, arguments: &[&str]) -> (CliStatus, String, String) {
        let (console, out, err) = Console::captured();
        let arguments = std::iter::once("muster").chain(arguments.iter().copied());
        let mut cli = Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
        cli.connection = cli.connection.within(EndpointEnvironment {
            home: None,
            context: Some(context.to_owned()),
            contexts: Some(self.file()),
        });
        let status = execute(cli, &console).await;
        (status, out.text(), err.text())
    }

    /// Logs in as ada.
    async fn log_in(&self, url: &str, more: &[&str]) -> (CliStatus, String, String) {
        let password = TextFile::of("correct horse\n");
        let login = [
            "login",
            url,
            "--user",
            "ada",
            "--password-file",
            password.path(),
        ];
        self.muster("", &[&login[..], more].concat()).await
    }
}

/// A token that works until 2026-11-20.
fn token() -> String {
    let claims = json!({"username": "ada", "exp": 1_795_173_687_u64, "jti": "00000000000000aa"});
    format!("head.{}.sign", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn let_in() -> StubAnswer {
    StubAnswer::json(json!({"user": "ada", "token": token(), "admin": false}))
}

fn body(stub: &AgentStub, at: usize) -> Value {
    serde_json::from_str(&stub.asked()[at].body).unwrap()
}

#[tokio::test]
async fn a_login_is_kept_used_and_revoked() {
    let (stub, url) = AgentStub::start_tcp().await;
    let home = UserHome::new();
    stub.answer(LOGIN, [let_in()]);
    let (status, out, err) = home
        .log_in(&url, &["--context", "lab", "--name", "desk"])
        .await;
    assert_eq!((status, out.as_str()), (CliStatus::Ok, ""), "{err}");
    assert!(
        err.contains("until 2026-11-20 11:21:27 UTC; the context lab is in use"),
        "{err}"
    );
    assert!(!err.contains(&token()), "{err}");
    let sent = json!({"username": "ada", "password": "correct horse", "name": "desk"});
    assert_eq!(body(&stub, 0), sent);

    let check =
        json!({"username": "ada", "application": false, "admin": false, "exp": 1_795_173_687});
    stub.answer("GET /api/v2/tokens/check", [StubAnswer::json(check)]);
    let ada =
        json!({"username": "ada", "grouplist": ["default", "lab"], "virtualCluster": ["vision"]});
    stub.answer("GET /api/v2/users/ada", [StubAnswer::json(ada)]);
    let (status, out, err) = home.muster("lab", &["whoami"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let expect = format!(
        "\
ada
  admin             no
  groups            default, lab
  virtual clusters  vision
  agent             {url}
  context           lab
  token             expires 2026-11-20 11:21:27 UTC
"
    );
    assert_eq!(out, expect);
    let asked = stub.asked();
    let sent = asked[1].headers[AUTHORIZATION].to_str().unwrap();
    assert_eq!(sent, format!("Bearer {}", token()));
    let (_, out, _) = home.muster("lab", &["whoami", "-o", "json"]).await;
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["tokenExpiresMs"], 1_795_173_687_000_u64);
    assert_eq!(told["context"], "lab");

    stub.answer(LOGOUT, [StubAnswer::json(json!({"message": "done"}))]);
    let (status, _, err) = home.muster("lab", &["logout"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert_eq!(stub.asked().last().unwrap().line, LOGOUT);
    assert_eq!(home.contexts(), Contexts::default());
}

#[tokio::test]
async fn a_login_that_is_refused_changes_nothing() {
    let (stub, url) = AgentStub::start_tcp().await;
    let home = UserHome::new();
    let wrong = StubAnswer::refusal(400, "IncorrectPasswordError", "Password is incorrect.");
    stub.answer(LOGIN, [wrong]);
    let (status, _, err) = home.log_in(&url, &[]).await;
    assert_eq!(status, CliStatus::Refused);
    assert!(err.contains("Password is incorrect"), "{err}");
    assert!(!home.file().0.exists());
    for (url, more, told) in [
        ("http://n1", &[][..], "write https://"),
        ("n1:7741", &[], "https://host:7741"),
        (
            "http://127.0.0.1:1",
            &["--context", "a b"],
            "no name of a context",
        ),
        ("http://127.0.0.1:1", &["--name", " x"], "--name"),
    ] {
        let (status, _, err) = home.log_in(url, more).await;
        assert_eq!(status, CliStatus::Usage, "{err}");
        assert!(err.contains(told), "{err}");
    }
    stub.answer(INFO, [StubAnswer::json(json!({"authn_type": "basic"}))]);
    for more in [&[][..], &["--password"]] {
        let login = ["login", &url, "--user", "ada"];
        let (status, _, err) = home.muster("", &[&login[..], more].concat()).await;
        assert_eq!(status, CliStatus::Usage);
        assert!(err.contains("--password-stdin"), "{err}");
    }
    let empty = TextFile::of("\n");
    let login = [
        "login",
        &url,
        "--user",
        "ada",
        "--password-file",
        empty.path(),
    ];
    let (status, _, err) = home.muster("", &login).await;
    assert_eq!(status, CliStatus::Usage);
    assert!(err.contains("no password was given"), "{err}");
    assert_eq!(lines(&stub), [LOGIN, INFO], "a password was sent");
}

const INFO: &str = "GET /api/v1/authn/info";
const DEVICE: &str = "POST /api/muster/v1/authn/device";

/// A cluster with an identity provider, at which ada logs in at once.
fn with_provider(stub: &AgentStub) {
    stub.answer(INFO, [StubAnswer::json(json!({"authn_type": "OIDC"}))]);
    let begun = json!({
        "userCode": "WDJB-MJHT", "verificationUri": "https://id.example/device",
        "verificationUriComplete": null, "intervalSeconds": 1, "expiresInSeconds": 600,
        "handle": "sealed",
    });
    stub.answer(DEVICE, [StubAnswer::json(begun)]);
    stub.answer(&format!("{DEVICE}/token"), [let_in()]);
}

fn lines(stub: &AgentStub) -> Vec<String> {
    stub.asked().into_iter().map(|asked| asked.line).collect()
}

#[tokio::test]
async fn where_there_is_an_identity_provider_a_login_needs_no_browser_here() {
    let (stub, url) = AgentStub::start_tcp().await;
    let home = UserHome::new();
    with_provider(&stub);
    let login = ["login", &url, "--context", "lab", "--name", "desk"];
    let (status, out, err) = home.muster("", &login).await;
    assert_eq!((status, out.as_str()), (CliStatus::Ok, ""), "{err}");
    for told in [
        "https://id.example/device",
        "WDJB-MJHT",
        "logged in as ada at",
        "the context lab is in use",
    ] {
        assert!(err.contains(told), "{err}");
    }
    assert_eq!(body(&stub, 1), json!({"name": "desk"}));
    assert_eq!(home.contexts().contexts["lab"].token.0, token());
    // With --device the cluster is not asked how people log in.
    let forced = home.muster("", &[&login[..], &["--device"]].concat()).await;
    assert_eq!(forced.0, CliStatus::Ok, "{}", forced.2);
    assert_eq!(lines(&stub)[3], DEVICE);
    // A password that is given is used.
    stub.answer(LOGIN, [let_in()]);
    let (status, _, err) = home.log_in(&url, &["--context", "lab"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert_eq!(lines(&stub)[5..], [LOGIN]);
    let arguments = ["muster", "login", &url, "--device", "--password-stdin"];
    assert!(Cli::try_parse_from(arguments).is_err());
}

#[tokio::test]
async fn a_login_as_another_user_is_revoked() {
    let (stub, url) = AgentStub::start_tcp().await;
    let home = UserHome::new();
    with_provider(&stub);
    stub.answer(LOGOUT, [StubAnswer::json(json!({"message": "done"}))]);
    let (status, _, err) = home.muster("", &["login", &url, "--user", "bob"]).await;
    assert_eq!(status, CliStatus::Usage, "{err}");
    assert!(err.contains("knows you as ada, not as bob"), "{err}");
    let last = stub.asked().pop().unwrap();
    assert_eq!(last.line, LOGOUT);
    assert!(
        last.headers[AUTHORIZATION]
            .to_str()
            .unwrap()
            .ends_with(&token())
    );
    assert!(!home.file().0.exists());
}

#[tokio::test]
async fn without_a_device_flow_the_agent_names_another_way() {
    let (stub, url) = AgentStub::start_tcp().await;
    let home = UserHome::new();
    stub.answer(INFO, [StubAnswer::json(json!({"authn_type": "OIDC"}))]);
    let without = StubAnswer::refusal(404, "NoDeviceLoginError", "log in with --password");
    stub.answer(DEVICE, [without]);
    let (status, _, err) = home.muster("", &["login", &url]).await;
    assert_eq!(status, CliStatus::Refused, "{err}");
    assert!(err.contains("--password"), "{err}");
    assert!(!home.file().0.exists());
}

#[tokio::test]
async fn a_context_of_another_cluster_is_not_replaced_unasked() {
    let (one, first) = AgentStub::start_tcp().await;
    let (other, second) = AgentStub::start_tcp().await;
    let home = UserHome::new();
    one.answer(LOGIN, [let_in()]);
    other.answer(LOGIN, [let_in()]);
    assert_eq!(home.log_in(&first, &[]).await.0, CliStatus::Ok);
    assert_eq!(
        home.log_in(&first, &[]).await.0,
        CliStatus::Ok,
        "the same again"
    );
    let (status, _, err) = home.log_in(&second, &[]).await;
    assert_eq!(status, CliStatus::Usage);
    assert!(
        err.contains("--context NAME") && other.asked().is_empty(),
        "{err}"
    );
    let named = home.log_in(&second, &["--context", "two"]).await;
    assert_eq!(named.0, CliStatus::Ok, "{}", named.2);
    let (_, out, _) = home.muster("", &["context", "list"]).await;
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[1].contains("127.0.0.1") && lines[1].contains(&first),
        "{out}"
    );
    assert!(
        lines[2].starts_with("*  two") && lines[2].contains("ada"),
        "{out}"
    );
    assert!(!out.contains(&token()), "{out}");
    let (status, _, err) = home.muster("", &["context", "use", "127.0.0.1"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert_eq!(home.contexts().current.as_deref(), Some("127.0.0.1"));
    let (status, _, err) = home.muster("", &["context", "use", "three"]).await;
    assert_eq!(status, CliStatus::Usage, "{err}");
    home.muster("", &["context", "remove", "127.0.0.1"]).await;
    let (_, out, _) = home.muster("", &["context", "list", "-o", "json"]).await;
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        told,
        json!([{
            "name": "two", "current": false, "url": second, "user": "ada",
            "expiresMs": 1_795_173_687_000_u64,
        }])
    );
}

#[tokio::test]
async fn a_logout_says_where_the_token_was_not_revoked() {
    let (stub, url) = AgentStub::start_tcp().await;
    let home = UserHome::new();
    stub.answer(LOGIN, [let_in()]);
    home.log_in(&url, &["--context", "lab"]).await;
    drop(stub);
    let (status, _, err) = home.muster("lab", &["logout"]).await;
    assert_eq!(status, CliStatus::Unreachable, "{err}");
    assert!(
        err.contains("muster token revoke 00000000000000aa"),
        "{err}"
    );
    assert!(home.contexts().contexts.is_empty());
    let (status, _, err) = home.muster("lab", &["logout"]).await;
    assert_eq!(status, CliStatus::Usage, "{err}");

    let (stub, url) = AgentStub::start_tcp().await;
    stub.answer(LOGIN, [let_in()]);
    let gone = StubAnswer::refusal(401, "UnauthorizedUserError", "Your token is invalid.");
    stub.answer(LOGOUT, [gone]);
    home.log_in(&url, &["--context", "lab"]).await;
    let (status, _, err) = home.muster("lab", &["logout"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert!(home.contexts().contexts.is_empty());
}

fn listed(id: &str, name: &str, kind: &str) -> Value {
    json!({
        "id": id, "name": name, "kind": kind, "issuedMs": 1_795_173_687_000_u64,
        "expiresMs": null, "lastUsedMs": 1_795_172_400_000_u64, "address": "10.0.0.9",
        "current": kind == "login",
    })
}

#[tokio::test]
async fn tokens_are_listed_made_and_revoked() {
    let stub = AgentStub::start();
    let (desk, ci) = ("00000000000000aa", "00000000000000bb");
    let list = json!([
        listed(desk, "desk", "login"),
        listed(ci, "ci", "application")
    ]);
    stub.answer(&format!("GET {TOKENS}?user=ada"), [StubAnswer::json(&list)]);
    let (status, out, err) = stub.muster(&["token", "list", "--user", "ada"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert_eq!(
        out,
        "   \
TOKEN             NAME  KIND         ISSUED                   EXPIRES  LAST USED         FROM
*  00000000000000aa  desk  login        2026-11-20 11:21:27 UTC  never    2026-11-20 11:00  10.0.0.9
   00000000000000bb  ci    application  2026-11-20 11:21:27 UTC  never    2026-11-20 11:00  10.0.0.9
"
    );
    let (_, out, _) = stub
        .muster(&["token", "ls", "--user", "ada", "-o", "json"])
        .await;
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), list);

    let made = json!({"token": "the text", "view": listed(ci, "ci", "application")});
    stub.answer(&format!("POST {TOKENS}"), [StubAnswer::json(made)]);
    let create = ["token", "create", "ci", "--expires", "2h"];
    let (status, out, err) = stub.muster(&create).await;
    assert_eq!(
        (status, out.as_str()),
        (CliStatus::Ok, "the text\n"),
        "{err}"
    );
    assert!(err.contains("printed once") && err.contains(ci), "{err}");
    assert_eq!(body(&stub, 2), json!({"name": "ci", "expiration": 7200}));

    stub.answer(
        &format!("DELETE {TOKENS}/{ci}"),
        [StubAnswer::json(json!({}))],
    );
    let (status, _, err) = stub.muster(&["token", "revoke", ci]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let missing = "The token is not found among yours; it may have expired.";
    let missing = StubAnswer::refusal(404, "NoTokenError", missing);
    stub.answer(&format!("DELETE {TOKENS}/{desk}"), [missing]);
    let (status, _, err) = stub.muster(&["token", "revoke", desk]).await;
    assert_eq!(status, CliStatus::Refused);
    assert!(err.contains("`muster token list`"), "{err}");
}

#[tokio::test]
async fn all_tokens_are_revoked_after_a_question_and_the_key_is_changed() {
    let stub = AgentStub::start();
    let revoked = StubAnswer::json(json!({"revoked": 3}));
    stub.answer(&format!("DELETE {TOKENS}?user=ada"), [revoked]);
    let all = ["token", "revoke", "--all", "--user", "ada"];
    let (status, _, err) = stub.muster(&all).await;
    assert_eq!(status, CliStatus::Usage, "nobody can be asked: {err}");
    assert_eq!(stub.asked().len(), 0);
    let (status, _, err) = stub.muster(&[&all[..], &["--yes"]].concat()).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert!(err.contains("3 tokens were revoked"), "{err}");
    stub.answer(
        &format!("POST {TOKENS}/key"),
        [StubAnswer::json(json!({"key": 2}))],
    );
    let (status, _, err) = stub.muster(&["token", "rotate-key"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert!(err.contains("key 2 signs"), "{err}");
    for wrong in [&["token", "revoke"][..], &["token", "revoke", "xyz"]] {
        let arguments = std::iter::once("muster").chain(wrong.iter().copied());
        assert!(Cli::try_parse_from(arguments).is_err(), "{wrong:?}");
    }
}

//! A provider that the test serves: what is asked of it, and what is made of its answers.

use std::collections::BTreeMap;
use std::future::ready;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use muster_portal_gateway::conformance;
use muster_portal_gateway::fake::FakeCluster;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// Answers one request after the other; remembers them.
struct Served {
    issuer: String,
    requests: Arc<Mutex<Vec<String>>>,
}

/// `answers` by the beginning of a path; `ISSUER` in them stands for the provider.
async fn serve(answers: Vec<(&'static str, u16, Value)>) -> Served {
    serve_by(move |request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        let found = answers.iter().find(|(at, ..)| path.starts_with(at));
        let found = found.map(|(_, status, body)| (*status, body.clone()));
        ready(found.unwrap_or((404, json!({})))).boxed()
    })
    .await
}

/// What the fake says, over HTTP as a provider says it.
async fn serve_fake(fake: Arc<FakeCluster>) -> Served {
    serve_by(move |request| {
        let fake = Arc::clone(&fake);
        async move { by_the_fake(&fake, &request).await }.boxed()
    })
    .await
}

async fn by_the_fake(fake: &FakeCluster, request: &str) -> (u16, Value) {
    let path = request.split(' ').nth(1).unwrap_or_default();
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let form: BTreeMap<String, String> = form_urlencoded::parse(body.as_bytes())
        .into_owned()
        .collect();
    let field = |name: &str| form.get(name).map_or("", String::as_str);
    let error = |name: &str| (400, json!({ "error": name }));
    let token = |token: &str| (200, json!({ "id_token": token }));
    match (path, field("grant_type")) {
        (CONFIGURATION, _) => match fake.metadata().await.unwrap().has_device_flow {
            true => (200, with_devices()),
            false => (200, metadata()),
        },
        ("/keys", _) => (200, json!({"keys": fake.keys(true).await.unwrap()})),
        ("/device", _) => match fake
            .begin_device(field("scope"), field("code_challenge"))
            .await
        {
            Ok(grant) => (
                200,
                json!({
                    "device_code": grant.device_code,
                    "user_code": grant.user_code,
                    "verification_uri": grant.verification_uri,
                    "verification_uri_complete": grant.verification_uri_complete,
                    "expires_in": grant.life_s,
                    "interval": grant.interval_s,
                }),
            ),
            Err(_) => error("invalid_scope"),
        },
        ("/token", DEVICE_GRANT) => {
            match fake
                .poll_device(field("device_code"), field("code_verifier"))
                .await
            {
                Ok(DeviceOutcome::Granted(it)) => token(&it),
                Ok(DeviceOutcome::Pending) => error("authorization_pending"),
                Ok(DeviceOutcome::SlowDown) => error("slow_down"),
                Ok(DeviceOutcome::Denied) => error("access_denied"),
                Ok(DeviceOutcome::Expired) => error("expired_token"),
                Err(_) => error("invalid_grant"),
            }
        }
        ("/token", "authorization_code") => {
            let exchange = CodeExchange {
                code: field("code").to_owned(),
                verifier: field("code_verifier").to_owned(),
                return_uri: field("redirect_uri").to_owned(),
            };
            match fake.redeem(&exchange).await {
                Ok(it) => token(&it),
                Err(_) => error("invalid_grant"),
            }
        }
        _ => (404, json!({})),
    }
}

async fn serve_by(
    answer: impl Fn(String) -> BoxFuture<'static, (u16, Value)> + Send + Sync + 'static,
) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (seen, name) = (Arc::clone(&requests), issuer.clone());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 8192];
            let mut read = 0;
            // Head and body come together or one after the other.
            while !is_whole(&request[..read]) {
                match stream.read(&mut request[read..]).await {
                    Ok(0) | Err(_) => break,
                    Ok(more) => read += more,
                }
            }
            let text = String::from_utf8_lossy(&request[..read]).into_owned();
            seen.lock().unwrap().push(text.clone());
            let (status, body) = answer(text).await;
            let body = body.to_string().replace("ISSUER", &name);
            let answer = format!(
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    Served { issuer, requests }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|it| it.strip_prefix("content-length: "));
    body.len() >= length.and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn metadata() -> Value {
    json!({
        "issuer": "ISSUER",
        "authorization_endpoint": "ISSUER/auth",
        "token_endpoint": "ISSUER/token",
        "jwks_uri": "ISSUER/keys",
    })
}

const CONFIGURATION: &str = "/.well-known/openid-configuration";

impl Served {
    fn provider(&self, secret: Option<&Path>) -> HttpIdentityProvider {
        let section = OidcSection {
            issuer: Some(self.issuer.clone()),
            client_id: "muster:1".to_owned(),
            client_secret_file: secret.map(Path::to_owned),
            ..OidcSection::default()
        };
        HttpIdentityProvider::new(&section, &self.issuer).unwrap()
    }

    fn count(&self, path: &str) -> usize {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|it| it.contains(path)).count()
    }
}

fn exchange() -> CodeExchange {
    CodeExchange {
        code: "c/1".to_owned(),
        verifier: "v1".to_owned(),
        return_uri: "https://n1/return".to_owned(),
    }
}

fn secret_file(directory: &Path, mode: u32) -> PathBuf {
    let path = directory.join("secret");
    std::fs::write(&path, "top secret\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    path
}

#[tokio::test]
async fn a_code_is_redeemed_with_the_clients_secret() {
    let directory = tempfile::tempdir().unwrap();
    let file = secret_file(directory.path(), 0o600);
    let served = serve(vec![
        (CONFIGURATION, 200, metadata()),
        ("/token", 200, json!({"id_token": "a.b.c"})),
    ])
    .await;
    let provider = served.provider(Some(&file));
    assert_eq!(provider.redeem(&exchange()).await.unwrap(), "a.b.c");
    let asked = served.requests.lock().unwrap().last().unwrap().clone();
    let proof = STANDARD.encode("muster%3A1:top+secret");
    assert!(
        asked.contains(&format!("authorization: Basic {proof}\r\n")),
        "{asked}"
    );
    let form = "grant_type=authorization_code&code=c%2F1&redirect_uri=https%3A%2F%2Fn1%2Freturn\
                &code_verifier=v1";
    assert!(asked.ends_with(form), "{asked}");
    assert!(!format!("{provider:?}").contains("top secret"));
    assert_eq!(provider.redeem(&exchange()).await.unwrap(), "a.b.c");
    assert_eq!(served.count(CONFIGURATION), 1, "it is remembered");
}

#[tokio::test]
async fn a_client_without_a_secret_and_one_in_the_form() {
    let served = serve(vec![
        (CONFIGURATION, 200, metadata()),
        ("/token", 200, json!({"id_token": "a.b.c"})),
    ])
    .await;
    served.provider(None).redeem(&exchange()).await.unwrap();
    let asked = served.requests.lock().unwrap().last().unwrap().clone();
    assert!(asked.ends_with("&client_id=muster%3A1"), "{asked}");
    let directory = tempfile::tempdir().unwrap();
    let file = secret_file(directory.path(), 0o640);
    let mut other = metadata();
    other["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
    let served = serve(vec![
        (CONFIGURATION, 200, other),
        ("/token", 200, json!({"id_token": "a.b.c"})),
    ])
    .await;
    served
        .provider(Some(&file))
        .redeem(&exchange())
        .await
        .unwrap();
    let asked = served.requests.lock().unwrap().last().unwrap().clone();
    assert!(asked.ends_with("&client_secret=top+secret"), "{asked}");
    assert!(!asked.contains("authorization:"), "{asked}");
}

fn with_devices() -> Value {
    let mut metadata = metadata();
    metadata["device_authorization_endpoint"] = "ISSUER/device".into();
    metadata
}

/// `null` is absent.
fn device_code(others: Value) -> Value {
    let mut answer = json!({
        "device_code": "d/1",
        "user_code": "WDJB-MJHT",
        "verification_uri": "https://id.example/device",
        "expires_in": 300,
    });
    for (name, value) in others.as_object().unwrap() {
        answer[name] = value.clone();
    }
    answer
}

#[tokio::test]
async fn a_device_code_is_asked_for_as_rfc_8628_says() {
    let directory = tempfile::tempdir().unwrap();
    let file = secret_file(directory.path(), 0o600);
    let whole =
        json!({"verification_uri_complete": "https://id.example/device?c=W", "interval": 7});
    for (more, complete, interval_s) in [
        (whole, Some("https://id.example/device?c=W"), 7),
        (json!({}), None, DEVICE_INTERVAL_S),
    ] {
        let served = serve(vec![
            (CONFIGURATION, 200, with_devices()),
            ("/device", 200, device_code(more)),
        ])
        .await;
        let provider = served.provider(Some(&file));
        assert!(provider.metadata().await.unwrap().has_device_flow);
        let grant = provider.begin_device("openid groups", "c-1").await;
        let expect = DeviceGrant {
            device_code: "d/1".to_owned(),
            user_code: "WDJB-MJHT".to_owned(),
            verification_uri: "https://id.example/device".to_owned(),
            verification_uri_complete: complete.map(str::to_owned),
            life_s: 300,
            interval_s,
        };
        assert_eq!(grant, Ok(expect));
        let asked = served.requests.lock().unwrap().last().unwrap().clone();
        let form = "scope=openid+groups&code_challenge=c-1&code_challenge_method=S256";
        assert!(
            asked.starts_with("POST /device ") && asked.ends_with(form),
            "{asked}"
        );
        assert!(asked.contains("authorization: Basic "), "{asked}");
    }
}

#[tokio::test]
async fn what_has_become_of_a_device_code_is_told() {
    let error = |error: &str| json!({ "error": error });
    for (status, answer, expect) in [
        (400, error("authorization_pending"), DeviceOutcome::Pending),
        (400, error("slow_down"), DeviceOutcome::SlowDown),
        (400, error("access_denied"), DeviceOutcome::Denied),
        (400, error("expired_token"), DeviceOutcome::Expired),
        (
            200,
            json!({"id_token": "a.b.c"}),
            DeviceOutcome::Granted("a.b.c".to_owned()),
        ),
    ] {
        let served = serve(vec![
            (CONFIGURATION, 200, with_devices()),
            ("/token", status, answer),
        ])
        .await;
        let outcome = served.provider(None).poll_device("d/1", "v1").await;
        assert_eq!(outcome, Ok(expect));
        let asked = served.requests.lock().unwrap().last().unwrap().clone();
        let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code\
                    &device_code=d%2F1&code_verifier=v1&client_id=muster%3A1";
        assert!(asked.ends_with(form), "{asked}");
    }
    for (status, answer, told) in [
        (
            400,
            error("invalid_grant"),
            "refuses the device code: invalid_grant",
        ),
        (200, json!({}), "no ID token"),
        (500, json!({}), "it answers 500"),
    ] {
        let served = serve(vec![
            (CONFIGURATION, 200, with_devices()),
            ("/token", status, answer),
        ])
        .await;
        let failed = served.provider(None).poll_device("d/1", "v1").await;
        let text = failed.unwrap_err().to_string();
        assert!(text.contains(told), "{text}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_device_flow_is_told() {
    let begun = |status, answer| {
        vec![
            (CONFIGURATION, 200, with_devices()),
            ("/device", status, answer),
        ]
    };
    let refuses = json!({"error": "unauthorized_client", "error_description": "not for you"});
    let mut elsewhere = with_devices();
    elsewhere["device_authorization_endpoint"] = "http://id.example/device".into();
    let unsafe_place = json!({"verification_uri": "javascript:alert(1)"});
    let unsafe_complete = json!({"verification_uri_complete": "http://id.example/device"});
    for (answers, told) in [
        (
            vec![(CONFIGURATION, 200, metadata())],
            "no device_authorization_endpoint",
        ),
        (
            vec![(CONFIGURATION, 200, elsewhere)],
            "must begin with https://",
        ),
        (
            begun(401, refuses),
            "refuses a login by the device flow: not for you",
        ),
        (begun(200, json!({"device_code": "d"})), "missing field"),
        (
            begun(200, device_code(unsafe_place)),
            "must begin with https://",
        ),
        (
            begun(200, device_code(unsafe_complete)),
            "must begin with https://",
        ),
    ] {
        let served = serve(answers).await;
        let failed = served.provider(None).begin_device("openid", "c-1").await;
        let text = failed.unwrap_err().to_string();
        assert!(text.contains(told), "{text}");
    }
}

#[tokio::test]
async fn keys_are_remembered_and_read_anew_on_demand() {
    let keys = json!({"keys": [{"kty": "EC"}]});
    let served = serve(vec![(CONFIGURATION, 200, metadata()), ("/keys", 200, keys)]).await;
    let provider = served.provider(None);
    for _ in 0..3 {
        assert_eq!(provider.keys(false).await.unwrap().len(), 1);
    }
    assert_eq!(served.count("/keys"), 1);
    provider.keys(true).await.unwrap();
    assert_eq!(served.count("/keys"), 1, "they were read a moment ago");
    let Some(before) = Instant::now().checked_sub(KEYS_PAUSE) else {
        return;
    };
    provider.keys.lock().unwrap().as_mut().unwrap().0 = before;
    provider.keys(true).await.unwrap();
    assert_eq!(served.count("/keys"), 2);
}

#[tokio::test]
async fn what_is_wrong_with_a_provider_is_told() {
    let with = |field: &str, value: &str| {
        let mut other = metadata();
        other[field] = value.into();
        vec![(CONFIGURATION, 200, other)]
    };
    let refuses = json!({"error": "invalid_grant", "error_description": "code is used"});
    let cases = [
        (
            with("issuer", "https://evil.example"),
            "it calls itself https://evil.example",
        ),
        (
            with("token_endpoint", "http://id.example/t"),
            "must begin with https://",
        ),
        (vec![(CONFIGURATION, 500, metadata())], "it answers 500"),
        (
            vec![(CONFIGURATION, 200, metadata()), ("/token", 400, refuses)],
            "refuses the code: code is used",
        ),
        (
            vec![(CONFIGURATION, 200, metadata()), ("/token", 200, json!({}))],
            "no ID token",
        ),
        (
            vec![(CONFIGURATION, 200, metadata()), ("/token", 302, json!({}))],
            "it answers 302",
        ),
    ];
    for (answers, told) in cases {
        let served = serve(answers).await;
        let error = served.provider(None).redeem(&exchange()).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn a_secret_that_everybody_may_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = secret_file(directory.path(), 0o644);
    let error = secret(&file).unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
    std::fs::write(&file, "\n").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    assert!(secret(&file).unwrap_err().to_string().contains("empty"));
}

#[tokio::test]
async fn it_does_what_every_provider_does() {
    let fake = Arc::new(FakeCluster::default());
    let served = serve_fake(Arc::clone(&fake)).await;
    let provider = served.provider(None);
    let later = || {
        let mut keys = provider.keys.lock().unwrap();
        if let Some((at, _)) = keys.as_mut() {
            *at = at.checked_sub(KEYS_PAUSE).unwrap();
        }
    };
    conformance::identity(&provider, &fake, later).await;
    fake.set_device_flow(false);
    conformance::without_devices(&served.provider(None)).await;
}

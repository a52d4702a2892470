//! A provider that the test serves: what is asked of it, and what is made of its answers.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

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
            let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
            seen.lock().unwrap().push(text);
            let found = answers.iter().find(|(at, ..)| path.starts_with(at));
            let (status, body) = found.map_or_else(
                || (404, "{}".to_owned()),
                |(_, status, body)| (*status, body.to_string().replace("ISSUER", &name)),
            );
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

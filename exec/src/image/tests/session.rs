//! A session with registries and mirrors, without an engine.

use muster_model::launch::RegistryAuth;

use super::fixture::{Built, Packing, image, layer};
use super::registry::{RegistryAnswer, Scripted, answer, body, status};
use crate::image::document::Descriptor;
use crate::image::registry::RegistrySession;
use crate::image::{ImageError, Reference, RegistrySettings};

/// Where nobody listens.
const NOBODY: &str = "127.0.0.1:1";

fn built() -> Built {
    image(&[layer("a", b"a", Packing::Gzip)])
}

async fn good() -> Scripted {
    Scripted::start(|asked| answer(&built(), asked)).await
}

/// Says that all is well, whatever it is asked.
async fn web_page() -> Scripted {
    Scripted::start(|_| RegistryAnswer {
        headers: vec![("content-type", "text/html; charset=utf-8".to_owned())],
        ..body(b"<html>Welcome to our hotel</html>")
    })
    .await
}

fn session(mirrors: &[&str], registry: &str, auth: Option<RegistryAuth>) -> RegistrySession {
    let mut settings = RegistrySettings::default();
    let mirrors = mirrors.iter().map(|mirror| format!("http://{mirror}"));
    settings
        .mirrors
        .insert(registry.to_owned(), mirrors.collect());
    let image = Reference::parse(&format!("{registry}/a:1")).unwrap();
    RegistrySession::new(settings.client().unwrap(), &settings, image, auth).unwrap()
}

fn some_blob() -> (Descriptor, Vec<u8>) {
    let (digest, bytes) = built().blobs().into_iter().next().unwrap();
    (Descriptor::new("", digest, bytes.len() as u64), bytes)
}

#[tokio::test]
async fn a_mirror_that_sends_something_else_has_failed() {
    let (wrong, good) = (web_page().await, good().await);
    let junk = Scripted::start(|_| body(br#"{"error":"no such thing"}"#)).await;
    let session = session(
        &[&wrong.address, &junk.address, &good.address],
        NOBODY,
        None,
    );
    let (bytes, digest) = session.manifest("1").await.unwrap();
    assert_eq!((bytes, digest), (built().manifest, built().digest()));
    let (blob, bytes) = some_blob();
    let mut answer = session.blob(&blob, 0).await.unwrap();
    assert_eq!(answer.next().await.unwrap().unwrap(), bytes);
    let asked = |server: &Scripted| server.asked().len();
    assert_eq!((asked(&wrong), asked(&junk), asked(&good)), (2, 2, 2));
}

#[tokio::test]
async fn who_answered_what_is_told_when_nobody_is_left() {
    let wrong = web_page().await;
    let page = |address: &str| format!("{address}: it answered with a web page (text/html");
    for (mirrors, registry) in [(&[][..], &*wrong.address), (&[&*wrong.address], NOBODY)] {
        let session = session(mirrors, registry, None);
        let (blob, _) = some_blob();
        for error in [
            session.manifest("1").await.map(drop).unwrap_err(),
            session.blob(&blob, 0).await.map(drop).unwrap_err(),
        ] {
            let told = error.to_string();
            assert!(told.contains(&page(&wrong.address)), "{told}");
            assert!(told.contains(registry), "{told}");
            assert!(error.is_transient(), "{told}");
        }
    }
}

#[tokio::test]
async fn a_mirror_whose_content_was_damaged_is_not_asked_again() {
    let (mirror, good) = (good().await, good().await);
    let session = session(&[&mirror.address], &good.address, None);
    session.distrust_mirrors();
    session.manifest("1").await.unwrap();
    assert_eq!((mirror.asked().len(), good.asked().len()), (0, 1));
}

#[tokio::test]
async fn a_login_for_another_registry_is_named_where_one_was_needed() {
    let registry = Scripted::start(|_| RegistryAnswer {
        headers: vec![("www-authenticate", "Basic realm=\"x\"".to_owned())],
        ..status(401)
    })
    .await;
    let login = |registry: &str| RegistryAuth {
        username: "ada".to_owned(),
        password: "x".to_owned(),
        registry: registry.to_owned(),
    };
    let refusal = async |auth| {
        let session = session(&[], &registry.address, auth);
        let error = session.manifest("1").await.unwrap_err();
        assert!(matches!(&error, ImageError::Unauthorized { .. }), "{error}");
        error.to_string()
    };
    let told = refusal(Some(login("other.example"))).await;
    let expected = format!(
        "the job's login is for other.example and was not sent to {}",
        registry.address
    );
    assert!(told.contains(&expected), "{told}");
    for auth in [None, Some(login(""))] {
        let told = refusal(auth).await;
        assert!(!told.contains("was not sent"), "{told}");
    }
    let sent = |asked: &super::registry::Asked| asked.headers.contains_key("authorization");
    assert_eq!(
        registry.asked().iter().filter(|asked| sent(asked)).count(),
        1
    );
}

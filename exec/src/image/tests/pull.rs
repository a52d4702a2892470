//! Pulls from registries.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use muster_model::launch::RegistryAuth;

use super::fixture::{Built, Packing, busybox, image, image_for, index, layer, oci_archive};
use super::node::{Left, Node};
use super::registry::{PASSWORD, Registry, RegistryAnswer, Scripted, USER, answer, body, status};
use crate::image::document::OCI_INDEX;
use crate::image::{Digest, ImageError, OperationStep, RegistrySettings};

fn auth(password: &str) -> Option<RegistryAuth> {
    Some(RegistryAuth {
        username: USER.to_owned(),
        password: password.to_owned(),
        registry: String::new(),
    })
}

fn small() -> Built {
    let layers = [
        layer("a", b"a", Packing::Gzip),
        layer("b", b"b", Packing::Zstd),
        layer("c", &noise(), Packing::Plain),
    ];
    image(&layers)
}

/// A few hundred KiB that are the same in every run.
fn noise() -> Vec<u8> {
    (0..600_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0])
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_come_from_a_registry_and_run() {
    let Some(node) = Node::start("image pull") else {
        return;
    };
    let Some(registry) = Registry::start(false).await else {
        return;
    };
    let hello = |packing| layer("hello", b"hello\n", packing);
    let built = image(&[busybox(), hello(Packing::Zstd), hello(Packing::Gzip)]);
    let other = image_for("s390x", &[hello(Packing::Gzip)]);
    registry
        .push("a/b", &built, &["1", built.digest().as_str()])
        .await;
    registry
        .push("a/b", &other, &[other.digest().as_str()])
        .await;
    let both = index(&[other.entry(None), built.entry(None)]);
    registry
        .push_document("a/b", "both", OCI_INDEX, &both)
        .await;

    let name = |version: &str| format!("{}/a/b{version}", registry.address);
    let (by_digest, by_index) = (
        format!("@{}", built.digest()),
        format!("@{}", Digest::of(&both)),
    );
    for version in [":1", ":both", &by_digest, &by_index] {
        let name = name(version);
        let images = node.store.pull(&name, None).finish().await.unwrap();
        node.collect();
        assert_eq!(images[0].name, name);
        assert_eq!(images[0].digest, built.digest(), "{version}");
        assert_eq!(images[0].size_bytes, built.bytes(), "{version}");
        assert_eq!(node.store.resolve(&name).await.unwrap(), images[0]);
    }
    assert_eq!(node.run(&name(":both"), &["cat", "/hello"]), "hello\n");
    node.store.remove(&name(&by_index)).await.unwrap();
    let found = node.store.resolve(&name(&by_index)).await.unwrap();
    assert_eq!(
        found.name,
        name(":both"),
        "an index's digest is found under its tag"
    );

    for wrong in [
        name(":none"),
        name(&format!("@{}", Digest::of(b""))),
        name("/c"),
    ] {
        let error = node.store.pull(&wrong, None).finish().await.unwrap_err();
        assert!(matches!(&error, ImageError::NotFound { .. }), "{error}");
        assert!(
            !error.is_transient() && error.to_string().contains(&wrong),
            "{error}"
        );
    }
    let error = node
        .store
        .pull("Not A Name", None)
        .finish()
        .await
        .unwrap_err();
    assert!(matches!(error, ImageError::BadName { .. }), "{error}");
    for image in node.store.list().await.unwrap() {
        node.store.remove(&image.name).await.unwrap();
    }
    assert_eq!(node.left(), Left::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_registry_wants_the_right_password() {
    let Some(node) = Node::start("private registry") else {
        return;
    };
    let Some(registry) = Registry::start(true).await else {
        return;
    };
    registry.push("team/x", &small(), &["1"]).await;
    let name = format!("{}/team/x:1", registry.address);
    for login in [None, auth("wrong")] {
        let error = node.store.pull(&name, login).finish().await.unwrap_err();
        assert!(matches!(&error, ImageError::Unauthorized { .. }), "{error}");
        assert!(!error.is_transient());
        assert_eq!(node.left(), Left::default());
    }
    node.store
        .pull(&name, auth(PASSWORD))
        .finish()
        .await
        .unwrap();
    assert_eq!(node.store.list().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flaky_registry_is_asked_again_for_the_rest_only() {
    let Some(node) = Node::start("flaky registry") else {
        return;
    };
    let built = small();
    let largest = built.blobs().into_values().max_by_key(Vec::len).unwrap();
    let (served, count) = (built.clone(), AtomicU32::new(0));
    let wanted = Digest::of(&largest).to_string();
    let cut = largest.len() / 2;
    let flaky = Scripted::start(move |asked| {
        if asked.path.contains("/manifests/") && count.fetch_add(1, Ordering::SeqCst) == 0 {
            return status(503);
        }
        let cut =
            (asked.path.ends_with(&wanted) && !asked.headers.contains_key("range")).then_some(cut);
        RegistryAnswer {
            cut,
            ..answer(&served, asked)
        }
    })
    .await;
    let name = format!("{}/a:1", flaky.address);
    let mut operation = node.store.pull(&name, None);
    let (mut bytes, mut layers, mut ready) = (0, 0, 0);
    while let Some(step) = operation.next().await {
        match step {
            OperationStep::Bytes { done, total } => {
                assert!(done >= bytes && total.is_some());
                bytes = done;
            }
            OperationStep::Layers { done, total } => {
                assert_eq!((done, total), (layers + 1, 3));
                layers = done;
            }
            OperationStep::Ready(_) => ready += 1,
            OperationStep::Failed(error) => panic!("{error}"),
        }
    }
    assert_eq!(ready, 1);
    let ranges: Vec<String> = flaky
        .asked()
        .iter()
        .filter_map(|a| a.headers.get("range").cloned())
        .collect();
    assert_eq!(ranges.len(), 1, "{ranges:?}");
    assert_ne!(ranges[0], "bytes=0-");

    let before = flaky.asked().len();
    node.store.pull(&name, None).finish().await.unwrap();
    let asked: Vec<String> = flaky.asked()[before..]
        .iter()
        .map(|a| a.path.clone())
        .collect();
    assert_eq!(
        asked,
        ["/v2/a/manifests/1"],
        "blobs that are here are not fetched again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_pull_goes_on_later_and_a_wrong_one_leaves_nothing() {
    let Some(node) = Node::start("failed pulls") else {
        return;
    };
    let built = small();
    let broken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let largest = built.blobs().into_values().max_by_key(Vec::len).unwrap();
    let wanted = Digest::of(&largest).to_string();
    let (served, is_broken) = (built.clone(), std::sync::Arc::clone(&broken));
    let registry = Scripted::start(move |asked| {
        let broken = is_broken.load(Ordering::SeqCst);
        if broken && asked.path.ends_with(&wanted) {
            status(500)
        } else {
            answer(&served, asked)
        }
    })
    .await;
    let name = format!("{}/a:1", registry.address);
    let error = node.store.pull(&name, None).finish().await.unwrap_err();
    assert!(
        matches!(&error, ImageError::Registry { .. }) && error.is_transient(),
        "{error}"
    );
    assert!(error.to_string().contains("500"), "{error}");
    node.collect();
    broken.store(false, Ordering::SeqCst);
    let before = registry.asked().len();
    node.store.pull(&name, None).finish().await.unwrap();
    let blobs = registry.asked()[before..]
        .iter()
        .filter(|a| a.path.contains("/blobs/"))
        .count();
    assert_eq!(blobs, 1, "what had come the first time was kept");
    node.store.remove(&name).await.unwrap();
    assert_eq!(node.left(), Left::default());

    let served = built.clone();
    let liar = Scripted::start(move |asked| {
        let mut answer = answer(&served, asked);
        if asked.path.contains("/blobs/") {
            answer.body[0] ^= 1;
        }
        answer
    })
    .await;
    let error = node
        .store
        .pull(&format!("{}/a:1", liar.address), None)
        .finish()
        .await;
    let error = error.unwrap_err();
    assert!(matches!(&error, ImageError::Digest { .. }), "{error}");
    assert_eq!(node.left(), Left::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_fetched_with_the_login_and_renewed() {
    let Some(node) = Node::start("token registry") else {
        return;
    };
    let built = small();
    let (served, issued) = (built.clone(), AtomicU32::new(0));
    let registry = Scripted::start(move |asked| {
        if asked.path.starts_with("/token?") {
            let right = asked.headers.get("authorization").map(String::as_str)
                == Some("Basic dXNlcjpyaWdodA==");
            if !right {
                return status(401);
            }
            let token = issued.fetch_add(1, Ordering::SeqCst) + 1;
            return body(format!(r#"{{"token":"t{token}"}}"#).as_bytes());
        }
        // The first token ends with the manifest.
        let needed = if asked.path.contains("/manifests/") {
            "Bearer t"
        } else {
            "Bearer t2"
        };
        let given = asked.headers.get("authorization");
        if given.is_some_and(|given| given.starts_with(needed)) {
            return answer(&served, asked);
        }
        let host = &asked.headers["host"];
        let demand = format!(r#"Bearer realm="http://{host}/token",service="s""#);
        RegistryAnswer {
            headers: vec![("www-authenticate", demand)],
            ..status(401)
        }
    })
    .await;
    let name = format!("{}/a/b:1", registry.address);
    let error = node
        .store
        .pull(&name, auth("wrong"))
        .finish()
        .await
        .unwrap_err();
    assert!(matches!(&error, ImageError::Unauthorized { .. }), "{error}");
    let first = registry
        .asked()
        .into_iter()
        .find(|a| a.path.starts_with("/token"))
        .unwrap();
    assert_eq!(
        first.path,
        "/token?service=s&scope=repository%3Aa%2Fb%3Apull"
    );
    node.store
        .pull(&name, auth(PASSWORD))
        .finish()
        .await
        .unwrap();
    let tokens = registry
        .asked()
        .iter()
        .filter(|a| a.path.starts_with("/token"))
        .count();
    assert_eq!(
        tokens, 4,
        "one refused, one for the manifest, one when that had run out, one without a login"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirrors_are_asked_first_without_the_login_and_failures_are_sorted() {
    let Some(node) = Node::start("mirrors") else {
        return;
    };
    let built = small();
    let served = built.clone();
    let mirror = Scripted::start(move |asked| {
        if asked.path.contains("/manifests/") {
            let demand = "Basic realm=\"give me your password\"".to_owned();
            return RegistryAnswer {
                headers: vec![("www-authenticate", demand)],
                ..status(401)
            };
        }
        answer(&served, asked)
    })
    .await;
    let served = built.clone();
    let origin = Scripted::start(move |asked| match asked.path.rsplit('/').next() {
        Some("flaky") => status(429),
        Some("forbidden") => status(403),
        Some("tokenless") => {
            let realm = format!("Bearer realm=\"http://{}/503\"", asked.headers["host"]);
            RegistryAnswer {
                headers: vec![("www-authenticate", realm)],
                ..status(401)
            }
        }
        Some("503" | "503?scope=repository%3Aa%3Apull") => status(503),
        _ => answer(&served, asked),
    })
    .await;
    let mut settings = RegistrySettings::default();
    let base = format!("http://{}/hub", mirror.address);
    settings.mirrors.insert(origin.address.clone(), vec![base]);
    let store = Node::open(&node.containerd, settings);
    let pull = |version: &str| store.pull(&format!("{}/a:{version}", origin.address), auth("x"));
    pull("1").finish().await.unwrap();
    let first = &mirror.asked()[0];
    let expected = format!(
        "/hub/v2/a/manifests/1?ns={}",
        origin.address.replace(':', "%3A")
    );
    assert_eq!(first.path, expected);
    assert!(
        mirror
            .asked()
            .iter()
            .all(|a| !a.headers.contains_key("authorization"))
    );
    assert!(
        origin.asked().iter().all(|a| !a.path.contains("/blobs/")),
        "the mirror had them"
    );
    for (version, transient) in [("flaky", true), ("forbidden", false), ("tokenless", true)] {
        let error = pull(version).finish().await.unwrap_err();
        assert_eq!(error.is_transient(), transient, "{version}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_pulls_share_one_transfer() {
    let Some(node) = Node::start("equal pulls") else {
        return;
    };
    let built = small();
    let served = built.clone();
    let registry = Scripted::start(move |asked| answer(&served, asked)).await;
    let name = |tag| format!("{}/a:{tag}", registry.address);
    let pulls = ["1", "1", "2", "3"].map(|tag| node.store.pull(&name(tag), None).finish());
    for end in futures::future::join_all(pulls).await {
        end.unwrap();
    }
    let blobs = registry
        .asked()
        .iter()
        .filter(|a| a.path.contains("/blobs/"))
        .count();
    assert_eq!(blobs, built.blobs().len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_or_a_hang_of_containerd_is_a_transient_failure() {
    let Some(mut node) = Node::start("containerd restarts") else {
        return;
    };
    assert!(node.store.list().await.unwrap().is_empty());
    node.containerd.restart().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    // Calls that meet the broken connection fail as transient; then it is made anew.
    while let Err(error) = node.store.list().await {
        assert!(error.is_transient() && Instant::now() < deadline, "{error}");
    }
    node.containerd.freeze(true).unwrap();
    let error = node.store.list().await.unwrap_err();
    assert!(
        matches!(&error, ImageError::Unavailable { .. }) && error.is_transient(),
        "{error}"
    );
    node.containerd.freeze(false).unwrap();
    assert!(node.store.list().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_was_pulled_with_a_login_is_open_to_nobody_without() {
    let Some(node) = Node::start("private image") else {
        return;
    };
    let built = small();
    let served = built.clone();
    let registry = Scripted::start(move |asked| {
        if asked.path.starts_with("/token") {
            return body(br#"{"token":"t"}"#);
        }
        // For what is open it wants a token, which it gives to anybody.
        let (right, demand) = match asked.path.starts_with("/v2/open/") {
            true => {
                let realm = format!("http://{}/token", asked.headers["host"]);
                ("Bearer t", format!("Bearer realm=\"{realm}\""))
            }
            false => ("Basic dXNlcjpyaWdodA==", "Basic realm=\"x\"".to_owned()),
        };
        if asked.headers.get("authorization").map(String::as_str) == Some(right) {
            return answer(&served, asked);
        }
        RegistryAnswer {
            headers: vec![("www-authenticate", demand)],
            ..status(401)
        }
    })
    .await;
    let name = format!("{}/team/x:1", registry.address);
    let pull = node.store.pull(&name, auth(PASSWORD)).finish().await;
    let image = pull.unwrap().remove(0);
    let may_use = async |login| node.store.may_use(&image, &name, login).await;
    may_use(auth(PASSWORD)).await.unwrap();
    for login in [None, auth("wrong")] {
        let refusal = may_use(login).await.unwrap_err();
        assert!(
            matches!(&refusal, ImageError::LoginNeeded { .. }),
            "{refusal}"
        );
        assert!(
            refusal.to_string().contains("pulled with a login"),
            "{refusal}"
        );
        assert!(!refusal.is_transient());
    }

    // The same content that a registry gives to anybody is open, also to who showed it a login.
    let open = format!("{}/open/x:1", registry.address);
    node.store
        .pull(&open, auth(PASSWORD))
        .finish()
        .await
        .unwrap();
    let asked = registry.asked().len();
    may_use(None).await.unwrap();
    assert_eq!(registry.asked().len(), asked, "nobody need be asked");

    // It stays open when it is pulled with a login once more.
    let again = node.store.pull(&name, auth(PASSWORD)).finish().await;
    again.unwrap();
    may_use(None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_admin_brought_is_open_to_all() {
    let Some(node) = Node::start("private image imported") else {
        return;
    };
    let built = small();
    let archive = oci_archive(&[&built], &[built.entry(Some("x:1"))], &[]);
    let image = node.import(archive, None).await.unwrap().remove(0);
    node.store.may_use(&image, "x:1", None).await.unwrap();
}

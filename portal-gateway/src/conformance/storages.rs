use std::collections::BTreeSet;
use std::io;

use futures::{StreamExt as _, stream};
use muster_model::storage_file::FileDenialKind;

use crate::port::{ByteStream, FileReadWish, FileWriteWish, PortError, StoragePlace, Storages};

/// Storages, of which these are declared, in this order.
pub async fn storages(storages: &dyn Storages, names: &[&str]) {
    let list = storages.list().await.unwrap();
    let found: Vec<_> = list.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(found, names);
    let distinct: BTreeSet<_> = found.iter().collect();
    assert_eq!(distinct.len(), found.len());
    assert!(list.iter().all(|one| !one.volume_name.is_empty()));
}

/// Files of a storage that is shared and may be written, in which there are none.
pub async fn storage_files(storages: &dyn Storages, place: &StoragePlace) {
    let at = |path: &str| StoragePlace {
        path: path.to_owned(),
        ..place.clone()
    };
    let body = |text: &str| -> ByteStream { Box::pin(stream::iter([Ok(text.to_owned().into())])) };
    let listed = storages.files(place, None, 10).await.unwrap();
    assert_eq!(
        (listed.is_directory, listed.entries.len(), listed.next),
        (true, 0, None)
    );
    let wish = FileWriteWish {
        upload: Some("up".to_owned()),
        size: Some(5),
        ..FileWriteWish::default()
    };
    let written = storages
        .write_file(&at("b"), wish.clone(), body("hello"))
        .await
        .unwrap();
    assert_eq!((written.bytes, written.files), (5, 1));
    storages
        .write_file(&at("a"), FileWriteWish::default(), body(""))
        .await
        .unwrap();
    let listed = storages.files(place, None, 1).await.unwrap();
    assert_eq!(
        (&*listed.entries[0].name, listed.next.as_deref()),
        ("a", Some("a"))
    );
    let listed = storages.files(place, listed.next, 1).await.unwrap();
    assert_eq!(
        (
            &*listed.entries[0].name,
            listed.entries[0].size,
            listed.next
        ),
        ("b", 5, None)
    );
    let part = FileReadWish {
        start: 1,
        end: Some(3),
        ..FileReadWish::default()
    };
    let part = storages.read_file(&at("/b"), part).await.unwrap();
    assert_eq!((part.size, part.start, part.bytes), (5, 1, 3));
    let parts: Vec<_> = part.body.map(Result::unwrap).collect().await;
    assert_eq!(parts.concat(), b"ell");
    let denied = |result: Result<(), PortError>, kind: FileDenialKind| {
        assert!(
            matches!(&result, Err(PortError::File(found)) if found.kind == kind),
            "{result:?}"
        );
    };
    let missing = storages
        .read_file(&at("none"), FileReadWish::default())
        .await;
    denied(missing.map(drop), FileDenialKind::NoPath);
    let behind = FileReadWish {
        start: 6,
        ..FileReadWish::default()
    };
    denied(
        storages.read_file(&at("b"), behind).await.map(drop),
        FileDenialKind::Range,
    );
    denied(
        storages
            .write_file(&at("b"), wish.clone(), body("no"))
            .await
            .map(drop),
        FileDenialKind::Changed,
    );
    let breaks = stream::iter([Ok("he".into()), Err(io::ErrorKind::UnexpectedEof.into())]);
    assert!(
        storages
            .write_file(&at("b"), wish, Box::pin(breaks))
            .await
            .is_err()
    );
    assert_eq!(storages.kept_upload(&at("b"), "up").await.unwrap().bytes, 2);
    assert_eq!(
        storages.kept_upload(&at("b"), "other").await.unwrap().bytes,
        0
    );
    let probe = storages.probe(place).await.unwrap();
    assert_eq!((probe.problem, probe.can_write), (None, true));
    let mut reads = at("c");
    reads.storage.read_only = true;
    let refused = storages
        .write_file(&reads, FileWriteWish::default(), body("x"))
        .await;
    denied(refused.map(drop), FileDenialKind::ReadOnly);
}

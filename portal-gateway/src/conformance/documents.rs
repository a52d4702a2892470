use std::collections::BTreeSet;

use muster_model::exit::TriedEnd;

use super::NOBODY;
use crate::port::{Caller, Documents, EditedText, PortError};

/// Documents, one of which has this name and takes a comment at its end. This node is alone.
pub async fn documents(documents: &dyn Documents, caller: &Caller, name: &str) {
    let edit = |base, text: &str| EditedText {
        base,
        text: text.to_owned(),
        now: false,
    };
    refused!(documents.history(NOBODY), PortError::NoDocument(_));
    refused!(documents.text(NOBODY, None), PortError::NoDocument(_));
    let nobodys = documents.edit(caller, NOBODY, edit(0, "x"));
    refused!(nobodys, PortError::NoDocument(_));
    let nobodys = documents.rollback(caller, NOBODY, 0);
    refused!(nobodys, PortError::NoDocument(_));

    let list = documents.list().await.unwrap();
    let names: BTreeSet<_> = list.iter().map(|one| &one.name).collect();
    assert_eq!(names.len(), list.len());
    let base = list.iter().find(|one| one.name == name).unwrap();
    let base = base.newest.version;
    let before = documents.text(name, None).await.unwrap();
    let text = format!("{}# a comment\n", before.text);
    let stale = documents.edit(caller, name, edit(base + 7, &text));
    refused!(stale, PortError::DocumentConflict { .. });
    let empty = documents.edit(caller, name, edit(base, ""));
    refused!(empty, PortError::InvalidDocument(_));

    let end = TriedEnd {
        exit_code: 7,
        user_log: "one\ntwo".to_owned(),
        ..TriedEnd::default()
    };
    let judged = documents.try_rules(None, &end).await.unwrap();
    assert_eq!(judged.origin_exit_code, Some(7));
    assert!(judged.user_log.contains("two"), "{judged:?}");
    let same = documents.try_rules(Some(&before.text), &end).await.unwrap();
    assert_eq!(same, judged, "the rules in force are the same text");
    refused!(
        documents.try_rules(Some(""), &end),
        PortError::InvalidDocument(_)
    );
    let tested = documents.test_rules(&before.text).await.unwrap();
    assert_eq!(tested.changed, 0, "{tested:?}");
    assert_eq!(tested.unheard, [], "{tested:?}");
    refused!(documents.test_rules(""), PortError::InvalidDocument(_));

    let edited = documents.edit(caller, name, edit(base, &text));
    let version = edited.await.unwrap();
    assert_eq!(version, base + 1);
    let read = documents.text(name, Some(version)).await.unwrap();
    assert_eq!((read.version, read.text), (version, text));
    let again = documents.rollback(caller, name, version);
    let again = again.await.unwrap();
    assert_eq!(again, version + 1);
    let history = documents.history(name).await.unwrap();
    let newest = &history[0].version;
    assert_eq!(
        (newest.version, &*newest.author),
        (again, caller.user.as_str())
    );
    assert_eq!(history[1].version.version, version);

    let shipped = documents.text(name, Some(0)).await.unwrap();
    let first = documents.rollback(caller, name, 0).await.unwrap();
    let read = documents.text(name, Some(first)).await.unwrap();
    assert_eq!((first, read.text), (again + 1, shipped.text));

    let none = documents.text(name, Some(99));
    refused!(none, PortError::NoVersion { version: 99, .. });
    let none = documents.rollback(caller, name, 99);
    refused!(none, PortError::NoVersion { version: 99, .. });
}

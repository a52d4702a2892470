//! Pages of users, groups, accounts and documents: what they say of a form that was sent.

use super::pages::{ask, page, send};
use super::setup::*;

#[tokio::test]
async fn a_group_is_changed_as_a_whole_and_only_as_it_was_shown() {
    let setup = Setup::new();
    let add = "action=add-group&groupname=vision&description=eyes&vcs=default";
    let added = send(&setup, "admin-token", "/people", add).await;
    assert_eq!(added.header("location"), "/people?done=add-group");
    let told = page(&setup, "admin-token", "/people?done=add-group").await;
    assert!(told.contains("The group was added."), "{told}");
    let made_up = page(&setup, "admin-token", "/people?done=Call+us").await;
    assert!(!made_up.contains("Call us"), "{made_up}");

    let (_, form) = told.split_once("value=\"vision\"").unwrap();
    let (_, revision) = form.split_once("name=\"revision\" value=\"").unwrap();
    let revision = revision.split_once('"').unwrap().0;
    let change = format!(
        "action=change-group&groupname=vision&revision={revision}&storages=data&description=ears&vcs=&admin=on"
    );
    let changed = send(&setup, "admin-token", "/people", &change).await;
    assert_eq!(changed.status, 303, "{}", changed.text());
    let group = setup.get(ADMIN, "/api/v2/groups/vision").await.json();
    assert_eq!(group["description"], "ears");
    let acls = &group["extension"]["acls"];
    assert_eq!(acls["admin"], true, "{group}");
    assert_eq!(
        acls["virtualClusters"].as_array().map(Vec::len),
        Some(0),
        "{group}"
    );
    assert_eq!(acls["storageConfigs"][0], "data", "{group}");
    let late = send(&setup, "admin-token", "/people", &change).await;
    assert_ne!(late.status, 303, "the group has changed since");
    assert!(
        late.text().contains("Nothing was changed."),
        "{}",
        late.text()
    );
}

#[tokio::test]
async fn a_refused_form_keeps_what_was_written_and_the_way_on() {
    let setup = Setup::new();
    let add =
        "action=add-user&username=lena&password=long-enough&email=l%40x.example&groups=vision-teem";
    let refused = send(&setup, "admin-token", "/people", add).await;
    assert!(refused.status.is_client_error());
    let text = refused.text();
    for part in [
        "Nothing was changed.",
        "vision-teem",
        "value=\"lena\"",
        "value=\"l@x.example\"",
        "href=\"/account\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains("long-enough"),
        "a password is not shown again"
    );

    let wrong = "action=password&old=wrong&new=long-enough&again=long-enough";
    let refused = send(&setup, "ann-token", "/account", wrong).await;
    assert_eq!(refused.status, 403);
    assert!(
        refused.text().contains("Change my password"),
        "{}",
        refused.text()
    );
    assert!(
        !refused
            .text()
            .contains("can change what your groups may do")
    );
    let missing = ask(&setup, "ann-token", "GET", "/nodes/none", "").await;
    assert_eq!(missing.status, 404);
    assert!(
        missing.text().contains("href=\"/submit\""),
        "{}",
        missing.text()
    );
}

#[tokio::test]
async fn a_saved_version_is_shown_at_once_and_any_other_can_be_gone_back_to() {
    let setup = Setup::new();
    let path = "/documents/failure-rules";
    let shipped = page(&setup, "admin-token", path).await;
    assert!(shipped.contains("As shipped with the nodes"), "{shipped}");
    for (base, text) in [(0, "one"), (1, "two")] {
        let save = format!("action=save&base={base}&text={text}");
        let saved = send(&setup, "admin-token", path, &save).await;
        assert_eq!(saved.status, 303, "{}", saved.text());
        let after = page(&setup, "admin-token", path).await;
        assert!(after.contains(&format!("\n{text}</textarea>")), "{after}");
        assert!(!after.contains("is the newest one"), "{after}");
    }
    let after = page(&setup, "admin-token", path).await;
    let has = |text: &str| after.contains(text);
    assert!(
        has("Go back to version 1") && has("Go back to version 0"),
        "{after}"
    );
    assert!(!has("Go back to version 2"), "it is the newest");
    assert_eq!(after.matches("<td>in force").count(), 1, "{after}");
    assert!(has("<td>replaced"), "{after}");
    let back = send(&setup, "admin-token", path, "action=rollback&version=0").await;
    assert_eq!(back.status, 303, "{}", back.text());
    let after = page(&setup, "admin-token", path).await;
    assert!(after.contains("\n[]\n</textarea>"), "{after}");
}

//! Users and groups: each change is made on what its author saw, and stands in the audit log.

use std::collections::BTreeSet;

use muster_model::id::{GroupName, UserName, VcName};
use muster_model::people::{Author, GroupAcl, PeopleDenial};
use muster_model::user_token::TokenKind;

use super::world::{Bench, creation, edit, issue_token, user_token};
use crate::cluster::{
    AUDIT_AGE_MS, AUDIT_RECORDS_MAX, ClusterApplied, ClusterEntry, ClusterRejection, DESCRIPTION,
    DocumentEdit, GROUPS_MAX, Hidden, PeopleEdit, PeopleEntry, UserFields, UserGroup, UserToken,
};

fn user(text: &str) -> UserName {
    text.parse().unwrap()
}

fn group(text: &str) -> GroupName {
    text.parse().unwrap()
}

fn names(groups: &[&str]) -> BTreeSet<GroupName> {
    groups.iter().map(|name| group(name)).collect()
}

fn fields(groups: &[&str]) -> UserFields {
    UserFields {
        password_hash: Hidden("$argon2id$secret".to_owned()),
        email: "a@b".to_owned(),
        extension: r#"{"githubPAT":"hush"}"#.to_owned(),
        groups: names(groups),
    }
}

fn with_acl(admin: bool, vcs: &[&str]) -> UserGroup {
    UserGroup {
        acl: GroupAcl {
            admin,
            vcs: vcs.iter().map(|vc| vc.parse::<VcName>().unwrap()).collect(),
            storages: Vec::new(),
        },
        extension: "{}".to_owned(),
        ..UserGroup::default()
    }
}

fn entry_at(edit: PeopleEdit, at_ms: u64) -> ClusterEntry {
    ClusterEntry::People(Box::new(PeopleEntry {
        edit,
        by: Author {
            user: "ada".to_owned(),
            address: "192.0.2.1".to_owned(),
            node: "n0".to_owned(),
        },
        at_ms,
    }))
}

impl Bench {
    fn people(&mut self, edit: PeopleEdit) -> Result<(), PeopleDenial> {
        match self.apply(&entry_at(edit, 5)) {
            Ok(applied) => {
                assert_eq!(applied, ClusterApplied::Users);
                assert_eq!(self.state.map_version(), self.index, "all members hear it");
                Ok(())
            }
            Err(ClusterRejection::People(denial)) => Err(denial),
            Err(other) => panic!("{other}"),
        }
    }

    fn put(
        &mut self,
        name: &str,
        fields: UserFields,
        seen: Option<u64>,
    ) -> Result<(), PeopleDenial> {
        self.people(PeopleEdit::PutUser {
            name: user(name),
            fields,
            forgets_logins: false,
            seen,
        })
    }

    fn put_group(
        &mut self,
        name: &str,
        group_of: UserGroup,
        seen: Option<u64>,
    ) -> Result<(), PeopleDenial> {
        self.people(PeopleEdit::PutGroup {
            name: group(name),
            group: group_of,
            seen,
        })
    }

    fn revision(&self, name: &str) -> u64 {
        self.state.user(&user(name)).unwrap().revision
    }

    fn is_admin(&self, name: &str) -> bool {
        let user = self.state.user(&user(name)).unwrap();
        self.state.rights(user).admin
    }
}

#[test]
fn a_cluster_begins_with_groups_for_admins_and_for_each_virtual_cluster() {
    let bench = Bench::new();
    let all: Vec<_> = bench.state.groups().keys().map(GroupName::as_str).collect();
    assert_eq!(all, ["admingroup", "default"]);
    assert!(bench.is_admin("ada") && !bench.is_admin("bob"));
    let bob = bench.state.user(&user("bob")).unwrap();
    assert_eq!(bob.groups, names(&["default"]), "every user is in it");
    let vcs = bench.state.rights(bob).vcs;
    assert_eq!(vcs, ["default".parse().unwrap()].into());
    let cluster_map = bench.state.cluster_map().unwrap();
    assert!(cluster_map.rights(&user("ada")).unwrap().admin);
    assert_eq!(cluster_map.rights(&user("eve")), None);
}

#[test]
fn a_new_virtual_cluster_has_a_group_and_one_that_an_admin_removed_stays_removed() {
    let mut bench = Bench::new();
    let described = |base, vcs: &[(&str, u64)]| DocumentEdit {
        id: DESCRIPTION,
        creations: vcs
            .iter()
            .map(|(vc, number)| creation(vc, *number))
            .collect(),
        ..edit(base, 1)
    };
    bench.edit(described(0, &[("prod", 11)])).unwrap();
    let prod = bench.state.groups()[&group("prod")].clone();
    assert_eq!(prod.acl.vcs, ["prod".parse().unwrap()].into());
    let drop = PeopleEdit::DropGroup {
        name: group("prod"),
        seen: prod.revision,
    };
    bench.people(drop).unwrap();
    bench
        .edit(described(1, &[("prod", 11), ("dev", 13)]))
        .unwrap();
    assert!(!bench.state.groups().contains_key(&group("prod")));
    assert!(bench.state.groups().contains_key(&group("dev")));
}

#[test]
fn a_change_is_made_on_the_revision_that_its_author_saw() {
    let mut bench = Bench::new();
    let (none, first) = (None, Some(bench.revision("bob")));
    let exists = PeopleDenial::UserExists("bob".to_owned());
    assert_eq!(bench.put("bob", fields(&[]), none), Err(exists));
    bench.put("bob", fields(&["default"]), first).unwrap();
    let changed = PeopleDenial::Changed {
        subject: "bob".to_owned(),
        seen: first.unwrap(),
        current: bench.revision("bob"),
    };
    assert_eq!(bench.put("bob", fields(&[]), first), Err(changed.clone()));
    let drop = |seen| PeopleEdit::DropUser {
        name: user("bob"),
        seen,
    };
    assert_eq!(bench.people(drop(first.unwrap())), Err(changed));
    let seen = bench.revision("bob");
    bench.people(drop(seen)).unwrap();
    let gone = PeopleDenial::NoUser("bob".to_owned());
    assert_eq!(bench.put("bob", fields(&[]), Some(seen)), Err(gone.clone()));
    assert_eq!(bench.people(drop(seen)), Err(gone));
    assert_eq!(
        bench.put_group("lab", with_acl(false, &[]), Some(1)),
        Err(PeopleDenial::NoGroup("lab".to_owned()))
    );
    bench.put_group("lab", with_acl(false, &[]), None).unwrap();
    assert_eq!(
        bench.put_group("lab", with_acl(false, &[]), None),
        Err(PeopleDenial::GroupExists("lab".to_owned()))
    );
}

#[test]
fn the_last_admin_stays_one() {
    let mut bench = Bench::new();
    let last = Err(PeopleDenial::LastAdmin("ada".to_owned()));
    let seen = bench.revision("ada");
    assert_eq!(bench.put("ada", fields(&["default"]), Some(seen)), last);
    let drop = PeopleEdit::DropUser {
        name: user("ada"),
        seen,
    };
    let admin = Err(PeopleDenial::RemoveAdmin("ada".to_owned()));
    assert_eq!(bench.people(drop), admin);
    // Another group that makes admins.
    bench.put_group("root", with_acl(true, &[]), None).unwrap();
    let seen = Some(bench.revision("bob"));
    bench
        .put("bob", fields(&["default", "root"]), seen)
        .unwrap();
    assert!(bench.is_admin("bob"));
    let seen = Some(bench.revision("ada"));
    bench.put("ada", fields(&["default"]), seen).unwrap();
    assert!(!bench.is_admin("ada"));
    // It is the only one by now.
    let seen = bench.state.groups()[&group("root")].revision;
    let (name, left) = (group("root"), with_acl(false, &[]));
    let refused = [
        bench.put_group("root", left, Some(seen)),
        bench.people(PeopleEdit::DropGroup { name, seen }),
    ];
    for refused in refused {
        let text = refused.unwrap_err().to_string();
        assert!(text.starts_with("acls.admin: no user would be"), "{text}");
    }
    assert!(bench.is_admin("bob"));
}

#[test]
fn a_group_that_goes_leaves_its_members() {
    let mut bench = Bench::new();
    bench
        .put_group("lab", with_acl(false, &["default"]), None)
        .unwrap();
    let seen = Some(bench.revision("bob"));
    bench.put("bob", fields(&["lab"]), seen).unwrap();
    let before = bench.revision("bob");
    let drop = |name: &str, bench: &Bench| PeopleEdit::DropGroup {
        name: group(name),
        seen: bench.state.groups()[&group(name)].revision,
    };
    let edit = drop("lab", &bench);
    bench.people(edit).unwrap();
    assert_eq!(bench.state.users_of(&group("lab")).count(), 0);
    assert!(bench.revision("bob") > before, "a change of theirs");
    for needed in ["admingroup", "default"] {
        let edit = drop(needed, &bench);
        let denial = Err(PeopleDenial::GroupNeeded(needed.to_owned()));
        assert_eq!(bench.people(edit), denial);
    }
}

#[test]
fn what_is_too_long_or_unknown_is_refused_by_its_field() {
    let mut bench = Bench::new();
    let no_group = PeopleDenial::NoGroup("lab".to_owned());
    assert_eq!(bench.put("eve", fields(&["lab"]), None), Err(no_group));
    let no_vc = PeopleDenial::NoVc("prod".to_owned());
    let prod = with_acl(false, &["prod"]);
    assert_eq!(bench.put_group("prod", prod, None), Err(no_vc));
    let field = |denied: Result<(), PeopleDenial>| match denied {
        Err(PeopleDenial::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let mut long = fields(&[]);
    long.email = "x".repeat(400);
    assert_eq!(field(bench.put("eve", long, None)), "email");
    let mut long = fields(&[]);
    long.extension = format!("{{\"a\":\"{}\"}}", "x".repeat(9_000));
    assert_eq!(field(bench.put("eve", long, None)), "extension");
    let mut long = with_acl(false, &[]);
    long.description = "x".repeat(2_000);
    assert_eq!(field(bench.put_group("lab", long, None)), "description");
    let mut nameless = with_acl(false, &[]);
    nameless.acl.storages = vec![String::new()];
    assert_eq!(
        field(bench.put_group("lab", nameless, None)),
        "storageConfigs"
    );
    for number in bench.state.groups().len()..GROUPS_MAX {
        let name = format!("g{number}");
        bench.put_group(&name, with_acl(false, &[]), None).unwrap();
    }
    let more = bench.put_group("more", with_acl(false, &[]), None);
    assert_eq!(field(more), "groupname");
}

#[test]
fn a_new_password_ends_logins_and_no_application() {
    let mut bench = Bench::new();
    let temporary = UserToken {
        kind: TokenKind::Application,
        ..user_token("temporary", Some(1_000))
    };
    bench.apply(&issue_token("bob", temporary, 1)).unwrap();
    for (text, expires_s) in [("login", Some(1_000)), ("program", None)] {
        let token = user_token(text, expires_s);
        bench.apply(&issue_token("bob", token, 1)).unwrap();
    }
    let held = |bench: &Bench| {
        let bob = bench.state.user(&user("bob")).unwrap().clone();
        bob.tokens
            .into_iter()
            .map(|it| it.text.0)
            .collect::<Vec<_>>()
    };
    let edit = |forgets_logins, bench: &Bench| PeopleEdit::PutUser {
        name: user("bob"),
        fields: fields(&["default"]),
        forgets_logins,
        seen: Some(bench.revision("bob")),
    };
    let stays = edit(false, &bench);
    bench.people(stays).unwrap();
    assert_eq!(held(&bench), ["temporary", "login", "program"]);
    let forgets = edit(true, &bench);
    bench.people(forgets).unwrap();
    assert_eq!(held(&bench), ["temporary", "program"]);
}

#[test]
fn the_audit_log_says_who_changed_what_and_no_secret() {
    let mut bench = Bench::new();
    bench.put("eve", fields(&["default"]), None).unwrap();
    let mut other = fields(&["default", "admingroup"]);
    other.password_hash = Hidden("$argon2id$another".to_owned());
    other.extension = r#"{"githubPAT":"new","theme":"dark"}"#.to_owned();
    let seen = Some(bench.revision("eve"));
    bench.put("eve", other, seen).unwrap();
    bench
        .put_group("lab", with_acl(false, &["default"]), None)
        .unwrap();
    let log = bench.state.audit(None, 10);
    let actions: Vec<_> = log.records.iter().map(|it| it.action.as_str()).collect();
    assert_eq!(
        actions,
        ["group.add", "user.change", "user.add"],
        "the newest first"
    );
    let [lab, change, add] = &log.records[..] else {
        panic!("{log:?}")
    };
    assert_eq!((add.subject.as_str(), add.before.as_str()), ("eve", ""));
    let by = (change.by.user.as_str(), change.by.address.as_str());
    assert_eq!((by, change.by.node.as_str()), (("ada", "192.0.2.1"), "n0"));
    assert_eq!(change.before, add.after);
    for part in [
        r#""passwordChanged":true"#,
        r#""extensionChanged":["githubPAT","theme"]"#,
        r#""groups":["admingroup","default"]"#,
    ] {
        assert!(change.after.contains(part), "{part}: {}", change.after);
    }
    assert!(
        lab.after.contains(r#""virtualClusters":["default"]"#),
        "{}",
        lab.after
    );
    let all = format!("{log:?}");
    assert!(!all.contains("argon2") && !all.contains("hush"), "{all}");
    let eves = bench.state.audit(Some("eve"), 1);
    assert_eq!(eves.records, std::slice::from_ref(change));
}

#[test]
fn old_records_of_the_audit_log_are_dropped_by_count_and_by_age() {
    let mut bench = Bench::new();
    let change = |bench: &mut Bench, at_ms| {
        let edit = PeopleEdit::PutUser {
            name: user("bob"),
            fields: fields(&["default"]),
            forgets_logins: false,
            seen: Some(bench.revision("bob")),
        };
        bench.index += 1;
        let applied = bench.state.apply(bench.index, &entry_at(edit, at_ms));
        applied.unwrap();
    };
    for _ in 0..AUDIT_RECORDS_MAX + 5 {
        change(&mut bench, 1_000);
    }
    let log = bench.state.audit(None, usize::MAX);
    assert_eq!((log.records.len(), log.dropped), (AUDIT_RECORDS_MAX, 5));
    change(&mut bench, 1_000 + AUDIT_AGE_MS + 1);
    let log = bench.state.audit(None, usize::MAX);
    assert_eq!(log.records.len(), 1, "all others are too old");
    assert_eq!(log.dropped, (AUDIT_RECORDS_MAX + 5) as u64);
}

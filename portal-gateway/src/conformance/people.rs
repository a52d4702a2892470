//! How users and groups are changed, and that it is recorded.

use muster_model::id::{GroupName, UserName};
use muster_model::people::{
    ADMIN_GROUP, Author, ExtensionChange, GroupAcl, GroupPatch, GroupsChange, NewGroup,
    NewPassword, NewUser, PeopleChange, PeopleDenial, UserPatch,
};
use muster_model::secret::Hidden;
use muster_model::user_token::NewUserToken;
use serde_json::json;

use super::NOBODY;
use super::users::{asking, login};
use crate::port::{DEFAULT_VC, GroupView, PortError, UserView, Users};

const USER: &str = "conformance.user";
const GROUP: &str = "conformance_group";
const PASSWORD: &str = "first-password";
const OTHER_PASSWORD: &str = "other-password";
/// What a user keeps that nobody else may see.
const SECRET: &str = "secret-of-the-user";
/// A user that OpenPAI knew.
const IMPORTED: &str = "imported";
const IMPORTED_PASSWORD: &str = "openpai-password";
const IMPORTED_HASH: &str = "eb3c43fd5c1115b5cf07f19f033bf5f574d392c763de4fdc2445c474c5fe4d8a\
     a31106aaca064a0ad4a5b74fddd0a6550ffc6132e638cdbae78d7ffb60263aec";

/// An admin who changes users and groups.
struct ChangingAdmin<'u> {
    users: &'u dyn Users,
    author: Author,
}

/// Everything that changes do, asked for by the only admin. Afterwards users and groups are as before.
pub(super) async fn people(users: &dyn Users, admin: &str) {
    let author = Author {
        user: admin.to_owned(),
        address: "192.0.2.1".to_owned(),
        node: String::new(),
    };
    let admin = ChangingAdmin { users, author };
    admin.adds().await;
    admin.changes().await;
    admin.sets_the_password().await;
    admin.imports().await;
    admin.groups().await;
    admin.vcs().await;
    admin.makes_admins().await;
    admin.removes().await;
    admin.is_recorded().await;
}

impl ChangingAdmin<'_> {
    async fn change(&self, change: PeopleChange) -> Result<(), PortError> {
        self.users.change(&self.author, change).await
    }

    async fn patch(&self, patch: UserPatch) -> Result<(), PortError> {
        let user = USER.parse().unwrap();
        self.change(PeopleChange::ChangeUser { user, patch }).await
    }

    async fn put_in(&self, groups: GroupsChange) -> Result<(), PortError> {
        let patch = UserPatch {
            groups,
            ..UserPatch::default()
        };
        self.patch(patch).await
    }

    async fn patch_group(&self, group: &str, acl: GroupAcl) -> Result<(), PortError> {
        let patch = GroupPatch {
            acl: Some(acl),
            ..GroupPatch::default()
        };
        let group = group.parse().unwrap();
        let change = PeopleChange::ChangeGroup { group, patch };
        self.change(change).await
    }

    async fn user(&self) -> UserView {
        self.users.user(USER).await.unwrap()
    }

    async fn group(&self, name: &str) -> Option<GroupView> {
        let groups = self.users.groups().await.unwrap();
        groups.into_iter().find(|it| it.name.as_str() == name)
    }

    async fn logs_in(&self, name: &str, password: &str) -> Result<String, PortError> {
        let login = login(self.users, name, password).await;
        login.map(|login| login.token)
    }

    async fn adds(&self) {
        let mut new = new_user(USER, NewPassword::Plain(Hidden(PASSWORD.to_owned())));
        new.groups.add.insert(NOBODY.parse().unwrap());
        let added = self.change(PeopleChange::AddUser(new.clone()));
        refused!(added, PortError::People(PeopleDenial::NoGroup(_)));
        refused!(self.users.user(USER), PortError::NoUser(_));

        new.groups = GroupsChange::default();
        let add = PeopleChange::AddUser(new);
        self.change(add.clone()).await.unwrap();
        let again = self.change(add);
        refused!(again, PortError::People(PeopleDenial::UserExists(_)));
        let user = self.user().await;
        assert_eq!((user.name.as_str(), &*user.email), (USER, "a@example.com"));
        assert_eq!(user.groups, [DEFAULT_VC.parse::<GroupName>().unwrap()]);
        assert_eq!(user.extension, json!({"a": 1, "b": 2}));
        assert!(!user.admin);
        assert!(self.users.list().await.unwrap().contains(&user));
        self.logs_in(USER, PASSWORD).await.unwrap();
        let wrong = self.logs_in(USER, OTHER_PASSWORD);
        refused!(wrong, PortError::WrongPassword);
    }

    async fn changes(&self) {
        let before = self.user().await;
        let merge = json!({"a": null, "b": {"d": 3}, "githubPAT": SECRET});
        let patch = UserPatch {
            email: Some("b@example.com".to_owned()),
            extension: Some(ExtensionChange::Merge(merge.to_string())),
            revision: Some(before.revision),
            ..UserPatch::default()
        };
        self.patch(patch.clone()).await.unwrap();
        let user = self.user().await;
        assert_eq!(user.email, "b@example.com");
        let want = json!({"b": {"d": 3}, "githubPAT": SECRET});
        assert_eq!(user.extension, want);
        assert!(user.revision > before.revision);
        let outdated = self.patch(patch);
        refused!(outdated, PortError::People(PeopleDenial::Changed { .. }));
        assert_eq!(self.user().await, user);

        let at = ExtensionChange::At {
            path: vec!["b".to_owned(), "e".to_owned()],
            value: "[4]".to_owned(),
        };
        self.extend(at).await.unwrap();
        let extension = self.user().await.extension;
        assert_eq!(extension["b"], json!({"d": 3, "e": [4]}));
        let broken = self.extend(ExtensionChange::Merge("[]".to_owned()));
        refused!(broken, PortError::People(PeopleDenial::Invalid { .. }));

        let user = NOBODY.parse().unwrap();
        let patch = UserPatch::default();
        let nobody = self.change(PeopleChange::ChangeUser { user, patch });
        refused!(nobody, PortError::People(PeopleDenial::NoUser(_)));
    }

    async fn extend(&self, change: ExtensionChange) -> Result<(), PortError> {
        let patch = UserPatch {
            extension: Some(change),
            ..UserPatch::default()
        };
        self.patch(patch).await
    }

    async fn sets_the_password(&self) {
        let user: UserName = USER.parse().unwrap();
        let by = asking(USER);
        let issued = self.users.issue_token(&by, &user, NewUserToken::default());
        let program = issued.await.unwrap().text.0;
        let login = self.logs_in(USER, PASSWORD).await.unwrap();
        let new = NewPassword::Plain(Hidden(OTHER_PASSWORD.to_owned()));
        let with_old = |old: &str| UserPatch {
            password: Some(new.clone()),
            old_password: Some(Hidden(old.to_owned())),
            ..UserPatch::default()
        };
        let wrong = self.patch(with_old("wrong-password"));
        refused!(wrong, PortError::People(PeopleDenial::WrongPassword));
        self.users.check_token(&login).await.unwrap();

        self.patch(with_old(PASSWORD)).await.unwrap();
        refused!(self.users.check_token(&login), PortError::InvalidToken);
        self.users.check_token(&program).await.unwrap();
        refused!(self.logs_in(USER, PASSWORD), PortError::WrongPassword);
        self.logs_in(USER, OTHER_PASSWORD).await.unwrap();
    }

    async fn imports(&self) {
        let hash = NewPassword::OpenPai(Hidden(IMPORTED_HASH.to_owned()));
        let add = PeopleChange::AddUser(new_user(IMPORTED, hash));
        self.change(add).await.unwrap();
        let wrong = self.logs_in(IMPORTED, PASSWORD);
        refused!(wrong, PortError::WrongPassword);
        let token = self.logs_in(IMPORTED, IMPORTED_PASSWORD).await.unwrap();
        let remove = |revision| {
            let user = IMPORTED.parse().unwrap();
            self.change(PeopleChange::RemoveUser { user, revision })
        };
        let old = remove(Some(0));
        refused!(old, PortError::People(PeopleDenial::Changed { .. }));
        let current = self.users.user(IMPORTED).await.unwrap().revision;
        remove(Some(current)).await.unwrap();
        refused!(self.users.check_token(&token), PortError::InvalidToken);
        let gone = self.logs_in(IMPORTED, IMPORTED_PASSWORD);
        refused!(gone, PortError::NoUser(_));
    }

    async fn groups(&self) {
        let acl = GroupAcl {
            admin: true,
            ..GroupAcl::default()
        };
        let group = NewGroup {
            name: GROUP.parse().unwrap(),
            description: "a test".to_owned(),
            external_name: "elsewhere".to_owned(),
            acl,
            extension: r#"{"k": 1}"#.to_owned(),
        };
        let add = PeopleChange::AddGroup(group);
        self.change(add.clone()).await.unwrap();
        let again = self.change(add);
        refused!(again, PortError::People(PeopleDenial::GroupExists(_)));
        let found = self.group(GROUP).await.unwrap();
        let texts = (&*found.description, &*found.external_name);
        assert_eq!(texts, ("a test", "elsewhere"));
        assert_eq!(found.extension, json!({"k": 1}));

        let join = GroupsChange {
            add: [found.name.clone()].into(),
            ..GroupsChange::default()
        };
        self.put_in(join).await.unwrap();
        let user = self.user().await;
        assert!(user.admin && user.groups.contains(&found.name));
        let member = GroupAcl {
            storages: vec!["data".to_owned()],
            ..GroupAcl::default()
        };
        self.patch_group(GROUP, member).await.unwrap();
        let user = self.user().await;
        assert!(!user.admin && user.storages == ["data"]);
        assert!(self.group(GROUP).await.unwrap().revision > found.revision);
        self.removes_groups(found.name).await;
    }

    async fn removes_groups(&self, group: GroupName) {
        let remove = |name: &str| {
            let group = name.parse().unwrap();
            self.change(PeopleChange::RemoveGroup {
                group,
                revision: None,
            })
        };
        for needed in [ADMIN_GROUP, DEFAULT_VC] {
            let removed = remove(needed);
            refused!(removed, PortError::People(PeopleDenial::GroupNeeded(_)));
        }
        refused!(remove(NOBODY), PortError::People(PeopleDenial::NoGroup(_)));
        remove(group.as_str()).await.unwrap();
        assert!(self.group(group.as_str()).await.is_none());
        let user = self.user().await;
        assert!(!user.groups.contains(&group) && user.storages.is_empty());
    }

    async fn vcs(&self) {
        let vc = DEFAULT_VC.parse().unwrap();
        assert!(self.user().await.vcs.contains(&vc));
        let acl = self.group(DEFAULT_VC).await.unwrap().acl;
        let none = GroupAcl::default();
        self.patch_group(DEFAULT_VC, none).await.unwrap();
        assert!(!self.user().await.vcs.contains(&vc));
        self.patch_group(DEFAULT_VC, acl).await.unwrap();
        assert!(self.user().await.vcs.contains(&vc));

        let unknown = GroupsChange {
            vcs: Some([NOBODY.parse().unwrap()].into()),
            ..GroupsChange::default()
        };
        let refused = self.put_in(unknown);
        refused!(refused, PortError::People(PeopleDenial::NoVc(_)));
        let default = GroupsChange {
            vcs: Some([vc.clone()].into()),
            ..GroupsChange::default()
        };
        self.put_in(default).await.unwrap();
        assert!(self.user().await.vcs.contains(&vc));
    }

    async fn makes_admins(&self) {
        let admin = |admin| GroupsChange {
            admin: Some(admin),
            ..GroupsChange::default()
        };
        self.put_in(admin(true)).await.unwrap();
        assert!(self.user().await.admin);
        let vcs = GroupsChange {
            vcs: Some(Default::default()),
            ..GroupsChange::default()
        };
        let refused = self.put_in(vcs);
        refused!(refused, PortError::People(PeopleDenial::AdminVcs(_)));
        let user = USER.parse().unwrap();
        let removed = self.change(PeopleChange::RemoveUser {
            user,
            revision: None,
        });
        refused!(removed, PortError::People(PeopleDenial::RemoveAdmin(_)));

        self.put_in(admin(false)).await.unwrap();
        assert!(!self.user().await.admin);
        let patch = UserPatch {
            groups: admin(false),
            ..UserPatch::default()
        };
        let user = self.author.user.parse().unwrap();
        let last = self.change(PeopleChange::ChangeUser { user, patch });
        refused!(last, PortError::People(PeopleDenial::LastAdmin(_)));
    }

    async fn removes(&self) {
        let user: UserName = USER.parse().unwrap();
        let held = self.users.tokens(&user).await.unwrap();
        assert!(!held.is_empty());
        let remove = PeopleChange::RemoveUser {
            user,
            revision: None,
        };
        self.change(remove.clone()).await.unwrap();
        refused!(self.users.user(USER), PortError::NoUser(_));
        for token in held {
            refused!(self.users.check_token(&token), PortError::InvalidToken);
        }
        let again = self.change(remove);
        refused!(again, PortError::People(PeopleDenial::NoUser(_)));
    }

    async fn is_recorded(&self) {
        let log = self.users.audit(Some(USER), 100).await.unwrap().records;
        assert!(log.is_sorted_by(|newer, older| newer.number > older.number));
        let (added, removed) = (log.last().unwrap(), log.first().unwrap());
        assert_eq!((&*added.action, &*added.before), ("user.add", ""));
        assert!(added.after.contains("a@example.com"), "{added:?}");
        assert_eq!(removed.after, "");
        let mail = |record: &str| record.contains("b@example.com");
        let changed = |record: &&_| {
            let muster_model::people::AuditRecord { before, after, .. } = record;
            !mail(before) && mail(after)
        };
        assert_eq!(log.iter().filter(changed).count(), 1);
        assert!(log.iter().any(|record| record.action == "token.issue"));
        // Tokens are the user's own.
        let changes = log.iter().filter(|it| !it.action.starts_with("token."));
        for record in changes {
            assert_eq!(record.subject, USER);
            let by = (&record.by.user, &record.by.address);
            assert_eq!(by, (&self.author.user, &self.author.address));
            let text = format!("{record:?}");
            for secret in [PASSWORD, OTHER_PASSWORD, SECRET] {
                assert!(!text.contains(secret), "{text}");
            }
        }
        let newest = self.users.audit(Some(USER), 1).await.unwrap().records;
        assert_eq!(newest, log[..1]);
        let all = self.users.audit(None, 1_000).await.unwrap().records;
        let has = |subject: &str| all.iter().any(|record| record.subject == subject);
        assert!(has(USER) && has(GROUP) && has(IMPORTED));
        assert!(!format!("{all:?}").contains(IMPORTED_HASH));
    }
}

fn new_user(name: &str, password: NewPassword) -> NewUser {
    NewUser {
        name: name.parse().unwrap(),
        email: "a@example.com".to_owned(),
        password,
        groups: GroupsChange::default(),
        extension: r#"{"a": 1, "b": 2}"#.to_owned(),
    }
}

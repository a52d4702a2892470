use muster_control::cluster::{Hidden, UserToken};
use muster_model::people::ADMIN_GROUP;
use muster_model::storage::ClusterStorages;
use muster_model::user_token::{TokenKind, UserTokenId};
use muster_portal_gateway::token::UnsignedToken;

use super::*;
use crate::first_admin::{self, ADMIN};
use crate::keyring;

const CLUSTER: ClusterId = ClusterId([7; 16]);

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("state/mesh")).unwrap();
        Self(dir)
    }

    fn open(&self) -> Accounts {
        Accounts::new()
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("state/mesh/cluster_map")
    }
}

/// What a cluster tells that has another node's keys.
fn cluster_map(version: u64, tokens: &[&str]) -> ClusterMap {
    let home = Home::new();
    let mut users = first_admin::users(&home.0.path().join("password")).unwrap();
    let keys = keyring::random().unwrap();
    let text = |text: &&str| UserToken {
        text: Hidden((*text).to_owned()),
        id: UserTokenId(text.len() as u64),
        kind: TokenKind::Application,
        name: String::new(),
        issued_s: 0,
        expires_s: None,
        address: String::new(),
        key: 1,
        used_s: 0,
    };
    users.get_mut(&ADMIN.parse().unwrap()).unwrap().tokens = tokens.iter().map(text).collect();
    ClusterMap {
        cluster: CLUSTER,
        version,
        keys,
        vcs: Vec::new(),
        users,
        groups: admins(),
        closed: BTreeMap::new(),
        description: 0,
        policy: 0,
    }
}

/// Users without groups, of a cluster that has this version of the policy in force.
pub(crate) fn of_users(names: &[&str], policy: u64) -> Accounts {
    let home = Home::new();
    let accounts = home.open();
    accounts.enter(CLUSTER, home.file());
    let mut told = cluster_map(5, &[]);
    let admin = told.users.values().next().unwrap().clone();
    let user = ClusterUser {
        groups: BTreeSet::new(),
        ..admin
    };
    let users = names
        .iter()
        .map(|name| (name.parse().unwrap(), user.clone()));
    told.users = users.collect();
    told.policy = policy;
    accounts.brief(told).unwrap();
    accounts
}

/// The group whose members are admins.
fn admins() -> BTreeMap<GroupName, UserGroup> {
    let mut group = UserGroup::default();
    group.acl.admin = true;
    [(ADMIN_GROUP.parse().unwrap(), group)].into()
}

#[test]
fn a_member_has_the_users_and_keys_of_the_cluster_that_it_is_in() {
    let home = Home::new();
    let accounts = home.open();
    assert!(accounts.keyring().is_err() && accounts.names().is_empty());
    let before = accounts.link_key().borrow().0;
    accounts.enter(CLUSTER, home.file());
    let told = cluster_map(5, &["theirs"]);
    accounts.brief(told.clone()).unwrap();
    let theirs = accounts.keyring().unwrap();
    assert_eq!(theirs.keys, told.keys);
    assert_eq!(accounts.link_key().borrow().0, told.keys.link.0);
    assert_ne!(before, told.keys.link.0);
    assert_eq!(accounts.admin_by_token(ADMIN, "theirs"), Some(true));
    assert_eq!(accounts.admin_by_token(ADMIN, "own"), None);
    assert_eq!(accounts.tokens(ADMIN, 1), ["theirs"]);
    assert!(accounts.has_token(ADMIN, UserTokenId(6)));
    assert!(!accounts.has_token(ADMIN, UserTokenId(7)));
    assert_eq!(accounts.names(), [ADMIN]);
    assert!(accounts.account(ADMIN).unwrap().rights.admin);
    // Another cluster's count no more.
    accounts.enter(ClusterId([8; 16]), home.file());
    assert!(accounts.keyring().is_err() && accounts.names().is_empty());
    assert_eq!(accounts.admin_by_token(ADMIN, "theirs"), None);
}

#[test]
fn only_a_newer_cluster_map_of_the_same_cluster_is_taken() {
    let home = Home::new();
    let accounts = home.open();
    accounts.brief(cluster_map(5, &[])).unwrap();
    assert_eq!(accounts.version(), 0, "of no cluster that the node is in");
    accounts.enter(CLUSTER, home.file());
    for (told, expect) in [(5, 5), (4, 5), (5, 5), (6, 6)] {
        accounts.brief(cluster_map(told, &["x"])).unwrap();
        assert_eq!(accounts.version(), expect, "told {told}");
    }
    let stranger = ClusterMap {
        cluster: ClusterId([8; 16]),
        ..cluster_map(9, &[])
    };
    accounts.brief(stranger).unwrap();
    assert_eq!(accounts.version(), 6);
    let mut keyless = cluster_map(9, &[]);
    keyless.keys.token = Hidden(Vec::new());
    assert!(accounts.brief(keyless).is_err());
    assert_eq!(accounts.version(), 6);
}

#[test]
fn a_cluster_map_outlives_the_agent_and_a_damaged_one_is_none() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = Home::new();
    let accounts = home.open();
    accounts.enter(CLUSTER, home.file());
    accounts.brief(cluster_map(5, &["x"])).unwrap();
    let mode = std::fs::metadata(home.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = home.open();
    again.enter(CLUSTER, home.file());
    assert_eq!(again.version(), 5);
    assert_eq!(again.admin_by_token(ADMIN, "x"), Some(true));
    let other = home.open();
    other.enter(ClusterId([8; 16]), home.file());
    assert_eq!(other.version(), 0, "another cluster's");
    let good = std::fs::read(home.file()).unwrap();
    for at in [0, 1, 40, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        std::fs::write(home.file(), bad).unwrap();
        let damaged = home.open();
        damaged.enter(CLUSTER, home.file());
        assert_eq!(damaged.version(), 0, "byte {at}");
        assert!(damaged.keyring().is_err());
    }
}

#[test]
fn what_was_checked_with_a_key_is_forgotten_with_it() {
    let home = Home::new();
    let accounts = home.open();
    accounts.enter(CLUSTER, home.file());
    let told = cluster_map(5, &[]);
    accounts.brief(told.clone()).unwrap();
    let first = accounts.keyring().unwrap();
    let unsigned = UnsignedToken {
        user: &ADMIN.parse().unwrap(),
        kind: TokenKind::Login,
        at_s: 100,
        expires_s: None,
        id: UserTokenId(1),
    };
    let token = first.issuer.issue(&unsigned).unwrap();
    let good = |keyring: &Keyring| keyring.checked.claims(&keyring.issuer, &token, 101).is_ok();
    assert!(good(&first));
    accounts.brief(ClusterMap { version: 6, ..told }).unwrap();
    let same = accounts.keyring().unwrap();
    assert!(Arc::ptr_eq(&first, &same), "made anew without need");
    accounts.brief(cluster_map(7, &[])).unwrap();
    assert!(!good(&accounts.keyring().unwrap()), "other keys");
}

#[tokio::test]
async fn keys_are_waited_for() {
    let home = Home::new();
    let accounts = home.open();
    accounts.enter(CLUSTER, home.file());
    let told = cluster_map(5, &[]);
    let waiting = accounts.keyring_soon();
    let telling = async { accounts.brief(told.clone()).unwrap() };
    let (keyring, ()) = tokio::join!(waiting, telling);
    assert_eq!(keyring.keys, told.keys);
}

#[tokio::test]
async fn a_storage_is_opened_with_what_was_sealed_for_it() {
    let home = Home::new();
    let accounts = home.open();
    accounts.enter(CLUSTER, home.file());
    assert!(
        accounts.seal_credential("home", "p,w").is_err(),
        "no keys yet"
    );
    accounts.brief(cluster_map(5, &[])).unwrap();
    let sealed = accounts.seal_credential("home", "p,w").unwrap();
    assert!(sealed.starts_with("sealed:") && !sealed.contains("p,w"));
    assert_ne!(sealed, accounts.seal_credential("home", "p,w").unwrap());
    let named = |name: &str| {
        let text = format!(
            "storages: [{{name: {name}, type: samba, data: {{address: //s/d, password: '{sealed}'}}}}]"
        );
        ClusterStorages::read(&text).unwrap().storages.remove(0)
    };
    let opened = accounts.open_storage(&named("home")).await.unwrap();
    assert_eq!(opened.data["password"], "p,w");
    let why = accounts.open_storage(&named("other")).await.unwrap_err();
    assert!(why.contains("write them anew"), "{why}");
    accounts.brief(cluster_map(7, &[])).unwrap();
    assert!(
        accounts.open_storage(&named("home")).await.is_err(),
        "other keys"
    );
}

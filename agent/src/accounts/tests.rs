use muster_control::cluster::{Hidden, UserToken};
use muster_portal_gateway::token::Kind;

use super::*;
use crate::users::ADMIN;

const CLUSTER: ClusterId = ClusterId([7; 16]);

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("state/mesh")).unwrap();
        Self(dir)
    }

    fn open(&self) -> Accounts {
        Accounts::open(&Paths::new(Some(self.0.path()))).unwrap()
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("state/mesh/briefing")
    }
}

/// What a cluster tells that has another node's keys.
fn briefing(version: u64, tokens: &[&str]) -> Briefing {
    let (mut users, keys) = Home::new().open().founding();
    let text = |text: &&str| UserToken {
        text: Hidden((*text).to_owned()),
        expires_s: None,
    };
    users.get_mut(&ADMIN.parse().unwrap()).unwrap().tokens = tokens.iter().map(text).collect();
    Briefing {
        cluster: CLUSTER,
        version,
        keys,
        vcs: Vec::new(),
        users,
        closed: BTreeMap::new(),
        description: 0,
    }
}

#[test]
fn a_member_has_the_clusters_users_and_its_own_again_after_leaving() {
    let home = Home::new();
    let accounts = home.open();
    let own = accounts.keyring().unwrap();
    let own_users = accounts.own().unwrap();
    own_users.add_token(ADMIN, "own", None, 1).unwrap();
    accounts.enter(CLUSTER);
    assert!(accounts.keyring().is_err() && accounts.own().is_none());
    assert_eq!(accounts.admin_by_token(ADMIN, "own"), None);
    let told = briefing(5, &["theirs"]);
    accounts.brief(told.clone()).unwrap();
    let theirs = accounts.keyring().unwrap();
    assert_eq!(theirs.keys, told.keys);
    assert_eq!(accounts.link_key().borrow().0, told.keys.link.0);
    assert_eq!(accounts.admin_by_token(ADMIN, "theirs"), Some(true));
    assert_eq!(accounts.admin_by_token(ADMIN, "own"), None);
    assert_eq!(accounts.tokens(ADMIN, 1), ["theirs"]);
    assert_eq!(accounts.names(), [ADMIN]);
    assert!(accounts.account(ADMIN).unwrap().admin);
    accounts.leave();
    assert_eq!(accounts.keyring().unwrap().keys, own.keys);
    assert_eq!(accounts.link_key().borrow().0, own.keys.link.0);
    assert_eq!(accounts.admin_by_token(ADMIN, "own"), Some(true));
    assert!(!home.file().exists());
}

#[test]
fn only_a_newer_briefing_of_the_same_cluster_is_taken() {
    let home = Home::new();
    let accounts = home.open();
    accounts.brief(briefing(5, &[])).unwrap();
    assert_eq!(accounts.version(), 0, "on its own");
    accounts.enter(CLUSTER);
    for (told, expect) in [(5, 5), (4, 5), (5, 5), (6, 6)] {
        accounts.brief(briefing(told, &["x"])).unwrap();
        assert_eq!(accounts.version(), expect, "told {told}");
    }
    let stranger = Briefing {
        cluster: ClusterId([8; 16]),
        ..briefing(9, &[])
    };
    accounts.brief(stranger).unwrap();
    assert_eq!(accounts.version(), 6);
    let mut keyless = briefing(9, &[]);
    keyless.keys.token = Hidden(Vec::new());
    assert!(accounts.brief(keyless).is_err());
    assert_eq!(accounts.version(), 6);
}

#[test]
fn a_briefing_outlives_the_agent_and_a_damaged_one_is_none() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = Home::new();
    let accounts = home.open();
    accounts.enter(CLUSTER);
    accounts.brief(briefing(5, &["x"])).unwrap();
    let mode = std::fs::metadata(home.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = home.open();
    again.enter(CLUSTER);
    assert_eq!(again.version(), 5);
    assert_eq!(again.admin_by_token(ADMIN, "x"), Some(true));
    let other = home.open();
    other.enter(ClusterId([8; 16]));
    assert_eq!(other.version(), 0, "another cluster's");
    let good = std::fs::read(home.file()).unwrap();
    for at in [0, 1, 40, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        std::fs::write(home.file(), bad).unwrap();
        let damaged = home.open();
        damaged.enter(CLUSTER);
        assert_eq!(damaged.version(), 0, "byte {at}");
        assert!(damaged.keyring().is_err());
    }
}

#[test]
fn what_was_checked_with_a_key_is_forgotten_with_it() {
    let home = Home::new();
    let accounts = home.open();
    let own = accounts.keyring().unwrap();
    let user = ADMIN.parse().unwrap();
    let token = own.issuer.issue(&user, Kind::User, 100, 1).unwrap();
    let good = |keyring: &Keyring| keyring.checked.claims(&keyring.issuer, &token, 101).is_ok();
    assert!(good(&own));
    accounts.enter(CLUSTER);
    let told = briefing(5, &[]);
    accounts.brief(told.clone()).unwrap();
    let theirs = accounts.keyring().unwrap();
    assert!(!good(&theirs));
    accounts.brief(Briefing { version: 6, ..told }).unwrap();
    let same = accounts.keyring().unwrap();
    assert!(Arc::ptr_eq(&theirs, &same), "made anew without need");
    // Whoever founds a cluster goes on with its own.
    let home = Home::new();
    let founder = home.open();
    let (users, keys) = founder.founding();
    founder.enter(CLUSTER);
    let told = Briefing {
        cluster: CLUSTER,
        version: 1,
        keys,
        vcs: Vec::new(),
        users,
        closed: BTreeMap::new(),
        description: 0,
    };
    founder.brief(told).unwrap();
    assert_eq!(founder.version(), 1);
}

#[tokio::test]
async fn keys_are_waited_for() {
    let home = Home::new();
    let accounts = home.open();
    accounts.enter(CLUSTER);
    let told = briefing(5, &[]);
    let waiting = accounts.keyring_soon();
    let telling = async { accounts.brief(told.clone()).unwrap() };
    let (keyring, ()) = tokio::join!(waiting, telling);
    assert_eq!(keyring.keys, told.keys);
}

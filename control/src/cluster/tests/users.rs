use muster_model::id::UserName;
use muster_model::people::EXTENSION_BYTES_MAX;
use muster_model::user_token::TokenSelection;

use super::user_tokens::revoked;
use super::world::{Bench, init, issue_token, keys, new_token, user_token, whole_init};
use crate::cluster::{
    ALL_TOKENS_MAX, APPLICATION_TOKENS_MAX, ClusterApplied, ClusterEntry, ClusterInit,
    ClusterRejection, ClusterState, Hidden, TOKEN_KEY_MAX, TOKEN_TEXT_MAX, USER_TOKENS_MAX,
    USERS_MAX,
};

fn name(text: &str) -> UserName {
    text.parse().unwrap()
}

fn issue(user: &str, text: &str, expires_s: Option<u64>, now_s: u64) -> ClusterEntry {
    issue_token(user, user_token(text, expires_s), now_s)
}

fn revoke(user: &str, text: &str) -> ClusterEntry {
    revoked(TokenSelection::Text(name(user), Hidden(text.to_owned())))
}

fn held(state: &ClusterState, user: &str) -> Vec<String> {
    let tokens = state.user(&name(user)).unwrap().tokens.iter();
    tokens.map(|token| token.text.0.clone()).collect()
}

#[test]
fn tokens_are_kept_until_they_expire_or_are_revoked() {
    let mut bench = Bench::new();
    for entry in [
        issue("ada", "short", Some(10), 1),
        issue("ada", "for ever", None, 2),
        issue("bob", "his", None, 3),
    ] {
        assert_eq!(bench.apply(&entry), Ok(ClusterApplied::Users));
    }
    let ada = bench.state.user(&name("ada")).unwrap();
    assert_eq!(ada.valid(9).count(), 2);
    assert_eq!(ada.valid(10).count(), 1);
    bench.apply(&issue("ada", "late", None, 10)).unwrap();
    assert_eq!(held(&bench.state, "ada"), ["for ever", "late"]);
    bench.apply(&revoke("ada", "for ever")).unwrap();
    assert_eq!(held(&bench.state, "ada"), ["late"]);
    bench.apply(&revoke("ada", "his")).unwrap();
    assert_eq!(held(&bench.state, "bob"), ["his"]);
    let nobody = Err(ClusterRejection::NoUser(name("eve")));
    assert_eq!(bench.apply(&issue("eve", "x", None, 1)), nobody);
    assert_eq!(bench.apply(&revoke("eve", "x")), nobody);
    for text in ["", &"x".repeat(TOKEN_TEXT_MAX + 1)] {
        let rejected = Err(ClusterRejection::TokenText(text.len()));
        assert_eq!(bench.apply(&issue("ada", text, None, 1)), rejected);
    }
}

#[test]
fn the_version_of_the_cluster_map_is_the_last_entry_that_changed_it() {
    let mut bench = Bench::new();
    assert_eq!(bench.state.map_version(), 1, "the first one");
    bench.token(new_token(1, 1)).unwrap();
    assert_eq!(bench.state.map_version(), 1, "nothing in the cluster map");
    bench.apply(&issue("ada", "x", None, 1)).unwrap();
    assert_eq!(bench.state.map_version(), 3);
    bench.apply(&issue("ada", "x", None, 2)).unwrap();
    bench.apply(&revoke("ada", "y")).unwrap();
    assert_eq!(bench.state.map_version(), 3, "as it was");
    assert_eq!(held(&bench.state, "ada"), ["x"]);
    bench.apply(&revoke("ada", "x")).unwrap();
    assert_eq!(bench.state.map_version(), 6);
    let restored = ClusterState::restore(&bench.state.snapshot()).unwrap();
    assert_eq!(restored.cluster_map(), bench.state.cluster_map());
}

#[test]
fn a_cluster_map_has_all_but_the_hashes_of_passwords() {
    assert_eq!(ClusterState::default().cluster_map(), None);
    let mut bench = Bench::new();
    bench.apply(&issue("ada", "text", Some(9), 1)).unwrap();
    let cluster_map = bench.state.cluster_map().unwrap();
    assert_eq!(cluster_map.cluster, bench.state.cluster().unwrap().id);
    assert_eq!((cluster_map.version, &cluster_map.keys), (2, &keys()));
    let ada = &cluster_map.users[&name("ada")];
    assert!(ada.holds("text"), "{ada:?}");
    assert!(cluster_map.rights(&name("ada")).unwrap().admin);
    assert!(!cluster_map.rights(&name("bob")).unwrap().admin);
    let mut hashes = cluster_map.users.values().map(|user| &user.password_hash.0);
    assert!(hashes.all(String::is_empty));
    let kept = bench.state.user(&name("ada")).unwrap();
    assert_eq!(kept.password_hash.0, "$argon2id$x");
}

#[test]
fn the_oldest_token_goes_where_there_is_no_room() {
    let mut bench = Bench::new();
    for number in 0..=USER_TOKENS_MAX {
        bench.index += 1;
        // The first is a program's.
        let expires_s = (number > 0).then_some(9);
        let entry = issue("ada", &number.to_string(), expires_s, 1);
        bench.state.apply(bench.index, &entry).unwrap();
    }
    let held = held(&bench.state, "ada");
    assert_eq!(held.len(), USER_TOKENS_MAX);
    let (first, last) = (&held[..2], held.last().unwrap());
    assert_eq!(
        (first, last.as_str()),
        (&["0".into(), "2".into()][..], "1000")
    );
}

#[test]
fn a_programs_token_is_refused_where_there_is_no_room_and_never_forgotten() {
    let mut bench = Bench::new();
    for number in 0..APPLICATION_TOKENS_MAX {
        bench.index += 1;
        let entry = issue("ada", &number.to_string(), None, 1);
        bench.state.apply(bench.index, &entry).unwrap();
    }
    let one_more = bench.state.apply(2_000, &issue("ada", "app", None, 1));
    let refused = ClusterRejection::TooManyApplicationTokens(name("ada"));
    assert_eq!(one_more, Err(refused));
    for number in 0..USER_TOKENS_MAX {
        let entry = issue("ada", &format!("login {number}"), Some(9), 1);
        bench.state.apply(3_000 + number as u64, &entry).unwrap();
    }
    let held = held(&bench.state, "ada");
    assert_eq!(held.len(), USER_TOKENS_MAX);
    assert_eq!(held[APPLICATION_TOKENS_MAX - 1], "899");
    assert_eq!(held.last().unwrap(), "login 999");
}

#[test]
fn whoever_has_the_most_tokens_makes_room_for_others() {
    let mut init = whole_init();
    let many = |count: usize| {
        let login = |it: usize| user_token(&it.to_string(), Some(9));
        (0..count).map(login).collect()
    };
    let sample = init.users[&name("bob")].clone();
    for number in 0..ALL_TOKENS_MAX / USER_TOKENS_MAX {
        let mut user = sample.clone();
        user.tokens = many(USER_TOKENS_MAX);
        init.users.insert(name(&format!("u{number:02}")), user);
    }
    let mut state = ClusterState::default();
    state.apply(1, &ClusterEntry::Init(Box::new(init))).unwrap();
    state.apply(2, &issue("bob", "one more", None, 1)).unwrap();
    assert_eq!(held(&state, "bob"), ["one more"]);
    let all: usize = state.users().map(|(_, user)| user.tokens.len()).sum();
    assert_eq!(all, ALL_TOKENS_MAX);
}

#[test]
fn users_and_keys_beyond_their_bounds_found_no_cluster() {
    let sample = || whole_init().users[&name("bob")].clone();
    let with = |edit: &dyn Fn(&mut ClusterInit)| {
        let mut init = whole_init();
        edit(&mut init);
        let mut state = ClusterState::default();
        let result = state.apply(1, &ClusterEntry::Init(Box::new(init)));
        assert_eq!(state.snapshot(), ClusterState::default().snapshot());
        result.unwrap_err()
    };
    let crowd = with(&|init| {
        let users = 0..=USERS_MAX;
        init.users = users
            .map(|it| (name(&format!("u{it}")), sample()))
            .collect();
    });
    assert_eq!(crowd, ClusterRejection::TooManyUsers(USERS_MAX + 1));
    let key = with(&|init| init.keys.token = Hidden(vec![0; TOKEN_KEY_MAX + 1]));
    assert_eq!(key, ClusterRejection::TokenKeys);
    let long = with(&|init| {
        let mut user = sample();
        user.extension = "x".repeat(EXTENSION_BYTES_MAX + 1);
        init.users.insert(name("long"), user);
    });
    assert_eq!(long, ClusterRejection::UserTooLong(name("long")));
}

#[test]
fn nothing_that_is_printed_tells_a_secret() {
    let mut bench = Bench::new();
    let entry = issue("ada", "the token", None, 1);
    bench.apply(&entry).unwrap();
    let entries = [init(), entry, revoke("ada", "the token")];
    for text in [
        format!("{entries:?}"),
        format!("{:?}", bench.state),
        format!("{:?}", bench.state.cluster_map()),
    ] {
        for secret in ["the token", "argon2id", "102", "201", "202", "203"] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
    }
}

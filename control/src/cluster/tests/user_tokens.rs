//! Tokens of users: their records, their revocation, and the keys that sign them.

use muster_model::id::UserName;
use muster_model::people::PeopleDenial;
use muster_model::user_token::{
    TOKEN_NAME_CHARS_MAX, TokenKind, TokenSelection, TokenUse, UserTokenId,
};

use super::world::{Bench, author, issue_token, keys, user_token};
use crate::cluster::{
    AUDIT_RECORDS_MAX, ClusterApplied, ClusterEntry, ClusterRejection, Hidden, RETIRED_KEYS_MAX,
    RetiredTokenKey, TOKEN_ADDRESS_MAX, TOKEN_KEY_MAX, TOKEN_USES_MAX, TokenKeyChange, UserToken,
    UserTokensRevocation,
};

fn name(text: &str) -> UserName {
    text.parse().unwrap()
}

pub(super) fn revoked(which: TokenSelection) -> ClusterEntry {
    ClusterEntry::UserTokensRevoked(Box::new(UserTokensRevocation {
        which,
        by: author("root"),
        now_s: 5,
    }))
}

fn rotated_at(number: u32, now_s: u64) -> ClusterEntry {
    ClusterEntry::TokenKeyChanged(Box::new(TokenKeyChange {
        number,
        key: Hidden(vec![203; 80]),
        public_before: number.to_le_bytes().to_vec(),
        by: author("root"),
        now_s,
    }))
}

/// The key of this number signs from now on.
pub(super) fn rotated(number: u32) -> ClusterEntry {
    rotated_at(number, 0)
}

fn held(bench: &Bench, user: &str) -> Vec<String> {
    let tokens = bench.state.user(&name(user)).unwrap().tokens.iter();
    tokens.map(|token| token.text.0.clone()).collect()
}

/// ada has `a1` and `a2`, bob has `b1`.
fn three() -> Bench {
    let mut bench = Bench::new();
    for (user, text) in [("ada", "a1"), ("ada", "a2"), ("bob", "b1")] {
        let token = user_token(text, None);
        bench.apply(&issue_token(user, token, 1)).unwrap();
    }
    bench
}

#[test]
fn tokens_are_revoked_one_by_one_of_one_user_and_of_all() {
    let id = |text: &str| user_token(text, None).id;
    let text = |text: &str| Hidden(text.to_owned());
    let none: &[&str] = &[];
    for (which, ada, bob) in [
        (
            TokenSelection::Id(name("ada"), id("a1")),
            &["a2"][..],
            &["b1"][..],
        ),
        (
            TokenSelection::Text(name("ada"), text("a2")),
            &["a1"],
            &["b1"],
        ),
        (
            TokenSelection::Id(name("bob"), id("a1")),
            &["a1", "a2"],
            &["b1"],
        ),
        (
            TokenSelection::Text(name("bob"), text("a1")),
            &["a1", "a2"],
            &["b1"],
        ),
        (TokenSelection::OfUser(name("ada")), none, &["b1"]),
        (TokenSelection::All, none, none),
    ] {
        let mut bench = three();
        let gone = 3 - ada.len() - bob.len();
        assert_eq!(bench.state.selected(&which), gone, "{which:?}");
        let version = bench.state.map_version();
        assert_eq!(
            bench.apply(&revoked(which.clone())),
            Ok(ClusterApplied::Users)
        );
        assert_eq!(held(&bench, "ada"), ada, "{which:?}");
        assert_eq!(held(&bench, "bob"), bob, "{which:?}");
        let heard = bench.state.map_version() > version;
        assert_eq!(heard, gone > 0, "{which:?}");
    }
    let mut bench = three();
    let nobody = revoked(TokenSelection::OfUser(name("eve")));
    assert_eq!(
        bench.apply(&nobody),
        Err(ClusterRejection::NoUser(name("eve")))
    );
}

#[test]
fn a_token_is_within_its_bounds_and_of_a_known_key() {
    let mut bench = Bench::new();
    let token = || user_token("x", None);
    let long = UserToken {
        name: "n".repeat(TOKEN_NAME_CHARS_MAX + 1),
        ..token()
    };
    let field = |result| match result {
        Err(ClusterRejection::People(PeopleDenial::Invalid { field, .. })) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(bench.apply(&issue_token("ada", long, 1))), "name");
    let far = UserToken {
        address: "a".repeat(TOKEN_ADDRESS_MAX + 1),
        ..token()
    };
    bench.apply(&issue_token("ada", far, 1)).unwrap_err();
    for key in [0, 2] {
        let other = UserToken { key, ..token() };
        let refused = bench.apply(&issue_token("ada", other, 1));
        assert_eq!(refused, Err(ClusterRejection::NoTokenKey(key)));
    }
}

#[test]
fn a_programs_token_may_expire() {
    let mut bench = Bench::new();
    let token = UserToken {
        kind: TokenKind::Application,
        ..user_token("for a week", Some(10))
    };
    bench.apply(&issue_token("ada", token, 1)).unwrap();
    let ada = bench.state.user(&name("ada")).unwrap();
    assert_eq!((ada.valid(9).count(), ada.valid(10).count()), (1, 0));
    let view = ada.tokens[0].view();
    assert_eq!(
        (view.kind, view.expires_ms),
        (TokenKind::Application, Some(10_000))
    );
}

#[test]
fn the_last_use_is_kept_by_the_voters_alone() {
    let mut bench = three();
    let used = |user: &str, id, at_s| TokenUse {
        user: name(user),
        id,
        at_s,
    };
    let id = user_token("a1", None).id;
    let version = bench.state.map_version();
    let uses = vec![
        used("ada", id, 7_200),
        used("ada", id, 3_600),
        used("bob", id, 3_600),
        used("eve", id, 3_600),
        used("ada", UserTokenId(1), 3_600),
    ];
    let entry = ClusterEntry::UserTokensUsed { uses };
    assert_eq!(bench.apply(&entry), Ok(ClusterApplied::TokenUses));
    assert!(!ClusterApplied::TokenUses.is_briefed());
    assert_eq!(bench.state.map_version(), version, "members need not know");
    let views = |bench: &Bench, user: &str| {
        let user = bench.state.user(&name(user)).unwrap().clone();
        let used = user.tokens.into_iter().map(|it| it.view().last_used_ms);
        used.collect::<Vec<_>>()
    };
    assert_eq!(views(&bench, "ada"), [Some(7_200_000), None]);
    assert_eq!(views(&bench, "bob"), [None]);
    let told = bench.state.cluster_map().unwrap();
    assert_eq!(told.users[&name("ada")].tokens[0].used_s, 0);
    let many = vec![used("ada", id, 1); TOKEN_USES_MAX + 1];
    let refused = bench.apply(&ClusterEntry::UserTokensUsed { uses: many });
    assert_eq!(
        refused,
        Err(ClusterRejection::TooManyTokenUses(TOKEN_USES_MAX + 1))
    );
}

#[test]
fn another_key_logs_nobody_out() {
    let mut bench = three();
    assert_eq!(bench.apply(&rotated(2)), Ok(ClusterApplied::Users));
    assert_eq!(held(&bench, "ada"), ["a1", "a2"]);
    let now = bench.state.keys().unwrap().clone();
    let before = RetiredTokenKey {
        number: 1,
        public: vec![2, 0, 0, 0],
    };
    assert_eq!((now.token_number, &now.retired), (2, &vec![before]));
    assert_eq!((&now.data, &now.link), (&keys().data, &keys().link));
    assert_eq!(bench.state.cluster_map().unwrap().keys, now);
    assert_eq!(bench.state.map_version(), bench.index);
    // One that was asked for right before is signed by the key until then.
    bench
        .apply(&issue_token("bob", user_token("late", None), 1))
        .unwrap();
    for number in [1, 2, 4] {
        let refused = bench.apply(&rotated(number));
        assert_eq!(refused, Err(ClusterRejection::OtherTokenKey(2)), "{number}");
    }
    let mut long = rotated(3);
    if let ClusterEntry::TokenKeyChanged(change) = &mut long {
        change.key = Hidden(vec![0; TOKEN_KEY_MAX + 1]);
    }
    assert_eq!(bench.apply(&long), Err(ClusterRejection::TokenKeys));
}

#[test]
fn a_key_goes_once_no_token_needs_it() {
    let mut bench = Bench::new();
    let retired = |bench: &Bench| {
        let keys = bench.state.keys().unwrap();
        keys.retired
            .iter()
            .map(|key| key.number)
            .collect::<Vec<_>>()
    };
    bench
        .apply(&issue_token("ada", user_token("week", Some(10)), 1))
        .unwrap();
    bench.apply(&rotated_at(2, 2)).unwrap();
    bench.apply(&rotated_at(3, 3)).unwrap();
    assert_eq!(
        retired(&bench),
        [1, 2],
        "the last one may have signed one right now"
    );
    bench.apply(&rotated_at(4, 4)).unwrap();
    assert_eq!(retired(&bench), [1, 3]);
    bench.apply(&rotated_at(5, 10)).unwrap();
    assert_eq!(retired(&bench), [4], "the token has expired");
    assert_eq!(held(&bench, "ada"), Vec::<String>::new());
    let refused = bench.apply(&issue_token("ada", user_token("x", None), 1));
    assert_eq!(refused, Err(ClusterRejection::NoTokenKey(1)));
}

#[test]
fn older_keys_are_bounded_and_none_goes_with_tokens() {
    let mut bench = Bench::new();
    let with = |bench: &mut Bench, key: u32| {
        let token = UserToken {
            key,
            ..user_token(&format!("t{key}"), None)
        };
        bench.apply(&issue_token("ada", token, 1)).unwrap();
    };
    for key in 1..=u32::try_from(RETIRED_KEYS_MAX).unwrap() {
        with(&mut bench, key);
        bench.apply(&rotated(key + 1)).unwrap();
    }
    let next = u32::try_from(RETIRED_KEYS_MAX).unwrap() + 2;
    assert_eq!(
        bench.apply(&rotated(next)),
        Err(ClusterRejection::TooManyTokenKeys)
    );
    let first = user_token("t1", None).id;
    let revoke = TokenSelection::Id(name("ada"), first);
    bench.apply(&revoked(revoke)).unwrap();
    bench.apply(&rotated(next)).unwrap();
    assert_eq!(bench.state.keys().unwrap().retired[0].number, 2);
}

#[test]
fn the_audit_log_tells_of_tokens_without_their_text() {
    let mut bench = Bench::new();
    let token = UserToken {
        name: "build".to_owned(),
        ..user_token("the secret text", None)
    };
    let id = token.id;
    bench.apply(&issue_token("ada", token, 1)).unwrap();
    bench
        .apply(&issue_token("ada", user_token("other", Some(9)), 1))
        .unwrap();
    bench
        .apply(&issue_token("ada", user_token("third", Some(9)), 1))
        .unwrap();
    bench
        .apply(&revoked(TokenSelection::Id(name("ada"), id)))
        .unwrap();
    bench
        .apply(&revoked(TokenSelection::Id(name("ada"), id)))
        .unwrap();
    bench.apply(&revoked(TokenSelection::All)).unwrap();
    bench.apply(&rotated(2)).unwrap();
    let records = bench.state.audit(None, 10).records;
    let told: Vec<_> = records
        .iter()
        .map(|it| (it.action.as_str(), it.subject.as_str(), it.by.user.as_str()))
        .collect();
    let issued = ("token.issue", "ada", "ada");
    assert_eq!(
        told,
        [
            ("token.rotate-key", "*", "root"),
            ("token.revoke", "*", "root"),
            ("token.revoke", "ada", "root"),
            issued,
            issued,
            issued,
        ],
        "what revokes nothing is not recorded"
    );
    let shown = serde_json::json!({
        "id": id, "kind": "application", "name": "build", "expiresS": null,
    });
    assert_eq!(records[5].after, shown.to_string());
    assert_eq!(records[2].before, shown.to_string());
    assert_eq!(records[1].before, r#"{"tokens":2}"#);
    assert_eq!(records[0].after, r#"{"key":2}"#);
    assert_eq!(records[0].by, author("root"));
    assert!(!format!("{records:?}").contains("secret text"));
}

#[test]
fn logins_do_not_push_changes_out_of_the_audit_log() {
    let mut bench = Bench::new();
    bench.apply(&rotated(2)).unwrap();
    for number in 0..=AUDIT_RECORDS_MAX {
        bench.index += 1;
        let token = user_token(&format!("login {number}"), Some(9));
        let entry = issue_token("bob", token, 1);
        bench.state.apply(bench.index, &entry).unwrap();
    }
    let log = bench.state.audit(None, usize::MAX);
    assert_eq!((log.records.len(), log.dropped), (AUDIT_RECORDS_MAX + 1, 1));
    assert_eq!(log.records.last().unwrap().action, "token.rotate-key");
    let ordered = log
        .records
        .is_sorted_by(|newer, older| newer.number > older.number);
    assert!(ordered, "the newest first");
    assert_eq!(bench.state.audit(Some("bob"), 3).records.len(), 3);
}

use super::world::{Bench, DAY_MS, admission, new_token, token};
use crate::cluster::{
    Admission, ClusterApplied, ClusterEntry, ClusterRejection, TOKENS_MAX, TokenIssue, USES_MAX,
};

fn revoke(number: u8) -> ClusterEntry {
    ClusterEntry::TokenRevoked {
        id: token(number),
        at_ms: 5,
    }
}

#[test]
fn a_use_is_spent_once() {
    let mut bench = Bench::new();
    bench.token(new_token(1, 2)).unwrap();
    assert!(bench.admit(admission(1, 1)).is_ok());
    assert!(bench.admit(admission(1, 1)).is_ok(), "the same again");
    assert!(bench.admit(admission(1, 2)).is_ok());
    assert_eq!(
        bench.admit(admission(1, 3)),
        Err(ClusterRejection::UsedUp(token(1)))
    );
    bench.leave(1).unwrap();
    assert_eq!(
        bench.admit(admission(1, 1)),
        Err(ClusterRejection::UsedUp(token(1))),
        "not given back"
    );
}

#[test]
fn a_token_is_good_until_it_expires_or_is_revoked() {
    let mut bench = Bench::new();
    bench.token(new_token(1, 9)).unwrap();
    let at = |at_ms, number| Admission {
        at_ms,
        ..admission(1, number)
    };
    assert!(bench.admit(at(DAY_MS - 1, 1)).is_ok());
    assert_eq!(
        bench.admit(at(DAY_MS, 2)),
        Err(ClusterRejection::Expired(token(1)))
    );
    assert_eq!(bench.apply(&revoke(1)), Ok(ClusterApplied::Token(token(1))));
    assert_eq!(bench.apply(&revoke(1)), Ok(ClusterApplied::Token(token(1))));
    assert_eq!(
        bench.admit(at(3, 2)),
        Err(ClusterRejection::Revoked(token(1)))
    );
    assert_eq!(
        bench.admit(admission(7, 2)),
        Err(ClusterRejection::NoToken(token(7)))
    );
    assert_eq!(
        bench.apply(&revoke(7)),
        Err(ClusterRejection::NoToken(token(7)))
    );
}

#[test]
fn who_may_vote_is_the_tokens_word() {
    let mut bench = Bench::new();
    bench
        .token(TokenIssue {
            votes: false,
            ..new_token(1, 1)
        })
        .unwrap();
    bench.token(new_token(2, 1)).unwrap();
    bench.admit(admission(1, 1)).unwrap();
    bench.admit(admission(2, 2)).unwrap();
    let votes: Vec<_> = bench
        .state
        .members()
        .map(|(_, member)| member.votes)
        .collect();
    assert_eq!(votes, [true, false, true]);
}

#[test]
fn a_token_that_nobody_could_use_is_not_made() {
    let mut bench = Bench::new();
    let useless = [
        TokenIssue {
            uses: 0,
            ..new_token(1, 1)
        },
        TokenIssue {
            uses: USES_MAX + 1,
            ..new_token(1, 1)
        },
        TokenIssue {
            expires_ms: 2,
            ..new_token(1, 1)
        },
    ];
    for token in useless {
        assert_eq!(bench.token(token), Err(ClusterRejection::UselessToken));
    }
    bench.token(new_token(1, 1)).unwrap();
    assert_eq!(
        bench.token(new_token(1, 5)),
        Err(ClusterRejection::TokenExists(token(1)))
    );
}

#[test]
fn tokens_that_are_over_make_room_for_new_ones() {
    let mut bench = Bench::new();
    let numbered = |number: usize| {
        let mut new = new_token(0, 1);
        new.id.0[..4].copy_from_slice(&u32::try_from(number).unwrap().to_le_bytes());
        new
    };
    for number in 1..=TOKENS_MAX {
        let entry = ClusterEntry::TokenCreated(Box::new(numbered(number)));
        bench.index += 1;
        bench.state.apply(bench.index, &entry).unwrap();
    }
    assert_eq!(
        bench.token(numbered(5_000)),
        Err(ClusterRejection::TooManyTokens)
    );
    for number in [9, 7] {
        let id = numbered(number).id;
        bench
            .apply(&ClusterEntry::TokenRevoked { id, at_ms: 5 })
            .unwrap();
    }
    assert!(bench.token(numbered(5_000)).is_ok());
    assert!(
        bench.state.token(numbered(7).id).is_none(),
        "the oldest that was over went"
    );
    assert!(bench.state.token(numbered(9).id).is_some());
    assert_eq!(bench.state.tokens().count(), TOKENS_MAX);
}

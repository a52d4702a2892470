use super::world::{cluster, token};
use crate::join::{JoinToken, TokenError, TokenId, TokenPart, TokenSecret};

#[test]
fn the_text_of_a_token_is_read_back() {
    let token = token();
    assert_eq!(token.text().parse(), Ok(token.clone()));
    let copied = format!("  {}\n", token.text().to_uppercase());
    assert_eq!(copied.parse(), Ok(token));
}

#[test]
fn the_form_of_a_token_is_fixed() {
    assert_eq!(
        token().text(),
        "aebagbaf.a4dqobyha4dqobyha4dqobyha4dqobyh.fbbbb6de2aa74c3c9570d2d8db1de31e"
    );
    assert_eq!(token().id.to_string().parse(), Ok(token().id));
}

#[test]
fn every_bit_of_a_token_is_in_its_text() {
    for bit in 0..200 {
        let mut bytes = [0_u8; 25];
        bytes[bit / 8] = 1 << (bit % 8);
        let mut token = token();
        token.id.0.copy_from_slice(&bytes[..5]);
        token.secret.0.copy_from_slice(&bytes[5..]);
        assert_eq!(token.text().parse(), Ok(token), "bit {bit}");
    }
}

#[test]
fn what_is_wrong_with_a_text_is_said() {
    let text = token().text();
    let [id, secret, root] = text.split('.').collect::<Vec<_>>()[..] else {
        panic!("three parts")
    };
    let length = |part, expected, found| TokenError::Length {
        part,
        expected,
        found,
    };
    let cases = [
        (String::new(), TokenError::Parts(1)),
        (format!("{id}.{secret}"), TokenError::Parts(2)),
        (format!("{text}.x"), TokenError::Parts(4)),
        (
            format!("{id}a.{secret}.{root}"),
            length(TokenPart::Id, 8, 9),
        ),
        (
            format!("{id}.{}.{root}", &secret[1..]),
            length(TokenPart::Secret, 32, 31),
        ),
        (
            format!("{id}.{secret}."),
            length(TokenPart::RootHash, 32, 0),
        ),
        (
            format!("{id}.1{}.{root}", &secret[1..]),
            TokenError::Character {
                part: TokenPart::Secret,
                at: 1,
            },
        ),
        (
            format!("{}é.{secret}.{root}", &id[1..]),
            TokenError::Character {
                part: TokenPart::Id,
                at: 8,
            },
        ),
        (
            format!("{id}.{secret}.{}g", &root[1..]),
            TokenError::Character {
                part: TokenPart::RootHash,
                at: 32,
            },
        ),
    ];
    for (text, error) in cases {
        assert_eq!(text.parse::<JoinToken>(), Err(error.clone()), "{text}");
        assert!(!error.to_string().contains(secret), "{error}");
    }
}

#[test]
fn a_secret_is_never_printed() {
    let shown = format!("{:?} {:?} {:?}", token(), token().secret, token().key());
    assert_eq!(
        shown,
        format!(
            "JoinToken {{ id: TokenId(aebagbaf), secret: TokenSecret(..), cluster: {:?} }} \
             TokenSecret(..) TokenKey(..)",
            cluster()
        )
    );
}

#[test]
fn the_key_depends_on_all_of_the_token() {
    let base = token().key();
    let mut other = token();
    other.id = TokenId([0; 5]);
    assert_ne!(other.key(), base);
    let mut other = token();
    other.secret = TokenSecret([0; 20]);
    assert_ne!(other.key(), base);
    let mut other = token();
    other.cluster.0[0] ^= 1;
    assert_ne!(other.key(), base);
}

use muster_model::id::UserName;
use muster_model::people::Author;
use muster_model::secret::Hidden;
use muster_model::user_token::{NewUserToken, TokenKind, TokenSelection, UserTokenId};

use super::NOBODY;
use super::people::people;
use crate::port::{Login, LoginTerms, PortError, Users};

/// Users, one of whom has this name and password, and is the only admin.
pub async fn users(users: &dyn Users, (name, password): (&str, &str)) {
    tokens(users, (name, password)).await;
    token_ids(users, (name, password)).await;
    another_key(users, (name, password)).await;
    people(users, name).await;
    // Nothing of that was theirs.
    assert!(login(users, name, password).await.unwrap().admin);
}

/// A user who asks from somewhere.
pub(super) fn asking(user: &str) -> Author {
    Author {
        user: user.to_owned(),
        address: "10.0.0.1".to_owned(),
        node: String::new(),
    }
}

pub(super) async fn login(
    users: &dyn Users,
    name: &str,
    password: &str,
) -> Result<Login, PortError> {
    let terms = LoginTerms {
        name: "desk".to_owned(),
        ..LoginTerms::default()
    };
    users.login(&asking(name), password, terms).await
}

fn text(user: &UserName, text: &str) -> TokenSelection {
    TokenSelection::Text(user.clone(), Hidden(text.to_owned()))
}

async fn tokens(users: &dyn Users, (name, password): (&str, &str)) {
    refused!(users.user(NOBODY), PortError::NoUser(_));
    refused!(login(users, NOBODY, password), PortError::NoUser(_));
    refused!(login(users, name, "wrong"), PortError::WrongPassword);
    refused!(users.check_token("x"), PortError::InvalidToken);

    let user = users.user(name).await.unwrap();
    assert!(users.list().await.unwrap().contains(&user));
    let login = login(users, name, password).await.unwrap();
    assert_eq!((&login.user, login.admin), (&user.name, user.admin));
    let info = users.check_token(&login.token).await.unwrap();
    assert!(info.expires.is_some_and(|end| end > info.issued));
    let caller = info.caller;
    assert_eq!((&caller.user, caller.admin), (&user.name, user.admin));
    assert!(!caller.application);

    let by = asking(name);
    let vouched = users.login_vouched(&by, "desk".to_owned()).await.unwrap();
    assert_eq!((&vouched.user, vouched.admin), (&user.name, user.admin));
    let info = users.check_token(&vouched.token).await.unwrap();
    assert!(info.caller.user == user.name && !info.caller.application);
    let views = users.token_views(&user.name).await.unwrap();
    assert!(views.iter().any(|it| it.id == info.id && it.name == "desk"));

    let issue = |user| users.issue_token(&by, user, NewUserToken::default());
    let program = issue(&user.name).await.unwrap().text.0;
    let info = users.check_token(&program).await.unwrap();
    assert!(info.expires.is_none() && info.caller.application);
    let held = users.tokens(&user.name).await.unwrap();
    assert!(held.contains(&program) && held.contains(&login.token));

    let nobody = NOBODY.parse().unwrap();
    let revoke = |which| users.revoke_tokens(&by, which);
    refused!(issue(&nobody), PortError::NoUser(_));
    let nameless = String::new();
    refused!(
        users.login_vouched(&asking(NOBODY), nameless),
        PortError::NoUser(_)
    );
    refused!(revoke(text(&nobody, &program)), PortError::NoToken);
    assert_eq!(revoke(text(&user.name, &program)).await, Ok(1));
    refused!(users.check_token(&program), PortError::InvalidToken);
    refused!(revoke(text(&user.name, &program)), PortError::NoToken);
    assert!(users.check_token(&login.token).await.is_ok());
}

/// Tokens have names and ids, and are revoked by them.
async fn token_ids(users: &dyn Users, (name, password): (&str, &str)) {
    let (user, by): (UserName, _) = (name.parse().unwrap(), asking(name));
    let login = login(users, name, password).await.unwrap();
    let new = NewUserToken {
        name: "build".to_owned(),
        life_s: Some(600),
    };
    let issued = users.issue_token(&by, &user, new).await.unwrap();
    let info = users.check_token(&issued.text.0).await.unwrap();
    assert_eq!(info.id, issued.view.id);
    assert_eq!(info.expires, Some(info.issued + 600));
    let views = users.token_views(&user).await.unwrap();
    let of = |id: UserTokenId| views.iter().find(|view| view.id == id).unwrap();
    let (build, desk) = (
        of(issued.view.id),
        of(users.check_token(&login.token).await.unwrap().id),
    );
    assert_eq!(
        (build.kind, &*build.name),
        (TokenKind::Application, "build")
    );
    assert_eq!((desk.kind, &*desk.name), (TokenKind::Login, "desk"));
    assert_eq!(build.address, by.address);
    assert_eq!(build.expires_ms, Some(build.issued_ms + 600_000));
    let nobody: UserName = NOBODY.parse().unwrap();
    refused!(users.token_views(&nobody), PortError::NoUser(_));

    let revoke = |which| users.revoke_tokens(&by, which);
    let id = issued.view.id;
    refused!(
        revoke(TokenSelection::Id(nobody.clone(), id)),
        PortError::NoToken
    );
    assert_eq!(revoke(TokenSelection::Id(user.clone(), id)).await, Ok(1));
    refused!(users.check_token(&issued.text.0), PortError::InvalidToken);
    refused!(
        revoke(TokenSelection::Id(user.clone(), id)),
        PortError::NoToken
    );
    refused!(revoke(TokenSelection::OfUser(nobody)), PortError::NoUser(_));
    let left = users.token_views(&user).await.unwrap().len();
    let gone = revoke(TokenSelection::OfUser(user.clone())).await.unwrap();
    assert_eq!(usize::try_from(gone).unwrap(), left);
    refused!(users.check_token(&login.token), PortError::InvalidToken);
    assert_eq!(revoke(TokenSelection::OfUser(user)).await, Ok(0));

    let log = users.audit(Some(name), 1).await.unwrap().records;
    assert_eq!(
        (&*log[0].action, &log[0].by.user),
        ("token.revoke", &by.user)
    );
    let all = format!("{:?}", users.audit(None, 1_000).await.unwrap());
    assert!(!all.contains(&login.token) && !all.contains(&issued.text.0));
}

/// Another key signs tokens: what the one before signed stays valid, and can be revoked.
async fn another_key(users: &dyn Users, (name, password): (&str, &str)) {
    let by = asking(name);
    let before = login(users, name, password).await.unwrap().token;
    let number = users.rotate_token_key(&by).await.unwrap();
    assert_eq!(users.rotate_token_key(&by).await, Ok(number + 1));
    let after = login(users, name, password).await.unwrap().token;
    assert!(users.check_token(&after).await.is_ok());
    assert!(users.check_token(&before).await.is_ok(), "logged out");
    let user: UserName = name.parse().unwrap();
    let revoked = users.revoke_tokens(&by, text(&user, &before)).await;
    assert_eq!(revoked, Ok(1));
    refused!(users.check_token(&before), PortError::InvalidToken);
    let log = users.audit(None, 2).await.unwrap().records;
    assert!(log.iter().any(|record| record.action == "token.revoke"));
    users.revoke_tokens(&by, TokenSelection::All).await.unwrap();
    refused!(users.check_token(&after), PortError::InvalidToken);
}

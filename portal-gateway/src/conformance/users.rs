use muster_model::login::LoginTrust;

use super::NOBODY;
use super::people::people;
use crate::port::{PortError, Users};

/// Users, one of whom has this name and password, and is the only admin.
pub async fn users(users: &dyn Users, (name, password): (&str, &str)) {
    tokens(users, (name, password)).await;
    people(users, name).await;
    // Nothing of that was theirs.
    let login = users.login(name, password, LoginTrust::Usual).await;
    assert!(login.unwrap().admin);
}

async fn tokens(users: &dyn Users, (name, password): (&str, &str)) {
    let login = |name, password| users.login(name, password, LoginTrust::Usual);
    refused!(users.user(NOBODY), PortError::NoUser(_));
    refused!(login(NOBODY, password), PortError::NoUser(_));
    refused!(login(name, "wrong"), PortError::WrongPassword);
    refused!(users.check_token("x"), PortError::InvalidToken);

    let user = users.user(name).await.unwrap();
    assert!(users.list().await.unwrap().contains(&user));
    let login = login(name, password).await.unwrap();
    assert_eq!((&login.user, login.admin), (&user.name, user.admin));
    let info = users.check_token(&login.token).await.unwrap();
    assert!(info.expires.is_some_and(|end| end > info.issued));
    let caller = info.caller;
    assert_eq!((&caller.user, caller.admin), (&user.name, user.admin));
    assert!(!caller.application);

    let vouched = users.login_vouched(&user.name).await.unwrap();
    assert_eq!((&vouched.user, vouched.admin), (&user.name, user.admin));
    let caller = users.check_token(&vouched.token).await.unwrap().caller;
    assert!(caller.user == user.name && !caller.application);

    let program = users.issue_application_token(&user.name).await.unwrap();
    let info = users.check_token(&program).await.unwrap();
    assert!(info.expires.is_none() && info.caller.application);
    let held = users.tokens(&user.name).await.unwrap();
    assert!(held.contains(&program) && held.contains(&login.token));

    let nobody = NOBODY.parse().unwrap();
    refused!(users.issue_application_token(&nobody), PortError::NoUser(_));
    refused!(users.login_vouched(&nobody), PortError::NoUser(_));
    refused!(users.revoke_token(&nobody, &program), PortError::NoToken);
    users.revoke_token(&user.name, &program).await.unwrap();
    refused!(users.check_token(&program), PortError::InvalidToken);
    refused!(users.revoke_token(&user.name, &program), PortError::NoToken);
    assert!(users.check_token(&login.token).await.is_ok());
}

//! Users and groups, as far as reading goes.

use serde_json::Value;

use crate::call::Call;
use crate::error::Error;
use crate::port::Users;
use crate::reply::{Answer, Reply};
use crate::wire::user::{self, User};

/// `GET /users`
pub(crate) async fn list(call: Call, users: &dyn Users) -> Answer {
    let caller = call.caller()?;
    let users = users.list().await?;
    let users: Vec<User> = users.iter().map(|user| User::of(user, caller)).collect();
    Reply::json(&users)
}

/// `GET /users/:user`
pub(crate) async fn one(call: Call, users: &dyn Users) -> Answer {
    let user = users.user(call.params.text("user")).await?;
    Reply::json(&User::of(&user, call.caller()?))
}

/// `GET /groups`
pub(crate) async fn groups(_: Call) -> Answer {
    let groups: Vec<Value> = user::groups().into_iter().map(|(_, group)| group).collect();
    Reply::json(&groups)
}

/// `GET /groups/:group`
pub(crate) async fn group(call: Call) -> Answer {
    let name = call.params.text("group");
    let group = user::groups().into_iter().find(|(one, _)| *one == name);
    match group {
        Some((_, group)) => Reply::json(&group),
        None => Err(Error::NoGroup(name.to_owned())),
    }
}

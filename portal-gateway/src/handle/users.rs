//! Users and groups, as far as reading goes.

use serde_json::Value;

use crate::call::Call;
use crate::error::ApiError;
use crate::port::Users;
use crate::reply::{HandlerResult, HttpReply};
use crate::wire::user::{self, WireUser};

/// `GET /users`
pub(crate) async fn list(call: Call, users: &dyn Users) -> HandlerResult {
    let caller = call.caller()?;
    let users = users.list().await?;
    let users: Vec<WireUser> = users
        .iter()
        .map(|user| WireUser::of(user, caller))
        .collect();
    HttpReply::json(&users)
}

/// `GET /users/:user`
pub(crate) async fn one(call: Call, users: &dyn Users) -> HandlerResult {
    let user = users.user(call.params.text("user")).await?;
    HttpReply::json(&WireUser::of(&user, call.caller()?))
}

/// `GET /groups`
pub(crate) async fn groups(_: Call) -> HandlerResult {
    let groups: Vec<Value> = user::groups().into_iter().map(|(_, group)| group).collect();
    HttpReply::json(&groups)
}

/// `GET /groups/:group`
pub(crate) async fn group(call: Call) -> HandlerResult {
    let name = call.params.text("group");
    let group = user::groups().into_iter().find(|(one, _)| *one == name);
    match group {
        Some((_, group)) => HttpReply::json(&group),
        None => Err(ApiError::NoGroup(name.to_owned())),
    }
}

//! What users and groups use of what the policy's limits allow.

use std::collections::BTreeSet;

use muster_model::id::UserName;

use crate::call::Call;
use crate::error::ApiError;
use crate::port::{Nodes, Users};
use crate::reply::{HandlerResult, HttpReply};

/// `GET usage?user=NAME` or `?all=true`: one's own unless told. Others' are for admins.
pub(crate) async fn list(call: Call, nodes: &dyn Nodes, users: &dyn Users) -> HandlerResult {
    let of = asked_for(&call, users).await?;
    let found = nodes.usage(of).await?;
    Ok(HttpReply::json(&found.usage)?.without(&found.away))
}

async fn asked_for(call: &Call, users: &dyn Users) -> Result<BTreeSet<UserName>, ApiError> {
    let caller = call.caller()?;
    let is_all = call.query.text("all") == Some("true");
    let named = call.query.text("user");
    let is_own = !is_all && named.is_none_or(|name| name == caller.user.as_str());
    if is_own {
        return Ok(BTreeSet::from([caller.user.clone()]));
    }
    if !caller.admin {
        let of = named.unwrap_or("all users").to_owned();
        let user = caller.user.to_string();
        return Err(ApiError::OthersUsage { user, of });
    }
    match named {
        Some(name) if !is_all => Ok(BTreeSet::from([users.user(name).await?.name])),
        _ => {
            let all = users.list().await?;
            Ok(all.into_iter().map(|user| user.name).collect())
        }
    }
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use muster_model::usage::UsageView;

    use super::ApiError;
    use crate::openapi::{RouteDoc, any};
    use crate::port::PortError;

    pub(crate) fn list() -> RouteDoc {
        RouteDoc::new("Shows what users and groups use of what the limits allow.")
            .query::<String>("user", "Of this user; of the one who asks unless told.")
            .query::<bool>("all", "Of all users.")
            .fails([ApiError::OthersUsage {
                user: any(),
                of: any(),
            }])
            .fails([PortError::NoUser(any())])
            .json::<Vec<UsageView>>()
    }
}

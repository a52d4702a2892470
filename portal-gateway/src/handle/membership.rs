//! The cluster: its members, and how nodes come and go.

use std::collections::BTreeSet;

use muster_model::alarm::AlarmsAfter;
use muster_model::mesh::NewToken;
use serde_json::json;

use crate::call::Call;
use crate::port::{JoinRequest, Membership};
use crate::reply::{HandlerResult, HttpReply};

/// Bounds of a token's life, in seconds: a second, a year.
const TOKEN_S: (i64, i64) = (1, 31_536_000);
/// How long a token works unless told, in seconds.
const TOKEN_S_DEFAULT: i64 = 86_400;
/// Most nodes that one token admits.
const TOKEN_USES_MAX: i64 = 100_000;
/// Longest name of a cluster.
const NAME_BYTES_MAX: usize = 64;

/// `GET cluster`: the mesh as this node sees it
pub(crate) async fn view(_: Call, membership: &dyn Membership) -> HandlerResult {
    HttpReply::json(&membership.view().await?)
}

/// `GET alarms?after=NUMBER&boot=BOOT`: what was wrong with the cluster since then, and what is
pub(crate) async fn alarms(call: Call, membership: &dyn Membership) -> HandlerResult {
    let after = AlarmsAfter {
        number: call.number("after")?.unwrap_or(0),
        boot: call.query.text("boot").map(str::to_owned),
    };
    HttpReply::json(&membership.alarms(&after).await?)
}

/// `GET cluster/members`
pub(crate) async fn members(_: Call, membership: &dyn Membership) -> HandlerResult {
    HttpReply::json(&membership.view().await?.members)
}

/// `POST cluster {"name"}`: names the cluster of this machine, and lets others join
pub(crate) async fn init(mut call: Call, membership: &dyn Membership) -> HandlerResult {
    let mut fields = call.fields().await?;
    let name = fields.optional_text("name").unwrap_or_default();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    if name.len() > NAME_BYTES_MAX || !name.bytes().all(plain) {
        fields.wrong(
            "name",
            "must have letters, digits, '_', '.' and '-' only, at most 64 of them",
        );
    }
    fields.finish()?;
    HttpReply::json(&membership.init(&name).await?)
}

/// `GET cluster/join`: what is in the way
pub(crate) async fn join_plan(_: Call, membership: &dyn Membership) -> HandlerResult {
    HttpReply::json(&membership.join_plan().await?)
}

/// `POST cluster/join {"address", "token"}`
pub(crate) async fn join(mut call: Call, membership: &dyn Membership) -> HandlerResult {
    let mut fields = call.fields().await?;
    let request = JoinRequest {
        address: fields.text("address"),
        token: fields.text("token"),
    };
    fields.finish()?;
    HttpReply::json(&membership.join(&request).await?)
}

/// `POST cluster/leave`
pub(crate) async fn leave(_: Call, membership: &dyn Membership) -> HandlerResult {
    membership.leave().await?;
    done("this machine is alone now")
}

/// `DELETE cluster/members/:member`
pub(crate) async fn expel(call: Call, membership: &dyn Membership) -> HandlerResult {
    let member = call.params.text("member");
    membership.expel(call.caller()?, member).await?;
    done(&format!("{member} is a member no more"))
}

/// `GET virtual-clusters/:vc/recovery`, `GET cluster/recovery`: how it would go on without most of its
/// voters
pub(crate) async fn recovery(call: Call, membership: &dyn Membership) -> HandlerResult {
    recovered(&call, membership, &BTreeSet::new()).await
}

/// `POST virtual-clusters/:vc/recovery {"lost": ["n1", "n2"]}`, `POST cluster/recovery`
pub(crate) async fn recover(mut call: Call, membership: &dyn Membership) -> HandlerResult {
    let mut fields = call.fields().await?;
    let lost = fields.names("lost");
    fields.finish()?;
    recovered(&call, membership, &lost).await
}

async fn recovered(
    call: &Call,
    membership: &dyn Membership,
    lost: &BTreeSet<String>,
) -> HandlerResult {
    let vc = call.params.find("vc");
    HttpReply::json(&membership.recover(call.caller()?, vc, lost).await?)
}

/// `POST cluster/tokens {"expires_s", "uses", "votes"}`
pub(crate) async fn create_token(mut call: Call, membership: &dyn Membership) -> HandlerResult {
    let mut fields = call.fields().await?;
    let expires = fields.optional_integer("expires_s", TOKEN_S.0, TOKEN_S.1);
    let uses = fields.optional_integer("uses", 1, TOKEN_USES_MAX);
    let votes = fields.optional_bool("votes").unwrap_or(true);
    fields.finish()?;
    let token = NewToken {
        expires_s: expires.unwrap_or(TOKEN_S_DEFAULT).unsigned_abs(),
        uses: u32::try_from(uses.unwrap_or(1)).unwrap_or(1),
        votes,
    };
    let created = membership.create_token(call.caller()?, token);
    HttpReply::json(&created.await?)
}

/// `GET cluster/tokens`
pub(crate) async fn tokens(_: Call, membership: &dyn Membership) -> HandlerResult {
    HttpReply::json(&membership.tokens().await?)
}

/// `DELETE cluster/tokens/:token`
pub(crate) async fn revoke_token(call: Call, membership: &dyn Membership) -> HandlerResult {
    let id = call.params.text("token");
    membership.revoke_token(id).await?;
    done(&format!("token {id} admits nobody any more"))
}

pub(super) fn done(message: &str) -> HandlerResult {
    HttpReply::json(&json!({ "message": message }))
}

//! The cluster: its members, how nodes come and go, and the doctor.

use muster_model::mesh::{NewToken, Scheduling};
use serde_json::json;

use crate::call::Call;
use crate::clock::now_s;
use crate::error::Error;
use crate::mesh::{JoinRequest, NewScheduling};
use crate::reply::Reply;

/// Bounds of a token's life, in seconds: a second, a year.
const TOKEN_S: (i64, i64) = (1, 31_536_000);
/// How long a token works unless told, in seconds.
const TOKEN_S_DEFAULT: i64 = 86_400;
/// Most nodes that one token admits.
const TOKEN_USES_MAX: i64 = 100_000;
/// Tasks may stay on a member that is being drained for a month at most, in seconds.
const DRAIN_S_MAX: i64 = 31 * 86_400;
/// Longest reason.
const REASON_BYTES_MAX: usize = 256;
/// Longest name of a cluster.
const NAME_BYTES_MAX: usize = 64;

/// `GET cluster`: the mesh as this node sees it
pub(crate) async fn view(call: Call) -> Result<Reply, Error> {
    Reply::json(&call.cluster.mesh().await?)
}

/// `GET cluster/members`
pub(crate) async fn members(call: Call) -> Result<Reply, Error> {
    Reply::json(&call.cluster.mesh().await?.members)
}

/// `POST cluster {"name"}`: names the cluster of this machine, and lets others join
pub(crate) async fn init(mut call: Call) -> Result<Reply, Error> {
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
    Reply::json(&call.cluster.init_cluster(call.caller()?, &name).await?)
}

/// `GET cluster/join`: what is in the way
pub(crate) async fn join_plan(call: Call) -> Result<Reply, Error> {
    Reply::json(&call.cluster.join_plan().await?)
}

/// `POST cluster/join {"address", "token"}`
pub(crate) async fn join(mut call: Call) -> Result<Reply, Error> {
    let mut fields = call.fields().await?;
    let request = JoinRequest {
        address: fields.text("address"),
        token: fields.text("token"),
    };
    fields.finish()?;
    Reply::json(&call.cluster.join(call.caller()?, &request).await?)
}

/// `POST cluster/leave`
pub(crate) async fn leave(call: Call) -> Result<Reply, Error> {
    call.cluster.leave(call.caller()?).await?;
    done("this machine is alone now")
}

/// `DELETE cluster/members/:member`
pub(crate) async fn expel(call: Call) -> Result<Reply, Error> {
    let member = call.params.text("member");
    call.cluster.expel(call.caller()?, member).await?;
    done(&format!("{member} is a member no more"))
}

/// `PUT cluster/members/:member/scheduling {"mode", "reason", "after_s"}`
pub(crate) async fn schedule(mut call: Call) -> Result<Reply, Error> {
    let now_ms = now_s() * 1000;
    let mut fields = call.fields().await?;
    let mode = fields.text("mode");
    let after_s = fields.optional_integer("after_s", 0, DRAIN_S_MAX);
    let reason = fields.optional_text("reason").unwrap_or_default();
    let from_ms = now_ms + after_s.unwrap_or(0).unsigned_abs() * 1000;
    let scheduling = match mode.as_str() {
        "cordoned" => Scheduling::Cordoned,
        "draining" => Scheduling::Draining { from_ms },
        "open" | "" => Scheduling::Open,
        _ => {
            fields.wrong("mode", "must be one of [open, cordoned, draining]");
            Scheduling::Open
        }
    };
    if after_s.is_some() && !matches!(scheduling, Scheduling::Draining { .. }) {
        fields.wrong("after_s", "is for the mode draining only");
    }
    if reason.is_empty() && scheduling != Scheduling::Open {
        fields.wrong(
            "reason",
            "is required: whoever finds the node so wants to know",
        );
    }
    let plain = |b: u8| b == b' ' || b.is_ascii_graphic();
    if reason.len() > REASON_BYTES_MAX || !reason.bytes().all(plain) {
        fields.wrong("reason", "must be printable ASCII, at most 256 characters");
    }
    fields.finish()?;
    let wanted = NewScheduling { scheduling, reason };
    let member = call.params.text("member");
    let caller = call.caller()?;
    call.cluster.schedule(caller, member, &wanted).await?;
    done(&format!("{member} is {}", scheduling.as_str()))
}

/// `GET cluster/members/:member/tasks`
pub(crate) async fn tasks_on(call: Call) -> Result<Reply, Error> {
    let member = call.params.text("member");
    Reply::json(&call.cluster.tasks_on(member).await?)
}

/// `POST cluster/members/:member/off`: answers the tasks that are given up
pub(crate) async fn say_off(call: Call) -> Result<Reply, Error> {
    let member = call.params.text("member");
    Reply::json(&call.cluster.say_off(call.caller()?, member).await?)
}

/// `GET virtual-clusters/:vc/recovery`, `GET cluster/recovery`: how it would go on without most of its
/// voters
pub(crate) async fn recovery(call: Call) -> Result<Reply, Error> {
    let vc = call.params.find("vc");
    Reply::json(&call.cluster.recovery(call.caller()?, vc).await?)
}

/// `POST virtual-clusters/:vc/recovery {"lost": ["n1", "n2"]}`, `POST cluster/recovery`
pub(crate) async fn recover(mut call: Call) -> Result<Reply, Error> {
    let mut fields = call.fields().await?;
    let lost = fields.names("lost");
    fields.finish()?;
    let vc = call.params.find("vc");
    Reply::json(&call.cluster.recover(call.caller()?, vc, &lost).await?)
}

/// `POST cluster/tokens {"expires_s", "uses", "votes"}`
pub(crate) async fn create_token(mut call: Call) -> Result<Reply, Error> {
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
    let created = call.cluster.create_join_token(call.caller()?, token);
    Reply::json(&created.await?)
}

/// `GET cluster/tokens`
pub(crate) async fn tokens(call: Call) -> Result<Reply, Error> {
    Reply::json(&call.cluster.join_tokens().await?)
}

/// `DELETE cluster/tokens/:token`
pub(crate) async fn revoke_token(call: Call) -> Result<Reply, Error> {
    let id = call.params.text("token");
    call.cluster.revoke_join_token(call.caller()?, id).await?;
    done(&format!("token {id} admits nobody any more"))
}

/// `POST doctor`: a POST, because it takes seconds and writes to the disk
pub(crate) async fn doctor(call: Call) -> Result<Reply, Error> {
    Reply::json(&call.cluster.doctor().await?)
}

fn done(message: &str) -> Result<Reply, Error> {
    Reply::json(&json!({ "message": message }))
}

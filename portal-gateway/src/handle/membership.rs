//! The cluster: its members, and how nodes come and go.

use std::collections::BTreeSet;

use muster_model::alarm::AlarmsAfter;
use muster_model::mesh::NewToken;

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
    HttpReply::message(message)
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use muster_model::alarm::Alarms;
    use muster_model::mesh::{
        ClusterView, CreatedToken, JoinPlan, Joined, MemberView, MeshView, RecoveryView, TokenView,
    };
    use schemars::JsonSchema;

    use crate::openapi::{RouteDoc, any, body_fields};
    use crate::port::PortError;
    use crate::reply::DoneMessage;

    body_fields! {
        ClusterNameField {
            /// Letters, digits, `_`, `.` and `-`, at most 64; this machine's if absent or empty.
            name: Option<String>,
        }
        JoinFields {
            /// A member's address, `host` or `host:port`.
            address: String,
            /// The text of a token of its cluster.
            token: String,
        }
        LostField {
            /// Voters that are lost for good, by name.
            lost: Vec<String>,
        }
        JoinTokenFields {
            /// How long it works; a day unless told.
            expires_s: Option<u32>,
            /// How many nodes it admits; one unless told.
            uses: Option<u32>,
            /// Whether those may vote; they may unless told.
            votes: Option<bool>,
        }
    }

    pub(crate) fn view() -> RouteDoc {
        RouteDoc::new("Shows the cluster as this node sees it.").json::<MeshView>()
    }

    pub(crate) fn alarms() -> RouteDoc {
        RouteDoc::new("Lists what was wrong with the cluster, and what is.")
            .query::<u64>("after", "Only alarms after this number.")
            .query::<String>("boot", "The start of the agent that the number is of.")
            .checks_parameters()
            .json::<Alarms>()
    }

    pub(crate) fn members() -> RouteDoc {
        RouteDoc::new("Lists all that were ever admitted to the cluster.").json::<Vec<MemberView>>()
    }

    pub(crate) fn init() -> RouteDoc {
        RouteDoc::new("Names the cluster of this machine, and lets others join.")
            .optional_fields::<ClusterNameField>()
            .changes_cluster()
            .json::<ClusterView>()
    }

    pub(crate) fn join_plan() -> RouteDoc {
        RouteDoc::new("Shows what keeps this machine from joining a cluster.").json::<JoinPlan>()
    }

    pub(crate) fn join() -> RouteDoc {
        RouteDoc::new("Makes this machine a member of another cluster.")
            .fields::<JoinFields>()
            .changes_cluster()
            .fails([PortError::JoinRefused(any()), PortError::JoinBusy(any())])
            .json::<Joined>()
    }

    pub(crate) fn leave() -> RouteDoc {
        RouteDoc::new("Ends this machine's membership.")
            .changes_cluster()
            .json::<DoneMessage>()
    }

    pub(crate) fn expel() -> RouteDoc {
        RouteDoc::new("Ends another's membership.")
            .changes_cluster()
            .fails([PortError::NoMember(any())])
            .json::<DoneMessage>()
    }

    pub(crate) fn recovery() -> RouteDoc {
        RouteDoc::new("Shows how a group would go on without most of its voters.")
            .changes_cluster()
            .fails([PortError::NoVc(any()), PortError::NoMember(any())])
            .json::<RecoveryView>()
    }

    pub(crate) fn recover() -> RouteDoc {
        RouteDoc::new("Has a group go on without most of its voters.")
            .fields::<LostField>()
            .changes_cluster()
            .fails([PortError::NoVc(any()), PortError::NoMember(any())])
            .json::<RecoveryView>()
    }

    pub(crate) fn create_token() -> RouteDoc {
        RouteDoc::new("Makes a token that admits nodes.")
            .optional_fields::<JoinTokenFields>()
            .changes_cluster()
            .json::<CreatedToken>()
    }

    pub(crate) fn tokens() -> RouteDoc {
        RouteDoc::new("Lists the tokens that admit nodes.").json::<Vec<TokenView>>()
    }

    pub(crate) fn revoke_token() -> RouteDoc {
        RouteDoc::new("Makes a token admit no more nodes.")
            .changes_cluster()
            .fails([PortError::NoJoinToken(any())])
            .json::<DoneMessage>()
    }
}

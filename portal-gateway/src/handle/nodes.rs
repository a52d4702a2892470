//! This node: as JSON for the command line, as a page for people. All nodes, what may run on them, and
//! the virtual clusters that share them.

use muster_model::health::PersonMark;
use muster_model::mesh::Scheduling;

use super::membership::done;
use crate::call::Call;
use crate::clock::now_s;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::page;
use crate::port::{Jobs, Membership, NewScheduling, Nodes};
use crate::reply::{HandlerResult, HttpReply};
use crate::status::StatusPage;

/// Tasks may stay on a member that is being drained for a month at most, in seconds.
const DRAIN_S_MAX: i64 = 31 * 86_400;
/// Longest reason.
const REASON_BYTES_MAX: usize = 256;

/// `GET /api/muster/v1/node`
pub(crate) async fn view(_: Call, nodes: &dyn Nodes) -> HandlerResult {
    HttpReply::json(&nodes.this().await?)
}

/// `GET /status`
pub(crate) async fn status(
    _: Call,
    jobs: &dyn Jobs,
    nodes: &dyn Nodes,
    membership: &dyn Membership,
) -> HandlerResult {
    let status = StatusPage::gather(jobs, nodes, membership).await;
    Ok(HttpReply::page(page::status(&status)))
}

/// `GET /status.txt`
pub(crate) async fn status_text(
    _: Call,
    jobs: &dyn Jobs,
    nodes: &dyn Nodes,
    membership: &dyn Membership,
) -> HandlerResult {
    let status = StatusPage::gather(jobs, nodes, membership).await;
    Ok(HttpReply::open_text(page::status_text(&status)))
}

/// `GET /status.json`
pub(crate) async fn status_json(
    _: Call,
    jobs: &dyn Jobs,
    nodes: &dyn Nodes,
    membership: &dyn Membership,
) -> HandlerResult {
    HttpReply::open_json(&StatusPage::gather(jobs, nodes, membership).await)
}

/// `GET nodes`: all of the cluster
pub(crate) async fn list(_: Call, nodes: &dyn Nodes) -> HandlerResult {
    HttpReply::json(&nodes.list().await?)
}

/// `GET virtual-clusters`
pub(crate) async fn virtual_clusters(_: Call, nodes: &dyn Nodes) -> HandlerResult {
    let vcs = nodes.virtual_clusters().await?;
    let ages = vcs.iter().filter_map(|vc| vc.age.as_ref());
    Ok(HttpReply::json(&vcs)?.aged(ages))
}

/// `GET virtual-clusters/:vc/cells`
pub(crate) async fn cells(call: Call, jobs: &dyn Jobs, nodes: &dyn Nodes) -> HandlerResult {
    let vc = call.params.text("vc");
    HttpReply::json(&nodes.cells(&call.sight(jobs)?, vc).await?)
}

/// `POST virtual-clusters/what-if`, the body being a description: what it would do
pub(crate) async fn what_if(mut call: Call, nodes: &dyn Nodes) -> HandlerResult {
    let text = call.document().await?;
    HttpReply::json(&nodes.what_if(&text).await?)
}

/// `PUT cluster/members/:member/scheduling {"mode", "reason", "after_s"}`
pub(crate) async fn schedule(mut call: Call, nodes: &dyn Nodes) -> HandlerResult {
    let wanted = new_scheduling(call.fields().await?)?;
    let member = call.params.text("member");
    let caller = call.caller()?;
    nodes.schedule(caller, member, &wanted).await?;
    done(&format!("{member} is {}", wanted.scheduling.as_str()))
}

/// What is to hold of a member, by the fields `mode`, `reason` and `after_s`.
pub(crate) fn new_scheduling(mut fields: Fields) -> Result<NewScheduling, ApiError> {
    let now_ms = now_s() * 1000;
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
            "is required: it tells other administrators why the node takes no jobs",
        );
    }
    if reason.len() > REASON_BYTES_MAX || !is_plain(&reason) {
        fields.wrong("reason", "must be printable ASCII, at most 256 characters");
    }
    fields.finish()?;
    Ok(NewScheduling { scheduling, reason })
}

/// `GET cluster/members/:member/tasks`
pub(crate) async fn tasks_on(call: Call, jobs: &dyn Jobs, nodes: &dyn Nodes) -> HandlerResult {
    let member = call.params.text("member");
    HttpReply::json(&nodes.tasks_on(&call.sight(jobs)?, member).await?)
}

/// `GET cluster/members/:member/images`
pub(crate) async fn images_on(call: Call, nodes: &dyn Nodes) -> HandlerResult {
    HttpReply::json(&nodes.images_on(call.params.text("member")).await?)
}

/// `GET cluster/members/:member/health`
pub(crate) async fn health_on(call: Call, nodes: &dyn Nodes) -> HandlerResult {
    HttpReply::json(&nodes.health_on(call.params.text("member")).await?)
}

/// `POST cluster/members/:member/health {"part", "mark", "reason"}`
pub(crate) async fn mark(mut call: Call, nodes: &dyn Nodes) -> HandlerResult {
    let fields = call.fields().await?;
    let by = call.caller()?.user.to_string();
    let (part, mark) = new_mark(fields, by)?;
    let member = call.params.text("member");
    HttpReply::json(&nodes.mark(member, &part, mark).await?)
}

/// `POST cluster/members/:member/inventory/accept`
pub(crate) async fn accept_inventory(call: Call, nodes: &dyn Nodes) -> HandlerResult {
    HttpReply::json(&nodes.accept_inventory(call.params.text("member")).await?)
}

/// What a person says of a part, by the fields `part`, `mark` and `reason`.
fn new_mark(mut fields: Fields, by: String) -> Result<(String, PersonMark), ApiError> {
    let part = fields.text("part");
    let word = fields.text("mark");
    let why = fields.optional_text("reason").unwrap_or_default();
    let mark = match word.as_str() {
        "held" => PersonMark::Held {
            by,
            why: why.clone(),
        },
        "repaired" => PersonMark::Repaired,
        "released" | "" => PersonMark::Released,
        _ => {
            fields.wrong("mark", "must be one of [held, released, repaired]");
            PersonMark::Released
        }
    };
    let is_held = matches!(mark, PersonMark::Held { .. });
    if is_held && why.is_empty() {
        fields.wrong(
            "reason",
            "is required: it tells other administrators why the part is out of use",
        );
    }
    if !is_held && !why.is_empty() {
        fields.wrong("reason", "is for the mark held only");
    }
    if why.len() > REASON_BYTES_MAX || !is_plain(&why) {
        fields.wrong("reason", "must be printable ASCII, at most 256 characters");
    }
    fields.finish()?;
    Ok((part, mark))
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
}

/// `POST cluster/members/:member/off`: answers the tasks that are given up
pub(crate) async fn say_off(call: Call, nodes: &dyn Nodes) -> HandlerResult {
    let member = call.params.text("member");
    HttpReply::json(&nodes.say_off(call.caller()?, member).await?)
}

/// `POST doctor`: a POST, because it takes seconds and writes to the disk
pub(crate) async fn doctor(_: Call, nodes: &dyn Nodes) -> HandlerResult {
    HttpReply::json(&nodes.doctor().await?)
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use http::StatusCode;
    use muster_model::finding::Finding;
    use muster_model::health::HealthCheck;
    use muster_model::image::ImageView;
    use muster_model::inventory::InventoryProblem;
    use muster_model::known_node::KnownNode;
    use muster_model::mesh::MemberTask;
    use muster_model::node::NodeView;
    use muster_model::vc::{VcView, WhatIf};
    use muster_model::vc_cells::VcCells;
    use schemars::JsonSchema;

    use super::StatusPage;
    use crate::error::ApiError;
    use crate::openapi::{HTML, RouteDoc, TEXT, any, body_fields};
    use crate::port::PortError;
    use crate::reply::DoneMessage;

    body_fields! {
        SchedulingFields {
            mode: WantedMode,
            /// When tasks are stopped, in seconds from now; for `draining` alone.
            after_s: Option<u32>,
            /// For other admins; needed unless the mode is `open`.
            reason: Option<String>,
        }
    }

    body_fields! {
        MarkFields {
            /// A device by its id, index or PCI address, a port as `mlx5_0/1`, or `machine`.
            part: String,
            mark: WantedMark,
            /// For other admins; needed for `held`.
            reason: Option<String>,
        }
    }

    /// What a person says of a part.
    #[derive(JsonSchema)]
    #[schemars(rename_all = "snake_case")]
    #[expect(dead_code, reason = "a word of the body")]
    enum WantedMark {
        Held,
        Released,
        Repaired,
    }

    /// What jobs may do at a member.
    #[derive(JsonSchema)]
    #[schemars(rename_all = "snake_case")]
    #[expect(dead_code, reason = "a word of the body")]
    enum WantedMode {
        Open,
        Cordoned,
        Draining,
    }

    fn page(sentence: &'static str) -> RouteDoc {
        RouteDoc::new(sentence).fails([ApiError::HostName(any())])
    }

    pub(crate) fn view() -> RouteDoc {
        RouteDoc::new("Shows this node.").json::<NodeView>()
    }

    pub(crate) fn status() -> RouteDoc {
        page("Shows how this node is, as a page.").answer::<String>(StatusCode::OK, HTML)
    }

    pub(crate) fn status_text() -> RouteDoc {
        page("Shows how this node is, as text.").answer::<String>(StatusCode::OK, TEXT)
    }

    pub(crate) fn status_json() -> RouteDoc {
        page("Shows how this node is.").json::<StatusPage>()
    }

    pub(crate) fn list() -> RouteDoc {
        RouteDoc::new("Lists the nodes of the cluster, with what they have.")
            .json::<Vec<KnownNode>>()
    }

    pub(crate) fn virtual_clusters() -> RouteDoc {
        RouteDoc::new("Lists the virtual clusters, with what they have and use.")
            .json::<Vec<VcView>>()
    }

    pub(crate) fn cells() -> RouteDoc {
        RouteDoc::new("Shows what a virtual cluster is promised, cell by cell, and which of its jobs has what.")
            .fails([PortError::NoVc(any())])
            .json::<VcCells>()
    }

    pub(crate) fn what_if() -> RouteDoc {
        RouteDoc::new("Tells what would become of jobs if the cluster were described so.")
            .body::<String>(TEXT)
            .checks_parameters()
            .fails([PortError::InvalidDocument(Vec::new())])
            .json::<WhatIf>()
    }

    pub(crate) fn schedule() -> RouteDoc {
        RouteDoc::new("Keeps jobs off a member, or lets them come again.")
            .fields::<SchedulingFields>()
            .changes_cluster()
            .fails([PortError::NoMember(any())])
            .json::<DoneMessage>()
    }

    pub(crate) fn tasks_on() -> RouteDoc {
        RouteDoc::new("Lists the tasks that may be running on a member.")
            .fails([PortError::NoMember(any())])
            .json::<Vec<MemberTask>>()
    }

    pub(crate) fn images_on() -> RouteDoc {
        RouteDoc::new("Lists the images of a member.")
            .fails([PortError::NoMember(any())])
            .json::<Vec<ImageView>>()
    }

    pub(crate) fn health_on() -> RouteDoc {
        RouteDoc::new("Lists what checks of a member's parts say.")
            .fails([PortError::NoMember(any())])
            .json::<Vec<HealthCheck>>()
    }

    pub(crate) fn accept_inventory() -> RouteDoc {
        RouteDoc::new(
            "Takes what a member has now for what it should have. Answers what was missed.",
        )
        .fails([PortError::NoMember(any())])
        .json::<Vec<InventoryProblem>>()
    }

    pub(crate) fn mark() -> RouteDoc {
        RouteDoc::new(
            "Keeps a part of a member out of use, releases it, or says that it is repaired.",
        )
        .fields::<MarkFields>()
        .fails([PortError::NoMember(any()), PortError::NoPart(any())])
        .json::<Vec<HealthCheck>>()
    }

    pub(crate) fn say_off() -> RouteDoc {
        RouteDoc::new(
            "Says that a member is off: what ran there may run elsewhere. Answers those tasks.",
        )
        .changes_cluster()
        .fails([PortError::NoMember(any())])
        .json::<Vec<MemberTask>>()
    }

    pub(crate) fn doctor() -> RouteDoc {
        RouteDoc::new("Looks for all that may be wrong at this node.").json::<Vec<Finding>>()
    }
}

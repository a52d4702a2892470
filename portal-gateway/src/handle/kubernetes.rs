//! `/kubernetes`: the members of the cluster, for OpenPAI's portal.
//!
//! There is no Kubernetes. Nodes are the members, pods their agents; tasks are found with their jobs.

use muster_model::mesh::{MemberState, MemberView};

use crate::call::Call;
use crate::error::ApiError;
use crate::port::{Membership, Nodes};
use crate::reply::{HandlerResult, HttpReply};
use crate::wire::kubernetes::{KubernetesList, KubernetesObject, NAMESPACE, ObjectMetadata};

/// `GET /kubernetes/nodes`
pub(crate) async fn nodes(
    call: Call,
    membership: &dyn Membership,
    nodes: &dyn Nodes,
) -> HandlerResult {
    let selector = LabelSelector::parse(call.query.text("labelSelector"))?;
    let view = membership.view().await?;
    // The list is complete without what they have, which a leader has to be asked for.
    let known = nodes.list().await.unwrap_or_default();
    let members = view.members.iter().filter(|member| is_member(member));
    let shown = members.map(|member| {
        let known = known.iter().find(|node| node.id.as_str() == member.name);
        KubernetesObject::node(member, known, &view.leadership)
    });
    let items: Vec<_> = shown.filter(|one| selector.takes(&one.metadata)).collect();
    HttpReply::json(&KubernetesList::of("NodeList", items))
}

/// `GET /kubernetes/pods?namespace=&labelSelector=`
pub(crate) async fn pods(call: Call, membership: &dyn Membership) -> HandlerResult {
    let selector = LabelSelector::parse(call.query.text("labelSelector"))?;
    let namespace = call.query.text("namespace");
    let is_here = namespace.is_none_or(|name| name == NAMESPACE);
    let view = membership.view().await?;
    let members = view.members.iter().filter(|one| is_here && is_member(one));
    let items: Vec<_> = members
        .map(KubernetesObject::agent)
        .filter(|one| selector.takes(&one.metadata))
        .collect();
    HttpReply::json(&KubernetesList::of("PodList", items))
}

fn is_member(member: &MemberView) -> bool {
    member.state == MemberState::Admitted
}

/// A selector of labels: `app`, `!app`, `app=x`, `app==x`, `app!=x`, joined by commas.
struct LabelSelector(Vec<LabelRequirement>);

struct LabelRequirement {
    label: String,
    /// The value; none: that there is any.
    value: Option<String>,
    is_negated: bool,
}

impl LabelSelector {
    fn parse(text: Option<&str>) -> Result<Self, ApiError> {
        let parts = text.unwrap_or_default().split(',').map(str::trim);
        let parts = parts.filter(|part| !part.is_empty());
        parts
            .map(LabelRequirement::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn takes(&self, metadata: &ObjectMetadata) -> bool {
        self.0.iter().all(|one| one.takes(metadata))
    }
}

impl LabelRequirement {
    fn parse(part: &str) -> Result<Self, ApiError> {
        let is_label = |label: &str| {
            let mut bytes = label.bytes();
            !label.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b"._/-".contains(&b))
        };
        let (label, value, is_negated) = match part.split_once('=') {
            Some((label, value)) => {
                let negated = label.strip_suffix('!');
                let value = value.strip_prefix('=').unwrap_or(value).trim().to_owned();
                (negated.unwrap_or(label), Some(value), negated.is_some())
            }
            None => {
                let negated = part.strip_prefix('!');
                (negated.unwrap_or(part), None, negated.is_some())
            }
        };
        let label = label.trim();
        match is_label(label) {
            true => Ok(Self {
                label: label.to_owned(),
                value,
                is_negated,
            }),
            false => Err(ApiError::Parameters(format!(
                "labelSelector {part:?} is not understood; write LABEL, !LABEL, LABEL=VALUE or \
                 LABEL!=VALUE, joined by commas"
            ))),
        }
    }

    fn takes(&self, metadata: &ObjectMetadata) -> bool {
        let found = metadata.labels.get(&*self.label);
        let is_so = match &self.value {
            Some(value) => found == Some(value),
            None => found.is_some(),
        };
        is_so != self.is_negated
    }
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use super::KubernetesList;
    use crate::openapi::RouteDoc;

    fn lists(sentence: &'static str) -> RouteDoc {
        RouteDoc::new(sentence)
            .query::<String>(
                "labelSelector",
                "Only those with these labels: `app`, `!app`, `app=x`, `app!=x`, joined by commas.",
            )
            .checks_parameters()
            .json::<KubernetesList>()
    }

    pub(crate) fn nodes() -> RouteDoc {
        lists("Lists the members as Kubernetes lists nodes.")
    }

    pub(crate) fn pods() -> RouteDoc {
        lists("Lists the members' agents as Kubernetes lists pods.").query::<String>(
            "namespace",
            "Only those in this namespace; all are in `default`.",
        )
    }
}

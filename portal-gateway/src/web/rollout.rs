//! Which node goes by which version of a document.

use maud::{Markup, html};
use muster_model::mesh::{ActivationStage, DocumentView, MemberState, MemberView};

use super::chip;

/// What one node goes by.
#[derive(Debug, PartialEq, Eq)]
struct NodeVersion<'a> {
    node: &'a str,
    /// The version in force there; none if that is not known.
    version: Option<u64>,
    note: String,
    is_well: bool,
}

/// Every node with the version that it goes by, folded if all is well.
pub(super) fn table(view: &DocumentView, members: &[MemberView]) -> Markup {
    let admitted = members
        .iter()
        .filter(|one| one.state == MemberState::Admitted);
    let nodes: Vec<_> = admitted.map(|one| of_node(view, &one.name)).collect();
    let is_well = nodes.iter().all(|node| node.is_well);
    html! {
        details open[!is_well] {
            summary { "Which node goes by which version" }
            div.wide tabindex="0" role="region" aria-label="Versions by node" { table {
                thead { tr { th scope="col" { "Node" } th scope="col" { "In force there" } th scope="col" { "Of the newest" } } }
                tbody { @for one in &nodes { tr {
                    td.name { a href={ "/nodes/" (one.node) } { (one.node) } }
                    td { @match one.version { Some(0) => { "as shipped" } Some(version) => { "version " (version) } None => { "not known" } } }
                    td { (chip::word(one.is_well, if one.is_well { "well" } else { "not yet" })) " " (one.note) }
                } } }
            } }
        }
    }
}

fn of_node<'a>(view: &DocumentView, node: &'a str) -> NodeVersion<'a> {
    let newest = view.newest.version;
    let is_in = |names: &[String]| names.iter().any(|name| name == node);
    let coverage = &view.coverage;
    let rejection = coverage.rejected.iter().find(|one| one.member == node);
    let (version, note, is_well) = match (&view.newest.stage, rejection) {
        (ActivationStage::Withdrawn { .. }, _) => (
            Some(view.active),
            "the newest version was withdrawn".to_owned(),
            true,
        ),
        (_, Some(rejection)) => {
            let note = format!("it rejects version {newest}: {}", rejection.reason);
            (None, note.trim_end_matches(": ").to_owned(), false)
        }
        _ if is_in(&coverage.unreachable) => (None, "it cannot be reached".to_owned(), false),
        _ if is_in(&coverage.missing) => {
            let note = format!("it did not take version {newest} yet");
            (Some(view.active), note, false)
        }
        (ActivationStage::Active, None) => (Some(newest), "in force".to_owned(), true),
        (ActivationStage::Canary { nodes }, None) if is_in(nodes) => (
            Some(newest),
            "it tries it before the others".to_owned(),
            true,
        ),
        _ => {
            let note = format!("it has version {newest}, and found it valid");
            (Some(view.active), note, true)
        }
    };
    NodeVersion {
        node,
        version,
        note,
        is_well,
    }
}

#[cfg(test)]
mod tests {
    use muster_model::mesh::{CoverageView, DocumentVersion, LocalDocument, Rejection};

    use super::*;

    fn view(stage: ActivationStage) -> DocumentView {
        DocumentView {
            name: "failure-rules".to_owned(),
            newest: DocumentVersion {
                version: 3,
                stage,
                hash: String::new(),
                bytes: 0,
                author: String::new(),
                at_ms: 0,
                forced: false,
            },
            active: 2,
            coverage: CoverageView {
                rejected: vec![Rejection {
                    member: "bad".to_owned(),
                    reason: "rule 3".to_owned(),
                }],
                unreachable: vec!["away".to_owned()],
                missing: vec!["late".to_owned()],
                ..CoverageView::default()
            },
            here: LocalDocument::default(),
        }
    }

    #[test]
    fn each_node_goes_by_a_version() {
        let canary = || ActivationStage::Canary {
            nodes: vec!["first".to_owned()],
        };
        let withdrawn = || ActivationStage::Withdrawn {
            reason: String::new(),
        };
        for (stage, node, version, is_well) in [
            (ActivationStage::Active, "well", Some(3), true),
            (ActivationStage::Active, "late", Some(2), false),
            (ActivationStage::Active, "away", None, false),
            (ActivationStage::Active, "bad", None, false),
            (canary(), "first", Some(3), true),
            (canary(), "well", Some(2), true),
            (ActivationStage::Distribute, "well", Some(2), true),
            (withdrawn(), "bad", Some(2), true),
        ] {
            let view = view(stage);
            let found = of_node(&view, node);
            assert_eq!(
                (found.version, found.is_well),
                (version, is_well),
                "{node} {view:?}"
            );
        }
        let view = view(ActivationStage::Active);
        assert!(of_node(&view, "bad").note.contains("rule 3"));
    }
}

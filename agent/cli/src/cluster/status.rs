//! `muster cluster status`.

use std::fmt::Write as _;

use clap::Args;
use muster_model::mesh::{Leadership, MemberReach, MemberView, MeshView};

use super::members::visibility;
use crate::api::Api;
use crate::console::{Console, Paint};
use crate::error::CliError;
use crate::output::OutputOption;
use crate::page::Page;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster cluster status
  muster cluster status -o json | jq '.leadership.away'
  muster cluster status > /dev/null || muster doctor";

#[derive(Debug, Args)]
pub struct StatusArguments {
    #[command(flatten)]
    output: OutputOption,
}

impl StatusArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let mesh = api.mesh().await?;
        self.output.write(console, &mesh, page)?;
        Ok(CliStatus::of(is_well(&mesh)))
    }
}

fn is_well(mesh: &MeshView) -> bool {
    let whole = mesh.islands.len() <= 1 && mesh.one_way.is_empty();
    // Just after a start nobody has said who keeps the jobs.
    let is_new = mesh.leadership.voters.is_empty();
    let is_kept = |jobs: &Leadership| jobs.leader.is_some() || is_new;
    let led = mesh.leadership.leader.is_some() && mesh.vcs.values().all(is_kept);
    let sound = whole && led && mesh.cloned.is_none() && ended(mesh).is_none();
    sound && mesh.admitted().all(|member| member.is_well())
}

/// How this node's membership ended, if it did.
fn ended(mesh: &MeshView) -> Option<&'static str> {
    let mine = |member: &&MemberView| member.name == mesh.me;
    if mesh.admitted().any(|member| mine(&member)) {
        return None;
    }
    mesh.members.iter().rfind(mine).map(MemberView::word)
}

fn page(mesh: &MeshView, paint: Paint) -> String {
    let title = match &mesh.cluster {
        Some(cluster) if !mesh.solo => super::called(cluster),
        _ => "no name: this machine is alone, `muster cluster init` lets others join".to_owned(),
    };
    let mut page = Page::titled(paint, &title);
    page.facts(15, facts(mesh));
    visibility(&mut page, &mesh.islands, &mesh.one_way);
    let counts = mesh.counters.iter();
    let counts: Vec<String> = counts
        .map(|(name, count)| format!("{count:>8}  {name}"))
        .collect();
    page.section("Counts since the start", &counts.join("\n"));
    page.into_text()
}

fn facts(mesh: &MeshView) -> Vec<(&'static str, String)> {
    let me = match ended(mesh) {
        Some(how) => format!("{}, {how}: no member any more", mesh.me),
        None => mesh.me.clone(),
    };
    let mut facts = vec![("this node", me)];
    if let Some(cluster) = &mesh.cluster {
        facts.push(("id", cluster.id.clone()));
        facts.push(("generation", cluster.generation.to_string()));
        facts.push(("features", format!("level {}", cluster.feature_level)));
        facts.push(("cluster state", mesh.leadership.to_string()));
        for (vc, jobs) in &mesh.vcs {
            facts.push(("jobs", format!("{vc}: {jobs}")));
        }
        facts.push(("digest", mesh.digest.clone()));
    }
    if let Some(certificate) = &mesh.certificate {
        facts.push(("TLS", format!("this node's certificate {certificate}")));
    }
    facts.push(("members", counts(mesh)));
    for document in &mesh.documents {
        let state = match document.newest.version {
            0 => "as it came with the agent".to_owned(),
            _ => format!("{document}, {}", document.newest.stage),
        };
        facts.push(("document", format!("{}: {state}", document.name)));
    }
    if let Some(what) = &mesh.cloned {
        facts.push(("cloned", what.clone()));
    }
    facts
}

/// `100: 97 alive, 1 suspect, 2 unreachable (n3, n7)`
fn counts(mesh: &MeshView) -> String {
    let names = |reach| -> Vec<&str> {
        let those = mesh.admitted().filter(move |member| member.reach == reach);
        those.map(|member| member.name.as_str()).collect()
    };
    let mut text = format!(
        "{}: {} alive",
        mesh.admitted().count(),
        names(MemberReach::Alive).len()
    );
    for reach in [MemberReach::Suspect, MemberReach::Unreachable] {
        let names = names(reach);
        if !names.is_empty() {
            let _ = write!(text, ", {} {reach} ({})", names.len(), names.join(", "));
        }
    }
    text
}

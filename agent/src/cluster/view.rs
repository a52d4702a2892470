//! The cluster as this node sees it, put together for people.

use muster_control::answers::cluster::root_hash;
use muster_control::cluster;
use muster_model::mesh::{
    ActivationStage, ClusterView, CoverageView, DocumentVersion, DocumentView, LocalDocument,
    MemberState, MeshView, Scheduling, SchedulingView,
};
use muster_portal_gateway::port::PortError;

use super::errors::unavailable;
use super::membership::LocalMembership;
use crate::mesh::view;

impl LocalMembership {
    /// The view as it is now.
    pub(super) async fn seen(&self) -> Result<MeshView, PortError> {
        let member = self.mesh.member();
        let (cluster_service, jobs) = (member.group().id(), self.vc.groups());
        let mut shown = member
            .mesh
            .look(move |mesh| view::shown(mesh, cluster_service, jobs))
            .await
            .map_err(unavailable)?;
        let named = |id: u32| {
            let found = shown.members.iter().find(|member| member.id == id);
            found.map_or_else(String::new, |member| member.name.clone())
        };
        // Right after the first start the mesh has not heard of this node yet.
        let me = match named(member.me.0) {
            name if name.is_empty() => self.mesh.node().to_string(),
            name => name,
        };
        let closed = self.accounts.closed();
        for member in &mut shown.members {
            let word = member.name.parse().ok().and_then(|name| closed.get(&name));
            member.scheduling = word
                .filter(|_| member.state == MemberState::Admitted)
                .map(scheduling_view);
        }
        let mut counters = shown.counters;
        counters.extend(
            member
                .net_counters()
                .snapshot()
                .into_iter()
                .map(|(name, count)| (format!("net_{name}"), count)),
        );
        let mut documents = shown.documents;
        for kind in self.documents.all() {
            let name = kind.about().name;
            if !documents.iter().any(|document| document.name == name) {
                documents.push(unedited(name, &kind.first_text()));
            }
        }
        let cloned = shown.cloned.then(|| {
            "another machine writes with this node's key: stop one of them, remove its \
             state/mesh, and let it join anew"
                .to_owned()
        });
        Ok(MeshView {
            cluster: Some(ClusterView {
                id: member.cluster().to_string(),
                name: member.name(),
                root_hash: root_hash(&member.membership().root),
                generation: member.group().lineage().generation,
                feature_level: 1,
            }),
            solo: !member.is_open(),
            me,
            leadership: shown.leadership,
            vcs: shown.vcs,
            members: shown.members,
            islands: shown.islands,
            one_way: shown.one_way,
            digest: shown.digest,
            counters,
            documents,
            cloned,
            certificate: self.certificate.fingerprint(),
        })
    }
}

fn scheduling_view(word: &cluster::AdminScheduling) -> SchedulingView {
    SchedulingView {
        scheduling: match word.mode {
            cluster::SchedulingMode::Open => Scheduling::Open,
            cluster::SchedulingMode::Cordoned => Scheduling::Cordoned,
            cluster::SchedulingMode::Draining { from_ms } => Scheduling::Draining { from_ms },
        },
        reason: word.reason.to_string(),
        by: word.by.to_string(),
        at_ms: word.at_ms,
    }
}

/// A document that nobody has edited.
fn unedited(name: &str, text: &str) -> DocumentView {
    let newest = DocumentVersion {
        version: 0,
        stage: ActivationStage::Active,
        hash: String::new(),
        bytes: text.len() as u64,
        author: String::new(),
        at_ms: 0,
        forced: false,
    };
    DocumentView {
        name: name.to_owned(),
        newest,
        active: 0,
        coverage: CoverageView {
            members: 1,
            valid: 1,
            active: 1,
            ..CoverageView::default()
        },
        here: LocalDocument {
            has_newest: true,
            active: 0,
            problem: String::new(),
        },
    }
}

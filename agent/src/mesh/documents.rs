//! Documents on this node: kept, checked, put in force.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_control::cluster::DESCRIPTION;
use muster_failure_rules::RuleSet;
use muster_gossip::documents::{Input, Output, Verdict};
use muster_gossip::frame::DocumentRef;
use muster_gossip::mesh;
use muster_gossip::net::driver::MeshHandle;
use muster_gossip::record::DocumentId;
use tokio::sync::{Mutex, mpsc};

use super::keeper::Keeper;
use crate::description::{Description, Descriptions};
use crate::rules_in_force::{Rules, RulesInForce};

/// The failure rules.
pub(crate) const RULES: DocumentId = DocumentId(1);
/// Names of documents, as users write them.
pub(crate) const NAMES: [(&str, DocumentId); 2] =
    [("failure-rules", RULES), ("virtual-clusters", DESCRIPTION)];

/// A body that takes longer to check is bad: it would stop every node alike.
const CHECK_LIMIT: Duration = Duration::from_secs(20);
/// Having lived so long with a version, this node has survived it.
const SURVIVED: Duration = Duration::from_secs(60);
/// A version that the agent died of so often is not put in force again.
const TRIALS_MAX: u32 = 3;

/// Where documents are in force on this node.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    /// The failure rules.
    pub(crate) rules: RulesInForce,
    /// How the cluster is described.
    pub(crate) descriptions: Descriptions,
}

/// A document that was read.
enum Content {
    Rules(Box<Rules>),
    Description(Description),
}

/// Does what the mesh wants done for documents, until the mesh ends.
pub(crate) async fn run(
    mesh: MeshHandle,
    keeper: Arc<Mutex<Keeper>>,
    in_force: InForce,
    mut outputs: mpsc::Receiver<Output>,
) {
    let desk = Desk {
        mesh,
        keeper,
        in_force,
    };
    desk.begin().await;
    while let Some(output) = outputs.recv().await {
        match output {
            Output::Check { document, body } => desk.check(document, body).await,
            Output::Activate(document) => desk.activate(document).await,
            Output::Retain(documents) => desk.retain(&documents).await,
            // Frames are the driver's business.
            Output::Send { .. } => {}
        }
    }
}

#[derive(Clone)]
struct Desk {
    mesh: MeshHandle,
    keeper: Arc<Mutex<Keeper>>,
    in_force: InForce,
}

impl Desk {
    async fn tell(&self, input: Input) {
        // A mesh that has ended needs to know nothing.
        let _ = self.mesh.input(mesh::Input::Document(input)).await;
    }

    async fn with<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Keeper) -> Result<T, super::keeper::Error> + Send + 'static,
    ) -> Option<T> {
        let mut keeper = Arc::clone(&self.keeper).lock_owned().await;
        let done = tokio::task::spawn_blocking(move || call(&mut keeper)).await;
        match done.map_err(anyhow::Error::from).and_then(|done| Ok(done?)) {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::error!("a document cannot be kept: {error:#}");
                None
            }
        }
    }

    /// Gives the mesh the bodies on disk, and puts the last good versions in force at once.
    async fn begin(&self) {
        // Of the cluster that the node was in before, nothing holds.
        self.in_force.rules.reset();
        self.in_force.descriptions.put_in_force(None);
        let last = self.with(|keeper| {
            let good = NAMES.map(|(_, id)| Ok((id, keeper.last_good(id)?)));
            good.into_iter().collect::<Result<BTreeMap<_, _>, _>>()
        });
        let last = last.await.unwrap_or_default();
        let bodies = self.with(Keeper::bodies).await.unwrap_or_default();
        for (document, body) in bodies {
            let good = last.get(&document.id) == Some(&Some(document.version));
            if good && self.put_in_force(document, Arc::clone(&body)).await.is_ok() {
                self.tell(Input::Active(document)).await;
            }
            self.tell(Input::Body { document, body }).await;
        }
    }

    /// Keeps a body and says whether it can be put in force.
    async fn check(&self, document: DocumentRef, body: Arc<[u8]>) {
        let kept = Arc::clone(&body);
        let keep = self.with(move |keeper| keeper.keep_body(document, &kept));
        if keep.await.is_none() {
            return;
        }
        let parsing = tokio::task::spawn_blocking(move || read(document, &body).map(|_| ()));
        let verdict = match tokio::time::timeout(CHECK_LIMIT, parsing).await {
            Ok(Ok(Ok(()))) => Verdict::Valid,
            Ok(Ok(Err(problem))) => Verdict::Rejected(problem),
            Ok(Err(_)) => Verdict::Rejected("the agent failed while it read it".to_owned()),
            Err(_) => {
                let seconds = CHECK_LIMIT.as_secs();
                Verdict::Rejected(format!("it takes longer than {seconds} s to read"))
            }
        };
        tracing::info!(?document, ?verdict, "a document was checked");
        self.tell(Input::Checked { document, verdict }).await;
    }

    /// Puts a version in force, unless the agent keeps dying of it.
    async fn activate(&self, document: DocumentRef) {
        let trials = self.with(move |keeper| keeper.try_out(document)).await;
        let body = self
            .with(move |keeper| keeper.body(document))
            .await
            .flatten();
        let (Some(trials), Some(body)) = (trials, body) else {
            return;
        };
        // Of a description no agent dies: one that is started anew often must not forget it.
        if trials >= TRIALS_MAX && document.id != DESCRIPTION {
            let problem = format!(
                "the agent ended {trials} times within a minute after putting it in force; the \
                 last good version stays"
            );
            tracing::error!(?document, "{problem}");
            let verdict = Verdict::Rejected(problem);
            return self.tell(Input::Checked { document, verdict }).await;
        }
        if let Err(problem) = self.put_in_force(document, body).await {
            let verdict = Verdict::Rejected(problem);
            return self.tell(Input::Checked { document, verdict }).await;
        }
        tracing::info!(?document, "a document is in force");
        self.tell(Input::Active(document)).await;
        let desk = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(SURVIVED).await;
            // The node may have left the cluster, and let go of the file.
            if desk.mesh.look(|_| ()).await.is_err() {
                return;
            }
            desk.with(move |keeper| keeper.survived(document)).await;
        });
    }

    async fn put_in_force(&self, document: DocumentRef, body: Arc<[u8]>) -> Result<(), String> {
        let parsing = tokio::task::spawn_blocking(move || read(document, &body));
        match parsing.await.map_err(|error| error.to_string())?? {
            Content::Rules(rules) => self.in_force.rules.replace(*rules),
            Content::Description(description) => {
                self.in_force.descriptions.put_in_force(Some(description));
            }
        }
        Ok(())
    }

    async fn retain(&self, documents: &[DocumentRef]) {
        let Some(id) = documents.first().map(|document| document.id) else {
            return;
        };
        let mut versions: Vec<_> = documents.iter().map(|document| document.version).collect();
        self.with(move |keeper| {
            // The last good one is what a start falls back on.
            versions.extend(keeper.last_good(id)?);
            keeper.retain_bodies(id, &versions)
        })
        .await;
    }
}

/// What a body holds.
fn read(document: DocumentRef, body: &[u8]) -> Result<Content, String> {
    let text = str::from_utf8(body).map_err(|error| format!("it is no text: {error}"))?;
    match document.id {
        RULES => {
            let set = RuleSet::parse(text).map_err(|problems| lines(&problems))?;
            Ok(Content::Rules(Box::new(Rules {
                set,
                text: text.into(),
                version: document.version,
            })))
        }
        DESCRIPTION => {
            let description = Description::read(text, document.version);
            Ok(Content::Description(
                description.map_err(|problems| lines(&problems))?,
            ))
        }
        _ => Err("this agent does not know such documents; install a newer one".to_owned()),
    }
}

fn lines(problems: &[impl ToString]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

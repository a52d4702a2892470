//! Documents on this node: kept, checked, put in force.

use std::sync::Arc;
use std::time::Duration;

use muster_gossip::documents::{BodyVerdict, DocumentsInput, DocumentsOutput};
use muster_gossip::frame::DocumentRef;
use muster_gossip::mesh;
use muster_gossip::net::driver::MeshHandle;
use tokio::sync::{Mutex, mpsc};

use super::{DocumentKinds, PutInForce, about};
use crate::mesh_file::{self, MeshFile};

/// A body that takes longer to check is bad: it would stop every node alike.
const CHECK_LIMIT: Duration = Duration::from_secs(20);
/// Having lived so long with a version, this node has survived it.
const SURVIVED: Duration = Duration::from_secs(60);
/// A version that the agent died of so often is not put in force again.
const TRIALS_MAX: u32 = 3;

/// Does what the mesh wants done for documents, until the mesh ends.
pub(crate) async fn run(
    mesh: MeshHandle,
    mesh_file: Arc<Mutex<MeshFile>>,
    documents: DocumentKinds,
    mut outputs: mpsc::Receiver<DocumentsOutput>,
) {
    let checker = DocumentChecker {
        mesh,
        mesh_file,
        documents,
    };
    checker.begin().await;
    while let Some(output) = outputs.recv().await {
        match output {
            DocumentsOutput::Check { document, body } => checker.check(document, body).await,
            DocumentsOutput::Activate(document) => checker.activate(document).await,
            DocumentsOutput::Retain(documents) => checker.retain(&documents).await,
            // Frames are the driver's business.
            DocumentsOutput::Send { .. } => {}
        }
    }
}

#[derive(Clone)]
struct DocumentChecker {
    mesh: MeshHandle,
    mesh_file: Arc<Mutex<MeshFile>>,
    documents: DocumentKinds,
}

impl DocumentChecker {
    async fn tell(&self, input: DocumentsInput) {
        // A mesh that has ended needs to know nothing.
        let _ = self.mesh.input(mesh::MeshInput::Document(input)).await;
    }

    async fn with<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut MeshFile) -> Result<T, mesh_file::DatabaseError> + Send + 'static,
    ) -> Option<T> {
        let mut mesh_file = Arc::clone(&self.mesh_file).lock_owned().await;
        let done = tokio::task::spawn_blocking(move || call(&mut mesh_file)).await;
        match done.map_err(anyhow::Error::from).and_then(|done| Ok(done?)) {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::error!("a document cannot be kept: {error:#}");
                None
            }
        }
    }

    /// Gives the mesh the bodies on disk, and puts the last good versions in force at once. Of the
    /// cluster that the node was in before, nothing holds.
    async fn begin(&self) {
        for kind in self.documents.all() {
            let id = kind.about().id;
            let good = self
                .with(move |mesh_file| mesh_file.last_good_body(id))
                .await;
            let Some((document, body)) = good.flatten() else {
                kind.reset();
                continue;
            };
            match self.put_in_force(document, body).await {
                Ok(()) => self.tell(DocumentsInput::Active(document)).await,
                Err(problem) => {
                    tracing::error!(?document, problem, "the last good version cannot be read");
                    kind.reset();
                }
            }
        }
        let bodies = self.with(MeshFile::bodies).await.unwrap_or_default();
        for (document, body) in bodies {
            self.tell(DocumentsInput::Body { document, body }).await;
        }
    }

    /// Keeps a body and says whether it can be put in force.
    async fn check(&self, document: DocumentRef, body: Arc<[u8]>) {
        let kept = Arc::clone(&body);
        let keep = self.with(move |mesh_file| mesh_file.keep_body(document, &kept));
        if keep.await.is_none() {
            return;
        }
        let documents = self.documents.clone();
        let parsing =
            tokio::task::spawn_blocking(move || read(&documents, document, &body).map(drop));
        let verdict = match tokio::time::timeout(CHECK_LIMIT, parsing).await {
            Ok(Ok(Ok(()))) => BodyVerdict::Valid,
            Ok(Ok(Err(problem))) => BodyVerdict::Rejected(problem),
            Ok(Err(_)) => BodyVerdict::Rejected("the agent failed while it read it".to_owned()),
            Err(_) => {
                let seconds = CHECK_LIMIT.as_secs();
                BodyVerdict::Rejected(format!("it takes longer than {seconds} s to read"))
            }
        };
        tracing::info!(?document, ?verdict, "a document was checked");
        self.tell(DocumentsInput::Checked { document, verdict })
            .await;
    }

    /// Puts a version in force, unless the agent keeps dying of it.
    async fn activate(&self, document: DocumentRef) {
        let trials = self
            .with(move |mesh_file| mesh_file.try_out(document))
            .await;
        let body = self
            .with(move |mesh_file| mesh_file.body(document))
            .await
            .flatten();
        let (Some(trials), Some(body)) = (trials, body) else {
            return;
        };
        // An agent that is started anew often must not forget what it cannot have died of.
        let may_kill = about(document.id).is_none_or(|about| about.is_staged);
        if trials >= TRIALS_MAX && may_kill {
            let problem = format!(
                "the agent ended {trials} times within a minute after putting it in force; the \
                 last good version stays"
            );
            tracing::error!(?document, "{problem}");
            let verdict = BodyVerdict::Rejected(problem);
            return self
                .tell(DocumentsInput::Checked { document, verdict })
                .await;
        }
        if let Err(problem) = self.put_in_force(document, body).await {
            let verdict = BodyVerdict::Rejected(problem);
            return self
                .tell(DocumentsInput::Checked { document, verdict })
                .await;
        }
        tracing::info!(?document, "a document is in force");
        self.tell(DocumentsInput::Active(document)).await;
        let checker = self.clone();
        tokio::spawn(async move {
            if may_kill {
                tokio::time::sleep(SURVIVED).await;
            }
            // The node may have left the cluster, and let go of the file.
            if checker.mesh.look(|_| ()).await.is_err() {
                return;
            }
            checker
                .with(move |mesh_file| mesh_file.survived(document))
                .await;
        });
    }

    async fn put_in_force(&self, document: DocumentRef, body: Arc<[u8]>) -> Result<(), String> {
        let documents = self.documents.clone();
        let reading = tokio::task::spawn_blocking(move || read(&documents, document, &body));
        let put_in_force = reading.await.map_err(|error| error.to_string())??;
        put_in_force();
        Ok(())
    }

    async fn retain(&self, documents: &[DocumentRef]) {
        let Some(id) = documents.first().map(|document| document.id) else {
            return;
        };
        let mut versions: Vec<_> = documents.iter().map(|document| document.version).collect();
        self.with(move |mesh_file| {
            // The last good one is what a start falls back on.
            versions.extend(mesh_file.last_good(id)?);
            mesh_file.retain_bodies(id, &versions)
        })
        .await;
    }
}

/// Reads a body.
fn read(
    documents: &DocumentKinds,
    document: DocumentRef,
    body: &[u8],
) -> Result<PutInForce, String> {
    let text = str::from_utf8(body).map_err(|error| format!("it is no text: {error}"))?;
    let kind = documents
        .of(document.id)
        .ok_or_else(|| "this agent does not know such documents; install a newer one".to_owned())?;
    let read = kind.read(text, document.version);
    read.map_err(|problems| problems.join("\n"))
}

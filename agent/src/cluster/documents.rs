//! The cluster's documents.

use std::sync::Arc;

use async_trait::async_trait;
use muster_control::request::cluster::{EditDocument, History, ReadDocument, RollBack};
use muster_control::request::{Failure, Refusal};
use muster_model::mesh::{DocumentText, DocumentView, VersionView};
use muster_portal_gateway::port::{self, Caller, Edit, Error};

use super::errors::{told, told_of};
use super::membership::LocalMembership;
use crate::documents::Documents;
use crate::mesh;

/// The documents of this cluster.
#[derive(Debug)]
pub(super) struct LocalDocuments {
    /// Their kinds.
    pub(super) documents: Documents,
    pub(super) membership: Arc<LocalMembership>,
}

#[async_trait]
impl port::Documents for LocalDocuments {
    async fn list(&self) -> Result<Vec<DocumentView>, Error> {
        Ok(self.membership.seen().await?.documents)
    }

    async fn history(&self, name: &str) -> Result<Vec<VersionView>, Error> {
        let document = self.documents.named(name)?.about().id.0;
        let history = self.membership.mesh.ask(History { document }).await;
        history.map(|versions| versions.0).map_err(told)
    }

    async fn text(&self, name: &str, version: Option<u64>) -> Result<DocumentText, Error> {
        let kind = self.documents.named(name)?;
        if let Some((version, text)) = kind.text_here(version).await? {
            let text = text.to_string();
            return Ok(DocumentText { version, text });
        }
        let unknown =
            || Error::Unavailable(format!("this node has not heard {name} yet; try again"));
        let version = version.ok_or_else(unknown)?;
        let missing = || Error::NoVersion {
            document: name.to_owned(),
            version,
        };
        let document = kind.about().id.0;
        let read = self
            .membership
            .mesh
            .ask(ReadDocument { document, version })
            .await;
        read.map_err(|error| told_of(error, missing))
    }

    async fn edit(&self, caller: &Caller, name: &str, edit: Edit) -> Result<u64, Error> {
        let kind = self.documents.named(name)?;
        kind.check_edit(&edit.text).await?;
        let request = EditDocument {
            document: kind.about().id.0,
            base: edit.base,
            text: edit.text,
            now: edit.now,
            by: caller.user.to_string(),
        };
        let edited = self.membership.mesh.ask(request).await;
        let version = edited.map_err(|error| unedited_for(error, name, Some(edit.base)))?;
        kind.edited(version).await;
        Ok(version)
    }

    async fn rollback(&self, caller: &Caller, name: &str, version: u64) -> Result<u64, Error> {
        let kind = self.documents.named(name)?;
        let request = RollBack {
            document: kind.about().id.0,
            version,
            by: caller.user.to_string(),
        };
        match self.membership.mesh.ask(request).await {
            Ok(version) => {
                kind.edited(version).await;
                Ok(version)
            }
            Err(mesh::Error::Undone(Failure::Refused(Refusal::Missing(_)))) => {
                Err(Error::NoVersion {
                    document: name.to_owned(),
                    version,
                })
            }
            Err(error) => Err(unedited_for(error, name, None)),
        }
    }
}

/// Why a document was not changed.
fn unedited_for(error: mesh::Error, name: &str, base: Option<u64>) -> Error {
    match error {
        mesh::Error::Undone(Failure::Refused(Refusal::Conflict { current })) => {
            Error::DocumentConflict {
                document: name.to_owned(),
                base: base.unwrap_or_else(|| current.saturating_sub(1)),
                current,
            }
        }
        error => told(error),
    }
}

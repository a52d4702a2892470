//! Documents that all nodes agree on, as the failure rules.

use muster_model::storage::STORAGES_DOCUMENT;
use serde_json::json;

use crate::call::Call;
use crate::error::ApiError;
use crate::port::{self, Documents, EditedText};
use crate::reply::{HandlerResult, HttpReply};

/// `GET documents`
pub(crate) async fn list(_: Call, documents: &dyn Documents) -> HandlerResult {
    HttpReply::json(&documents.list().await?)
}

/// `GET documents/:document`
pub(crate) async fn one(call: Call, documents: &dyn Documents) -> HandlerResult {
    let name = call.params.text("document");
    let mut all = documents.list().await?;
    let at = all.iter().position(|one| one.name == name);
    let missing = || port::PortError::NoDocument(name.to_owned());
    HttpReply::json(&all.swap_remove(at.ok_or_else(missing)?))
}

/// `GET documents/:document/history`
pub(crate) async fn history(call: Call, documents: &dyn Documents) -> HandlerResult {
    let name = call.params.text("document");
    HttpReply::json(&documents.history(name).await?)
}

/// `GET documents/:document/text?version=`
pub(crate) async fn text(call: Call, documents: &dyn Documents) -> HandlerResult {
    let version = call.number("version")?;
    let name = call.params.text("document");
    if name == STORAGES_DOCUMENT && !call.caller()?.admin {
        return Err(ApiError::SecretDocument(name.to_owned()));
    }
    HttpReply::json(&documents.text(name, version).await?)
}

/// `PUT documents/:document?base=&now=`, the body being the new text
pub(crate) async fn edit(mut call: Call, documents: &dyn Documents) -> HandlerResult {
    let base = call.number("base")?.ok_or_else(|| {
        ApiError::Parameters("name the version that was edited with ?base=".to_owned())
    })?;
    let text = call.document().await?;
    let now = call.query.is_true("now");
    let name = call.params.text("document");
    let edit = EditedText { base, text, now };
    let edited = documents.edit(call.caller()?, name, edit);
    version(edited.await?)
}

/// `POST documents/:document/rollback?version=`
pub(crate) async fn rollback(call: Call, documents: &dyn Documents) -> HandlerResult {
    let to = call.number("version")?.ok_or_else(|| {
        ApiError::Parameters("name the version to go back to with ?version=".to_owned())
    })?;
    let name = call.params.text("document");
    let made = documents.rollback(call.caller()?, name, to);
    version(made.await?)
}

fn version(version: u64) -> HandlerResult {
    HttpReply::json(&json!({ "version": version }))
}

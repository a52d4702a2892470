//! Documents that all nodes agree on, as the failure rules.

use serde_json::json;

use crate::call::Call;
use crate::error::Error;
use crate::mesh::Edit;
use crate::reply::Reply;

/// `GET documents`
pub(crate) async fn list(call: Call) -> Result<Reply, Error> {
    Reply::json(&call.cluster.documents().await?)
}

/// `GET documents/:document`
pub(crate) async fn one(call: Call) -> Result<Reply, Error> {
    let name = call.params.text("document");
    let mut all = call.cluster.documents().await?;
    let at = all.iter().position(|one| one.name == name);
    let missing = || crate::cluster::Error::NoDocument(name.to_owned());
    Reply::json(&all.swap_remove(at.ok_or_else(missing)?))
}

/// `GET documents/:document/history`
pub(crate) async fn history(call: Call) -> Result<Reply, Error> {
    let name = call.params.text("document");
    Reply::json(&call.cluster.document_history(name).await?)
}

/// `GET documents/:document/text?version=`
pub(crate) async fn text(call: Call) -> Result<Reply, Error> {
    let version = number(&call, "version")?;
    let name = call.params.text("document");
    let text = call.cluster.document_text(call.caller()?, name, version);
    Reply::json(&text.await?)
}

/// `PUT documents/:document?base=&now=`, the body being the new text
pub(crate) async fn edit(mut call: Call) -> Result<Reply, Error> {
    let base = number(&call, "base")?.ok_or_else(|| {
        Error::Parameters("name the version that was edited with ?base=".to_owned())
    })?;
    let text = call.document().await?;
    let now = call.query.is_true("now");
    let name = call.params.text("document");
    let edit = Edit { base, text, now };
    let edited = call.cluster.edit_document(call.caller()?, name, edit);
    version(edited.await?)
}

/// `POST documents/:document/rollback?version=`
pub(crate) async fn rollback(call: Call) -> Result<Reply, Error> {
    let to = number(&call, "version")?.ok_or_else(|| {
        Error::Parameters("name the version to go back to with ?version=".to_owned())
    })?;
    let name = call.params.text("document");
    let made = call.cluster.rollback_document(call.caller()?, name, to);
    version(made.await?)
}

fn version(version: u64) -> Result<Reply, Error> {
    Reply::json(&json!({ "version": version }))
}

fn number(call: &Call, name: &str) -> Result<Option<u64>, Error> {
    call.query
        .number(name)
        .map_err(|text| Error::Parameters(format!("{name} must be a number, not {text:?}")))
}

//! Documents that all nodes agree on, as the failure rules.

use http::header::CONTENT_TYPE;
use muster_model::exit::TriedEnd;
use muster_model::storage::STORAGES_DOCUMENT;
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
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

/// `POST failure-rules/try {"exit_code", "oom_killed", "user_log", "platform_log", "rules"}`
pub(crate) async fn try_rules(mut call: Call, documents: &dyn Documents) -> HandlerResult {
    let body = call.read(call.config.limits.document_bytes).await?;
    let mut fields = Fields::parse(call.header(&CONTENT_TYPE), &body)?;
    let exit_code = fields.optional_integer("exit_code", i64::from(i32::MIN), i64::from(i32::MAX));
    let exit_code = exit_code.and_then(|code| i32::try_from(code).ok());
    if exit_code.is_none() {
        fields.wrong("exit_code", "is required");
    }
    let end = TriedEnd {
        exit_code: exit_code.unwrap_or_default(),
        oom_killed: fields.optional_bool("oom_killed").unwrap_or_default(),
        user_log: fields.optional_text("user_log").unwrap_or_default(),
        platform_log: fields.optional_text("platform_log").unwrap_or_default(),
    };
    let rules = fields.optional_text("rules");
    fields.finish()?;
    if rules.is_some() && !call.caller()?.admin {
        let why = "only admins try rules of their own; leave out `rules` to try those in force";
        return Err(port::PortError::Forbidden(why.to_owned()).into());
    }
    HttpReply::json(&documents.try_rules(rules.as_deref(), &end).await?)
}

/// `POST failure-rules/test`, the body being rules: which verdicts they would change
pub(crate) async fn test_rules(mut call: Call, documents: &dyn Documents) -> HandlerResult {
    let rules = call.document().await?;
    HttpReply::json(&documents.test_rules(&rules).await?)
}

/// The version that an edit has made.
#[derive(Serialize, JsonSchema)]
struct MadeVersion {
    version: u64,
}

fn version(version: u64) -> HandlerResult {
    HttpReply::json(&MadeVersion { version })
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use muster_model::exit::Verdict;
    use muster_model::mesh::{DocumentText, DocumentView, VersionView};
    use muster_model::rule_test::RuleTest;
    use schemars::JsonSchema;

    use super::{ApiError, MadeVersion};
    use crate::openapi::{RouteDoc, TEXT, any, body_fields};
    use crate::port::PortError;

    body_fields! {
        TriedEndFields {
            /// Exit status as a shell would see it: 128+N for signal N.
            exit_code: i32,
            /// Whether the kernel killed it at the memory limit.
            oom_killed: Option<bool>,
            /// The end of its log.
            user_log: Option<String>,
            /// The end of the runtime's own log.
            platform_log: Option<String>,
            /// Rules to try in place of those in force, for admins.
            rules: Option<String>,
        }
    }

    fn of_one(sentence: &'static str) -> RouteDoc {
        RouteDoc::new(sentence).fails([PortError::NoDocument(any())])
    }

    fn of_version(sentence: &'static str) -> RouteDoc {
        let document = any();
        of_one(sentence)
            .checks_parameters()
            .fails([PortError::NoVersion {
                document,
                version: 0,
            }])
    }

    fn edits(sentence: &'static str) -> RouteDoc {
        let conflict = PortError::DocumentConflict {
            document: any(),
            base: 0,
            current: 0,
        };
        of_version(sentence)
            .changes_cluster()
            .fails([conflict, PortError::InvalidDocument(Vec::new())])
            .json::<MadeVersion>()
    }

    pub(crate) fn try_rules() -> RouteDoc {
        RouteDoc::new("Tells what failure rules say of an end, as they would of a task's.")
            .fields::<TriedEndFields>()
            .fails([
                PortError::Forbidden(any()),
                PortError::InvalidDocument(Vec::new()),
            ])
            .json::<Verdict>()
    }

    pub(crate) fn test_rules() -> RouteDoc {
        let sentence =
            "Tells which verdicts failure rules would change, of the failures that nodes keep.";
        RouteDoc::new(sentence)
            .body::<String>(TEXT)
            .checks_parameters()
            .fails([PortError::InvalidDocument(Vec::new())])
            .json::<RuleTest>()
    }

    pub(crate) fn list() -> RouteDoc {
        RouteDoc::new("Lists the documents that all nodes agree on.").json::<Vec<DocumentView>>()
    }

    pub(crate) fn one() -> RouteDoc {
        of_one("Shows how far a document has come.").json::<DocumentView>()
    }

    pub(crate) fn history() -> RouteDoc {
        of_one("Lists a document's versions, the newest first.").json::<Vec<VersionView>>()
    }

    pub(crate) fn text() -> RouteDoc {
        of_version("Shows a document's text; that of `storages` to admins alone.")
            .query::<u64>("version", "Of this version; the one in force unless told.")
            .fails([ApiError::SecretDocument(any())])
            .json::<DocumentText>()
    }

    pub(crate) fn edit() -> RouteDoc {
        edits("Gives a document a new text.")
            .needed_query::<u64>(
                "base",
                "The version that was edited: refused if there is a newer one.",
            )
            .query::<bool>("now", "Skip the steps of its activation.")
            .body::<String>(TEXT)
    }

    pub(crate) fn rollback() -> RouteDoc {
        edits("Gives a document an earlier text again, as a new version.")
            .needed_query::<u64>("version", "The version with that text.")
    }
}

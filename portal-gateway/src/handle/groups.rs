//! Groups: what is shown of them, and how they are changed.

use http::header::ETAG;
use muster_model::id::GroupName;
use muster_model::people::{
    ExtensionChange, GroupAcl, GroupPatch, NewGroup, PeopleChange, PeopleDenial,
};
use serde_json::{Map, Value};

use super::users::{changed, data, revision_tag};
use crate::call::Call;
use crate::error::ApiError;
use crate::port::{GroupView, PortError, UserView, Users};
use crate::reply::{HandlerResult, HttpReply};
use crate::wire::group::{ACLS, AclWrite, WireGroup, WireMember};

/// How often a change of `acls` is tried where others change the group at the same time.
const ACL_TRIES: u32 = 3;

/// `GET /groups`
pub(crate) async fn list(_: Call, users: &dyn Users) -> HandlerResult {
    let groups = users.groups().await?;
    let groups: Result<Vec<WireGroup>, ApiError> = groups.iter().map(WireGroup::of).collect();
    HttpReply::json(&groups?)
}

/// `GET /groups/:group`
pub(crate) async fn one(call: Call, users: &dyn Users) -> HandlerResult {
    let group = find(users, call.params.text("group")).await?;
    let reply = HttpReply::json(&WireGroup::of(&group)?)?;
    Ok(reply.with(ETAG, revision_tag(group.revision)))
}

/// `GET /groups/:group/userlist`
pub(crate) async fn members(call: Call, users: &dyn Users) -> HandlerResult {
    let group = find(users, call.params.text("group")).await?.name;
    let member = |user: &UserView| WireMember {
        username: user.name.to_string(),
        cluster_admin: user.admin,
    };
    let all = users.list().await?;
    let members = all.iter().filter(|user| user.groups.contains(&group));
    HttpReply::json(&members.map(member).collect::<Vec<_>>())
}

/// `POST /groups`
pub(crate) async fn add(mut call: Call, users: &dyn Users) -> HandlerResult {
    let mut fields = call.fields().await?;
    let name = fields.name("groupname");
    let description = fields.optional_text("description");
    let external_name = fields.optional_text("externalName");
    let mut extension = fields.optional_object("extension").unwrap_or_default();
    let name = fields.finish_with(name)?;
    let acls = AclWrite::out_of(&mut extension);
    let acl = acls
        .map(|acls| acls.over(&GroupAcl::default()))
        .transpose()?;
    let group = NewGroup {
        name,
        description: description.unwrap_or_default(),
        external_name: external_name.unwrap_or_default(),
        acl: acl.unwrap_or_default(),
        extension: Value::Object(extension).to_string(),
    };
    let change = PeopleChange::AddGroup(group);
    users.change(&call.author()?, change).await?;
    changed("group is created successfully")
}

/// `PUT /groups {"patch", "data"}`, or the data alone. What is not named stays, also where `patch` is false:
/// otherwise a body without `acls` would take all rights from the members.
pub(crate) async fn update(mut call: Call, users: &dyn Users) -> HandlerResult {
    let (_, mut fields) = data(&mut call).await?;
    let name = fields.name::<GroupName>("groupname");
    let patch = GroupPatch {
        description: fields.optional_text("description"),
        external_name: fields.optional_text("externalName"),
        ..GroupPatch::default()
    };
    let extension = fields.optional_object("extension");
    let name = fields.finish_with(name)?;
    let (patch, acls) = match extension {
        Some(extension) => merged(patch, extension),
        None => (patch, None),
    };
    patch_group(&call, users, &name, patch, acls).await?;
    changed(&format!("update group {name} successfully."))
}

/// `DELETE /groups/:group`
pub(crate) async fn remove(call: Call, users: &dyn Users) -> HandlerResult {
    let text = call.params.text("group");
    let missing = || PortError::from(PeopleDenial::NoGroup(text.to_owned()));
    let group: GroupName = text.parse().map_err(|_| missing())?;
    let revision = call.revision()?;
    let change = PeopleChange::RemoveGroup { group, revision };
    users.change(&call.author()?, change).await?;
    HttpReply::message("group is removed successfully")
}

/// `PUT /groups/:group/extension {"extension"}`
pub(crate) async fn merge_extension(mut call: Call, users: &dyn Users) -> HandlerResult {
    let mut fields = call.fields().await?;
    let extension = fields.object("extension");
    fields.finish()?;
    let (patch, acls) = merged(GroupPatch::default(), extension);
    patch_group(&call, users, &named(&call)?, patch, acls).await?;
    changed("update group extension data successfully.")
}

/// `PUT /groups/:group/extension/*path {"data"}`
pub(crate) async fn set_attribute(mut call: Call, users: &dyn Users) -> HandlerResult {
    let mut fields = call.fields().await?;
    let value = fields.value("data");
    fields.finish()?;
    let mut patch = GroupPatch::default();
    let mut acls = None;
    match call.params.rest() {
        [first, path @ ..] if first == ACLS => {
            let path = path.to_vec();
            acls = Some(AclWrite { path, value });
        }
        path => {
            let (path, value) = (path.to_vec(), value.to_string());
            patch.extension = Some(ExtensionChange::At { path, value });
        }
    }
    patch_group(&call, users, &named(&call)?, patch, acls).await?;
    changed("Update group extension data successfully.")
}

/// `PUT /groups/:group/description {"description"}`
pub(crate) async fn set_description(mut call: Call, users: &dyn Users) -> HandlerResult {
    let patch = GroupPatch {
        description: only_text(&mut call, "description").await?,
        ..GroupPatch::default()
    };
    patch_group(&call, users, &named(&call)?, patch, None).await?;
    changed("update group description data successfully.")
}

/// `PUT /groups/:group/externalname {"externalName"}`
pub(crate) async fn set_external_name(mut call: Call, users: &dyn Users) -> HandlerResult {
    let patch = GroupPatch {
        external_name: only_text(&mut call, "externalName").await?,
        ..GroupPatch::default()
    };
    patch_group(&call, users, &named(&call)?, patch, None).await?;
    changed("update group externalNameData data successfully.")
}

/// The body's only field, a text that may be empty.
async fn only_text(call: &mut Call, name: &str) -> Result<Option<String>, ApiError> {
    let mut fields = call.fields().await?;
    fields.demand(&[name]);
    let text = fields.optional_text(name);
    fields.finish()?;
    Ok(text)
}

/// Adds an extension whose members replace those of the same name, and takes the `acls` out of it.
fn merged(patch: GroupPatch, mut extension: Map<String, Value>) -> (GroupPatch, Option<AclWrite>) {
    let acls = AclWrite::out_of(&mut extension);
    let change = (!extension.is_empty())
        .then(|| ExtensionChange::Merge(Value::Object(extension).to_string()));
    let patch = GroupPatch {
        extension: change,
        ..patch
    };
    (patch, acls)
}

/// Changes a group. What a request makes of its `acls` holds for those it has at that time.
async fn patch_group(
    call: &Call,
    users: &dyn Users,
    group: &GroupName,
    patch: GroupPatch,
    acls: Option<AclWrite>,
) -> Result<(), ApiError> {
    let seen = call.revision()?;
    let mut tries = 0;
    loop {
        tries += 1;
        let mut patch = GroupPatch {
            revision: seen,
            ..patch.clone()
        };
        if let Some(acls) = &acls {
            let view = find(users, group.as_str()).await?;
            patch.acl = Some(acls.over(&view.acl)?);
            patch.revision = seen.or(Some(view.revision));
        }
        let may_retry = acls.is_some() && seen.is_none() && tries < ACL_TRIES;
        match send(call, users, group, patch).await {
            Err(ApiError::Cluster(PortError::People(PeopleDenial::Changed { .. })))
                if may_retry => {}
            done => return done,
        }
    }
}

/// A group that is not there is answered with 400, as upstream does, also when it is read.
async fn send(
    call: &Call,
    users: &dyn Users,
    group: &GroupName,
    patch: GroupPatch,
) -> Result<(), ApiError> {
    let group = group.clone();
    let change = PeopleChange::ChangeGroup { group, patch };
    let done = users.change(&call.author()?, change).await;
    done.map_err(|error| match error {
        PortError::People(PeopleDenial::NoGroup(name)) => ApiError::NoGroup(name),
        error => error.into(),
    })
}

async fn find(users: &dyn Users, name: &str) -> Result<GroupView, ApiError> {
    let mut groups = users.groups().await?.into_iter();
    let found = groups.find(|group| group.name.as_str() == name);
    found.ok_or_else(|| ApiError::NoGroup(name.to_owned()))
}

/// The group that the path names. A name that no group can have is just a group that is not there.
fn named(call: &Call) -> Result<GroupName, ApiError> {
    let text = call.params.text("group");
    text.parse().map_err(|_| ApiError::NoGroup(text.to_owned()))
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use http::StatusCode;
    use schemars::JsonSchema;
    use serde_json::Value;

    use super::{GroupName, PeopleDenial, WireGroup, WireMember};
    use crate::error::ApiError;
    use crate::openapi::{FreeObject, JSON, RouteDoc, any, body_fields};
    use crate::port::PortError;
    use crate::reply::DoneMessage;

    body_fields! {
        #[schemars(rename_all = "camelCase")]
        NewGroupFields {
            groupname: GroupName,
            description: Option<String>,
            external_name: Option<String>,
            /// With `acls`, which says what members may do.
            extension: Option<FreeObject>,
        }
        #[schemars(rename_all = "camelCase")]
        GroupFields {
            groupname: GroupName,
            description: Option<String>,
            external_name: Option<String>,
            extension: Option<FreeObject>,
            patch: Option<bool>,
        }
        GroupData {
            patch: Option<bool>,
            data: GroupFields,
        }
        GroupExtensionField {
            extension: FreeObject,
        }
        DataField {
            data: Value,
        }
        DescriptionField {
            description: String,
        }
        #[schemars(rename_all = "camelCase")]
        ExternalNameField {
            external_name: String,
        }
    }

    /// The fields of a change, or those fields alone.
    #[derive(JsonSchema)]
    #[schemars(untagged)]
    #[expect(dead_code, reason = "read field by field")]
    enum GroupDataOrFields {
        Data(GroupData),
        Fields(GroupFields),
    }

    fn changes(sentence: &'static str) -> RouteDoc {
        RouteDoc::new(sentence)
            .changes_group()
            .answer::<DoneMessage>(StatusCode::CREATED, JSON)
    }

    pub(crate) fn list() -> RouteDoc {
        RouteDoc::new("Lists the groups.").json::<Vec<WireGroup>>()
    }

    pub(crate) fn one() -> RouteDoc {
        RouteDoc::new("Shows one group.")
            .fails([ApiError::NoGroup(any())])
            .json::<WireGroup>()
    }

    pub(crate) fn members() -> RouteDoc {
        RouteDoc::new("Lists the members of a group.")
            .fails([ApiError::NoGroup(any())])
            .json::<Vec<WireMember>>()
    }

    pub(crate) fn add() -> RouteDoc {
        changes("Adds a group.")
            .fields::<NewGroupFields>()
            .fails([PortError::from(PeopleDenial::GroupExists(any()))])
    }

    pub(crate) fn update() -> RouteDoc {
        changes("Changes a group.").fields::<GroupDataOrFields>()
    }

    pub(crate) fn remove() -> RouteDoc {
        RouteDoc::new("Removes a group.")
            .changes_group()
            .fails(
                [
                    PeopleDenial::NoGroup(any()),
                    PeopleDenial::GroupNeeded(any()),
                ]
                .map(PortError::from),
            )
            .json::<DoneMessage>()
    }

    pub(crate) fn merge_extension() -> RouteDoc {
        changes("Changes members of a group's extension.").fields::<GroupExtensionField>()
    }

    pub(crate) fn set_attribute() -> RouteDoc {
        changes("Sets one member of a group's extension.").fields::<DataField>()
    }

    pub(crate) fn set_description() -> RouteDoc {
        changes("Sets a group's description.").fields::<DescriptionField>()
    }

    pub(crate) fn set_external_name() -> RouteDoc {
        changes("Sets a group's name in a directory elsewhere.").fields::<ExternalNameField>()
    }
}

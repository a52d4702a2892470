//! Users: what is shown of them, and how they are changed.

use http::StatusCode;
use http::header::ETAG;
use muster_model::id::{GroupName, UserName};
use muster_model::people::{
    ExtensionChange, GroupsChange, NewPassword, NewUser, PeopleChange, PeopleDenial, UserPatch,
};
use muster_model::secret::Hidden;
use serde_json::Value;

use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::port::{PortError, Users};
use crate::reply::{HandlerResult, HttpReply, ascii};
use crate::wire::user::WireUser;

/// What a whole update by an admin, and by the user, has to name.
const WHOLE_USER: [&str; 5] = ["email", "virtualCluster", "admin", "password", "extension"];
const WHOLE_SELF: [&str; 2] = ["email", "newPassword"];

/// `GET /users`
pub(crate) async fn list(call: Call, users: &dyn Users) -> HandlerResult {
    let caller = call.caller()?;
    let users = users.list().await?;
    let users: Vec<WireUser> = users
        .iter()
        .map(|user| WireUser::of(user, caller))
        .collect();
    HttpReply::json(&users)
}

/// `GET /users/:user`
pub(crate) async fn one(call: Call, users: &dyn Users) -> HandlerResult {
    let user = users.user(call.params.text("user")).await?;
    let reply = HttpReply::json(&WireUser::of(&user, call.caller()?))?;
    Ok(reply.with(ETAG, revision_tag(user.revision)))
}

/// `POST /users`
pub(crate) async fn add(mut call: Call, users: &dyn Users) -> HandlerResult {
    let mut fields = call.fields().await?;
    let name = fields.name("username");
    let email = fields.optional_email("email");
    let password = fields.new_password();
    let groups = rights(&mut fields);
    let extension = fields.optional_object("extension").unwrap_or_default();
    let user = NewUser {
        name: fields.finish_with(name)?,
        email: email.unwrap_or_default(),
        password,
        groups,
        extension: Value::Object(extension).to_string(),
    };
    let added = users
        .change(&call.author()?, PeopleChange::AddUser(user))
        .await;
    added.map_err(|error| match error {
        PortError::People(PeopleDenial::NoVc(vc)) => ApiError::NoVcGroup(vc),
        error => error.into(),
    })?;
    changed("User is created successfully")
}

/// `PUT /users {"patch", "data"}`, or the data alone
pub(crate) async fn update(mut call: Call, users: &dyn Users) -> HandlerResult {
    let (is_whole, mut fields) = data(&mut call).await?;
    let name = fields.name::<UserName>("username");
    if is_whole {
        fields.demand(&WHOLE_USER);
    }
    let patch = UserPatch {
        email: fields.optional_email("email"),
        password: fields.optional_password("password"),
        groups: rights(&mut fields),
        ..extension(&mut fields)
    };
    let name = fields.finish_with(name)?;
    patch_user(&call, users, &name, patch).await?;
    changed(&format!("Update user {name} successfully"))
}

/// `PUT /users/me {"patch", "data"}`, or the data alone
pub(crate) async fn update_self(mut call: Call, users: &dyn Users) -> HandlerResult {
    let (is_whole, mut fields) = data(&mut call).await?;
    let name = fields.name::<UserName>("username");
    if is_whole {
        fields.demand(&WHOLE_SELF);
    }
    let own = UserPatch {
        email: fields.optional_email("email"),
        ..extension(&mut fields)
    };
    let patch = with_password(&call, &mut fields, own, true);
    let name = fields.finish_with(name)?;
    if name != call.caller()?.user {
        return Err(not_yours(&call, name.as_str())?);
    }
    patch_user(&call, users, &name, patch).await?;
    changed(&format!("Update user {name} successfully"))
}

/// `DELETE /users/:user`
pub(crate) async fn remove(call: Call, users: &dyn Users) -> HandlerResult {
    let user = named(&call)?;
    let revision = call.revision()?;
    let change = PeopleChange::RemoveUser { user, revision };
    users.change(&call.author()?, change).await?;
    HttpReply::message("user is removed successfully")
}

/// `PUT /users/:user/group {"groupname"}`
pub(crate) async fn add_group(mut call: Call, users: &dyn Users) -> HandlerResult {
    let group = group_name(&mut call).await?;
    let groups = GroupsChange {
        add: [group.clone()].into(),
        ..GroupsChange::default()
    };
    let user = patch_groups(&call, users, groups).await?;
    changed(&format!("User {user} is added into group {group}"))
}

/// `DELETE /users/:user/group {"groupname"}`
pub(crate) async fn remove_group(mut call: Call, users: &dyn Users) -> HandlerResult {
    let group = group_name(&mut call).await?;
    let groups = GroupsChange {
        remove: [group.clone()].into(),
        ..GroupsChange::default()
    };
    let user = patch_groups(&call, users, groups).await?;
    changed(&format!("User {user} is removed from group {group}"))
}

/// `PUT /users/:user/grouplist {"grouplist"}`
pub(crate) async fn set_groups(mut call: Call, users: &dyn Users) -> HandlerResult {
    let mut fields = call.fields().await?;
    fields.demand(&["grouplist"]);
    let groups = GroupsChange {
        set: fields.optional_names("grouplist"),
        ..GroupsChange::default()
    };
    fields.finish()?;
    patch_groups(&call, users, groups).await?;
    changed("update user grouplist successfully.")
}

/// `PUT /users/:user/virtualcluster {"virtualCluster"}`
pub(crate) async fn set_vcs(mut call: Call, users: &dyn Users) -> HandlerResult {
    let mut fields = call.fields().await?;
    fields.demand(&["virtualCluster"]);
    let groups = GroupsChange {
        vcs: fields.optional_names("virtualCluster"),
        ..GroupsChange::default()
    };
    fields.finish()?;
    patch_groups(&call, users, groups).await?;
    changed("Update user virtualCluster data successfully.")
}

/// `PUT /users/:user/admin {"admin"}`
pub(crate) async fn set_admin(mut call: Call, users: &dyn Users) -> HandlerResult {
    let mut fields = call.fields().await?;
    let admin = fields.bool("admin");
    fields.finish()?;
    let groups = GroupsChange {
        admin: Some(admin),
        ..GroupsChange::default()
    };
    patch_groups(&call, users, groups).await?;
    changed("Update user admin permission successfully.")
}

/// `PUT /users/:user/extension {"extension"}`
pub(crate) async fn merge_extension(mut call: Call, users: &dyn Users) -> HandlerResult {
    check_self_or_admin(&call)?;
    let mut fields = call.fields().await?;
    fields.demand(&["extension"]);
    let patch = extension(&mut fields);
    fields.finish()?;
    patch_user(&call, users, &named(&call)?, patch).await?;
    changed("Update user extension data successfully.")
}

/// `PUT /users/:user/email {"email"}`
pub(crate) async fn set_email(mut call: Call, users: &dyn Users) -> HandlerResult {
    check_self_or_admin(&call)?;
    let mut fields = call.fields().await?;
    fields.demand(&["email"]);
    let patch = UserPatch {
        email: fields.optional_email("email"),
        ..UserPatch::default()
    };
    fields.finish()?;
    patch_user(&call, users, &named(&call)?, patch).await?;
    changed("Update user email data successfully.")
}

/// `PUT /users/:user/password {"oldPassword", "newPassword"}`
pub(crate) async fn set_password(mut call: Call, users: &dyn Users) -> HandlerResult {
    check_self_or_admin(&call)?;
    let is_self = is_self(&call)?;
    let mut fields = call.fields().await?;
    fields.demand(&["newPassword"]);
    let patch = with_password(&call, &mut fields, UserPatch::default(), is_self);
    fields.finish()?;
    patch_user(&call, users, &named(&call)?, patch).await?;
    changed("update user password successfully.")
}

/// Whether all fields of a user or a group have to be named, and those that are. Some clients send them
/// without `data` around them; then only what they name changes.
pub(super) async fn data(call: &mut Call) -> Result<(bool, Fields), ApiError> {
    let mut fields = call.fields().await?;
    let patch = fields.optional_bool("patch");
    match fields.optional_object("data") {
        None => Ok((patch == Some(false), fields)),
        Some(data) => {
            fields.finish()?;
            Ok((patch != Some(true), Fields::of(data)))
        }
    }
}

/// Which groups a user is to be in, by virtual clusters and as an admin.
fn rights(fields: &mut Fields) -> GroupsChange {
    let admin = fields.optional_bool("admin");
    let vcs = fields.optional_names("virtualCluster");
    GroupsChange {
        // Clients send an empty list for an admin, who may use all of them. It would be refused.
        vcs: vcs.filter(|vcs| !vcs.is_empty() || admin != Some(true)),
        admin,
        ..GroupsChange::default()
    }
}

fn extension(fields: &mut Fields) -> UserPatch {
    let extension = fields.optional_object("extension");
    UserPatch {
        extension: extension.map(|it| ExtensionChange::Merge(Value::Object(it).to_string())),
        ..UserPatch::default()
    }
}

/// Adds the new password to what is changed. Users have to give their old one. Root on the socket need not:
/// this is how an admin who forgot theirs gets a new one.
fn with_password(call: &Call, fields: &mut Fields, patch: UserPatch, is_self: bool) -> UserPatch {
    let password = fields.optional_password("newPassword");
    let is_checked = password.is_some() && is_self && call.address.is_some();
    if is_checked {
        fields.demand(&["oldPassword"]);
    }
    let old = fields.optional_text("oldPassword");
    let old = old.filter(|_| is_checked).map(Hidden);
    let is_same = match (&password, &old) {
        (Some(NewPassword::Plain(new)), Some(old)) => new == old,
        _ => false,
    };
    UserPatch {
        // The password that they have is no change, and ends no login: OpenPAI's clients send both with each
        // edit of a user.
        password: password.filter(|_| !is_same),
        old_password: old,
        ..patch
    }
}

async fn group_name(call: &mut Call) -> Result<GroupName, ApiError> {
    let mut fields = call.fields().await?;
    let group = fields.name("groupname");
    fields.finish_with(group)
}

async fn patch_groups(
    call: &Call,
    users: &dyn Users,
    groups: GroupsChange,
) -> Result<UserName, ApiError> {
    let user = named(call)?;
    let patch = UserPatch {
        groups,
        ..UserPatch::default()
    };
    patch_user(call, users, &user, patch).await?;
    Ok(user)
}

/// Changes a user. A wrong old password counts like one at a login.
/// Changes a user. Wrong passwords are counted, and nothing but a right one takes the count back.
pub(crate) async fn patch_user(
    call: &Call,
    users: &dyn Users,
    user: &UserName,
    patch: UserPatch,
) -> Result<(), ApiError> {
    let patch = UserPatch {
        revision: call.revision()?,
        ..patch
    };
    let is_checked = patch.old_password.is_some();
    if is_checked {
        call.admit_password(user.as_str())?;
    }
    let change = PeopleChange::ChangeUser {
        user: user.clone(),
        patch,
    };
    let done = users.change(&call.author()?, change).await;
    match &done {
        Ok(()) if is_checked => call.count_password(user.as_str(), true),
        Err(PortError::People(PeopleDenial::WrongPassword)) => {
            call.count_password(user.as_str(), false);
        }
        _ => {}
    }
    Ok(done?)
}

/// The user that the path names. A name that no user can have is just a user that is not there.
fn named(call: &Call) -> Result<UserName, ApiError> {
    let text = call.params.text("user");
    let missing = |_| PortError::People(PeopleDenial::NoUser(text.to_owned())).into();
    text.parse().map_err(missing)
}

fn is_self(call: &Call) -> Result<bool, ApiError> {
    Ok(call.caller()?.user.as_str() == call.params.text("user"))
}

fn check_self_or_admin(call: &Call) -> Result<(), ApiError> {
    match is_self(call)? || call.caller()?.admin {
        true => Ok(()),
        false => Err(not_yours(call, call.params.text("user"))?),
    }
}

fn not_yours(call: &Call, user: &str) -> Result<ApiError, ApiError> {
    Ok(ApiError::NotOwner {
        user: call.caller()?.user.to_string(),
        what: format!("user {user}"),
    })
}

/// What `If-Match` takes later.
pub(super) fn revision_tag(revision: u64) -> http::HeaderValue {
    ascii(format!("\"{revision}\""))
}

/// 201, as upstream answers a change.
pub(super) fn changed(message: &str) -> HandlerResult {
    let reply = HttpReply::message(message)?;
    Ok(reply.with_status(StatusCode::CREATED))
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use http::StatusCode;
    use muster_model::id::{GroupName, UserName, VcName};
    use muster_model::people::PeopleDenial;
    use schemars::JsonSchema;

    use super::WireUser;
    use crate::error::ApiError;
    use crate::openapi::{FreeObject, JSON, RouteDoc, any, body_fields};
    use crate::port::PortError;
    use crate::reply::DoneMessage;

    body_fields! {
        #[schemars(rename_all = "camelCase")]
        NewUserFields {
            username: UserName,
            email: Option<String>,
            /// At least six characters.
            password: Option<String>,
            /// In place of the password: OpenPAI's hash of it.
            password_hash: Option<String>,
            admin: Option<bool>,
            virtual_cluster: Option<Vec<VcName>>,
            extension: Option<FreeObject>,
        }
        #[schemars(rename_all = "camelCase")]
        UserFields {
            username: UserName,
            email: Option<String>,
            password: Option<String>,
            admin: Option<bool>,
            virtual_cluster: Option<Vec<VcName>>,
            extension: Option<FreeObject>,
            patch: Option<bool>,
        }
        UserData {
            /// Whether what is not named stays.
            patch: Option<bool>,
            data: UserFields,
        }
        #[schemars(rename_all = "camelCase")]
        OwnUserFields {
            username: UserName,
            email: Option<String>,
            old_password: Option<String>,
            new_password: Option<String>,
            extension: Option<FreeObject>,
            patch: Option<bool>,
        }
        OwnUserData {
            /// Whether what is not named stays.
            patch: Option<bool>,
            data: OwnUserFields,
        }
        GroupField {
            groupname: GroupName,
        }
        GroupListField {
            grouplist: Vec<GroupName>,
        }
        #[schemars(rename_all = "camelCase")]
        VcListField {
            virtual_cluster: Vec<VcName>,
        }
        AdminField {
            admin: bool,
        }
        ExtensionField {
            extension: FreeObject,
        }
        EmailField {
            email: String,
        }
        #[schemars(rename_all = "camelCase")]
        PasswordFields {
            /// Needed of users who change their own.
            old_password: Option<String>,
            new_password: String,
        }
    }

    /// The fields of a change, or those fields alone.
    #[derive(JsonSchema)]
    #[schemars(untagged)]
    #[expect(dead_code, reason = "read field by field")]
    enum DataOrFields<D, F> {
        Data(D),
        Fields(F),
    }

    fn changes(sentence: &'static str) -> RouteDoc {
        RouteDoc::new(sentence)
            .changes_user()
            .answer::<DoneMessage>(StatusCode::CREATED, JSON)
    }

    pub(crate) fn list() -> RouteDoc {
        RouteDoc::new("Lists the users.").json::<Vec<WireUser>>()
    }

    pub(crate) fn one() -> RouteDoc {
        RouteDoc::new("Shows one user.")
            .fails([PortError::NoUser(any())])
            .json::<WireUser>()
    }

    pub(crate) fn add() -> RouteDoc {
        changes("Adds a user.")
            .fields::<NewUserFields>()
            .fails([ApiError::NoVcGroup(any())])
            .fails([PortError::from(PeopleDenial::UserExists(any()))])
    }

    pub(crate) fn update() -> RouteDoc {
        changes("Changes a user.").fields::<DataOrFields<UserData, UserFields>>()
    }

    pub(crate) fn update_self() -> RouteDoc {
        changes("Changes the user who asks.")
            .fields::<DataOrFields<OwnUserData, OwnUserFields>>()
            .of_owner()
            .checks_old_password()
    }

    pub(crate) fn remove() -> RouteDoc {
        RouteDoc::new("Removes a user, with their tokens. Their jobs stay.")
            .changes_user()
            .fails([PortError::from(PeopleDenial::RemoveAdmin(any()))])
            .json::<DoneMessage>()
    }

    pub(crate) fn add_group() -> RouteDoc {
        changes("Puts a user into a group.").fields::<GroupField>()
    }

    pub(crate) fn remove_group() -> RouteDoc {
        changes("Takes a user out of a group.").fields::<GroupField>()
    }

    pub(crate) fn set_groups() -> RouteDoc {
        changes("Sets a user's groups.").fields::<GroupListField>()
    }

    pub(crate) fn set_vcs() -> RouteDoc {
        changes("Sets the virtual clusters that a user may use.").fields::<VcListField>()
    }

    pub(crate) fn set_admin() -> RouteDoc {
        changes("Makes a user an admin, or no admin.").fields::<AdminField>()
    }

    pub(crate) fn merge_extension() -> RouteDoc {
        changes("Changes members of a user's extension.")
            .fields::<ExtensionField>()
            .of_owner()
    }

    pub(crate) fn set_email() -> RouteDoc {
        changes("Sets a user's e-mail address.")
            .fields::<EmailField>()
            .of_owner()
    }

    pub(crate) fn set_password() -> RouteDoc {
        changes("Sets a user's password.")
            .fields::<PasswordFields>()
            .of_owner()
            .checks_old_password()
    }
}

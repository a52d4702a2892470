//! The page of users and groups, and the record of what was changed of them. For admins.

use maud::{Markup, html};
use muster_model::id::{GroupName, UserName};
use muster_model::people::{
    AuditRecord, GroupAcl, GroupPatch, GroupsChange, NewGroup, NewUser, PeopleChange, UserPatch,
};
use serde_json::{Map, Value};

use super::frame::{self, PortalPage, Section};
use super::{form, moment, notice};
use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::port::{GroupView, Membership, UserView, Users};
use crate::query::Query;
use crate::reply::HandlerResult;

/// What a change is told as once it is made.
const DONE: [(&str, &str); 6] = [
    ("add-user", "The user was added."),
    ("change-user", "The user was changed."),
    ("remove-user", "The user was removed."),
    ("add-group", "The group was added."),
    ("change-group", "The group was changed."),
    ("remove-group", "The group was removed."),
];
/// Records of the page, the newest.
const RECORDS: usize = 100;

/// `GET /people`
pub(crate) async fn page(
    call: Call,
    users: &dyn Users,
    membership: &dyn Membership,
) -> HandlerResult {
    let told = notice::done(&call, &DONE);
    shown(&call, users, (&Query::default(), &told), membership).await
}

/// `sent`: what the forms hold, as it was sent before.
async fn shown(
    call: &Call,
    users: &dyn Users,
    (sent, told): (&Query, &Markup),
    membership: &dyn Membership,
) -> HandlerResult {
    let all = users.list().await?;
    let groups = users.groups().await?;
    let log = users.audit(None, RECORDS).await?;
    let body = html! {
        h1 { "Users and groups" }
        (told)
        section.card { h2 { "Users" } (user_table(call, &all)) }
        (new_user(call, &groups, sent))
        section.card { h2 { "Groups" } (group_table(call, &groups)) }
        (new_group(call, sent))
        (changes(&log.records))
    };
    let page = PortalPage {
        section: Section::People,
        title: "Users and groups".to_owned(),
        refresh_s: None,
        body,
    };
    Ok(page.reply(call, &membership.node_name()))
}

/// `POST /people`: one change, which `action` names
pub(crate) async fn change(
    mut call: Call,
    users: &dyn Users,
    membership: &dyn Membership,
) -> HandlerResult {
    let form = form::read(&mut call).await?;
    let action = form.text("action").unwrap_or_default();
    let changed = match asked(action, &form) {
        Ok(change) => {
            let change = users.change(&call.author()?, change).await;
            change.map(drop).map_err(ApiError::from)
        }
        Err(error) => Err(error),
    };
    match changed {
        Ok(()) => Ok(frame::see(&format!("/people?done={action}"))),
        Err(error) => {
            let (status, told) = notice::refused(error)?;
            let page = shown(&call, users, (&form, &told), membership).await?;
            Ok(page.with_status(status))
        }
    }
}

/// The change that a form asks for.
fn asked(action: &str, form: &Query) -> Result<PeopleChange, ApiError> {
    let mut fields = Fields::of(given(form));
    Ok(match action {
        "add-user" => added_user(&mut fields)?,
        "change-user" => changed_user(&mut fields)?,
        "remove-user" => PeopleChange::RemoveUser {
            user: user(&mut fields)?,
            revision: None,
        },
        "add-group" => added_group(&mut fields)?,
        "change-group" => changed_group(&mut fields)?,
        "remove-group" => PeopleChange::RemoveGroup {
            group: group(&mut fields)?,
            revision: None,
        },
        _ => {
            return Err(ApiError::Parameters(
                "action must be add-user, change-user, remove-user, add-group, change-group or \
                 remove-group"
                    .to_owned(),
            ));
        }
    })
}

/// The fields of a form that say something. Names of groups and virtual clusters are lists.
fn given(form: &Query) -> Map<String, Value> {
    let names = |name: &str| {
        let text = form.text(name).unwrap_or_default();
        let names = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        Value::from(names.collect::<Vec<_>>())
    };
    let mut fields = Map::new();
    for name in ["username", "groupname", "password", "description"] {
        if let Some(value) = form.text(name) {
            fields.insert(name.to_owned(), Value::from(value));
        }
    }
    if let Ok(Some(revision)) = form.number("revision") {
        fields.insert("revision".to_owned(), Value::from(revision));
    }
    // An address that is left empty is taken away.
    if form.has("email") {
        let email = form.text("email").unwrap_or_default().trim();
        fields.insert("email".to_owned(), Value::from(email));
    }
    for name in ["groups", "vcs", "storages"] {
        if form.has(name) {
            fields.insert(name.to_owned(), names(name));
        }
    }
    if form.has("admin") || form.text("action") == Some("change-group") {
        fields.insert("admin".to_owned(), Value::from(form.has("admin")));
    }
    fields
}

fn user(fields: &mut Fields) -> Result<UserName, ApiError> {
    let name = fields.name("username");
    finished(fields, name)
}

fn group(fields: &mut Fields) -> Result<GroupName, ApiError> {
    let name = fields.name("groupname");
    finished(fields, name)
}

/// Complains of what was wrong so far.
fn finished<T>(fields: &mut Fields, name: Option<T>) -> Result<T, ApiError> {
    let taken = std::mem::replace(fields, Fields::of(Map::new()));
    taken.finish_with(name)
}

fn added_user(fields: &mut Fields) -> Result<PeopleChange, ApiError> {
    let name = fields.name("username");
    let email = fields.optional_email("email").unwrap_or_default();
    let password = fields.new_password();
    let add = fields.optional_names("groups").unwrap_or_default();
    Ok(PeopleChange::AddUser(NewUser {
        name: finished(fields, name)?,
        email,
        password,
        groups: GroupsChange {
            add,
            ..GroupsChange::default()
        },
        extension: "{}".to_owned(),
    }))
}

/// A password that is left empty stays.
fn changed_user(fields: &mut Fields) -> Result<PeopleChange, ApiError> {
    let name = fields.name("username");
    let patch = UserPatch {
        email: fields.optional_email("email"),
        password: fields.optional_password("password"),
        groups: GroupsChange {
            set: fields.optional_names("groups"),
            ..GroupsChange::default()
        },
        ..UserPatch::default()
    };
    Ok(PeopleChange::ChangeUser {
        user: finished(fields, name)?,
        patch,
    })
}

fn acl(fields: &mut Fields, storages: Vec<String>) -> GroupAcl {
    GroupAcl {
        admin: fields.optional_bool("admin").unwrap_or_default(),
        vcs: fields.optional_names("vcs").unwrap_or_default(),
        storages,
    }
}

fn added_group(fields: &mut Fields) -> Result<PeopleChange, ApiError> {
    let name = fields.name("groupname");
    let description = fields.optional_text("description").unwrap_or_default();
    let acl = acl(fields, Vec::new());
    Ok(PeopleChange::AddGroup(NewGroup {
        name: finished(fields, name)?,
        description,
        external_name: String::new(),
        acl,
        extension: "{}".to_owned(),
    }))
}

fn changed_group(fields: &mut Fields) -> Result<PeopleChange, ApiError> {
    let name = fields.name("groupname");
    // The rights are set as a whole: they must be those that the form was made from.
    let revision = fields.optional_integer("revision", 0, i64::MAX);
    let storages = fields.names("storages").into_iter().collect();
    let patch = GroupPatch {
        description: fields.optional_text("description"),
        acl: Some(acl(fields, storages)),
        revision: revision.and_then(|it| u64::try_from(it).ok()),
        ..GroupPatch::default()
    };
    Ok(PeopleChange::ChangeGroup {
        group: finished(fields, name)?,
        patch,
    })
}

fn joined<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.to_string()).collect();
    names.join(", ")
}

fn user_table(call: &Call, users: &[UserView]) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Users" { table {
            thead { tr { th { "User" } th { "E-mail" } th { "Groups" } th.narrow-off { "Virtual clusters" } th { "Change" } } }
            tbody { @for user in users { tr {
                td.name { strong { (user.name.as_str()) } @if user.admin { " " span.chip { "Admin" } } }
                td { (user.email) }
                td { (joined(&user.groups)) }
                td.narrow-off { (joined(&user.vcs)) }
                td { (user_form(call, user)) }
            } } }
        } }
    }
}

fn user_form(call: &Call, user: &UserView) -> Markup {
    let name = user.name.as_str();
    let id = |field: &str| format!("{field}-{name}");
    html! {
        details { summary aria-label={ "Change " (name) } { "Change" }
            form method="post" action="/people" {
                (frame::key_field(call))
                input type="hidden" name="username" value=(name);
                label for=(id("email")) { "E-mail" } input id=(id("email")) name="email" value=(user.email);
                label for=(id("groups")) { "Groups, with commas" } input id=(id("groups")) name="groups" value=(joined(&user.groups));
                label for=(id("password")) { "New password; empty: as it is" } input id=(id("password")) name="password" type="password" autocomplete="new-password";
                div.row { button name="action" value="change-user" { "Save" }
                    button.danger name="action" value="remove-user" { "Remove " (name) } }
            }
        }
    }
}

fn new_user(call: &Call, groups: &[GroupView], sent: &Query) -> Markup {
    let was = |field: &str| was(sent, "add-user", field);
    html! {
        form.card method="post" action="/people" {
            (frame::key_field(call))
            h2 { "Add a user" }
            div.row.fields {
                div { label for="username" { "Name" } input #username name="username" value=(was("username")) required autocapitalize="none"; }
                div { label for="useremail" { "E-mail" } input #useremail name="email" value=(was("email")); }
                div { label for="userpassword" { "Password" } input #userpassword name="password" type="password" autocomplete="new-password" required minlength="6"; }
                div { label for="usergroups" { "Groups, with commas; empty: default" } input #usergroups name="groups" value=(was("groups")) list="known-groups"; }
                button.main name="action" value="add-user" { "Add" }
            }
            datalist #known-groups { @for group in groups { option value=(group.name.as_str()) {} } }
        }
    }
}

fn group_table(call: &Call, groups: &[GroupView]) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Groups" { table {
            thead { tr { th { "Group" } th { "What it is for" } th { "Virtual clusters" } th.narrow-off { "Storages" } th { "Change" } } }
            tbody { @for group in groups { tr {
                td.name { strong { (group.name.as_str()) } @if group.acl.admin { " " span.chip { "Admin" } } }
                td { (group.description) }
                td { (joined(&group.acl.vcs)) }
                td.narrow-off { (group.acl.storages.join(", ")) }
                td { (group_form(call, group)) }
            } } }
        } }
    }
}

fn group_form(call: &Call, group: &GroupView) -> Markup {
    let name = group.name.as_str();
    let id = |field: &str| format!("group-{field}-{name}");
    html! {
        details { summary aria-label={ "Change group " (name) } { "Change" }
            form method="post" action="/people" {
                (frame::key_field(call))
                input type="hidden" name="groupname" value=(name);
                input type="hidden" name="revision" value=(group.revision);
                input type="hidden" name="storages" value=(joined(&group.acl.storages));
                label for=(id("description")) { "What it is for" }
                input id=(id("description")) name="description" value=(group.description);
                label for=(id("vcs")) { "Virtual clusters, with commas" }
                input id=(id("vcs")) name="vcs" value=(joined(&group.acl.vcs));
                p { label { input type="checkbox" name="admin" checked[group.acl.admin]; " Its members are admins" } }
                div.row { button name="action" value="change-group" { "Save" }
                    button.danger name="action" value="remove-group" { "Remove " (name) } }
            }
        }
    }
}

fn new_group(call: &Call, sent: &Query) -> Markup {
    let was = |field: &str| was(sent, "add-group", field);
    html! {
        form.card method="post" action="/people" {
            (frame::key_field(call))
            h2 { "Add a group" }
            div.row.fields {
                div { label for="groupname" { "Name" } input #groupname name="groupname" value=(was("groupname")) required autocapitalize="none"; }
                div { label for="description" { "What it is for" } input #description name="description" value=(was("description")); }
                div { label for="vcs" { "Virtual clusters, with commas" } input #vcs name="vcs" value=(was("vcs")); }
                div { label { input type="checkbox" name="admin"; " Its members are admins" } }
                button.main name="action" value="add-group" { "Add" }
            }
        }
    }
}

/// What a field of a form held when it was refused.
fn was<'a>(sent: &'a Query, action: &str, field: &str) -> &'a str {
    match sent.text("action") == Some(action) {
        true => sent.text(field).unwrap_or_default(),
        false => "",
    }
}

/// What an action of a record means, in words; the action itself where there are none.
fn doing(action: &str) -> &str {
    match action {
        "token.issue" => "Token issued or login of",
        "token.revoke" => "Token revoked of",
        "user.add" => "User added:",
        "user.change" => "User changed:",
        "user.remove" => "User removed:",
        "group.add" => "Group added:",
        "group.change" => "Group changed:",
        "group.remove" => "Group removed:",
        other => other,
    }
}

fn changes(records: &[AuditRecord]) -> Markup {
    let now = frame::now_ms();
    html! {
        section.card {
            h2 { "Audit log" }
            p.dim { "Users, groups, logins and tokens. Who edited the cluster's settings stands with each "
                a href="/documents" { "document" } "." }
            @if records.is_empty() { p.dim { "Nothing was changed so far." } }
            ul.plain { @for record in records { li {
                span.dim { (moment::at(record.at_ms, now)) } " "
                strong { (doing(&record.action)) } " " (record.subject) " "
                span.dim { "by " (record.by.user) " from " (record.by.address) " at " (record.by.node) }
                @if !record.before.is_empty() || !record.after.is_empty() {
                    details { summary { "Before and after" }
                        pre { (record.before) "\n" (record.after) } }
                }
            } } }
        }
    }
}

//! The page of one's own account: groups, password, tokens.

use maud::{Markup, html};
use muster_model::people::{NewPassword, UserPatch};
use muster_model::secret::Hidden;
use muster_model::user_token::{
    NewUserToken, TokenKind, TokenSelection, UserTokenId, UserTokenView, token_name_problem,
};

use super::frame::{self, PortalPage, Section};
use super::{form, moment, notice};
use crate::call::Call;
use crate::error::ApiError;
use crate::handle::users::patch_user;
use crate::port::{Membership, PortError, UserView, Users};
use crate::query::Query;
use crate::reply::{HandlerResult, HttpReply};

/// Lives of an application token to choose from, in days; 0: no end.
const LIVES_D: [(&str, u64); 4] = [
    ("30 days", 30),
    ("90 days", 90),
    ("1 year", 365),
    ("no end", 0),
];

/// What a change is told as once it is made.
const DONE: [(&str, &str); 1] = [("revoke", "The token was revoked.")];

/// `GET /account`
pub(crate) async fn page(
    call: Call,
    users: &dyn Users,
    membership: &dyn Membership,
) -> HandlerResult {
    let told = notice::done(&call, &DONE);
    shown(&call, users, &told, membership).await
}

/// `POST /account`: `action` is `password`, `token` or `revoke`
pub(crate) async fn change(
    mut call: Call,
    users: &dyn Users,
    membership: &dyn Membership,
) -> HandlerResult {
    let fields = form::read(&mut call).await?;
    match changed(&call, users, &fields, membership).await {
        Ok(reply) => Ok(reply),
        Err(error) => {
            let (status, told) = notice::refused(error)?;
            let page = shown(&call, users, &told, membership).await?;
            Ok(page.with_status(status))
        }
    }
}

async fn changed(
    call: &Call,
    users: &dyn Users,
    fields: &Query,
    membership: &dyn Membership,
) -> HandlerResult {
    match fields.text("action") {
        Some("password") => {
            set_password(call, users, fields).await?;
            // Every login has ended with the old password, this one too.
            Ok(frame::see("/login?next=/account&done=password"))
        }
        Some("token") => {
            let issued = issue(call, users, fields).await?;
            shown(call, users, &issued, membership).await
        }
        Some("revoke") => {
            let id = fields.text("token").unwrap_or_default();
            let id: UserTokenId = id.parse().map_err(|_| PortError::NoToken)?;
            let which = TokenSelection::Id(call.caller()?.user.clone(), id);
            users.revoke_tokens(&call.author()?, which).await?;
            Ok(frame::see("/account?done=revoke"))
        }
        _ => Err(ApiError::Parameters(
            "action must be password, token or revoke".to_owned(),
        )),
    }
}

async fn set_password(call: &Call, users: &dyn Users, fields: &Query) -> Result<(), ApiError> {
    let user = call.caller()?.user.clone();
    let (old, new) = (fields.text("old"), fields.text("new"));
    let (Some(old), Some(new)) = (old, new) else {
        return Err(ApiError::Parameters(
            "the old and the new password are required".to_owned(),
        ));
    };
    if fields.text("again") != Some(new) {
        return Err(ApiError::Parameters(
            "the new password and its repetition differ; write the same twice".to_owned(),
        ));
    }
    let patch = UserPatch {
        password: Some(NewPassword::Plain(Hidden(new.to_owned()))),
        old_password: Some(Hidden(old.to_owned())),
        ..UserPatch::default()
    };
    patch_user(call, users, &user, patch).await
}

/// Issues an application token: its text is shown this once.
async fn issue(call: &Call, users: &dyn Users, fields: &Query) -> Result<Markup, ApiError> {
    let name = fields.text("name").unwrap_or_default();
    if let Some(problem) = token_name_problem(name) {
        return Err(ApiError::Parameters(format!(
            "the name of a token {problem}"
        )));
    }
    let days = fields.text("days").unwrap_or_default();
    let life = LIVES_D.iter().find(|(_, known)| known.to_string() == days);
    let (_, days) = life
        .ok_or_else(|| ApiError::Parameters("days must be one of 30, 90, 365 and 0".to_owned()))?;
    let token = NewUserToken {
        name: name.to_owned(),
        life_s: (*days > 0).then_some(days * 86_400),
    };
    let user = &call.caller()?.user;
    let issued = users.issue_token(&call.author()?, user, token).await?;
    Ok(html! {
        div.card.warn role="status" {
            p { strong { "Copy the token now. It is not shown again." } }
            pre tabindex="0" { (issued.text.0) }
        }
    })
}

async fn shown(
    call: &Call,
    users: &dyn Users,
    news: &Markup,
    membership: &dyn Membership,
) -> Result<HttpReply, ApiError> {
    let name = call.caller()?.user.clone();
    let user = users.user(name.as_str()).await?;
    let tokens = users.token_views(&name).await?;
    let current = match &call.token {
        Some(token) => Some(users.check_token(token).await?.id),
        None => None,
    };
    let body = html! {
        h1 { "My account" }
        (news)
        div.grid { (about(&user)) (password(call)) }
        (token_table(call, &tokens, current))
    };
    let page = PortalPage {
        section: Section::Account,
        title: "My account".to_owned(),
        refresh_s: None,
        body,
    };
    Ok(page.reply(call, &membership.node_name()))
}

fn about(user: &UserView) -> Markup {
    let vcs = user.vcs.iter().map(ToString::to_string);
    html! {
        section.card {
            h2 { (user.name.as_str()) @if user.admin { " " span.chip { "Admin" } } }
            dl.facts {
                dt { "E-mail" } dd { @if user.email.is_empty() { span.dim { "none" } } @else { (user.email) } }
                dt { "Groups" } dd { (user.groups.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")) }
                dt { "Virtual clusters" } dd { (vcs.collect::<Vec<_>>().join(", ")) }
                dt { "Storages" } dd { @if user.storages.is_empty() { span.dim { "none" } } @else { (user.storages.join(", ")) } }
            }
        }
    }
}

fn password(call: &Call) -> Markup {
    html! {
        form.card method="post" action="/account" {
            (frame::key_field(call))
            h2 { "Change my password" }
            div.row.fields {
                div { label for="old" { "Password now" } input #old name="old" type="password" autocomplete="current-password" required; }
                div { label for="new" { "New password" } input #new name="new" type="password" autocomplete="new-password" required minlength="6"; }
                div { label for="again" { "New password again" } input #again name="again" type="password" autocomplete="new-password" required minlength="6"; }
                button name="action" value="password" { "Change it" }
            }
            p.dim { "Every login ends with it, in all browsers. Tokens of programs stay." }
        }
    }
}

fn token_table(call: &Call, tokens: &[UserTokenView], current: Option<UserTokenId>) -> Markup {
    let now = frame::now_ms();
    html! {
        section.card {
            h2 { "Tokens" }
            div.wide tabindex="0" role="region" aria-label="Tokens" { table {
                thead { tr { th { "Name" } th { "For" } th { "Issued" } th { "Expires" } th.narrow-off { "Last used" }
                    th.narrow-off { "From" } th { "Revoke" } } }
                tbody { @for token in tokens { tr {
                    td.name { (token.name) @if Some(token.id) == current { " " span.chip.good { "This login" } } }
                    td { @match token.kind { TokenKind::Login => { "a login" } TokenKind::Application => { "a program" } } }
                    td { (moment::at(token.issued_ms, now)) }
                    td { @match token.expires_ms { Some(at) => { (moment::at(at, now)) } None => { "never" } } }
                    td.narrow-off { @match token.last_used_ms { Some(at) => { (moment::at(at, now)) } None => { "never" } } }
                    td.narrow-off { (token.address) }
                    td { form method="post" action="/account" { (frame::key_field(call))
                        input type="hidden" name="token" value=(token.id.to_string());
                        button.danger name="action" value="revoke" aria-label={ "Revoke token " (token.name) " " (token.id.to_string()) } { "Revoke" } } }
                } } }
            } }
            form.row.fields method="post" action="/account" {
                (frame::key_field(call))
                div { label for="name" { "Name of a new token for a program" } input #name name="name" required maxlength="64"; }
                div { label for="days" { "Works for" } select #days name="days" {
                    @for (word, days) in LIVES_D { option value=(days) { (word) } } } }
                button name="action" value="token" { "Issue it" }
            }
        }
    }
}

//! The page to log in, and the way out.

use http::header::SET_COOKIE;
use maud::{Markup, html};
use muster_model::secret::Hidden;
use muster_model::user_token::TokenSelection;

use super::{form, frame, notice, session};
use crate::call::Call;
use crate::clock;
use crate::error::ApiError;
use crate::handle::oidc::portal_login;
use crate::handle::session::let_in;
use crate::port::{Membership, PortError, Users};
use crate::reply::{HandlerResult, HttpReply};

/// What the form that led here has done.
const DONE: [(&str, &str); 1] = [(
    "password",
    "Your password was changed, and every login ended. Log in with the new one.",
)];
/// What a token of the portal is called in the list of a user's tokens.
const TOKEN_NAME: &str = "portal";
/// A token without an end is kept by a browser for a month, in seconds.
const LIFE_S_MAX: u64 = 30 * 86_400;

/// `GET /login?next=PATH`
pub(crate) async fn page(call: Call, membership: &dyn Membership) -> HandlerResult {
    let next = own_path(call.query.text("next").unwrap_or("/"));
    let done = notice::done(&call, &DONE);
    Ok(shown(&call, (next, "", &done), &membership.node_name()))
}

/// `POST /login`
pub(crate) async fn enter(
    mut call: Call,
    users: &dyn Users,
    membership: &dyn Membership,
) -> HandlerResult {
    if is_by_provider_alone(&call) {
        return Err(ApiError::NoPasswords);
    }
    let fields = form::read_open(&mut call).await?;
    let next = own_path(fields.text("next").unwrap_or("/"));
    let user = fields.text("user").unwrap_or_default();
    let password = fields.text("password").unwrap_or_default();
    let login = let_in(&call, users, (user, password), TOKEN_NAME.to_owned()).await;
    let token = match login {
        Ok(login) => login.token,
        Err(error) if error.is_refused_login() => {
            let status = error.code().0;
            let told = match &error {
                // Which of the two is wrong is not told.
                ApiError::Cluster(PortError::NoUser(_) | PortError::WrongPassword) => {
                    "The user name or the password is wrong.".to_owned()
                }
                _ => error.to_string(),
            };
            let wrong = html! { p.bad role="alert" { (told) } };
            let page = shown(&call, (next, user, &wrong), &membership.node_name());
            return Ok(page.with_status(status));
        }
        Err(error) => return Err(error),
    };
    entered(&call, users, (&token, next)).await
}

/// Begins a session with a fresh token, and goes on to a page of this node.
pub(crate) async fn entered(
    call: &Call,
    users: &dyn Users,
    (token, next): (&str, &str),
) -> HandlerResult {
    let expires = users.check_token(token).await?.expires;
    let left = expires.map(|at| at.saturating_sub(clock::now_s()));
    let life_s = left.unwrap_or(LIFE_S_MAX).min(LIFE_S_MAX);
    let cookie = session::begin(call, token, life_s);
    Ok(frame::see(own_path(next)).with(SET_COOKIE, cookie))
}

/// `POST /logout`: the token is revoked at every node
pub(crate) async fn leave(mut call: Call, users: &dyn Users) -> HandlerResult {
    form::read(&mut call).await?;
    if let Some(token) = &call.token {
        let user = call.caller()?.user.clone();
        let which = TokenSelection::Text(user, Hidden(token.clone()));
        users.revoke_tokens(&call.author()?, which).await?;
    }
    Ok(frame::see("/login").with(SET_COOKIE, session::end(&call)))
}

fn is_by_provider_alone(call: &Call) -> bool {
    let oidc = call.config.oidc.as_ref();
    oidc.is_some_and(|logins| !logins.config.passwords)
}

/// A path of this node to go on to. Anything else is `/`: a link to the login must not lead to another site.
fn own_path(path: &str) -> &str {
    let is_own = path.starts_with('/')
        && !path.starts_with("//")
        && !path.contains('\\')
        && !path.chars().any(char::is_control)
        && path.is_ascii();
    if is_own { path } else { "/" }
}

fn shown(call: &Call, (next, user, told): (&str, &str, &Markup), node: &str) -> HttpReply {
    let body = html! {
        div.card.login {
            h1 { "Log in" }
            (told)
            @if let Some(place) = portal_login(call, next) {
                p { a.button.main href=(place) { "Log in by the identity provider" } }
            }
            @if is_by_provider_alone(call) {
                p.dim { "Logins by password are switched off." }
            } @else {
                (password_form(next, user))
                p.dim { "The first admin's password is in the state folder of the node that founded the cluster: "
                    code { "/var/lib/muster/admin-password" } "." }
            }
        }
    };
    frame::open("Log in", &body, node)
}

fn password_form(next: &str, user: &str) -> Markup {
    html! {
        form method="post" action="/login" {
            input type="hidden" name="next" value=(next);
            label for="user" { "User" }
            input #user name="user" value=(user) autocomplete="username" autocapitalize="none" required
                autofocus[user.is_empty()];
            label for="password" { "Password" }
            input #password name="password" type="password" autocomplete="current-password" required
                autofocus[!user.is_empty()];
            div.row { button.main { "Log in" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_no_other_site() {
        for path in [
            "https://elsewhere.example/",
            "//elsewhere.example",
            "/\\elsewhere.example",
            "\\\\elsewhere.example",
            "javascript:alert(1)",
            "/\nelsewhere",
            "",
        ] {
            assert_eq!(own_path(path), "/", "{path:?}");
        }
        assert_eq!(own_path("/jobs?state=FAILED"), "/jobs?state=FAILED");
    }
}

//! What is around every page: the bar with the sections, and the line that names the node.

use bytes::Bytes;
use http::header::{CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY, X_FRAME_OPTIONS};
use http::{HeaderValue, StatusCode};
use maud::{DOCTYPE, Markup, html};
use muster_model::policy::{PluginPlace, PortalPlugin};

use super::{asset, form, plugin, session};
use crate::call::Call;
use crate::clock;
use crate::reply::{HttpReply, ReplyContent, ascii};

/// What a page may load: our stylesheet and our script, nothing of elsewhere and nothing written into the page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The sections of the bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Jobs,
    Submit,
    Nodes,
    Settings,
    People,
    Account,
    /// A page of elsewhere.
    Plugin,
}

impl Section {
    const ALL: [(Self, &'static str, &'static str); 7] = [
        (Self::Overview, "/", "Overview"),
        (Self::Jobs, "/jobs", "Jobs"),
        (Self::Submit, "/submit", "Submit"),
        (Self::Nodes, "/nodes", "Nodes"),
        (Self::Settings, "/documents", "Settings"),
        (Self::People, "/people", "Users"),
        (Self::Account, "/account", "My account"),
    ];

    /// Whether it is of no use to those who are no admins.
    fn is_for_admins(self) -> bool {
        self == Self::People
    }
}

/// A page for a user who is logged in.
pub(super) struct PortalPage {
    pub(super) section: Section,
    pub(super) title: String,
    /// After how many seconds an open page is written anew; none: never.
    pub(super) refresh_s: Option<u32>,
    pub(super) body: Markup,
}

impl PortalPage {
    /// One that is written anew every five seconds.
    pub(super) fn live(section: Section, title: impl Into<String>, body: Markup) -> Self {
        Self {
            section,
            title: title.into(),
            refresh_s: Some(5),
            body,
        }
    }

    /// The page with its frame. `node`: the name of this node.
    pub(super) fn reply(self, call: &Call, node: &str) -> HttpReply {
        let bar = bar(call, self.section);
        let main = html! {
            main #main data-refresh=[self.refresh_s] { (self.body) }
        };
        page(document(&self.title, &bar, &main, node))
    }
}

/// A page in place of another, with the sections that all users have: it does not know its reader.
pub(super) fn apart(title: &str, body: &Markup, node: &str) -> HttpReply {
    let sections = Section::ALL.into_iter();
    let sections = sections.filter(|(one, ..)| !one.is_for_admins());
    let bar = html! { header.bar {
        a.name href="/" { "Muster" }
        nav aria-label="Sections" { @for (_, path, name) in sections { a href=(path) { (name) } } }
    } };
    let main = html! { main #main { (body) } };
    page(document(title, &bar, &main, node))
}

/// A page for a browser without a session.
pub(super) fn open(title: &str, body: &Markup, node: &str) -> HttpReply {
    let bar = html! { header.bar { a.name href="/" { "Muster" } } };
    let main = html! { main #main { (body) } };
    page(document(title, &bar, &main, node))
}

fn page(html: Markup) -> HttpReply {
    HttpReply::html(html.into_string())
        .with(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))
        .with(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"))
        .with(REFERRER_POLICY, HeaderValue::from_static("same-origin"))
}

fn document(title: &str, bar: &Markup, main: &Markup, node: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { (title) " - Muster" }
                link rel="stylesheet" href=(asset::style());
                link rel="icon" href="data:,";
                script defer src=(asset::script()) {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                (bar)
                (main)
                footer {
                    p #freshness.warn role="status" {}
                    p {
                        "Written by node " strong { (node) } " at "
                        (super::moment::stamp(now_ms())) ". Every node shows the same. "
                        a href="/status" { "Status of this node" }
                    }
                }
            }
        }
    }
}

fn bar(call: &Call, section: Section) -> Markup {
    let user = call.caller.as_ref().map(|caller| caller.user.to_string());
    let is_admin = call.caller.as_ref().is_some_and(|caller| caller.admin);
    let sections = Section::ALL.into_iter();
    let sections = sections.filter(|(one, ..)| is_admin || !one.is_for_admins());
    html! {
        header.bar {
            a.name href="/" { "Muster" }
            nav aria-label="Sections" {
                @for (one, path, name) in sections {
                    @if one == section { a href=(path) aria-current="page" { (name) } }
                    @else { a href=(path) { (name) } }
                }
                @for plugin in &call.plugins { (plugin_link(call, plugin, section)) }
            }
            @if let Some(user) = user { span.dim { (user) } }
            form method="post" action="/logout" { (key_field(call)) button { "Log out" } }
        }
    }
}

/// A link to a page of elsewhere: to our page around it, or past that.
fn plugin_link(call: &Call, plugin: &PortalPlugin, section: Section) -> Markup {
    let is_here = section == Section::Plugin && call.params.text("plugin") == plugin.id;
    let leaves = plugin.opens == PluginPlace::Link && !plugin::is_own_host(call, plugin);
    html! {
        @if leaves { a href=(plugin.uri) target="_blank" rel="noopener noreferrer" { (plugin.title) " ↗" } }
        @else { a href={ "/plugins/" (plugin.id) } aria-current=[is_here.then_some("page")] { (plugin.title) } }
    }
}

/// The policy of a page that has a page of this origin in a frame, which is no page of ours.
pub(super) fn policy_with_frame(origin: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("{POLICY}; frame-src {origin}")).ok()
}

/// The field of a form that says that this session's page sent it.
pub(super) fn key_field(call: &Call) -> Markup {
    let make = || call.token.as_deref().and_then(session::form_key);
    let key = call.form_key.get_or_init(make).as_deref();
    html! {
        @if let Some(key) = key { input type="hidden" name=(form::KEY_FIELD) value=(key); }
    }
}

/// Sends a browser to a page of this node with a GET.
pub(super) fn see(place: &str) -> HttpReply {
    let reply = HttpReply::empty(StatusCode::SEE_OTHER).with(LOCATION, ascii(place.to_owned()));
    HttpReply {
        content: ReplyContent::Page(Bytes::new()),
        ..reply
    }
}

/// Now, milliseconds since the epoch.
pub(super) fn now_ms() -> u64 {
    clock::now_s().saturating_mul(1000)
}

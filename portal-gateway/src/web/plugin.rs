//! A page of elsewhere that an admin has put into the portal. It gets nothing of the session: neither the token nor
//! who the user is.

use http::header::{CONTENT_SECURITY_POLICY, HOST};
use maud::{Markup, html};
use muster_model::policy::{PluginPlace, PortalPlugin, host_of};

use super::frame::{self, PortalPage, Section};
use crate::call::Call;
use crate::error::ApiError;
use crate::port::Membership;
use crate::reply::HandlerResult;

/// What a page in the frame may do: all that a page does in a window of its own, but not steer ours.
const SANDBOX: &str = "allow-scripts allow-forms allow-popups allow-downloads allow-same-origin";

/// `GET /plugins/:plugin`
pub(crate) async fn page(call: Call, membership: &dyn Membership) -> HandlerResult {
    let id = call.params.text("plugin");
    let found = call.plugins.iter().find(|plugin| plugin.id == id);
    let plugin = found.ok_or_else(|| ApiError::NoPlugin(id.to_owned()))?;
    let origin = plugin.origin().filter(|_| !is_own_host(&call, plugin));
    let body = html! {
        h1 { (plugin.title) }
        @match (&origin, plugin.opens) {
            (None, _) => { (refused(plugin)) }
            (Some(_), PluginPlace::Frame) => {
                p { (outside(plugin)) " " span.dim { "This page is not of Muster. It does not get your login." } }
                iframe.plugin title=(plugin.title) src=(plugin.uri) sandbox=(SANDBOX) referrerpolicy="no-referrer" {}
            }
            (Some(_), PluginPlace::Link) => {
                section.card { p { (outside(plugin)) } p.dim { "It is not of Muster, and does not get your login." } }
            }
        }
    };
    let page = PortalPage {
        section: Section::Plugin,
        title: plugin.title.clone(),
        refresh_s: None,
        body,
    };
    let reply = page.reply(&call, &membership.node_name());
    let framed = origin.filter(|_| plugin.opens == PluginPlace::Frame);
    Ok(
        match framed.and_then(|origin| frame::policy_with_frame(&origin)) {
            Some(policy) => reply.with(CONTENT_SECURITY_POLICY, policy),
            None => reply,
        },
    )
}

/// Whether it is at the host name that the portal was opened by: a browser sends a session to all ports of a host.
pub(super) fn is_own_host(call: &Call, plugin: &PortalPlugin) -> bool {
    let own = host_of(call.header(&HOST)).to_ascii_lowercase();
    plugin.host().is_none_or(|host| host == own)
}

fn outside(plugin: &PortalPlugin) -> Markup {
    html! { a href=(plugin.uri) target="_blank" rel="noopener noreferrer" { "Open " (plugin.title) " in a window of its own" } }
}

fn refused(plugin: &PortalPlugin) -> Markup {
    html! {
        div.card.warn role="status" {
            p { strong { "This page is not opened." } }
            p { "It is at the host name by which you opened the portal, so your browser would send it your login. "
                "Open the portal by another name (" code { "http.host_names" } " in " code { "agent.toml" }
                "), or ask an admin to give " (plugin.title) " a host name of its own." }
        }
    }
}

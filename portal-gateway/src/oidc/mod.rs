//! Logins by an identity provider, as OpenID Connect has them: authorization code with PKCE, and the
//! device flow (RFC 8628) for machines without a browser.
//!
//! Nothing here asks the network: that is what [`IdentityProvider`](crate::port::IdentityProvider) is
//! for. `flight` is a login of a browser under way, `device` one of the device flow, `sealed` keeps both
//! at the client. `id_token` checks what the provider says, `person` is what it means here,
//! and `logout_token` checks what it says of who has logged out there.

pub(crate) mod device;
pub(crate) mod flight;
pub(crate) mod id_token;
pub(crate) mod logout_token;
pub(crate) mod person;
mod sealed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::Uri;
use muster_model::id::GroupName;

/// Logins that are remembered to have been ended, at most.
const SPENT_MAX: usize = 10_000;

/// How people log in by an identity provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcConfig {
    /// The provider, as it names itself in its tokens.
    pub issuer: String,
    /// What this cluster is called there.
    pub client_id: String,
    /// What is asked for; `openid` is among it.
    pub scopes: Vec<String>,
    /// The claim that holds a person's name here.
    pub name_claim: String,
    /// The claim that holds a person's groups there.
    pub groups_claim: String,
    /// The groups here that each group there stands for. Others there mean nothing.
    pub groups: BTreeMap<String, BTreeSet<GroupName>>,
    /// Where browsers reach this cluster, if not at the node that they ask: `https://host[:port]`.
    pub public_url: Option<String>,
    /// Origins of portals that may be given tokens, besides our own.
    pub portals: Vec<String>,
    /// Whether people may log in by a password as well.
    pub passwords: bool,
}

/// The logins of this node.
#[derive(Debug)]
pub struct OidcLogins {
    pub(crate) config: OidcConfig,
    /// The states of logins that have ended here, and until when they would have been good.
    spent: Mutex<BTreeMap<String, u64>>,
}

impl OidcLogins {
    /// None has begun yet.
    pub fn new(config: OidcConfig) -> Self {
        Self {
            config,
            spent: Mutex::default(),
        }
    }

    /// Whether a login has ended here before.
    pub(crate) fn is_spent(&self, state: &str) -> bool {
        self.spent().contains_key(state)
    }

    /// Whether a login ends for the first time. A second one is a replay.
    pub(crate) fn spend(&self, state: &str, until_s: u64, now_s: u64) -> bool {
        let mut spent = self.spent();
        spent.retain(|_, until| *until > now_s);
        // Beyond the bound nobody is let in, for a while: forgetting would let replays in.
        spent.len() < SPENT_MAX && spent.insert(state.to_owned(), until_s).is_none()
    }

    fn spent(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OidcConfig {
    /// Whether a browser with a token may be sent to this place: a page of ours, or of a portal.
    pub(crate) fn may_send_to(&self, place: &str, own: &str) -> bool {
        let Some(origin) = origin(place) else {
            return false;
        };
        let portals = self.portals.iter().map(String::as_str);
        let mut known = portals.chain([own]).filter_map(self::origin);
        known.any(|known| known == origin)
    }
}

/// The origin of an absolute address of HTTP; none if it is no such address, or names a user.
pub(crate) fn origin(place: &str) -> Option<String> {
    // What browsers read otherwise than we do.
    if place.contains(['\\', '@']) || !place.is_ascii() || place.contains(char::is_whitespace) {
        return None;
    }
    let uri: Uri = place.parse().ok()?;
    let (scheme, port) = match uri.scheme_str()? {
        "https" => ("https", 443),
        "http" => ("http", 80),
        _ => return None,
    };
    let host = uri.host().filter(|host| !host.is_empty())?;
    let port = uri.port_u16().unwrap_or(port);
    Some(format!("{scheme}://{}:{port}", host.to_ascii_lowercase()))
}

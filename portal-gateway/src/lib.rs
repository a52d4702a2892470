//! The REST side of an agent: OpenPAI's API over the [`port`]s to its cluster, Muster's own
//! routes for the command line, and a status page.
//!
//! It keeps no state beyond rate counters, so any node answers the same. It knows warp and
//! HTTP; the agent behind the ports knows neither. Only `gateway`, `server` and
//! `websocket` name warp and hyper: a handler takes a `Call` and gives a `Reply`.
//!
//! Start with `route` (every path there is), then `gateway` (what happens to each request),
//! then `handle` (what each route does) and `wire` (OpenPAI's shapes).

mod activity;
mod attempts;
mod auth;
mod body;
mod call;
mod clock;
mod compress;
mod conditional;
mod config;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod elsewhere;
mod error;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod fields;
mod gateway;
mod handle;
mod host_names;
mod inflate;
mod list_cache;
mod listing;
mod log_link;
mod oidc;
mod openapi;
mod page;
mod peer;
mod people_fields;
pub mod port;
mod proof;
mod query;
mod range;
mod rate;
mod reply;
mod route;
mod server;
mod session;
mod slots;
mod status;
mod tally;
pub mod token;
mod web;
mod websocket;
mod wire;

#[cfg(test)]
mod tests;

pub use config::{ClientLimits, GatewayConfig, LogLinkKey, Rates};
pub use gateway::Gateway;
pub use host_names::HostNames;
pub use oidc::{OidcConfig, OidcLogins};

//! The pull side of the OCI distribution protocol.
//!
//! A client of our own over an HTTP library, because what callers need most from it is what
//! general clients blur: whether a failure is final (no such image, refused login) or worth
//! another try, including at the token server; and bounds on everything a registry sends.

mod login;
mod session;
mod settings;

pub(super) use self::session::RegistrySession;
pub use self::settings::{ProxySettings, RegistrySettings};

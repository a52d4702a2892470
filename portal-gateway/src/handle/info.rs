//! What the server is. Clients branch on these values.

use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Call;
use crate::openapi;
use crate::reply::{HandlerResult, HttpReply};

/// The version of OpenPAI that the answers are shaped like.
const PAI_VERSION: &str = "v1.8.0";

/// `GET /healthz`
pub(crate) async fn health(_: Call) -> HandlerResult {
    Ok(HttpReply::text("ok"))
}

/// `/api/v2`
pub(crate) async fn root(_: Call) -> HandlerResult {
    Ok(HttpReply::text("PAI RESTful API v2 (beta version)"))
}

/// What the server is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ServerInfo {
    name: &'static str,
    version: &'static str,
    /// Clients know "yarn" and "k8s".
    launcher_type: &'static str,
    authn_method: &'static str,
}

/// How people log in.
#[derive(Serialize, JsonSchema)]
struct LoginInfo {
    authn_type: &'static str,
    #[serde(rename = "loginURI")]
    login_uri: &'static str,
    #[serde(rename = "loginURIMethod")]
    login_uri_method: &'static str,
}

/// `/api/v1`, `/api/v2/info`
pub(crate) async fn info(call: Call) -> HandlerResult {
    HttpReply::json(&ServerInfo {
        name: "PAI RESTful API",
        version: PAI_VERSION,
        launcher_type: "k8s",
        authn_method: match call.config.oidc {
            Some(_) => "OIDC",
            None => "basic",
        },
    })
}

/// `GET /authn/info`
pub(crate) async fn authn(call: Call) -> HandlerResult {
    let (authn_type, login_uri, login_uri_method) = match call.config.oidc {
        Some(_) => ("OIDC", "/api/v1/authn/oidc/login", "get"),
        None => ("basic", "/api/v1/authn/basic/login", "post"),
    };
    HttpReply::json(&LoginInfo {
        authn_type,
        login_uri,
        login_uri_method,
    })
}

/// `GET /openapi.json`: these routes, described
pub(crate) async fn described(_: Call) -> HandlerResult {
    Ok(HttpReply::json_text(openapi::text()).tagged())
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use http::StatusCode;

    use super::{LoginInfo, ServerInfo};
    use crate::openapi::{FreeObject, RouteDoc, TEXT};

    pub(crate) fn health() -> RouteDoc {
        RouteDoc::new("Says that the server answers.").answer::<String>(StatusCode::OK, TEXT)
    }

    pub(crate) fn root() -> RouteDoc {
        RouteDoc::new("Says what this is.").answer::<String>(StatusCode::OK, TEXT)
    }

    pub(crate) fn info() -> RouteDoc {
        RouteDoc::new("Says which version of OpenPAI the answers are shaped like.")
            .json::<ServerInfo>()
    }

    pub(crate) fn authn() -> RouteDoc {
        RouteDoc::new("Says how people log in.").json::<LoginInfo>()
    }

    pub(crate) fn described() -> RouteDoc {
        RouteDoc::new("Describes all routes: this document.")
            .json::<FreeObject>()
            .tagged()
    }
}

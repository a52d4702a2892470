//! What the server is. Clients branch on these values.

use serde_json::json;

use crate::call::Call;
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

/// `/api/v1`, `/api/v2/info`
pub(crate) async fn info(call: Call) -> HandlerResult {
    let method = match call.config.oidc {
        Some(_) => "OIDC",
        None => "basic",
    };
    HttpReply::json(&json!({
        "name": "PAI RESTful API",
        "version": PAI_VERSION,
        // Clients know "yarn" and this.
        "launcherType": "k8s",
        "authnMethod": method,
    }))
}

/// `GET /authn/info`
pub(crate) async fn authn(call: Call) -> HandlerResult {
    if call.config.oidc.is_some() {
        return HttpReply::json(&json!({
            "authn_type": "OIDC",
            "loginURI": "/api/v1/authn/oidc/login",
            "loginURIMethod": "get",
        }));
    }
    HttpReply::json(&json!({
        "authn_type": "basic",
        "loginURI": "/api/v1/authn/basic/login",
        "loginURIMethod": "post",
    }))
}

//! What the server is. Clients branch on these values.

use serde_json::json;

use crate::call::Call;
use crate::reply::{Answer, Reply};

/// The version of OpenPAI that the answers are shaped like.
const PAI_VERSION: &str = "v1.8.0";

/// `GET /healthz`
pub(crate) async fn health(_: Call) -> Answer {
    Ok(Reply::text("ok"))
}

/// `/api/v2`
pub(crate) async fn root(_: Call) -> Answer {
    Ok(Reply::text("PAI RESTful API v2 (beta version)"))
}

/// `/api/v1`, `/api/v2/info`
pub(crate) async fn info(_: Call) -> Answer {
    Reply::json(&json!({
        "name": "PAI RESTful API",
        "version": PAI_VERSION,
        // Clients know "yarn" and this.
        "launcherType": "k8s",
        "authnMethod": "basic",
    }))
}

/// `GET /authn/info`
pub(crate) async fn authn(_: Call) -> Answer {
    Reply::json(&json!({
        "authn_type": "basic",
        "loginURI": "/api/v1/authn/basic/login",
        "loginURIMethod": "post",
    }))
}

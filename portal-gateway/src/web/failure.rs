//! What a browser is shown where a page cannot be: what happened, and what to do next.

use form_urlencoded::byte_serialize;
use http::StatusCode;
use maud::{Markup, html};

use super::frame;
use crate::error::ApiError;
use crate::port::PortError;
use crate::reply::HttpReply;

/// The page for an error. A browser without a valid session is sent to the login, and from there to `path`.
pub(crate) fn page(error: &ApiError, path: &str, node: &str) -> HttpReply {
    let is_session_over = matches!(
        error,
        ApiError::Guest | ApiError::Cluster(PortError::InvalidToken)
    );
    if is_session_over {
        let next: String = byte_serialize(path.as_bytes()).collect();
        return frame::see(&format!("/login?next={next}"));
    }
    let status = error.code().0;
    frame::apart(heading(status), &body(status, error), node).with_status(status)
}

fn heading(status: StatusCode) -> &'static str {
    match status {
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::SERVICE_UNAVAILABLE => "Not possible now",
        StatusCode::TOO_MANY_REQUESTS => "Too many requests",
        _ if status.is_server_error() => "Something is wrong with this node",
        _ => "That did not work",
    }
}

fn body(status: StatusCode, error: &ApiError) -> Markup {
    html! {
        div.card.bad role="alert" {
            h1 { (heading(status)) }
            p { (error.to_string()) }
            @match status {
                StatusCode::FORBIDDEN => {
                    p.dim { "An admin of the cluster can change what your groups may do and see." }
                }
                StatusCode::SERVICE_UNAVAILABLE => {
                    p.dim { "Nothing was changed or lost. Load the page again in a few seconds." }
                }
                _ => {}
            }
            p { "Your browser's way back leads to the page that you came from." }
        }
    }
}

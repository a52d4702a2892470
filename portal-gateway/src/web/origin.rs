//! Whose page asks for something that a browser sends the cookie of the session along with.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue};

use crate::error::ApiError;
use crate::port::PortError;

/// Refuses what a page of another origin asks for; `what` it may not do, and the remedy. To a browser another port of
/// this machine is the same site: it sends the cookie of the session along, and each task may serve pages on a port of
/// its own.
pub(super) fn check(headers: &HeaderMap, what: &str) -> Result<(), ApiError> {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let Some(origin) = text(ORIGIN) else {
        return Ok(());
    };
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    match authority.is_some() && authority == text(HOST) {
        true => Ok(()),
        false => {
            let why = format!("A page of {origin} may not {what}.");
            Err(PortError::Forbidden(why).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::ascii;

    #[test]
    fn pages_of_other_origins_ask_for_nothing() {
        let is_taken = |origin: Option<&str>, host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, ascii(host.to_owned()));
            if let Some(origin) = origin {
                headers.insert(ORIGIN, ascii(origin.to_owned()));
            }
            check(&headers, "do it").is_ok()
        };
        assert!(is_taken(None, "n1:7741"));
        assert!(is_taken(Some("https://n1:7741"), "n1:7741"));
        for other in ["https://n1:20001", "https://n2:7741", "https://n1", "null"] {
            assert!(!is_taken(Some(other), "n1:7741"), "{other}");
        }
    }
}

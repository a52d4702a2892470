//! What a form of a page sends.

use http::header::{HOST, ORIGIN};

use super::session;
use crate::call::Call;
use crate::error::ApiError;
use crate::query::Query;

/// Bytes that a form needs for one of a text, at most: `%0A`.
const ENCODED_BYTES: usize = 3;
/// The field that carries the key of the session.
pub(super) const KEY_FIELD: &str = "form_key";

/// The fields of a form that a page of this session sent.
///
/// # Errors
/// When the form came from elsewhere, or the session has ended since.
pub(crate) async fn read(call: &mut Call) -> Result<Query, ApiError> {
    let limit = call.config.limits.body_bytes;
    read_up_to(call, limit).await
}

/// The same for a form that holds a text of at most `text_bytes`.
///
/// # Errors
/// As [`read`].
pub(crate) async fn read_up_to(call: &mut Call, text_bytes: usize) -> Result<Query, ApiError> {
    let fields = taken(call, text_bytes).await?;
    let token = call.token.as_deref().ok_or(ApiError::Guest)?;
    match session::is_form_key(token, fields.text(KEY_FIELD).unwrap_or_default()) {
        true => Ok(fields),
        false => Err(ApiError::ForeignForm),
    }
}

/// The fields of the form of a browser without a session: of a page of this node, as far as the browser says.
///
/// # Errors
/// When the browser says that a page of elsewhere sent it.
pub(crate) async fn read_open(call: &mut Call) -> Result<Query, ApiError> {
    let limit = call.config.limits.body_bytes;
    taken(call, limit).await
}

async fn taken(call: &mut Call, text_bytes: usize) -> Result<Query, ApiError> {
    if !is_own(call) {
        return Err(ApiError::ForeignForm);
    }
    let limit = text_bytes.saturating_mul(ENCODED_BYTES);
    let body = call.read(limit).await?;
    let text = std::str::from_utf8(&body);
    let text = text.map_err(|_| ApiError::Parameters("the form is not UTF-8 text".to_owned()))?;
    Ok(Query::parse(text))
}

/// Browsers name the origin of the page that a form is on. Programs name none.
fn is_own(call: &Call) -> bool {
    let Some(origin) = call.headers.get(ORIGIN) else {
        return true;
    };
    let (origin, host) = (origin.to_str().ok(), call.header(&HOST));
    let named = origin.and_then(|origin| origin.split_once("://"));
    named.is_some_and(|(_, named)| named.eq_ignore_ascii_case(host))
}

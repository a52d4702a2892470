//! What a page says of the form that was sent before.

use http::StatusCode;
use maud::{Markup, html};

use crate::call::Call;
use crate::error::ApiError;

/// What was done, by the code that the address has after a form, `?done=CODE`. Only a text of `known` is shown: an
/// address can be made up by others.
pub(super) fn done(call: &Call, known: &[(&str, &str)]) -> Markup {
    let code = call.query.text("done").unwrap_or_default();
    let told = known.iter().find(|(one, _)| *one == code);
    html! { @if let Some((_, text)) = told { div.card role="status" { p.good { (text) } } } }
}

/// Why nothing was done, to be shown above the form, and the status of that answer.
///
/// # Errors
/// When the fault is not the form's.
pub(super) fn refused(error: ApiError) -> Result<(StatusCode, Markup), ApiError> {
    let status = error.code().0;
    let is_elsewhere = matches!(error, ApiError::Guest | ApiError::ForeignForm);
    if is_elsewhere || !status.is_client_error() || status == StatusCode::UNAUTHORIZED {
        return Err(error);
    }
    let told = html! {
        div.card.bad role="alert" { p { strong { "Nothing was changed. " } (error.to_string()) } }
    };
    Ok((status, told))
}

//! Passwords typed on a terminal, which does not show them.

use std::io;

use muster_model::secret::Hidden;

use super::error::CliError;

/// Asks for a line that is not shown. Only where stdin is a terminal.
pub(super) fn ask(question: &str) -> Result<Hidden<String>, CliError> {
    // The crate reads from the terminal of the process, and restores it also after Ctrl-C.
    match rpassword::prompt_password(format!("{question}: ")) {
        Ok(line) => Ok(Hidden(line)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(CliError::Usage(
            "interrupted; nothing was changed".to_owned(),
        )),
        Err(source) => Err(CliError::Read {
            path: "the terminal".into(),
            source,
        }),
    }
}

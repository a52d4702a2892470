//! The forms an answer can be asked in.

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::console::{Console, Paint};
use super::error::CliError;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Table,
    /// For programs; the fields are stable.
    Json,
    /// The same as YAML.
    Yaml,
}

/// `-o`, of every command that shows something.
#[derive(Clone, Copy, Debug, Args)]
pub struct OutputOption {
    /// The form of the answer.
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        default_value = "table"
    )]
    format: Format,
}

impl OutputOption {
    pub(super) const fn of(format: Format) -> Self {
        Self { format }
    }

    pub(super) const fn format(self) -> Format {
        self.format
    }

    /// Writes `value`, as `table` makes it readable or as data.
    pub(super) fn write<T: Serialize>(
        self,
        console: &Console,
        value: &T,
        table: impl FnOnce(&T, Paint) -> String,
    ) -> Result<(), CliError> {
        let text = match self.format {
            Format::Table => table(value, console.paint),
            Format::Json => serde_json::to_string_pretty(value).map_err(CliError::unwritable)?,
            Format::Yaml => serde_saphyr::to_string(value).map_err(CliError::unwritable)?,
        };
        console.line(text.trim_end_matches('\n'))
    }
}

//! Reads the texts of documents, within bounds.

use serde::de::DeserializeOwned;
use serde_saphyr::Options;

use crate::cluster_spec::SpecProblem;

/// How much of a text is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextLimits {
    pub(crate) bytes: usize,
    /// How deep it may be nested.
    pub(crate) depth: usize,
    /// How many values it may have.
    pub(crate) nodes: usize,
}

impl TextLimits {
    fn options(self) -> Options {
        serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_depth: self.depth,
                max_nodes: self.nodes,
                max_events: 4 * self.nodes,
                max_documents: 1,
                max_total_scalar_bytes: self.bytes,
            },
            with_snippet: false,
        }
    }
}

/// Reads a text of YAML.
///
/// # Errors
/// The first problem, with the path of its field.
pub(crate) fn read<T: DeserializeOwned>(text: &str, limits: TextLimits) -> Result<T, SpecProblem> {
    if text.len() > limits.bytes {
        let message = format!(
            "has {} bytes; at most {} are read",
            text.len(),
            limits.bytes
        );
        return Err(SpecProblem::new("", message));
    }
    let mut path = String::new();
    let read =
        serde_saphyr::with_deserializer_from_str_with_options(text, limits.options(), |yaml| {
            serde_path_to_error::deserialize(yaml).map_err(|error| {
                path = error.path().to_string();
                error.into_inner()
            })
        });
    read.map_err(|error| {
        let message = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
        SpecProblem::new(path, message)
    })
}

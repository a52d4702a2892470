//! A job's document as YAML again.

use serde_json::Value;

/// The document as YAML that people read and edit. Reading it again gives the same document.
///
/// # Errors
/// What the writer says, where a value cannot be written.
pub fn document_yaml(document: &Value) -> Result<String, String> {
    serde_saphyr::to_string(document).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::parse;

    #[test]
    fn what_is_written_is_read_as_the_same_document() {
        let document = json!({
            "protocolVersion": 2,
            "name": "again",
            "type": "job",
            "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "busybox"}],
            "taskRoles": {"worker": {
                "instances": 1,
                "dockerImage": "i",
                "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
                "commands": [
                    "echo a: b # c",
                    "cat <<'E'\n  two\n\nlines\nE\n",
                    "yes", "012", "null", "~", "- x", "'\"", "%x", "*a", "&b", "!c", "", " spaces ", "\ttab", "🙂",
                ],
            }},
            "secrets": {"word": "******"},
            "extras": {"number": 1.5, "on": true, "none": null, "empty": {}, "list": []},
        });
        let text = document_yaml(&document).unwrap();
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, document, "{text}");
        assert!(parse(&text).is_ok(), "{text}");
    }
}

//! Job documents that the command line writes itself.

use serde_json::{Value, json};

/// What begins a reference in a job. Where the user's words hold it, it comes in by a parameter, so that
/// the words stay what they are.
const TAG: &str = "<%";
const TAG_PARAMETER: &str = "tag";

/// A document as JSON, which every YAML reader reads.
pub(super) fn text(job: &Value) -> String {
    let text = format!("{job:#}");
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        // JSON may hold these as they are, YAML may not.
        if matches!(
            letter,
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        ) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// Makes these lines the commands of a task role, letter by letter.
pub(super) fn set_commands(job: &mut Value, role: &str, lines: &[String]) {
    let is_literal = lines.iter().all(|line| !line.contains(TAG));
    let reference = format!("{TAG} $parameters.{TAG_PARAMETER} %>");
    let lines = lines.iter().map(|line| line.replace(TAG, &reference));
    job["taskRoles"][role]["commands"] = lines.collect();
    if !is_literal {
        job["parameters"] = json!({ TAG_PARAMETER: TAG });
    }
}

//! Samples in a rule: ends that it must and must not be found for.

use serde_json::{Map, Value};

use super::{EXIT_CODES, RulesReader};
use crate::case::Case;

/// The most samples of one rule.
const SAMPLES_MAX: usize = 32;
const MATCHES: &str = "matches";
const MISSES: &str = "misses";
const EXIT_CODE: &str = "exitCode";
const USER_LOG: &str = "userLog";

/// An end that a rule's author gives with it.
#[derive(Clone, Debug)]
pub(crate) struct RuleSample {
    /// Where it stands in the file.
    pub(crate) path: String,
    /// The code of its rule.
    pub(crate) code: i32,
    /// Whether the rule has to be found for it, or must not be.
    pub(crate) is_match: bool,
    pub(crate) end: Case,
}

impl RulesReader {
    /// Reads the samples of the rule with a code.
    pub(super) fn samples(&mut self, map: &Map<String, Value>, path: &str, code: i32) {
        let path = format!("{path}.samples");
        let given = map.get("samples").filter(|value| !value.is_null());
        let Some(samples) = given.and_then(|value| self.mapping(value, &path)) else {
            return;
        };
        self.known_fields(samples, &path, &[MATCHES, MISSES]);
        for (field, is_match) in [(MATCHES, true), (MISSES, false)] {
            let list = match samples.get(field) {
                None | Some(Value::Null) => continue,
                Some(Value::Array(list)) if list.len() <= SAMPLES_MAX => list,
                Some(_) => {
                    let says = format!("must be a list of at most {SAMPLES_MAX} samples");
                    self.problem(&format!("{path}.{field}"), says);
                    continue;
                }
            };
            for (index, value) in list.iter().enumerate() {
                let path = format!("{path}.{field}[{index}]");
                if let Some(end) = self.sample(value, &path) {
                    self.samples.push(RuleSample {
                        path,
                        code,
                        is_match,
                        end,
                    });
                }
            }
        }
    }

    /// A text is the user log of a command that ended with 1.
    fn sample(&mut self, value: &Value, path: &str) -> Option<Case> {
        let (exit_code, user_log_tail) = match value {
            Value::String(text) => (None, text.clone()),
            Value::Object(map) => {
                self.known_fields(map, path, &[EXIT_CODE, USER_LOG]);
                let text = self.text(map, path, USER_LOG).unwrap_or_default();
                (self.exit_code(map, path, EXIT_CODE, &EXIT_CODES), text)
            }
            _ => {
                self.problem(path, "must be a text, or a mapping of exitCode and userLog");
                return None;
            }
        };
        Some(Case {
            exit_code: exit_code.or(Some(1)),
            ran_user_command: true,
            user_log_tail,
            ..Case::default()
        })
    }
}

//! A container's variables: each name once, the latest value wins.

use std::collections::BTreeMap;

/// Set where an image names no PATH, as Docker does.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Set where neither image nor task sets it: else Python keeps its output back while it goes to a
/// file or a pipe, and what it has kept is lost when it is killed.
const UNBUFFERED: &str = "PYTHONUNBUFFERED";

/// Variables by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Adds `NAME=value` lines; a line without `=` names an empty variable.
    pub(super) fn add_lines(&mut self, lines: &[String]) {
        for line in lines {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            self.0.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Adds variables by name.
    pub(super) fn add(&mut self, variables: &BTreeMap<String, String>) {
        self.0
            .extend(variables.iter().map(|(k, v)| (k.clone(), v.clone())));
    }

    /// All of them as `NAME=value`, with defaults for those that every container needs.
    pub(super) fn lines(&self) -> Vec<String> {
        let defaults = [("PATH", DEFAULT_PATH), (UNBUFFERED, "1")];
        let defaults = defaults
            .into_iter()
            .filter(|(name, _)| !self.0.contains_key(*name));
        let rest = self.0.iter().map(|(name, value)| (&**name, &**value));
        let all = defaults.chain(rest);
        all.map(|(name, value)| format!("{name}={value}")).collect()
    }
}

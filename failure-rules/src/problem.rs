//! One thing wrong with a rule file.

use std::fmt;

/// One thing wrong with a rule file: where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
    /// Where it is, such as `spec[3].pattern.runtimeContainerPatterns[0].userLogRegex`.
    /// Empty for the file as a whole.
    pub path: String,
    /// The line of the file, from 1, if it is known.
    pub line: Option<u64>,
    /// What is wrong and how to mend it.
    pub message: String,
}

impl RuleProblem {
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

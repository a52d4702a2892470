//! Takes secrets out of logs: the values of a job's own secrets, and what looks like one.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, BuildError, MatchKind};
use regex::bytes::Regex;

/// Stands in place of a secret.
const MASK: &str = "***";
/// A shorter value is a word that logs are full of, and hides nothing that could not be guessed.
const VALUE_BYTES_MIN: usize = 6;

/// What secrets look like, with what is put in their place. Each is of a published form, or stands behind a word that
/// says what it is.
const LOOKS: [(&str, &str); 13] = [
    // Keys in PEM. Of one whose end is not there all that follows.
    (
        r"(?s-u)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\z)",
        "***",
    ),
    // Hugging Face, GitHub, GitLab, OpenAI and Anthropic, Slack, AWS, Google.
    (r"\bhf_[A-Za-z0-9]{20,}", "***"),
    (
        r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{20,})",
        "***",
    ),
    (r"\bglpat-[A-Za-z0-9_\-]{20,}", "***"),
    (r"\bsk-[A-Za-z0-9_\-]{20,}", "***"),
    (r"\bxox[abposr]-[A-Za-z0-9\-]{10,}", "***"),
    (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", "***"),
    (r"\bAIza[0-9A-Za-z_\-]{35}", "***"),
    // JSON web tokens.
    (
        r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*",
        "***",
    ),
    // The password in an address.
    (
        r"(?P<key>[a-z][a-z0-9+.\-]*://[^\s/:@]*:)[^\s/@]+@",
        "${key}***@",
    ),
    // A header of HTTP.
    (
        r#"(?i)(?P<key>\bauthorization["']?\s*[:=]\s*["']?(?:bearer|basic|token)\s+)[^\s"',]+"#,
        "${key}***",
    ),
    // password=..., "api_key": "...", WANDB_API_KEY=...
    (
        r#"(?i)(?P<key>[a-z0-9_\-]*(?:password|passwd|passphrase|secret|token|api_?key|access_?key|private_?key|credential)s?(?:=["']?|["']\s*[:=]\s*["']?))[^\s"',;&)\]}]{6,}"#,
        "${key}***",
    ),
    // password: ... as in YAML. After other words a colon mostly begins a sentence.
    (
        r#"(?i)(?P<key>(?:password|passwd|passphrase|api_?key|access_?key|private_?key):\s+)[^\s"',;&)\]}]{6,}"#,
        "${key}***",
    ),
];

static TABLE: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let compiled = LOOKS.iter().map(|(look, put)| match Regex::new(look) {
        Ok(regex) => (regex, *put),
        Err(error) => unreachable!("{look} is part of the program: {error}"),
    });
    compiled.collect()
});

/// What is to be hidden.
#[derive(Debug)]
pub(crate) struct SecretMask {
    values: Option<AhoCorasick>,
}

impl SecretMask {
    /// Hides these values, and lines of those that have several, beside what looks like a secret.
    ///
    /// # Errors
    /// When they are too many to be looked for.
    pub(crate) fn new<'a>(values: impl Iterator<Item = &'a str>) -> Result<Self, BuildError> {
        let lines = |value: &'a str| value.lines().chain([value]).map(str::trim);
        let mut values: Vec<&str> = values
            .flat_map(lines)
            .filter(|line| line.len() >= VALUE_BYTES_MIN)
            .collect();
        values.sort_unstable();
        values.dedup();
        if values.is_empty() {
            return Ok(Self { values: None });
        }
        let finder = AhoCorasick::builder()
            // Of two that begin alike the longer one is hidden as a whole.
            .match_kind(MatchKind::LeftmostLongest)
            .build(values)?;
        Ok(Self {
            values: Some(finder),
        })
    }

    /// A log without secrets.
    pub(crate) fn bytes(&self, log: &[u8]) -> Vec<u8> {
        let mut text = match &self.values {
            Some(finder) => {
                let masks = vec![MASK; finder.patterns_len()];
                finder.replace_all_bytes(log, &masks)
            }
            None => log.to_vec(),
        };
        for (look, put) in &*TABLE {
            if let Cow::Owned(masked) = look.replace_all(&text, put.as_bytes()) {
                text = masked;
            }
        }
        text
    }

    /// A text without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(values: &[&str]) -> SecretMask {
        SecretMask::new(values.iter().copied()).unwrap()
    }

    #[test]
    fn values_of_the_jobs_secrets_are_hidden() {
        let mask = mask(&["hunter22", "hunter22-long", "short", "line one\nline two\n"]);
        for (log, expect) in [
            ("login hunter22 ok", "login *** ok"),
            ("hunter22-long", "***"),
            ("hunter222", "***2"),
            ("a short word", "a short word"),
            ("line two, then line one", "***, then ***"),
            ("HUNTER22", "HUNTER22"),
        ] {
            assert_eq!(mask.text(log), expect, "{log}");
        }
        let raw = mask.bytes(b"\xff hunter22 \xfe");
        assert_eq!(raw, b"\xff *** \xfe");
    }

    #[test]
    fn what_looks_like_a_secret_is_hidden_without_being_known() {
        let long = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R";
        for (log, expect) in [
            (format!("hf_{long}"), "***".to_owned()),
            (
                format!("push with ghp_{long}!"),
                "push with ***!".to_owned(),
            ),
            (format!("key sk-proj-{long}"), "key ***".to_owned()),
            ("AKIAIOSFODNN7EXAMPLE".to_owned(), "***".to_owned()),
            (
                "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_-1 x".to_owned(),
                "*** x".to_owned(),
            ),
            (
                "git clone https://ada:hunter2@host/x".to_owned(),
                "git clone https://ada:***@host/x".to_owned(),
            ),
            (
                "Authorization: Bearer abc.def".to_owned(),
                "Authorization: Bearer ***".to_owned(),
            ),
            (
                "mysql --password=hunter2 -h x".to_owned(),
                "mysql --password=*** -h x".to_owned(),
            ),
            (
                r#"{"password": "hunter2", "user": "ada"}"#.to_owned(),
                r#"{"password": "***", "user": "ada"}"#.to_owned(),
            ),
            (
                "  password: hunter2".to_owned(),
                "  password: ***".to_owned(),
            ),
            (
                "export WANDB_API_KEY=0123456789abcdef".to_owned(),
                "export WANDB_API_KEY=***".to_owned(),
            ),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb"
                    .to_owned(),
                "a\n***\nb".to_owned(),
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nMIIE\nmore".to_owned(),
                "***".to_owned(),
            ),
        ] {
            assert_eq!(mask(&[]).text(&log), expect, "{log}");
        }
    }

    #[test]
    fn what_rules_look_for_is_left() {
        for log in [
            "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
            "SyntaxError: unexpected token: something",
            "KeyError: 'token'",
            "step 7: tokens/s 81234, loss 1.2",
            "connect tcp://10.0.0.1:7740 failed",
            "password is wrong",
            "ImportError: cannot import name 'secret' from 'keys'",
        ] {
            assert_eq!(mask(&[]).text(log), log);
        }
    }
}

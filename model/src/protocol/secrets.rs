//! A job's secrets, apart from everything that is shown or replicated in the clear.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::WrittenJob;
use super::js_text;
use super::template::{CLOSE, OPEN, with_dots};

/// What users see in place of a secret.
pub const MASK: &str = "******";

/// Root of references to what stands under `secrets` in the document.
const SECRETS: &str = "$secrets";
/// The private key of the hosts of the job's tasks, and the one by which they log in to each other.
const SSH_HOST_KEY: &str = "$sshHostKey";
const SSH_JOB_KEY: &str = "$sshJobKey";
/// Root of the references that stand in for passwords written out in an image's `auth`.
const IMAGE_PASSWORD: &str = "$imagePassword";

/// The values behind `<% $secrets.x %>`, and passwords that the document writes out.
///
/// To be sealed before it is stored or sent; only the node that runs a task opens it.
/// Works with every serde format, also those that do not describe themselves.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// Texts by dotted reference: `$secrets.registry.password`, `$secrets.keys.0`.
    texts: BTreeMap<String, String>,
}

impl Secrets {
    pub(super) fn of(document: &WrittenJob) -> Self {
        let mut secrets = Self::default();
        secrets.collect(SECRETS.to_owned(), &document.secrets);
        for image in document.prerequisites.iter() {
            let password = image.auth("password");
            if is_literal(password) {
                // It may hold references beside other text.
                let password = secrets.render(password.trim());
                secrets.texts.insert(password_key(image.name()), password);
            }
        }
        secrets
    }

    /// Whether a dotted reference refers to one: `$secrets.keys.0`.
    pub(super) fn has(&self, reference: &str) -> bool {
        self.texts.contains_key(reference)
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The values.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.texts.values().map(String::as_str)
    }

    /// Adds the private keys of a job whose tasks have SSH servers: of its hosts, and of its tasks.
    pub fn add_ssh_keys(&mut self, host: String, job: String) {
        self.texts.insert(SSH_HOST_KEY.to_owned(), host);
        self.texts.insert(SSH_JOB_KEY.to_owned(), job);
    }

    /// The private keys that were added, of its hosts and of its tasks.
    pub fn ssh_keys(&self) -> Option<(&str, &str)> {
        let host = self.texts.get(SSH_HOST_KEY)?;
        Some((host, self.texts.get(SSH_JOB_KEY)?))
    }

    /// Puts the secrets into a text, raw. References to anything else stay as they are.
    pub fn render(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.scan(text, |part| out.push_str(part));
        out
    }

    /// How long [`Secrets::render`]'s answer is, in bytes, without making it.
    pub(super) fn rendered_bytes(&self, text: &str) -> usize {
        let mut bytes = 0_usize;
        self.scan(text, |part| bytes = bytes.saturating_add(part.len()));
        bytes
    }

    /// Passes the rendered text on, part by part.
    fn scan<'a>(&'a self, text: &'a str, mut emit: impl FnMut(&'a str)) {
        let mut rest = text;
        while let Some(close) = rest.find(CLOSE) {
            let (inside, tail) = (&rest[..close], &rest[close + CLOSE.len()..]);
            let known = inside.rfind(OPEN).and_then(|open| {
                let reference = with_dots(inside[open + OPEN.len()..].trim());
                Some((open, self.texts.get(&reference)?))
            });
            match known {
                Some((open, secret)) => {
                    emit(&inside[..open]);
                    emit(secret);
                }
                None => emit(&rest[..close + CLOSE.len()]),
            }
            rest = tail;
        }
        emit(rest);
    }

    fn collect(&mut self, path: String, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    self.collect(format!("{path}.{name}"), field);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.collect(format!("{path}.{index}"), item);
                }
                // Lists of lists are left out: each level would hold the text once more.
                if !items.iter().any(|item| item.is_array() || item.is_object()) {
                    self.texts
                        .extend(js_text::of(value).map(|text| (path, text)));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.texts
                    .extend(js_text::of(value).map(|text| (path, text)));
            }
        }
    }
}

impl fmt::Debug for Secrets {
    /// Shows how many there are, never a value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets")
            .field("count", &self.texts.len())
            .finish_non_exhaustive()
    }
}

/// The password of an image as a job spec may carry it: a reference instead of written out.
pub(super) fn password_reference(image: &str, password: &str) -> String {
    if is_literal(password) {
        format!("{OPEN} {} {CLOSE}", password_key(image))
    } else {
        password.trim().to_owned()
    }
}

/// The document for showing: secrets and written-out passwords masked.
pub(super) fn masked(source: &Value) -> Value {
    let mut config = source.clone();
    if let Some(secrets) = config.get_mut("secrets") {
        *secrets = Value::from(MASK);
    }
    let images = config
        .get_mut("prerequisites")
        .and_then(Value::as_array_mut);
    for image in images.into_iter().flatten() {
        if let Some(auth) = image.get_mut("auth") {
            mask_login(auth);
        }
    }
    config
}

/// Fields of a login that are shown.
const OPEN_LOGIN_FIELDS: [&str; 2] = ["username", "registryuri"];

/// Masks what is secret of a login, or may be: nothing reads a field that is not known, and its user may have
/// misspelt the password's. Only the login of an image has a shape that was checked.
fn mask_login(auth: &mut Value) {
    let mask = |hidden: &mut Value| {
        let is_reference = hidden.as_str().is_some_and(|text| !is_literal(text));
        if !is_reference && !hidden.is_null() {
            *hidden = Value::from(MASK);
        }
    };
    match auth {
        Value::Object(fields) => fields
            .iter_mut()
            .filter(|(name, _)| !OPEN_LOGIN_FIELDS.contains(&name.as_str()))
            .for_each(|(_, value)| mask(value)),
        other => mask(other),
    }
}

fn password_key(image: &str) -> String {
    format!("{IMAGE_PASSWORD}.{image}")
}

/// Whether a password holds more than references to secrets.
fn is_literal(password: &str) -> bool {
    let mut rest = password.trim();
    while let Some(after) = rest.strip_prefix(OPEN) {
        match after.split_once(CLOSE) {
            Some((reference, tail)) if reference.trim().starts_with(SECRETS) => {
                rest = tail.trim_start();
            }
            _ => return true,
        }
    }
    !rest.is_empty()
}

//! The fields of a request body, checked and complained about the way upstream's validator does.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::error::ApiError;

/// Fields that were not taken yet, and what was wrong with those that were.
///
/// Take every field, then call [`Fields::finish`]: a field that was wrong came out as a
/// harmless default, and finishing reports it.
pub(crate) struct Fields {
    left: Map<String, Value>,
    problems: Vec<String>,
}

impl Fields {
    /// The fields of a body of this content type. No body has no fields. Clients of upstream
    /// send JSON as `text/plain` too.
    pub(crate) fn parse(content_type: &str, body: &[u8]) -> Result<Self, ApiError> {
        let left = if body.iter().all(u8::is_ascii_whitespace) {
            Map::new()
        } else if content_type.starts_with("application/x-www-form-urlencoded") {
            form(body)
        } else {
            object(body)?
        };
        Ok(Self::of(left))
    }

    /// The fields of an object.
    pub(crate) fn of(left: Map<String, Value>) -> Self {
        Self {
            left,
            problems: Vec::new(),
        }
    }

    /// Whether a field is there and was not taken yet.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.left.contains_key(name)
    }

    /// Notes which of these fields are absent.
    pub(crate) fn demand(&mut self, names: &[&str]) {
        for name in names {
            if !self.has(name) {
                self.wrong(name, "is required");
            }
        }
    }

    /// A text that must be there.
    pub(crate) fn text(&mut self, name: &str) -> String {
        match self.left.remove(name) {
            Some(Value::String(text)) if !text.is_empty() => text,
            Some(Value::String(_)) => self.wrong(name, "is not allowed to be empty"),
            Some(_) => self.wrong(name, "must be a string"),
            None => self.wrong(name, "is required"),
        }
    }

    /// Names, at least one.
    pub(crate) fn names(&mut self, name: &str) -> BTreeSet<String> {
        let Some(value) = self.left.remove(name) else {
            self.wrong(name, "is required");
            return BTreeSet::new();
        };
        match serde_json::from_value::<BTreeSet<String>>(value) {
            Ok(names) if !names.is_empty() => names,
            Ok(_) => {
                self.wrong(name, "is not allowed to be empty");
                BTreeSet::new()
            }
            Err(_) => {
                self.wrong(name, "must be a list of names");
                BTreeSet::new()
            }
        }
    }

    /// Notes that a field, already taken, is wrong.
    pub(crate) fn wrong(&mut self, name: &str, what: &str) -> String {
        self.problems.push(format!(
            "child \"{name}\" fails because [\"{name}\" {what}]"
        ));
        String::new()
    }

    /// A text that may be absent.
    pub(crate) fn optional_text(&mut self, name: &str) -> Option<String> {
        match self.left.remove(name)? {
            Value::String(text) => Some(text),
            _ => Some(self.wrong(name, "must be a string")),
        }
    }

    /// Yes or no, which may be absent. Forms give it as text.
    pub(crate) fn optional_bool(&mut self, name: &str) -> Option<bool> {
        let value = match self.left.remove(name)? {
            Value::Bool(value) => Some(value),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        if value.is_none() {
            self.wrong(name, "must be a boolean");
        }
        value
    }

    /// Yes or no, which must be there.
    pub(crate) fn bool(&mut self, name: &str) -> bool {
        self.demand(&[name]);
        self.optional_bool(name).unwrap_or_default()
    }

    /// Any value, which must be there.
    pub(crate) fn value(&mut self, name: &str) -> Value {
        self.demand(&[name]);
        self.left.remove(name).unwrap_or_default()
    }

    /// An object that may be absent. Forms give it as JSON text.
    pub(crate) fn optional_object(&mut self, name: &str) -> Option<Map<String, Value>> {
        match unpacked(self.left.remove(name)?) {
            Value::Object(object) => Some(object),
            _ => {
                self.wrong(name, "must be an object");
                Some(Map::new())
            }
        }
    }

    /// An object that must be there.
    pub(crate) fn object(&mut self, name: &str) -> Map<String, Value> {
        self.demand(&[name]);
        self.optional_object(name).unwrap_or_default()
    }

    /// A list of texts, which may be absent or empty. Forms give it as JSON text, or as `name[]`.
    pub(crate) fn optional_list(&mut self, name: &str) -> Option<Vec<String>> {
        let list = serde_json::from_value(unpacked(self.left.remove(name)?));
        if list.is_err() {
            self.wrong(name, "must be an array of strings");
        }
        Some(list.unwrap_or_default())
    }

    /// A whole number that may be absent, within bounds. Forms give it as text.
    pub(crate) fn optional_integer(&mut self, name: &str, min: i64, max: i64) -> Option<i64> {
        let number = match self.left.remove(name)? {
            Value::String(text) => text.parse().ok(),
            value => value.as_i64(),
        };
        let rule = match number {
            None => "must be an integer".to_owned(),
            Some(n) if n < min => format!("must be larger than or equal to {min}"),
            Some(n) if n > max => format!("must be less than or equal to {max}"),
            Some(_) => return number,
        };
        drop(self.wrong(name, &rule));
        // Nobody computes with a number that is out of its bounds.
        None
    }

    /// Reports what was wrong, or gives a field that had to be there.
    pub(crate) fn finish_with<T>(self, field: Option<T>) -> Result<T, ApiError> {
        self.finish()?;
        field.ok_or_else(|| ApiError::Parameters("a name is required".to_owned()))
    }

    /// Reports what was wrong; a field that nobody took is wrong too.
    pub(crate) fn finish(mut self) -> Result<(), ApiError> {
        for name in self.left.keys() {
            self.problems.push(format!("\"{name}\" is not allowed"));
        }
        self.finish_taken()
    }

    /// Reports what was wrong with the fields that were taken, where upstream does not look at the body.
    pub(crate) fn finish_taken(self) -> Result<(), ApiError> {
        if self.problems.is_empty() {
            Ok(())
        } else {
            Err(ApiError::Parameters(self.problems.join(". ")))
        }
    }
}

/// The fields of a form. Those that are called `name[]` are a list.
fn form(body: &[u8]) -> Map<String, Value> {
    let mut fields = Map::new();
    for (key, value) in form_urlencoded::parse(body).into_owned() {
        let value = Value::String(value);
        let list = key.strip_suffix("[]").map(|name| {
            let empty = || Value::Array(Vec::new());
            fields.entry(name).or_insert_with(empty)
        });
        match list {
            Some(Value::Array(list)) => list.push(value),
            Some(_) => {}
            None => drop(fields.insert(key, value)),
        }
    }
    fields
}

/// What a text of JSON holds. Any other value stays as it is.
fn unpacked(value: Value) -> Value {
    match &value {
        Value::String(text) => serde_json::from_str(text).unwrap_or(value),
        _ => value,
    }
}

fn object(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(ApiError::Parameters(
            "\"value\" must be an object".to_owned(),
        )),
        Err(e) if e.is_eof() => Err(ApiError::Syntax("Unexpected end of JSON input".to_owned())),
        Err(e) => Err(ApiError::Syntax(format!("Unexpected token in JSON: {e}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(content_type: &str, body: &str) -> Result<String, String> {
        let mut fields = Fields::parse(content_type, body.as_bytes()).map_err(|e| e.to_string())?;
        let value = fields.text("value");
        fields.optional_integer("number", 60, 604_800);
        fields.finish().map(|()| value).map_err(|e| e.to_string())
    }

    #[test]
    fn lists_and_objects() {
        let form = "application/x-www-form-urlencoded";
        let packed = "list=%5B%22a%22,%22b%22%5D&object=%7B%22k%22:1%7D";
        let json = r#"{"list":["a","b"],"object":{"k":1}}"#;
        for (kind, body) in [
            (form, packed),
            (form, "list[]=a&list[]=b&object=%7B%22k%22:1%7D"),
            ("text/plain", json),
        ] {
            let mut fields = Fields::parse(kind, body.as_bytes()).unwrap();
            assert_eq!(fields.optional_list("list").unwrap(), ["a", "b"], "{body}");
            assert_eq!(fields.object("object")["k"], 1, "{body}");
            assert_eq!(fields.optional_list("none"), None);
            fields.finish().unwrap();
        }
        let wrong = br#"{"list":"a","object":[],"bool":1,"bools":[1]}"#;
        let mut fields = Fields::parse("", wrong).unwrap();
        fields.optional_list("list");
        fields.object("object");
        fields.bool("bool");
        fields.optional_list("bools");
        fields.value("value");
        let message = fields.finish().unwrap_err().to_string();
        for part in [
            r#"["list" must be an array of strings]"#,
            r#"["object" must be an object]"#,
            r#"["bool" must be a boolean]"#,
            r#"["bools" must be an array of strings]"#,
            r#"["value" is required]"#,
        ] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn bodies() {
        let json = "application/json";
        let plain = "text/plain;charset=UTF-8";
        let form = "application/x-www-form-urlencoded";
        for (kind, body, want) in [
            (json, r#"{"value":"a"}"#, Ok("a")),
            (plain, r#"{"value":"a","number":60}"#, Ok("a")),
            ("", r#"{"value":"a"}"#, Ok("a")),
            (form, "value=a%20b&number=4000", Ok("a b")),
            (json, r#"{"value":"#, Err("Unexpected end of JSON input")),
            (
                json,
                "",
                Err(r#"child "value" fails because ["value" is required]"#),
            ),
            (json, r#"{"value":"a","z":1}"#, Err(r#""z" is not allowed"#)),
            (json, "[]", Err(r#""value" must be an object"#)),
            (
                json,
                r#"{"value":1,"number":604801}"#,
                Err(
                    "child \"value\" fails because [\"value\" must be a string]. child \
                     \"number\" fails because [\"number\" must be less than or equal to 604800]",
                ),
            ),
            (
                form,
                "value=a&number=x",
                Err(r#"child "number" fails because ["number" must be an integer]"#),
            ),
        ] {
            let want = want.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(value(kind, body), want, "{kind} {body}");
        }
    }
}

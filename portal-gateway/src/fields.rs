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
            form_urlencoded::parse(body)
                .into_owned()
                .map(|(key, value)| (key, Value::String(value)))
                .collect()
        } else {
            object(body)?
        };
        Ok(Self {
            left,
            problems: Vec::new(),
        })
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

    /// A whole number that may be absent, within bounds. Forms give it as text.
    pub(crate) fn optional_integer(&mut self, name: &str, min: i64, max: i64) -> Option<i64> {
        let number = match self.left.remove(name)? {
            Value::String(text) => text.parse().ok(),
            value => value.as_i64(),
        };
        match number {
            None => drop(self.wrong(name, "must be an integer")),
            Some(n) if n < min => {
                drop(self.wrong(name, &format!("must be larger than or equal to {min}")));
            }
            Some(n) if n > max => {
                drop(self.wrong(name, &format!("must be less than or equal to {max}")));
            }
            Some(_) => {}
        }
        number
    }

    /// Reports what was wrong; a field that nobody took is wrong too.
    pub(crate) fn finish(mut self) -> Result<(), ApiError> {
        for name in self.left.keys() {
            self.problems.push(format!("\"{name}\" is not allowed"));
        }
        if self.problems.is_empty() {
            Ok(())
        } else {
            Err(ApiError::Parameters(self.problems.join(". ")))
        }
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

//! Numbers and truth values as they were written, where they go into commands.
//!
//! YAML makes a number of `3.10`, and 3.1 of that. Where the schema judges a field it has to be a number;
//! in parameters, secrets and prerequisites it is what the user wrote.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::js_text;
use super::yaml::{YamlValue, options};

/// The sections that commands refer to.
const SECTIONS: [&str; 3] = ["parameters", "secrets", "prerequisites"];
/// What is made of numbers that are too large.
const NO_NUMBERS: [&str; 3] = [".inf", "-.inf", ".nan"];
/// The one field in them whose value is judged as a number.
const VERSION: &str = "protocolVersion";

/// The document, as `text` was read, with such values as text where they would be rendered otherwise than
/// they are written.
pub(super) fn kept(text: &str, document: Value) -> Value {
    let sections = SECTIONS.iter().filter_map(|name| document.get(name));
    if !sections.into_iter().any(may_differ) {
        return document;
    }
    // The text was read before by the same rules. Should that fail now, the first reading holds.
    let again = Again {
        known: &document,
        place: ValuePosition::Document,
    };
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options(), |yaml| {
        again.deserialize(yaml)
    });
    read.unwrap_or(document)
}

/// Whether there is anything that could be written in several ways.
fn may_differ(value: &Value) -> bool {
    match value {
        Value::Number(_) | Value::Bool(_) => true,
        Value::String(text) => NO_NUMBERS.contains(&text.as_str()),
        Value::Array(items) => items.iter().any(may_differ),
        Value::Object(fields) => fields.values().any(may_differ),
        Value::Null => false,
    }
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValuePosition {
    /// It is the document.
    Document,
    /// It is in one of the sections.
    Inside,
    /// It stays as it was read.
    Elsewhere,
}

/// Reads a value again of which it is known what it is.
struct Again<'v> {
    known: &'v Value,
    place: ValuePosition,
}

impl<'v> Again<'v> {
    fn below(&self, name: &str, known: &'v Value) -> Self {
        let place = match self.place {
            ValuePosition::Document if SECTIONS.contains(&name) => ValuePosition::Inside,
            ValuePosition::Inside if name != VERSION => ValuePosition::Inside,
            _ => ValuePosition::Elsewhere,
        };
        Self { known, place }
    }
}

impl<'de> DeserializeSeed<'de> for Again<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.known {
            Value::Object(_) if self.place != ValuePosition::Elsewhere => {
                deserializer.deserialize_map(self)
            }
            Value::Array(_) if self.place == ValuePosition::Inside => {
                deserializer.deserialize_seq(self)
            }
            Value::Number(_) | Value::Bool(_) | Value::String(_)
                if self.place == ValuePosition::Inside && may_differ(self.known) =>
            {
                deserializer.deserialize_str(self)
            }
            known => {
                deserializer.deserialize_ignored_any(IgnoredAny)?;
                Ok(known.clone())
            }
        }
    }
}

impl<'de> Visitor<'de> for Again<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the same value again")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(match js_text::of(self.known) {
            Some(rendered) if rendered == text => self.known.clone(),
            _ => text.into(),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        for known in self.known.as_array().into_iter().flatten() {
            let seed = Again { known, ..self };
            list.extend(items.next_element_seed(seed)?);
        }
        // The end has to be read too.
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(YamlValue(key)) = entries.next_key()? {
            let name = js_text::of(&key).unwrap_or_else(|| "null".to_owned());
            let known = self.known.get(&name).unwrap_or(&Value::Null);
            let value = entries.next_value_seed(self.below(&name, known))?;
            fields.insert(name, value);
        }
        Ok(fields.into())
    }
}

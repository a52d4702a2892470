//! From YAML text to a JSON value, within limits that hold for hostile text too.
//!
//! Scalars are read as js-yaml 3 reads them: `yes` and `on` are text, `0123` and `0x1f` are
//! integers, `~` is null, `1.0` is the integer 1. Sexagesimal numbers and dates stay text.
//! But what goes into commands, goes there as it was written (`written`): `3.10` is a version.
//! Unquoted `08` and `09` are the numbers 8 and 9, where js-yaml takes them for text.
//! Keys become text as in JavaScript, whatever they are.

use std::{fmt, io};

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Options;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};

use super::{JobProblem, js_text, written};

/// Longest job text that is read, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting.
const DEPTH_MAX: usize = 48;
/// Most sequences, mappings and scalars, as written.
const NODES_MAX: usize = 200_000;
/// Most aliases in a document.
const ALIASES_MAX: usize = 1_000;
/// Most events that all aliases together may repeat.
const REPLAYED_EVENTS_MAX: usize = 20_000;
/// Most text that the document may hold, in bytes, with what aliases repeat counted each time.
const EXPANDED_BYTES_MAX: usize = 4 << 20;

/// Reads one YAML document. An empty text is null.
pub(crate) fn read(text: &str) -> Result<Value, JobProblem> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!(
            "The job has {} bytes; at most {TEXT_BYTES_MAX} are allowed.",
            text.len()
        );
        return Err(JobProblem::at("", message));
    }
    let YamlValue(value) = serde_saphyr::from_str_with_options(text, options())
        .map_err(|error| JobProblem::at("", describe(&error)))?;
    let value = written::kept(text, value);
    check_stored(&value)?;
    Ok(value)
}

/// A job is kept as JSON, where every alias is what it stands for, and that has to be a job that could be
/// submitted.
fn check_stored(value: &Value) -> Result<(), JobProblem> {
    let mut stored = CountedBytes(0);
    // What only counts does not fail.
    let _ = serde_json::to_writer(&mut stored, value);
    let bytes = stored.0;
    if bytes <= TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(JobProblem::whole(format!(
        "The job has {bytes} bytes as JSON, with its aliases written out; at most {TEXT_BYTES_MAX} are \
         allowed."
    )))
}

/// How much was written.
struct CountedBytes(usize);

impl io::Write for CountedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_events: 2 * NODES_MAX,
            max_aliases: ALIASES_MAX,
            max_documents: 2,
            max_total_scalar_bytes: EXPANDED_BYTES_MAX,
            // Many roles may well share one anchor; the limits above and below bound that.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: REPLAYED_EVENTS_MAX,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        legacy_octal_numbers: true,
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// The library's message always with line and column, counted from 1. A key is told by them alone: where
/// a line is damaged, a secret may stand in its place.
fn describe(error: &serde_saphyr::Error) -> String {
    let text = match error {
        serde_saphyr::Error::DuplicateMappingKey { .. } => {
            "a key is there a second time in its mapping".to_owned()
        }
        _ => error.render_with_formatter(&serde_saphyr::UserMessageFormatter),
    };
    match error.location() {
        Some(place) if place.line() > 0 && !text.contains(" line ") => {
            format!("{text} at line {}, column {}", place.line(), place.column())
        }
        _ => text,
    }
}

/// Largest float that stands for an exact integer: 2^53.
const EXACT_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// A value as YAML has it, on its way to JSON.
pub(super) struct YamlValue(pub(super) Value);

impl<'de> Deserialize<'de> for YamlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = YamlValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E: Error>(self) -> Result<YamlValue, E> {
        Ok(YamlValue(Value::Null))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<YamlValue, E> {
        Ok(YamlValue(flag.into()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<YamlValue, E> {
        Ok(YamlValue(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<YamlValue, E> {
        Ok(YamlValue(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<YamlValue, E> {
        Ok(YamlValue(
            integral(number).map_or_else(|| number.into(), Value::from),
        ))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<YamlValue, E> {
        Ok(YamlValue(text.into()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<YamlValue, E> {
        Ok(YamlValue(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<YamlValue, A::Error> {
        let mut list = Vec::new();
        while let Some(YamlValue(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(YamlValue(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<YamlValue, A::Error> {
        let mut fields = Map::new();
        while let Some((YamlValue(key), YamlValue(value))) = entries.next_entry()? {
            let key = js_text::of(&key).unwrap_or_else(|| "null".to_owned());
            fields.insert(key, value);
        }
        Ok(YamlValue(fields.into()))
    }
}

/// JavaScript has one number type, so `1.0` is an integer to upstream.
fn integral(float: f64) -> Option<i64> {
    if float.fract() != 0.0 || float.abs() > EXACT_INTEGER_MAX {
        return None;
    }
    // Exact: integral and within 2^53.
    #[allow(clippy::cast_possible_truncation)]
    Some(float as i64)
}

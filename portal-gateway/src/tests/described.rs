//! Whether what is answered is what `/openapi.json` says. Every request of these tests comes by here.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use http::Method;
use jsonschema::Validator;
use serde_json::{Value, json};

use super::setup::{TestRequest, WholeAnswer};
use crate::openapi::{self, NDJSON};
use crate::route;

static DOCUMENT: LazyLock<Value> = LazyLock::new(openapi::document);

/// What was made of schemas so far, by the operation and what of it they describe.
static VALIDATORS: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());

/// Panics where an answer is not described.
pub(super) fn check(ask: &TestRequest<'_>, answer: &WholeAnswer) {
    let Ok(method) = ask.method.parse::<Method>() else {
        return;
    };
    // They are refused before a route is looked for.
    if matches!(method, Method::CONNECT | Method::TRACE) {
        return;
    }
    let uri: http::Uri = ask.path.parse().unwrap_or_default();
    let Ok((route, _)) = route::find(&method, uri.path()) else {
        return;
    };
    // Pages are for people.
    if route.about.is_none() {
        return;
    }
    let (path, word) = openapi::place(route);
    let operation = &DOCUMENT["paths"][path][word];
    let place = format!("{} {} {}", ask.method, ask.path, answer.status);
    check_answer(operation, (&method, answer), &place);
    if answer.status.is_success() && !ask.body.is_empty() {
        check_body(operation, ask.body, &place);
    }
}

fn check_answer(operation: &Value, (method, answer): (&Method, &WholeAnswer), place: &str) {
    let response = &operation["responses"][answer.status.as_str()];
    let response = match response["$ref"].as_str() {
        Some(name) => DOCUMENT.pointer(&name[1..]).unwrap_or(&Value::Null),
        None => response,
    };
    assert!(response.is_object(), "{place}: the status is not described");
    let media = answer.header("content-type").split(';').next();
    let media = media.unwrap_or_default();
    if media.is_empty() {
        assert!(answer.body.is_empty(), "{place}: a body of no type");
        assert!(response.get("content").is_none(), "{place}: no body");
        return;
    }
    let content = &response["content"][media];
    assert!(content.is_object(), "{place}: {media} is not described");
    if method == Method::HEAD || !answer.header("content-encoding").is_empty() {
        return;
    }
    match media {
        "application/json" | "text/yaml" => {
            expect((&content["schema"], true), &answer.json(), place);
        }
        NDJSON => {
            for line in answer.text().lines() {
                let line = serde_json::from_str(line).unwrap_or_default();
                expect((&content["x-itemSchema"], true), &line, place);
            }
        }
        _ => assert_eq!(content["schema"]["type"], "string", "{place}"),
    }
}

/// A body of JSON that was taken. Forms and YAML are read otherwise.
fn check_body(operation: &Value, body: &str, place: &str) {
    let Ok(body) = serde_json::from_str::<Value>(body) else {
        return;
    };
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !schema.is_null() {
        // It says itself where other fields are refused.
        expect((schema, false), &body, &format!("the body of {place}"));
    }
}

/// Holds a value against a schema, which may be closed for other fields.
fn expect((schema, is_closed): (&Value, bool), value: &Value, place: &str) {
    let validator = validator(schema, is_closed);
    let errors = validator.iter_errors(value);
    let errors: Vec<_> = errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{place}: not as described: {errors:#?}");
}

fn validator(schema: &Value, is_closed: bool) -> Arc<Validator> {
    let key = format!("{is_closed} {schema}");
    let mut known = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(validator) = known.get(&key) {
        return validator.clone();
    }
    let mut whole = schema.clone();
    let mut schemas = serde_json::Map::new();
    named_in(schema, &mut schemas);
    if is_closed {
        close(&mut whole);
        let all = Value::Object(schemas.clone());
        let closed = schemas.iter_mut().filter(|(name, _)| !is_part(&all, name));
        closed.for_each(|(_, schema)| close(schema));
    }
    whole["components"] = json!({ "schemas": schemas });
    let validator = match jsonschema::validator_for(&whole) {
        Ok(validator) => Arc::new(validator),
        Err(error) => panic!("{schema} is wrong: {error}"),
    };
    known.insert(key, validator.clone());
    validator
}

/// The named schemas that a schema leads to.
fn named_in(schema: &Value, found: &mut serde_json::Map<String, Value>) {
    match schema {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            let name = name.and_then(|name| name.rsplit('/').next());
            if let Some(name) = name.filter(|name| !found.contains_key(*name)) {
                let named = &DOCUMENT["components"]["schemas"][name];
                found.insert(name.to_owned(), named.clone());
                named_in(named, found);
            }
            fields.values().for_each(|one| named_in(one, found));
        }
        Value::Array(all) => all.iter().for_each(|one| named_in(one, found)),
        _ => {}
    }
}

/// Whether a named schema is of a part of an object's fields, and the others stand beside it.
fn is_part(all: &Value, name: &str) -> bool {
    match all {
        Value::Object(fields) => {
            let leads = fields.get("$ref").and_then(Value::as_str);
            let is_it = leads.is_some_and(|leads| leads.rsplit('/').next() == Some(name));
            is_it && fields.contains_key("properties")
                || fields.values().any(|one| is_part(one, name))
        }
        Value::Array(all) => all.iter().any(|one| is_part(one, name)),
        _ => false,
    }
}

/// Lets no value have fields that are not described.
pub(super) fn close(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    close_below(fields);
    let branches = ["oneOf", "anyOf", "allOf"].iter();
    let mut branches = branches.filter_map(|word| fields.get(*word)?.as_array());
    let has_fields = fields.contains_key("properties")
        || branches.any(|list| list.iter().any(|one| one.get("properties").is_some()));
    if has_fields && !fields.contains_key("additionalProperties") {
        fields.insert("unevaluatedProperties".to_owned(), json!(false));
    }
}

/// The same of all that a value holds. Branches are parts of the same value: these stay open.
fn close_below(fields: &mut serde_json::Map<String, Value>) {
    for (word, value) in fields {
        match (word.as_str(), value) {
            ("properties", Value::Object(all)) => all.values_mut().for_each(close),
            ("items" | "additionalProperties", one) => close(one),
            ("prefixItems", Value::Array(all)) => all.iter_mut().for_each(close),
            ("oneOf" | "anyOf" | "allOf", Value::Array(all)) => {
                let parts = all.iter_mut().filter_map(Value::as_object_mut);
                parts.for_each(close_below);
            }
            _ => {}
        }
    }
}

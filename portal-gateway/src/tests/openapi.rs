//! The document at `/openapi.json` is one, and describes every route.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::described::close;
use super::setup::*;
use crate::openapi;
use crate::route::ROUTES;

/// Every operation, with its path and method.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
    });
    all.collect()
}

/// Every value of a key, wherever it is.
fn all_of<'v>(value: &'v Value, key: &str, found: &mut Vec<&'v Value>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key));
            fields.values().for_each(|one| all_of(one, key, found));
        }
        Value::Array(all) => all.iter().for_each(|one| all_of(one, key, found)),
        _ => {}
    }
}

#[tokio::test]
async fn anybody_may_read_it() {
    let setup = Setup::new();
    let answer = setup.guest("GET", "/openapi.json").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json(), openapi::document());
    let tag = answer.header("etag").to_owned();
    let headers = [("if-none-match", tag.as_str())];
    let again = setup.ask(TestRequest {
        method: "GET",
        path: "/rest-server/openapi.json",
        headers: &headers,
        body: "",
    });
    assert_eq!(again.await.status, 304);
}

#[test]
fn each_route_is_one_operation() {
    let document = openapi::document();
    let operations = operations(&document);
    assert_eq!(operations.len(), ROUTES.len());
    let ids: BTreeSet<_> = operations
        .iter()
        .map(|(_, operation)| operation["operationId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), operations.len(), "{ids:?}");
    let detail = &document["paths"]["/api/v2/jobs/{job}"]["get"];
    assert_eq!(detail["operationId"], "jobsDetail");
    assert_eq!(
        document["paths"]["/api/v2/tokens/{token}"]["delete"]["x-aliases"],
        json!([
            "/api/v1/token/{token}",
            "/api/v1/tokens/{token}",
            "/api/v2/token/{token}"
        ])
    );
}

#[test]
fn an_operation_tells_what_openapi_asks_for() {
    let document = openapi::document();
    assert_eq!(document["openapi"], "3.1.0");
    for (place, operation) in operations(&document) {
        let text = |key: &str| operation[key].as_str().unwrap_or_default();
        assert!(text("summary").ends_with('.'), "{place}");
        assert!(operation["security"].is_array(), "{place}");
        let responses = operation["responses"].as_object().unwrap();
        assert!(!responses.is_empty(), "{place}");
        for (status, response) in responses {
            assert!(
                status
                    .parse::<u16>()
                    .is_ok_and(|one| one < 500 || one == 503 || one == 507),
                "{place}"
            );
            let is_told = response["description"].is_string() || response["$ref"].is_string();
            assert!(is_told, "{place} {status}");
        }
        let parameters = operation["parameters"].as_array();
        let in_path = parameters
            .into_iter()
            .flatten()
            .filter(|one| one["in"] == "path");
        for parameter in in_path.clone() {
            let name = parameter["name"].as_str().unwrap();
            assert!(place.contains(&format!("{{{name}}}")), "{place} {name}");
            assert_ne!(parameter["description"], "", "{place} {name}");
        }
        assert_eq!(in_path.count(), place.matches('{').count(), "{place}");
    }
}

#[test]
fn every_schema_is_one_and_every_reference_leads_somewhere() {
    let document = openapi::document();
    let mut references = Vec::new();
    all_of(&document, "$ref", &mut references);
    assert!(references.len() > 100);
    for reference in references {
        let place = reference.as_str().unwrap().strip_prefix('#').unwrap();
        assert!(document.pointer(place).is_some(), "{place}");
    }
    let mut schemas = Vec::new();
    all_of(&document, "schema", &mut schemas);
    let named = document["components"]["schemas"].as_object().unwrap();
    for schema in schemas.into_iter().chain(named.values()) {
        let whole =
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "allOf": [schema]});
        assert!(jsonschema::meta::is_valid(&whole), "{schema}");
    }
}

/// What is told of nothing but that it is an object.
#[test]
fn few_answers_are_free_objects() {
    let document = openapi::document();
    let mut free: Vec<_> = operations(&document)
        .into_iter()
        .filter(|(_, operation)| {
            let mut schemas = Vec::new();
            all_of(&operation["responses"], "schema", &mut schemas);
            let is_free = |schema: &&&Value| {
                schema["type"] == "object"
                    && schema.get("properties").is_none()
                    && schema["additionalProperties"] == json!(true)
            };
            schemas.iter().any(|schema| is_free(&schema))
        })
        .map(|(place, _)| place)
        .collect();
    free.sort();
    let expected = [
        "get /api/v1/user/{user}/jobs/{name}/config",
        "get /api/v2/jobs/{job}/config",
        "get /openapi.json",
    ];
    assert_eq!(free, expected);
}

#[test]
fn a_closed_schema_takes_no_other_field() {
    let mut schema = json!({
        "properties": {"a": {"properties": {"b": {"type": "string"}}}},
        "oneOf": [{"properties": {"c": {"const": 1}}}],
    });
    close(&mut schema);
    for (value, expect) in [
        (json!({"a": {"b": "x"}, "c": 1}), true),
        (json!({"a": {"b": "x", "d": 1}, "c": 1}), false),
        (json!({"c": 1, "d": 1}), false),
    ] {
        assert_eq!(jsonschema::is_valid(&schema, &value), expect, "{value}");
    }
}

//! `/openapi.json`: the API in the terms of OpenAPI 3.1, made of the table of routes, of the function next to each
//! handler that tells what it takes and answers, and of the types that are written.
//!
//! A pattern with several words for one place is one path, with the others in `x-aliases`: a client that is made
//! from the document has each operation once.

mod failures;
mod names;
mod route_doc;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use http::{Method, StatusCode};
use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::auth::RouteAccess;
use crate::error::{ApiError, ErrorBody, PrometheusError};
use crate::port::PortError;
use crate::route::{ROUTES, Route};

pub(crate) use failures::any;
use route_doc::{AnswerDoc, BodyDoc, ParameterDoc, ParameterPlace};
pub(crate) use route_doc::{FreeObject, HTML, JSON, NDJSON, RouteDoc, TEXT, YAML};

/// Fields of a body. They are read one by one (`fields.rs`), to complain about them as OpenPAI does: these types only
/// describe them, and tests hold what is taken against them.
macro_rules! body_fields {
    ($($(#[$about:meta])* $name:ident { $($(#[$field_about:meta])* $field:ident: $type:ty,)* })*) => {$(
        #[derive(JsonSchema)]
        #[schemars(deny_unknown_fields)]
        $(#[$about])*
        #[expect(dead_code, reason = "read field by field")]
        struct $name {
            $($(#[$field_about])* $field: $type,)*
        }
    )*};
}
pub(crate) use body_fields;

const ABOUT: &str = "OpenPAI's REST API of v1.8, and Muster's own routes below `/api/muster/v1`. Every member answers \
                     all of them. Paths match in any case, with or without a slash at the end, and also below \
                     `/rest-server`. `x-aliases` has other paths of the same operation. HEAD is answered like GET. \
                     Answers may get more fields: a client should pass over those that it does not know.";
/// Where the schemas are.
const SCHEMAS: &str = "/components/schemas";

/// The document as text, made once.
pub(crate) fn text() -> Bytes {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    TEXT.get_or_init(|| document().to_string().into()).clone()
}

/// The document.
pub(crate) fn document() -> Value {
    let mut parts = DocumentParts::new();
    let mut paths = Map::new();
    let described = |route: &'static Route| Some((route, route.about?));
    for (route, about) in ROUTES.iter().filter_map(described) {
        let operation = parts.operation(route, about);
        let place = paths.entry(names::path(route.pattern));
        place.or_insert_with(|| json!({}))[method_word(route)] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Muster", "version": env!("CARGO_PKG_VERSION"), "description": ABOUT},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "securitySchemes": security_schemes(),
            "responses": parts.failures,
            "schemas": parts.answers.take_definitions(true),
        },
    })
}

/// Where an operation is described.
#[cfg(test)]
pub(crate) fn place(route: &Route) -> (String, String) {
    (names::path(route.pattern), method_word(route))
}

/// What a route is described under. One that takes any method is read with GET.
fn method_word(route: &Route) -> String {
    let method = route.method.as_ref().unwrap_or(&Method::GET);
    method.as_str().to_lowercase()
}

fn security_schemes() -> Value {
    json!({
        "token": {
            "type": "http", "scheme": "bearer",
            "description": "A token of a login or of an application.",
        },
        "application": {
            "type": "http", "scheme": "basic",
            "description": "A user's name, and as the password an application token of theirs.",
        },
        "cookie": {
            "type": "apiKey", "in": "cookie", "name": "token",
            "description": "The token where OpenPAI's portal keeps it.",
        },
    })
}

fn security(access: RouteAccess) -> Value {
    match access {
        RouteAccess::Open => json!([]),
        RouteAccess::OpenOrUser => json!([{}, {"token": []}, {"application": []}]),
        RouteAccess::User | RouteAccess::Admin => json!([{"token": []}, {"application": []}]),
        RouteAccess::Browser => json!([{"token": []}, {"application": []}, {"cookie": []}]),
        RouteAccess::Person | RouteAccess::AdminPerson => json!([{"token": []}]),
        // Pages are not described.
        RouteAccess::Page | RouteAccess::AdminPage => json!([]),
    }
}

/// What fills up while operations are described.
struct DocumentParts {
    /// Schemas of what is written.
    answers: SchemaGenerator,
    /// Schemas of what is read, each whole where it is used.
    bodies: SchemaGenerator,
    /// Failures, by status and codes.
    failures: BTreeMap<String, Value>,
}

impl DocumentParts {
    fn new() -> Self {
        let at = |settings: &mut SchemaSettings| {
            settings.definitions_path = SCHEMAS.into();
            settings.meta_schema = None;
        };
        let settings = || SchemaSettings::draft2020_12().with(at);
        let whole = |settings: &mut SchemaSettings| settings.inline_subschemas = true;
        Self {
            answers: settings().for_serialize().into_generator(),
            bodies: settings().for_deserialize().with(whole).into_generator(),
            failures: BTreeMap::new(),
        }
    }

    fn operation(&mut self, route: &Route, about: fn() -> RouteDoc) -> Value {
        let doc = about();
        let mut operation = json!({
            "operationId": names::operation_id(route),
            "summary": doc.sentence,
            "description": description(route),
            "tags": [names::tag(route.pattern)],
            "security": security(route.access),
        });
        let aliases = names::aliases(route.pattern);
        if !aliases.is_empty() {
            operation["x-aliases"] = json!(aliases);
        }
        let own = doc.parameters.iter().map(|one| self.parameter(one));
        let parameters: Vec<Value> = path_parameters(route).into_iter().chain(own).collect();
        if !parameters.is_empty() {
            operation["parameters"] = json!(parameters);
        }
        if let Some(body) = &doc.body {
            operation["requestBody"] = self.body(body);
        }
        operation["responses"] = self.responses(route, &doc);
        operation
    }

    fn parameter(&mut self, doc: &ParameterDoc) -> Value {
        let place = match doc.place {
            ParameterPlace::Query => "query",
            ParameterPlace::Header => "header",
        };
        json!({
            "name": doc.name, "in": place, "required": doc.is_required, "description": doc.about,
            "schema": (doc.schema)(&mut self.bodies),
        })
    }

    fn body(&mut self, doc: &BodyDoc) -> Value {
        let mut schema = (doc.schema)(&mut self.bodies);
        without_null(&mut schema);
        let content = Map::from_iter([(doc.media.to_owned(), json!({ "schema": schema }))]);
        json!({"required": doc.is_required, "content": content})
    }

    fn responses(&mut self, route: &Route, doc: &RouteDoc) -> Value {
        let mut responses = Map::new();
        for answer in &doc.answers {
            let status = answer.status.as_str();
            let response = responses.entry(status);
            let response = response.or_insert_with(|| json!({"description": answer.about}));
            if let Some((media, content)) = self.answer(answer) {
                response["content"][media] = content;
            }
        }
        let mut failures = common_failures(route);
        failures.extend(doc.failures.iter());
        for (status, kinds) in by_status(&failures) {
            let name = self.failure(status, &kinds);
            let place = format!("#/components/responses/{name}");
            responses.insert(status.as_str().to_owned(), json!({ "$ref": place }));
        }
        responses.sort_keys();
        Value::Object(responses)
    }

    fn answer(&mut self, doc: &AnswerDoc) -> Option<(&'static str, Value)> {
        let body = doc.body.as_ref()?;
        let schema = (body.schema)(&mut self.answers);
        let content = match body.media {
            NDJSON => json!({"schema": {"type": "string"}, "x-itemSchema": schema}),
            _ => json!({ "schema": schema }),
        };
        Some((body.media, content))
    }

    /// Describes the failures of one status, if the same were not before. Their name.
    fn failure(&mut self, status: StatusCode, kinds: &[&ApiError]) -> String {
        let mut codes: Vec<_> = kinds.iter().map(|kind| kind.code().1).collect();
        codes.sort_unstable();
        codes.dedup();
        let is_bare = kinds
            .iter()
            .any(|kind| matches!(kind, ApiError::TooMany { .. }));
        let is_figures = kinds
            .iter()
            .any(|kind| matches!(kind, ApiError::Figures(_)));
        let mut parts = vec![status.as_str()];
        parts.extend(codes.iter().map(|code| code.unwrap_or("NoCode")));
        parts.extend(is_figures.then_some("Figures"));
        let name = parts.join(".");
        if !self.failures.contains_key(&name) {
            let mut content = Map::new();
            if is_bare {
                content.insert(HTML.to_owned(), json!({"schema": {"type": "string"}}));
            }
            let is_json = |kind: &&&ApiError| !matches!(kind, ApiError::TooMany { .. });
            if kinds.iter().any(|kind| is_json(&kind)) {
                let schema = self.error_schema(kinds, &codes);
                content.insert(JSON.to_owned(), json!({ "schema": schema }));
            }
            let reason = status.canonical_reason().unwrap_or_default();
            let response = json!({"description": format!("{reason}."), "content": content});
            self.failures.insert(name.clone(), response);
        }
        name
    }

    fn error_schema(&mut self, kinds: &[&ApiError], codes: &[Option<&str>]) -> Value {
        let figures = self.answers.subschema_for::<PrometheusError>();
        if kinds
            .iter()
            .all(|kind| matches!(kind, ApiError::Figures(_)))
        {
            return figures.to_value();
        }
        let named: Vec<&str> = codes.iter().copied().flatten().collect();
        if named.is_empty() {
            return self.answers.subschema_for::<ErrorBody>().to_value();
        }
        let mut rule = json!({"properties": {"code": {"enum": named}}});
        if !codes.contains(&None) {
            rule["required"] = json!(["code"]);
        }
        let usual = json!({"allOf": [self.answers.subschema_for::<ErrorBody>(), rule]});
        let is_figures = kinds
            .iter()
            .any(|kind| matches!(kind, ApiError::Figures(_)));
        match is_figures {
            true => json!({"anyOf": [usual, figures]}),
            false => usual,
        }
    }
}

/// What may be absent from a body may not be null there. Any value is written as `{}`: makers of clients do not know
/// `true`.
fn without_null(schema: &mut Schema) {
    if schema.as_bool() == Some(true) {
        *schema = Schema::default();
    }
    if let Some(types) = schema.get_mut("type") {
        let others = types.as_array().into_iter().flatten();
        let mut others = others.filter(|one| *one != "null").cloned();
        if let (Some(one), None) = (others.next(), others.next()) {
            *types = one;
        }
    }
    transform_subschemas(&mut without_null, schema);
}

/// Who may ask, as people read it.
fn description(route: &Route) -> String {
    let who = match route.access {
        RouteAccess::Open => "Anybody may ask.",
        RouteAccess::OpenOrUser => "Anybody may ask; a token shows what its user sees besides.",
        RouteAccess::User | RouteAccess::Browser => "Any user may ask.",
        RouteAccess::Page | RouteAccess::Person => {
            "Any user may ask, but not with an application token."
        }
        RouteAccess::Admin => "Admins may ask.",
        RouteAccess::AdminPage | RouteAccess::AdminPerson => {
            "Admins may ask, but not with an application token."
        }
    };
    match route.method {
        None => format!("{who} Any method is answered like this."),
        Some(_) => who.to_owned(),
    }
}

fn path_parameters(route: &Route) -> Vec<Value> {
    let names = names::parameters(route.pattern).into_iter();
    names
        .map(|name| {
            let (about, is_number) = names::parameter(name);
            let schema = match is_number {
                true => json!({"type": "integer", "minimum": 0}),
                false => json!({"type": "string", "minLength": 1}),
            };
            json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema})
        })
        .collect()
}

/// What comes before the handler.
fn common_failures(route: &Route) -> Vec<&'static ApiError> {
    static COMMON: OnceLock<[ApiError; 6]> = OnceLock::new();
    let [rate, path, guest, cluster, application, admin] = COMMON.get_or_init(|| {
        [
            ApiError::TooMany {
                limit: 0,
                reset_s: 0,
            },
            ApiError::NoApi(any()),
            ApiError::Guest,
            PortError::Unavailable(any()).into(),
            ApiError::ApplicationToken,
            ApiError::NotAdmin,
        ]
    });
    let mut failures = vec![rate];
    if !names::parameters(route.pattern).is_empty() {
        // A name that is no UTF-8, or too long.
        failures.push(path);
    }
    match route.access {
        RouteAccess::Open => return failures,
        RouteAccess::OpenOrUser => {
            failures.push(cluster);
            return failures;
        }
        RouteAccess::User | RouteAccess::Browser => {}
        RouteAccess::Page | RouteAccess::Person => failures.push(application),
        RouteAccess::Admin => failures.push(admin),
        RouteAccess::AdminPage | RouteAccess::AdminPerson => {
            failures.extend([application, admin]);
        }
    }
    failures.extend([guest, cluster]);
    failures
}

fn by_status<'e>(failures: &[&'e ApiError]) -> BTreeMap<StatusCode, Vec<&'e ApiError>> {
    let mut all: BTreeMap<StatusCode, Vec<&ApiError>> = BTreeMap::new();
    for failure in failures {
        all.entry(failure.code().0).or_default().push(failure);
    }
    all
}

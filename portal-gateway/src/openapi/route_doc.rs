//! What the description of the API tells of one route, as the function next to its handler says it.

use http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

use crate::error::ApiError;

/// Media types of bodies.
pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain";
pub(crate) const HTML: &str = "text/html";
pub(crate) const YAML: &str = "text/yaml";
/// One JSON text a line.
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// Makes the schema of a type, and of those it is made of.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// An answer, or a part of one, of which nothing is told but that it is a JSON object.
pub(crate) type FreeObject = Map<String, Value>;

/// One route: what it does, what it takes and what it answers.
pub(crate) struct RouteDoc {
    /// What it does, in one sentence.
    pub(crate) sentence: &'static str,
    pub(crate) parameters: Vec<ParameterDoc>,
    pub(crate) body: Option<BodyDoc>,
    pub(crate) answers: Vec<AnswerDoc>,
    /// One of each kind that it may answer, besides those that its access and its rate bring about.
    pub(crate) failures: Vec<ApiError>,
}

/// A parameter that is not in the path.
pub(crate) struct ParameterDoc {
    pub(crate) place: ParameterPlace,
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) is_required: bool,
    pub(crate) schema: SchemaOf,
}

/// Where a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterPlace {
    Query,
    Header,
}

/// The body of a request.
pub(crate) struct BodyDoc {
    pub(crate) media: &'static str,
    pub(crate) schema: SchemaOf,
    pub(crate) is_required: bool,
}

/// One answer that is no failure.
pub(crate) struct AnswerDoc {
    pub(crate) status: StatusCode,
    pub(crate) about: &'static str,
    /// None: without a body.
    pub(crate) body: Option<AnswerBodyDoc>,
}

/// The body of an answer.
pub(crate) struct AnswerBodyDoc {
    pub(crate) media: &'static str,
    /// Of a line, where the body has one JSON text a line.
    pub(crate) schema: SchemaOf,
}

impl RouteDoc {
    pub(crate) const fn new(sentence: &'static str) -> Self {
        Self {
            sentence,
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// A parameter of the query that may be absent.
    pub(crate) fn query<T: JsonSchema>(mut self, name: &'static str, about: &'static str) -> Self {
        self.parameters.push(ParameterDoc {
            place: ParameterPlace::Query,
            name,
            about,
            is_required: false,
            schema: SchemaGenerator::subschema_for::<T>,
        });
        self
    }

    /// A parameter of the query that must be there.
    pub(crate) fn needed_query<T: JsonSchema>(
        self,
        name: &'static str,
        about: &'static str,
    ) -> Self {
        let mut doc = self.query::<T>(name, about);
        if let Some(last) = doc.parameters.last_mut() {
            last.is_required = true;
        }
        doc.fails([ApiError::Parameters(String::new())])
    }

    /// A header that may be absent.
    pub(crate) fn header(mut self, name: &'static str, about: &'static str) -> Self {
        self.parameters.push(ParameterDoc {
            place: ParameterPlace::Header,
            name,
            about,
            is_required: false,
            schema: SchemaGenerator::subschema_for::<String>,
        });
        self
    }

    /// A body of JSON with these fields. Without one, all of them are absent.
    pub(crate) fn fields<T: JsonSchema>(self) -> Self {
        self.body::<T>(JSON).fails([
            ApiError::Parameters(String::new()),
            ApiError::Syntax(String::new()),
        ])
    }

    /// The same where all fields may be absent.
    pub(crate) fn optional_fields<T: JsonSchema>(self) -> Self {
        let mut doc = self.fields::<T>();
        if let Some(body) = &mut doc.body {
            body.is_required = false;
        }
        doc
    }

    /// A body that is read whole.
    pub(crate) fn body<T: JsonSchema>(mut self, media: &'static str) -> Self {
        self.body = Some(BodyDoc {
            media,
            schema: SchemaGenerator::subschema_for::<T>,
            is_required: true,
        });
        self.fails([
            ApiError::Inflate(String::new()),
            ApiError::Slow,
            ApiError::TooLarge { limit: 0 },
            ApiError::Encoding(String::new()),
        ])
    }

    /// JSON, 200.
    pub(crate) fn json<T: JsonSchema>(self) -> Self {
        self.answer::<T>(StatusCode::OK, JSON)
    }

    /// A body of this type.
    pub(crate) fn answer<T: JsonSchema>(mut self, status: StatusCode, media: &'static str) -> Self {
        let schema = SchemaGenerator::subschema_for::<T>;
        self.answers.push(AnswerDoc {
            status,
            about: "Done.",
            body: Some(AnswerBodyDoc { media, schema }),
        });
        self
    }

    /// No body.
    pub(crate) fn empty(mut self, status: StatusCode, about: &'static str) -> Self {
        self.answers.push(AnswerDoc {
            status,
            about,
            body: None,
        });
        self
    }

    /// The answer has a tag for conditional requests.
    pub(crate) fn tagged(self) -> Self {
        self.header(
            "If-None-Match",
            "The `ETag` of an answer that the client has: 304 if it is still the same.",
        )
        .empty(
            StatusCode::NOT_MODIFIED,
            "The client has the answer already.",
        )
    }

    /// What it may fail with: one of each kind.
    pub(crate) fn fails<E: Into<ApiError>>(mut self, errors: impl IntoIterator<Item = E>) -> Self {
        self.failures.extend(errors.into_iter().map(Into::into));
        self
    }
}

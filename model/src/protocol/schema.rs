//! The part of JSON Schema that upstream's schemas use, with ajv 6's errors: same keywords,
//! same words, same order, every error at once.

use serde_json::{Value, json};

use super::problem::ProblemAdvice;
use super::{JobProblem, advice};

/// So many problems are told at most; a broken document can have one per line.
const PROBLEMS_MAX: usize = 100;

/// JSON Schema's types.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Type {
    const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    fn admits(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Boolean => value.is_boolean(),
            Self::Integer => is_integer(value),
            Self::Number => value.is_number(),
            Self::String => value.is_string(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

/// Floats without a fraction are integers, as in JavaScript.
fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// The patterns upstream asks for, matched by hand.
#[derive(Clone, Copy)]
pub(super) enum TextPattern {
    /// Names of jobs, prerequisites and deployments.
    Name,
    /// A C identifier: task roles and port labels.
    Identifier,
    /// What the hived section admits as a task role.
    HivedRole,
}

impl TextPattern {
    pub(super) const fn source(self) -> &'static str {
        match self {
            Self::Name => "^[a-zA-Z0-9_-]+$",
            Self::Identifier => "^[a-zA-Z_][a-zA-Z0-9_]*$",
            Self::HivedRole => "^[A-Za-z0-9._~]+$",
        }
    }

    /// The source as ajv writes it into a `schemaPath`.
    const fn escaped(self) -> &'static str {
        match self {
            Self::Name => "%5E%5Ba-zA-Z0-9_-%5D%2B%24",
            Self::Identifier => "%5E%5Ba-zA-Z_%5D%5Ba-zA-Z0-9_%5D*%24",
            Self::HivedRole => "%5E%5BA-Za-z0-9._~%5D%2B%24",
        }
    }

    pub(super) fn matches(self, text: &str) -> bool {
        let extra: &[u8] = match self {
            Self::Name => b"_-",
            Self::Identifier => b"_",
            Self::HivedRole => b"._~",
        };
        let digit_first = text.as_bytes().first().is_some_and(u8::is_ascii_digit);
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || extra.contains(&b))
            && !(digit_first && matches!(self, Self::Identifier))
    }
}

/// A schema. Every keyword that is not set admits everything.
#[derive(Clone, Default)]
pub(super) struct Schema {
    /// `type`.
    pub(super) types: Vec<Type>,
    /// `enum`.
    pub(super) choices: Vec<Value>,
    /// `pattern`.
    pub(super) pattern: Option<TextPattern>,
    /// `maxLength`.
    pub(super) max_length: Option<usize>,
    /// `minimum`.
    pub(super) minimum: Option<i64>,
    /// `maximum`.
    pub(super) maximum: Option<i64>,
    /// `items`.
    pub(super) items: Option<Box<Schema>>,
    /// `minItems` or `minProperties`.
    pub(super) min_size: usize,
    /// `properties`.
    pub(super) properties: Vec<(&'static str, Schema)>,
    /// `patternProperties`.
    pub(super) named: Option<(TextPattern, Box<Schema>)>,
    /// `additionalProperties: false`.
    pub(super) closed: bool,
    /// `required`; each one also stands in `properties`.
    pub(super) required: &'static [&'static str],
    /// `oneOf`.
    pub(super) one_of: Vec<Schema>,
    /// Stands under a `$merge` of ajv-merge-patch, which adds an error of its own.
    pub(super) merged: bool,
    /// What is written there may be a secret, and is not repeated.
    pub(super) hides: bool,
    /// Where the schema is defined, if it is referred to by `$ref`.
    pub(super) reference: Option<&'static str>,
}

/// The field that says which of several shapes a value has.
const KIND: &str = "type";

/// A place in the document and in the schema.
#[derive(Clone)]
struct SchemaPath {
    path: String,
    schema_path: String,
}

impl SchemaPath {
    fn below(&self, path: &str, schema_path: &str) -> Self {
        Self {
            path: format!("{}{path}", self.path),
            schema_path: format!("{}/{schema_path}", self.schema_path),
        }
    }

    fn problem(&self, keyword: &str, params: &Value, message: String) -> JobProblem {
        JobProblem {
            path: self.path.clone(),
            message,
            keyword: Some(keyword.to_owned()),
            schema_path: Some(format!("{}/{keyword}", self.schema_path).into()),
            params: Some(params.to_string().into()),
            advice: ProblemAdvice::AsIs,
        }
    }
}

/// The problems found so far, up to a limit.
#[derive(Default)]
struct SchemaFindings {
    problems: Vec<JobProblem>,
    untold: usize,
}

impl SchemaFindings {
    fn add(&mut self, problem: JobProblem) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        } else {
            self.untold += 1;
        }
    }

    fn count(&self) -> usize {
        self.problems.len() + self.untold
    }

    fn append(&mut self, other: Self) {
        self.untold += other.untold;
        other
            .problems
            .into_iter()
            .for_each(|problem| self.add(problem));
    }

    /// Has what was found since then say nothing to people.
    fn silence_from(&mut self, count: usize) {
        for problem in self.problems.iter_mut().skip(count) {
            problem.advice = ProblemAdvice::Nothing;
        }
    }

    fn tell(mut self) -> Vec<JobProblem> {
        if self.untold > 0 {
            let message = format!("There are {} more problems.", self.untold);
            self.problems.push(JobProblem::at("", message));
        }
        self.problems
    }
}

impl Schema {
    /// Everything in `value` that the schema does not admit.
    pub(super) fn check(&self, value: &Value) -> Vec<JobProblem> {
        let mut found = SchemaFindings::default();
        let spot = SchemaPath {
            path: String::new(),
            schema_path: "#".to_owned(),
        };
        self.check_at(&spot, value, &mut found);
        found.tell()
    }

    fn check_at(&self, spot: &SchemaPath, value: &Value, found: &mut SchemaFindings) {
        let before = found.count();
        let spot = &match self.reference {
            Some(target) => SchemaPath {
                path: spot.path.clone(),
                schema_path: target.to_owned(),
            },
            None => spot.clone(),
        };
        if self.types.is_empty() || self.types.iter().any(|t| t.admits(value)) {
            self.check_content(spot, value, found);
        } else {
            let names: Vec<&str> = self.types.iter().map(|t| t.name()).collect();
            let names = names.join(",");
            let message = format!("should be {names}");
            let problem = spot.problem("type", &json!({ "type": names }), message);
            let words = match self.hides {
                true => advice::wrong_type_of_secret(&self.types),
                false => advice::wrong_type(value, &self.types),
            };
            found.add(problem.advised("", words));
        }
        if !self.choices.is_empty() && !self.choices.contains(value) {
            let message = "should be equal to one of the allowed values".to_owned();
            let params = json!({ "allowedValues": self.choices });
            let problem = spot.problem("enum", &params, message);
            found.add(problem.advised("", advice::no_choice(value, &self.choices)));
        }
        if !self.one_of.is_empty() {
            self.check_one_of(spot, value, found);
        }
        if self.merged && found.count() > before {
            let message = "should pass \"$merge\" keyword validation".to_owned();
            let problem = spot.problem("$merge", &json!({ "keyword": "$merge" }), message);
            found.add(problem.silent());
        }
    }

    fn check_content(&self, spot: &SchemaPath, value: &Value, found: &mut SchemaFindings) {
        match value {
            Value::Number(_) => self.check_number(spot, value, found),
            Value::String(text) => self.check_string(spot, text, found),
            Value::Array(items) => self.check_array(spot, items, found),
            Value::Object(fields) => self.check_object(spot, fields, found),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_number(&self, spot: &SchemaPath, value: &Value, found: &mut SchemaFindings) {
        let mut bound = |keyword: &str, sign: &str, limit: i64| {
            let params = json!({ "comparison": sign, "limit": limit, "exclusive": false });
            let problem = spot.problem(keyword, &params, format!("should be {sign} {limit}"));
            found.add(problem.advised("", advice::out_of_bounds(value, sign, limit)));
        };
        if let Some(limit) = self.maximum.filter(|limit| exceeds(value, *limit)) {
            bound("maximum", "<=", limit);
        }
        if let Some(limit) = self.minimum.filter(|limit| undercuts(value, *limit)) {
            bound("minimum", ">=", limit);
        }
    }

    fn check_string(&self, spot: &SchemaPath, text: &str, found: &mut SchemaFindings) {
        if let Some(limit) = self
            .max_length
            .filter(|limit| text.chars().count() > *limit)
        {
            let message = format!("should NOT be longer than {limit} characters");
            let problem = spot.problem("maxLength", &json!({ "limit": limit }), message);
            found.add(problem.advised("", advice::too_long(text, limit)));
        }
        if let Some(pattern) = self.pattern.filter(|pattern| !pattern.matches(text)) {
            let message = format!("should match pattern \"{}\"", pattern.source());
            let params = json!({ "pattern": pattern.source() });
            let problem = spot.problem("pattern", &params, message);
            found.add(problem.advised("", advice::bad_name(text, pattern)));
        }
    }

    fn check_array(&self, spot: &SchemaPath, items: &[Value], found: &mut SchemaFindings) {
        if items.len() < self.min_size {
            found.add(self.too_small(spot, "minItems", "items"));
        }
        if let Some(schema) = &self.items {
            for (index, item) in items.iter().enumerate() {
                schema.check_at(&spot.below(&format!("[{index}]"), "items"), item, found);
            }
        }
    }

    fn check_object(
        &self,
        spot: &SchemaPath,
        fields: &serde_json::Map<String, Value>,
        found: &mut SchemaFindings,
    ) {
        if fields.len() < self.min_size {
            found.add(self.too_small(spot, "minProperties", "properties"));
        }
        for name in fields
            .keys()
            .filter(|name| self.closed && !self.knows(name))
        {
            let message = "should NOT have additional properties".to_owned();
            let params = json!({ "additionalProperty": name });
            let problem = spot.problem("additionalProperties", &params, message);
            let words = match self.named {
                Some((pattern, _)) => advice::bad_name(name, pattern),
                None => advice::unknown_key(name, &self.known()),
            };
            found.add(problem.advised(&format!(".{}", advice::excerpt(name)), words));
        }
        for (name, schema) in &self.properties {
            if let Some(value) = fields.get(*name) {
                let spot = spot.below(&format!(".{name}"), &format!("properties/{name}"));
                schema.check_at(&spot, value, found);
            } else if self.required.contains(name) {
                let message = format!("should have required property '{name}'");
                let problem =
                    spot.problem("required", &json!({ "missingProperty": name }), message);
                found.add(problem.advised(&format!(".{name}"), "is missing"));
            }
        }
        if let Some((pattern, schema)) = &self.named {
            for (name, value) in fields.iter().filter(|(name, _)| pattern.matches(name)) {
                let keyword = format!("patternProperties/{}", pattern.escaped());
                schema.check_at(&spot.below(&format!(".{name}"), &keyword), value, found);
            }
        }
    }

    fn check_one_of(&self, spot: &SchemaPath, value: &Value, found: &mut SchemaFindings) {
        let mut inside = SchemaFindings::default();
        let mut passing = Vec::new();
        let meant = self.branch_of(value);
        for (index, schema) in self.one_of.iter().enumerate() {
            let before = inside.count();
            schema.check_at(
                &spot.below("", &format!("oneOf/{index}")),
                value,
                &mut inside,
            );
            if inside.count() == before {
                passing.push(index);
            }
            if meant != Some(index) {
                inside.silence_from(before);
            }
        }
        if passing.len() == 1 {
            return;
        }
        found.append(inside);
        let passing = if passing.is_empty() {
            Value::Null
        } else {
            json!(passing)
        };
        let message = "should match exactly one schema in oneOf".to_owned();
        let problem = spot.problem("oneOf", &json!({ "passingSchemas": passing }), message);
        found.add(match meant {
            None if value.is_object() => {
                let words = self.no_branch(value.get(KIND).unwrap_or(&Value::Null));
                problem.advised(&format!(".{KIND}"), words)
            }
            _ => problem.silent(),
        });
    }

    /// The one of several shapes that `type` of the value names.
    fn branch_of(&self, value: &Value) -> Option<usize> {
        let kind = value.get(KIND)?;
        let mut branches = self.one_of.iter();
        branches.position(|branch| branch.kinds().contains(kind))
    }

    fn kinds(&self) -> &[Value] {
        let mut properties = self.properties.iter();
        let kind = properties.find(|(name, _)| *name == KIND);
        kind.map_or(&[], |(_, schema)| schema.choices.as_slice())
    }

    fn no_branch(&self, kind: &Value) -> String {
        let kinds = self.one_of.iter().flat_map(Self::kinds).cloned();
        advice::no_choice(kind, &kinds.collect::<Vec<_>>())
    }

    fn known(&self) -> Vec<&'static str> {
        self.properties.iter().map(|(name, _)| *name).collect()
    }

    fn knows(&self, name: &str) -> bool {
        self.properties.iter().any(|(known, _)| *known == name)
            || self
                .named
                .as_ref()
                .is_some_and(|(pattern, _)| pattern.matches(name))
    }

    fn too_small(&self, spot: &SchemaPath, keyword: &str, things: &str) -> JobProblem {
        let message = format!("should NOT have fewer than {} {things}", self.min_size);
        let problem = spot.problem(keyword, &json!({ "limit": self.min_size }), message);
        problem.advised("", advice::too_small(self.min_size, things))
    }
}

fn exceeds(value: &Value, limit: i64) -> bool {
    match value.as_i64() {
        Some(integer) => integer > limit,
        None => value.is_u64() || value.as_f64().is_some_and(|float| float > 0.0),
    }
}

fn undercuts(value: &Value, limit: i64) -> bool {
    match value.as_i64() {
        Some(integer) => integer < limit,
        None => value.as_f64().is_some_and(|float| float < 0.0),
    }
}

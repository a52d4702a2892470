//! Upstream's templates: mustache with `<%` and `%>`, of which only plain references count.
//!
//! A reference that nothing is known for is written out again, so `<% $secrets.x %>` reaches
//! the node. Comments, sections and partials vanish, as they do upstream.

use serde_json::Value;

use super::js_text;

/// Most text, in bytes, that all templates of a job may render to, secrets put in.
pub const RENDERED_BYTES_MAX: usize = 4 << 20;

pub(super) const OPEN: &str = "<%";
pub(super) const CLOSE: &str = "%>";

/// Why a template cannot be rendered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateError {
    #[error("The tag <% {0} is not closed with %>.")]
    Unclosed(String),
    #[error("The section <%# {0} %> is not closed.")]
    UnclosedSection(String),
    #[error("The tag <%/ {0} %> closes no open section.")]
    UnopenedSection(String),
    #[error("The tag <%= {0} %> is not supported; write <% $parameters.name %>.")]
    Delimiters(String),
    #[error("The rendered commands of all task roles exceed {RENDERED_BYTES_MAX} bytes.")]
    TooLong,
}

/// How much may still be rendered.
pub(super) struct RenderBudget(usize);

impl RenderBudget {
    pub(super) const fn whole_job() -> Self {
        Self(RENDERED_BYTES_MAX)
    }

    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), TemplateError> {
        self.0 = self.0.checked_sub(bytes).ok_or(TemplateError::TooLong)?;
        Ok(())
    }
}

/// What references may point into.
#[derive(Clone, Copy, Default)]
pub(super) struct Scope<'a> {
    pub(super) parameters: Option<&'a Value>,
    pub(super) script: Option<&'a Value>,
    pub(super) output: Option<&'a Value>,
    pub(super) data: Option<&'a Value>,
}

impl<'a> Scope<'a> {
    /// The roots of references, without their `$`.
    pub(super) const FIELDS: [&'static str; 4] = ["parameters", "script", "output", "data"];

    /// What a reference stands for: the dotted one, `$parameters.list.0`.
    pub(super) fn lookup(&self, reference: &str) -> Option<String> {
        let mut parts = reference.split('.');
        let root = self.root(parts.next()?);
        js_text::of(parts.try_fold(root?, step)?)
    }

    /// What the references of a root point into: `$parameters`.
    pub(super) fn root(&self, root: &str) -> Option<&'a Value> {
        match root {
            "$parameters" => self.parameters,
            "$script" => self.script,
            "$output" => self.output,
            "$data" => self.data,
            _ => None,
        }
    }

    /// Whether there is nothing to point into.
    pub(super) fn is_empty(&self) -> bool {
        let roots = [self.parameters, self.script, self.output, self.data];
        roots.iter().all(Option::is_none)
    }
}

fn step<'a>(value: &'a Value, part: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(part),
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => None,
    }
}

/// The references of a template, as they are written.
pub(super) fn references(text: &str) -> Result<Vec<&str>, TemplateError> {
    let pieces = pieces(text)?.into_iter();
    let references = pieces.filter_map(|piece| match piece {
        Piece::Reference(reference) => Some(reference),
        Piece::Text(_) => None,
    });
    Ok(references.collect())
}

/// Renders a template and trims the result.
pub(super) fn render(
    text: &str,
    scope: &Scope,
    budget: &mut RenderBudget,
) -> Result<String, TemplateError> {
    let mut out = String::new();
    for piece in pieces(text)? {
        let rendered = match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Reference(reference) => {
                let dotted = with_dots(reference);
                let known = scope.lookup(&dotted);
                known.unwrap_or_else(|| format!("{OPEN} {dotted} {CLOSE}"))
            }
        };
        budget.spend(rendered.len())?;
        out.push_str(&rendered);
    }
    Ok(out.trim().to_owned())
}

/// `a[0].b` as `a.0.b`, the way references are looked up.
pub(super) fn with_dots(reference: &str) -> String {
    let mut out = String::with_capacity(reference.len());
    let mut rest = reference;
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        match after.split_once(']') {
            Some((index, tail)) if is_index(index) => {
                out.push('.');
                out.push_str(index);
                rest = tail;
            }
            _ => {
                out.push('[');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn is_index(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[derive(Debug, PartialEq, Eq)]
enum Piece<'t> {
    Text(&'t str),
    Reference(&'t str),
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    let mut found = Vec::new();
    let mut sections: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        let Some((tag, tail)) = after.split_once(CLOSE) else {
            return Err(TemplateError::Unclosed(excerpt(after)));
        };
        let shown = sections.is_empty();
        if shown {
            found.push(Piece::Text(before));
        }
        let tag = tag.trim();
        let mut letters = tag.chars();
        match letters.next() {
            Some('#' | '^') => sections.push(letters.as_str().trim()),
            Some('/') => {
                let name = letters.as_str().trim();
                if sections.pop() != Some(name) {
                    return Err(TemplateError::UnopenedSection(excerpt(name)));
                }
            }
            Some('=') => return Err(TemplateError::Delimiters(excerpt(letters.as_str()))),
            Some('!' | '>' | '&' | '{') => {}
            _ if shown => found.push(Piece::Reference(tag)),
            _ => {}
        }
        rest = tail;
    }
    if let Some(name) = sections.pop() {
        return Err(TemplateError::UnclosedSection(excerpt(name)));
    }
    found.push(Piece::Text(rest));
    Ok(found)
}

/// The first tag that would vanish without being a comment.
pub(super) fn dropped(text: &str) -> Option<String> {
    let tags = text.split(OPEN).skip(1);
    let mut tags = tags.filter_map(|after| Some(after.split_once(CLOSE)?.0.trim()));
    let tag = tags.find(|tag| tag.starts_with(['#', '^', '>', '&', '{']));
    tag.map(excerpt)
}

/// The beginning of a text, for an error message.
fn excerpt(text: &str) -> String {
    const EXCERPT_CHARS: usize = 40;
    text.trim().chars().take(EXCERPT_CHARS).collect()
}

//! Where the parts of a YAML text stand.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::problem::RuleProblem;

/// A part of the text, of which only the shape is kept.
#[derive(Debug)]
enum YamlPart {
    Map(BTreeMap<String, Spanned<YamlPart>>),
    List(Vec<Spanned<YamlPart>>),
    Scalar,
}

/// Says of each problem in which line it is. A part that is missing is told of where it should be.
pub(super) fn add_lines(text: &str, problems: &mut [RuleProblem]) {
    let Ok(root) = serde_saphyr::from_str::<Spanned<YamlPart>>(text) else {
        return;
    };
    for problem in problems
        .iter_mut()
        .filter(|problem| !problem.path.is_empty())
    {
        problem.line = Some(line(&root, &problem.path));
    }
}

/// The line of the deepest part of a path that is there, such as `spec[3].pattern.userLogRegex`.
fn line(root: &Spanned<YamlPart>, path: &str) -> u64 {
    let steps = path.split(['.', '[']).filter(|step| !step.is_empty());
    let mut part = root;
    for step in steps {
        let next = match &part.value {
            YamlPart::Map(parts) => parts.get(step),
            YamlPart::List(parts) => {
                let index = step.trim_end_matches(']').parse::<usize>().ok();
                index.and_then(|index| parts.get(index))
            }
            YamlPart::Scalar => None,
        };
        match next {
            Some(next) => part = next,
            None => break,
        }
    }
    part.referenced.line()
}

impl<'de> Deserialize<'de> for YamlPart {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = YamlPart;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlPart, A::Error> {
        let mut parts = BTreeMap::new();
        while let Some((key, part)) = map.next_entry::<String, Spanned<YamlPart>>()? {
            parts.insert(key, part);
        }
        Ok(YamlPart::Map(parts))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<YamlPart, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = list.next_element::<Spanned<YamlPart>>()? {
            parts.push(part);
        }
        Ok(YamlPart::List(parts))
    }

    fn visit_bool<E>(self, _: bool) -> Result<YamlPart, E> {
        Ok(YamlPart::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<YamlPart, E> {
        Ok(YamlPart::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<YamlPart, E> {
        Ok(YamlPart::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<YamlPart, E> {
        Ok(YamlPart::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<YamlPart, E> {
        Ok(YamlPart::Scalar)
    }

    fn visit_unit<E>(self) -> Result<YamlPart, E> {
        Ok(YamlPart::Scalar)
    }

    fn visit_none<E>(self) -> Result<YamlPart, E> {
        Ok(YamlPart::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, input: D) -> Result<YamlPart, D::Error> {
        YamlPart::deserialize(input)
    }
}

//! In which order jobs are listed: upstream's, with its quirks.

use std::cmp::Ordering;

use crate::row::JobRow;
use crate::state::PriorityClass;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Field {
    Name,
    Submitted,
    User,
    Vc,
    Retries,
    Tasks,
    Gpus,
    State,
    Completed,
    Priority,
}

/// By what a listing is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobOrder {
    field: Field,
    descending: bool,
}

/// Fields by the names that users give them.
const FIELDS: [(&str, Field); 10] = [
    ("jobName", Field::Name),
    ("submissionTime", Field::Submitted),
    ("username", Field::User),
    ("vc", Field::Vc),
    ("retries", Field::Retries),
    ("totalTaskNumber", Field::Tasks),
    ("totalGpuNumber", Field::Gpus),
    ("state", Field::State),
    ("completionTime", Field::Completed),
    ("jobPriority", Field::Priority),
];

impl Default for JobOrder {
    /// The newest first.
    fn default() -> Self {
        Self {
            field: Field::Submitted,
            descending: true,
        }
    }
}

impl JobOrder {
    /// The order that `FIELD,ASC` or `FIELD,DESC` names.
    pub fn parse(text: &str) -> Option<Self> {
        let (field, direction) = text.split_once(',')?;
        let (_, field) = FIELDS.into_iter().find(|(name, _)| *name == field)?;
        let descending = match direction {
            "ASC" => false,
            "DESC" => true,
            _ => return None,
        };
        Some(Self { field, descending })
    }

    /// The fields that jobs can be sorted by.
    pub fn fields() -> [&'static str; 10] {
        FIELDS.map(|(name, _)| name)
    }

    /// Equal jobs go by submission and name, so that pages never overlap.
    pub fn compare<R: JobRow>(&self, a: &R, b: &R) -> Ordering {
        let order = self.field.compare(a, b);
        let order = if self.descending {
            order.reverse()
        } else {
            order
        };
        order
            .then_with(|| b.submitted().cmp(&a.submitted()))
            .then_with(|| a.key().cmp(b.key()))
    }
}

impl Field {
    fn compare<R: JobRow>(self, a: &R, b: &R) -> Ordering {
        match self {
            Self::Name => a.key().name.cmp(&b.key().name),
            Self::Submitted => a.submitted().cmp(&b.submitted()),
            Self::User => a.key().user.cmp(&b.key().user),
            Self::Vc => a.vc().cmp(b.vc()),
            Self::Retries => a.retries().cmp(&b.retries()),
            Self::Tasks => a.tasks().cmp(&b.tasks()),
            Self::Gpus => a.gpus().cmp(&b.gpus()),
            Self::State => a.state().as_str().cmp(b.state().as_str()),
            Self::Completed => nulls_last(a.completed(), b.completed()),
            Self::Priority => {
                let name = |job: &R| job.priority().map(PriorityClass::as_str);
                nulls_last(name(a), name(b))
            }
        }
    }
}

/// Ascending; what is missing comes last, and so first when the order is turned around.
fn nulls_last<T: Ord>(a: Option<T>, b: Option<T>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

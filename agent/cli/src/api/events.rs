//! Events of a job, in OpenPAI's shape.

use muster_model::id::JobKey;
use serde::{Deserialize, Serialize};

use super::Api;
use crate::error::CliError;

/// An event.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedEvent {
    pub(crate) uid: String,
    #[serde(rename = "taskroleName")]
    task_role_name: Option<String>,
    task_index: Option<u32>,
    /// `Warning` or `Normal`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    first_timestamp: String,
    pub(crate) last_timestamp: String,
    pub(crate) count: u32,
    pub(crate) source_host: Option<String>,
}

impl ListedEvent {
    pub(crate) fn is_warning(&self) -> bool {
        self.kind == "Warning"
    }

    /// `role:index`; empty where it is about all of the job.
    pub(crate) fn task(&self) -> String {
        match (&self.task_role_name, self.task_index) {
            (Some(role), Some(index)) => format!("{role}:{index}"),
            _ => String::new(),
        }
    }

    /// `2026-11-20 11:21:27 UTC`
    pub(crate) fn when(&self) -> String {
        match self.last_timestamp.split_once('.') {
            Some((second, _)) => format!("{} UTC", second.replace('T', " ")),
            None => self.last_timestamp.clone(),
        }
    }
}

#[derive(Deserialize)]
struct EventListing {
    data: Vec<ListedEvent>,
}

impl Api {
    /// The events of a job, the oldest first.
    pub(crate) async fn events(
        &self,
        key: &JobKey,
        only_warnings: bool,
    ) -> Result<Vec<ListedEvent>, CliError> {
        let query = if only_warnings { "?type=Warning" } else { "" };
        let path = format!("/api/v2/jobs/{key}/events{query}");
        let what = format!("cannot list the events of {key}");
        let mut listing: EventListing = self.client.get(&what, &path).await?;
        listing.data.reverse();
        Ok(listing.data)
    }
}

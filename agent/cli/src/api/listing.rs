//! A listing of jobs: asked for page by page, for what one agent tells another is limited.

use std::collections::BTreeSet;
use std::fmt::{Display, Write};

use muster_model::id::{UserName, VcName};
use muster_model::state::JobState;
use muster_model::view::{Age, JobSummary};
use serde::{Deserialize, Serialize};

use super::{Api, encode};
use crate::age;
use crate::error::CliError;

/// Jobs on one page, newest first.
pub(crate) const PAGE: usize = 2_000;
/// So many jobs of a page are asked for once more with the next one: while a listing is read, jobs leave
/// it, which ended or are kept no longer, and those after them move up.
const OVERLAP: usize = 200;
/// Names virtual clusters whose jobs are missing in a listing.
const AWAY: &str = "x-muster-away";
/// Names virtual clusters whose jobs of others are missing, and who sees them.
const HIDDEN: &str = "x-muster-hidden";
/// Says how old what is told of virtual clusters is.
const AGE: &str = "x-muster-age";

/// A job in a listing, with the state that users see.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ListedJob {
    /// Derived from the summary's sub-state and exit code.
    pub(crate) state: JobState,
    #[serde(flatten)]
    pub(crate) summary: JobSummary,
    /// How old this is, if it is not what the leader says now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) age: Option<Age>,
}

/// A listing.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobListing {
    pub(crate) jobs: Vec<ListedJob>,
    /// Names of virtual clusters whose jobs are missing, if there are any.
    pub(crate) away: Option<String>,
    /// Virtual clusters whose jobs are told by a copy.
    pub(crate) aged: Vec<Age>,
    /// Virtual clusters whose jobs of others are missing: `lab=private, vision=group`.
    pub(crate) hidden: Option<String>,
}

impl JobListing {
    /// Who told it: another page fits to this one only if the same did.
    fn sources(&self) -> (&Option<String>, &Option<String>, BTreeSet<&VcName>) {
        let aged = self.aged.iter().map(|age| &age.vc);
        (&self.away, &self.hidden, aged.collect())
    }
}

/// Which jobs are listed; what is empty takes all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter<'a> {
    pub(crate) users: &'a [UserName],
    pub(crate) states: &'a [JobState],
    pub(crate) vcs: &'a [VcName],
}

impl Filter<'_> {
    /// The end of a query.
    fn query(&self) -> String {
        let mut query = String::new();
        add(&mut query, "username", self.users);
        add(&mut query, "state", self.states);
        add(&mut query, "vc", self.vcs);
        query
    }
}

fn add<T: Display>(query: &mut String, name: &str, values: &[T]) {
    if !values.is_empty() {
        let values = values
            .iter()
            .map(|value| encode(&value.to_string()).to_string());
        let values = values.collect::<Vec<_>>().join(",");
        let _ = write!(query, "&{name}={values}");
    }
}

impl Api {
    /// All jobs that the filter takes, each once, in no order.
    pub(crate) async fn jobs(&self, filter: Filter<'_>) -> Result<JobListing, CliError> {
        let query = filter.query();
        let mut listed = JobListing::default();
        let mut known = BTreeSet::new();
        let mut offset = 0;
        loop {
            let mut page = self.page(offset, &query).await?;
            let count = page.jobs.len();
            let is_other = offset > 0 && page.sources() != listed.sources();
            let jobs = std::mem::take(&mut page.jobs).into_iter();
            let is_new = |job: &ListedJob| {
                let JobSummary {
                    key, vc, submitted, ..
                } = &job.summary;
                known.insert((key.clone(), vc.clone(), *submitted))
            };
            listed.jobs.extend(jobs.filter(is_new));
            (listed.away, listed.aged, listed.hidden) = (page.away, page.aged, page.hidden);
            offset = match is_other {
                // Which jobs stand before this page has changed with who tells of them.
                true => 0,
                false if count < PAGE => return Ok(listed),
                false => offset + PAGE - OVERLAP,
            };
        }
    }

    async fn page(&self, offset: usize, query: &str) -> Result<JobListing, CliError> {
        let path = format!("/api/muster/v1/jobs?limit={PAGE}&offset={offset}{query}");
        let headers = [AWAY, AGE, HIDDEN];
        let page = self.client.list("cannot list jobs", &path, headers);
        let (jobs, [away, aged, hidden]) = page.await?;
        let aged = age::read(&aged.unwrap_or_default());
        Ok(JobListing {
            jobs,
            away,
            aged,
            hidden,
        })
    }
}

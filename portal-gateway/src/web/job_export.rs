//! The list of jobs as a file, with the filters of the page.

use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use muster_model::view::{Age, JobSummary};

use super::{job_list, moment};
use crate::call::Call;
use crate::error::ApiError;
use crate::handle::own;
use crate::port::{FoundJobs, Jobs};
use crate::reply::{HandlerResult, HttpReply};

/// Jobs of a file, at most: as many as the REST API lists at once.
const ROWS_MAX: u64 = 50_000;

const COLUMNS: [&str; 15] = [
    "name",
    "user",
    "virtual_cluster",
    "state",
    "gpus",
    "tasks",
    "task_roles",
    "retries",
    "priority",
    "submitted",
    "started",
    "ended",
    "exit_code",
    "tags",
    "waits_because_it",
];

/// `GET /jobs/export?format=csv|jsonl&state=&user=&vc=&tag=&text=`
pub(crate) async fn file(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let listing = job_list::asked(&call.query, 0, ROWS_MAX)?;
    let found = listing.ask(&call.sight(jobs)?, jobs).await?;
    let rows = listing.page(&found.jobs);
    let is_whole = found.away.is_empty() && rows.len() == found.total;
    let (kind, end, text) = match call.query.text("format") {
        Some("csv") | None => ("text/csv; charset=utf-8", "csv", csv(&rows)),
        Some("jsonl") => (
            "application/x-ndjson",
            "jsonl",
            json_lines(&rows, &found.aged)?,
        ),
        Some(_) => {
            let rule = "format must be csv or jsonl";
            return Err(ApiError::Parameters(rule.to_owned()));
        }
    };
    Ok(attached(text, (kind, end), is_whole, &found))
}

/// The answer as a file to keep. Its name says if something is missing.
fn attached(
    text: String,
    (kind, end): (&'static str, &str),
    is_whole: bool,
    found: &FoundJobs,
) -> HttpReply {
    let name = match is_whole {
        true => "jobs",
        false => "jobs-incomplete",
    };
    let disposition = format!("attachment; filename=\"{name}.{end}\"");
    HttpReply::plain(text)
        .with(CONTENT_TYPE, HeaderValue::from_static(kind))
        .with(CONTENT_DISPOSITION, crate::reply::ascii(disposition))
        .without(&found.away)
        .aged(&found.aged)
        .hiding(&found.hidden)
}

fn csv(rows: &[&JobSummary]) -> String {
    let mut text = format!("{}\r\n", COLUMNS.join(","));
    for job in rows {
        let fields = fields(job);
        text.push_str(&fields.join(","));
        text.push_str("\r\n");
    }
    text
}

fn fields(job: &JobSummary) -> [String; COLUMNS.len()] {
    let at = |ms: Option<u64>| ms.map(moment::rfc3339).unwrap_or_default();
    let priority = job.priority.map(|it| it.as_str());
    [
        cell(job.key.name.as_str()),
        cell(job.key.user.as_str()),
        cell(job.vc.as_str()),
        cell(&job.state().to_string()),
        job.gpus.to_string(),
        job.tasks.to_string(),
        job.roles.to_string(),
        job.retries.total.to_string(),
        cell(priority.unwrap_or_default()),
        at(Some(job.submitted)),
        at(job.launched),
        at(job.completed),
        job.exit_code
            .map(|code| code.to_string())
            .unwrap_or_default(),
        cell(&job.tags.join(" ")),
        cell(job.waiting_for.as_deref().unwrap_or_default()),
    ]
}

/// Text as a field of a CSV file. A spreadsheet takes what begins so for a formula: a quote before it, which
/// spreadsheets do not show, makes it text.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let guard = if is_formula { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

/// The jobs as the REST API lists them, one a line.
fn json_lines(rows: &[&JobSummary], aged: &[Age]) -> Result<String, ApiError> {
    let lines = rows.iter().map(|job| own::line(job, aged));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_is_a_formula_or_ends_the_field() {
        for (text, field) in [
            ("plain", "\"plain\""),
            ("=1+1", "\"'=1+1\""),
            ("-2", "\"'-2\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\t=1", "\"'\t=1\""),
            ("a\",\"=b", "\"a\"\",\"\"=b\""),
        ] {
            assert_eq!(cell(text), field);
        }
    }
}

//! What OpenPAI's portal asks of Prometheus, answered from figures of the cluster.
//!
//! There is no Prometheus, and nothing here understands its language: the expressions that the portal has
//! written into its pages are told apart, any other is refused.

use std::collections::BTreeMap;

use muster_model::job_query::{JobFilter, JobQuery};
use muster_model::state::JobState;
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Call;
use crate::clock;
use crate::error::ApiError;
use crate::port::{Jobs, Membership};
use crate::reply::{HandlerResult, HttpReply};

/// The home page: jobs that hardly use their GPUs.
const LOW_GPU: &str = "avg(avg_over_time(task_gpu_percent[10m]) < 10) by (job_name)";
/// The hardware page: which machines there are.
const MACHINES: &str = "node_uname_info";
/// What the hardware page asks of each machine, and this route does not know: each machine tells it at `/metrics`, and
/// nothing keeps it for others. `?` stands for a duration.
const UNMEASURED: [&str; 8] = [
    "100 - (avg by (instance)(irate(node_cpu_seconds_total{mode=\"idle\"}[?])) * 100)",
    "node_memory_MemTotal_bytes - node_memory_MemFree_bytes - node_memory_Buffers_bytes - \
     node_memory_Cached_bytes",
    "node_memory_MemTotal_bytes",
    "avg by (instance)(gpu_utilization)",
    "avg by (instance)(gpu_mem_utilization)",
    "sum by (instance)(rate(node_disk_read_bytes_total[?]))",
    "sum by (instance)(rate(node_disk_written_bytes_total[?]))",
    "sum by (instance)(rate(node_network_receive_bytes_total[?]))",
];

/// An expression of the portal's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortalExpression {
    LowGpu,
    Machines,
    Unmeasured,
}

impl PortalExpression {
    fn of(text: &str) -> Option<Self> {
        if is_like(text, LOW_GPU) {
            return Some(Self::LowGpu);
        }
        if is_like(text, MACHINES) {
            return Some(Self::Machines);
        }
        let is_known = UNMEASURED.iter().any(|one| is_like(text, one));
        is_known.then_some(Self::Unmeasured)
    }
}

/// Whether a text is an expression, whatever its spaces and its one duration.
fn is_like(text: &str, expression: &str) -> bool {
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    let (text, expression) = (bare(text), bare(expression));
    match expression.split_once('?') {
        None => text == expression,
        Some((before, after)) => {
            let rest = text.strip_prefix(before);
            let duration = rest.and_then(|rest| rest.strip_suffix(after));
            duration.is_some_and(is_duration)
        }
    }
}

/// `30s`, `5m`
fn is_duration(text: &str) -> bool {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let unit = &text[digits.len()..];
    !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && ["ms", "s", "m", "h", "d"].contains(&unit)
}

/// `GET /prometheus/api/v1/query?query=`
pub(crate) async fn query(
    call: Call,
    jobs: &dyn Jobs,
    membership: &dyn Membership,
) -> HandlerResult {
    let (result, warning) = match asked(&call)? {
        PortalExpression::LowGpu => (low_gpu(&call, jobs).await?, Some(LOW_GPU_WARNING)),
        PortalExpression::Machines => (machines(membership).await?, None),
        PortalExpression::Unmeasured => (Vec::new(), Some(UNMEASURED_WARNING)),
    };
    success("vector", result, warning)
}

/// `GET /prometheus/api/v1/query_range?query=`
pub(crate) async fn query_range(call: Call) -> HandlerResult {
    match asked(&call)? {
        PortalExpression::Unmeasured => success("matrix", Vec::new(), Some(UNMEASURED_WARNING)),
        PortalExpression::LowGpu | PortalExpression::Machines => Err(ApiError::Figures(
            "Muster knows this of the present alone: ask with /api/v1/query".to_owned(),
        )),
    }
}

const LOW_GPU_WARNING: &str = "how busy GPUs are is told by each machine at /metrics alone: these are the \
                               jobs that hold GPUs and asked for none, by the cells that they were given for \
                               cores or memory";
const UNMEASURED_WARNING: &str =
    "each machine tells this at /metrics alone: there are no figures here";

fn asked(call: &Call) -> Result<PortalExpression, ApiError> {
    let text = call.query.text("query").unwrap_or_default();
    PortalExpression::of(text).ok_or_else(|| {
        let known: Vec<_> = [LOW_GPU, MACHINES].iter().chain(&UNMEASURED).copied().collect();
        let known = known.join("; ").replace('?', "5m");
        ApiError::Figures(format!(
            "there is no Prometheus here: only the expressions of OpenPAI's portal are answered, which are: \
             {known}"
        ))
    })
}

/// An answer, as Prometheus writes it.
#[derive(Serialize, JsonSchema)]
struct FiguresAnswer {
    status: &'static str,
    data: FiguresData,
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<[&'static str; 1]>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FiguresData {
    result_type: &'static str,
    result: Vec<FiguresSample>,
}

/// A value of now.
#[derive(Serialize, JsonSchema)]
struct FiguresSample {
    metric: BTreeMap<&'static str, String>,
    /// Seconds since the epoch, and the value.
    value: (u64, &'static str),
}

fn success(
    result_type: &'static str,
    result: Vec<FiguresSample>,
    warning: Option<&'static str>,
) -> HandlerResult {
    HttpReply::json(&FiguresAnswer {
        status: "success",
        data: FiguresData {
            result_type,
            result,
        },
        warnings: warning.map(|warning| [warning]),
    })
}

fn sample<const N: usize>(
    metric: [(&'static str, String); N],
    value: &'static str,
) -> FiguresSample {
    FiguresSample {
        metric: metric.into(),
        value: (clock::now_s(), value),
    }
}

/// Running jobs that use none of the GPUs they keep from others: an admin's view is everybody's.
async fn low_gpu(call: &Call, jobs: &dyn Jobs) -> Result<Vec<FiguresSample>, ApiError> {
    let caller = call.caller()?;
    let filter = JobFilter {
        users: match caller.admin {
            true => Vec::new(),
            false => vec![caller.user.to_string()],
        },
        states: vec![JobState::Running],
        ..JobFilter::default()
    };
    let query = JobQuery {
        filter,
        first: None,
        reasons: false,
    };
    let sight = call.sight(jobs)?;
    let found = jobs.list(&sight, &query).await?.jobs.into_iter();
    let idle = found.filter(|job| job.gpus == 0 && job.gpus_idle > 0);
    let samples = idle.map(|job| sample([("job_name", job.key.to_string())], "0"));
    Ok(samples.collect())
}

/// Each member by its address, with its name.
async fn machines(membership: &dyn Membership) -> Result<Vec<FiguresSample>, ApiError> {
    let view = membership.view().await?;
    let samples = view.admitted().map(|member| {
        let address = member.addresses.first().map(ToString::to_string);
        let instance = address.unwrap_or_else(|| member.name.clone());
        let metric = [
            ("__name__", MACHINES.to_owned()),
            ("instance", instance),
            ("nodename", member.name.clone()),
            ("sysname", "Linux".to_owned()),
        ];
        sample(metric, "1")
    });
    Ok(samples.collect())
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use super::{ApiError, FiguresAnswer};
    use crate::openapi::{RouteDoc, any};
    use crate::port::PortError;

    fn asks(sentence: &'static str) -> RouteDoc {
        RouteDoc::new(sentence)
            .query::<String>("query", "An expression that OpenPAI's portal asks with.")
            .fails([ApiError::Figures(any())])
            .json::<FiguresAnswer>()
    }

    pub(crate) fn query() -> RouteDoc {
        asks("Answers what OpenPAI's portal asks of Prometheus for now.")
            .fails([PortError::Forbidden(any())])
    }

    pub(crate) fn query_range() -> RouteDoc {
        asks("Answers what OpenPAI's portal asks of Prometheus for a while.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_told_apart_whatever_their_spaces() {
        let low = "avg(avg_over_time(task_gpu_percent[10m]) < 10) by (job_name)";
        let cpu =
            "100 - (avg by (instance)(irate(node_cpu_seconds_total{mode=\"idle\"}[30s])) * 100)";
        for (text, expect) in [
            (low, Some(PortalExpression::LowGpu)),
            (
                "avg(avg_over_time(task_gpu_percent[10m])<10)by(job_name)",
                Some(PortalExpression::LowGpu),
            ),
            (
                "avg(avg_over_time(task_gpu_percent[5m]) < 10) by (job_name)",
                None,
            ),
            ("node_uname_info", Some(PortalExpression::Machines)),
            (cpu, Some(PortalExpression::Unmeasured)),
            (
                "sum by (instance)(rate(node_disk_read_bytes_total[5m]))",
                Some(PortalExpression::Unmeasured),
            ),
            (
                "sum by (instance)(rate(node_disk_read_bytes_total[five]))",
                None,
            ),
            (
                "sum by (instance)(rate(node_disk_read_bytes_total[]))",
                None,
            ),
            ("up", None),
            ("", None),
        ] {
            assert_eq!(PortalExpression::of(text), expect, "{text}");
        }
    }
}

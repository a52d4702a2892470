//! Recorded ends as JSON, classified as OpenPAI would.

use muster_model::health::DeviceEvent;
use serde::{Deserialize, Deserializer, Serialize};

use crate::outside::{EndedContainer, Outside};
use crate::ruleset::RuleSet;

/// The most cases in one request.
pub const CASES_MAX: usize = 100_000;

/// Why a request could not be answered. Nothing was classified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClassifyError {
    /// The text is not an object with a list of cases.
    #[error("the cases are not readable: line {}, column {}", .0.line(), .0.column())]
    Json(#[source] serde_json::Error),
    /// More than [`CASES_MAX`].
    #[error("{0} cases in one request, at most {CASES_MAX} are allowed")]
    TooMany(usize),
}

/// A recorded end of a task. Unknown fields are passed over, absent ones count as empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Case {
    /// What to call it in the answer.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The user command's exit status as a shell sees it; the container's own if no user
    /// command ran; absent if no container ended.
    pub exit_code: Option<i32>,
    /// The kernel killed it at the memory limit.
    #[serde(deserialize_with = "or_default")]
    pub oom_killed: bool,
    /// The container's name, `app` or `init`.
    #[serde(deserialize_with = "or_default")]
    pub container: String,
    /// The user's command was started.
    #[serde(deserialize_with = "or_default")]
    pub ran_user_command: bool,
    /// Double-bit ECC errors of all GPUs together.
    #[serde(deserialize_with = "or_default")]
    pub gpu_double_bit_ecc: i64,
    /// What was reported of the task's devices during its life.
    #[serde(deserialize_with = "or_default")]
    pub device_events: Vec<DeviceEvent>,
    /// The engine's reason for the container's end.
    #[serde(deserialize_with = "or_default")]
    pub container_reason: String,
    /// The engine's message.
    #[serde(deserialize_with = "or_default")]
    pub container_message: String,
    /// The platform's reason for the end of the whole task.
    #[serde(deserialize_with = "or_default")]
    pub pod_reason: String,
    /// The platform's message.
    #[serde(deserialize_with = "or_default")]
    pub pod_message: String,
    /// The end of the user log.
    #[serde(deserialize_with = "or_default")]
    pub user_log_tail: String,
    /// The end of the runtime's log.
    #[serde(deserialize_with = "or_default")]
    pub runtime_log_tail: String,
}

impl Case {
    pub(crate) fn outside(&self, exit_code: Option<i32>) -> Outside<'_> {
        let reason = if self.oom_killed {
            "OOMKilled"
        } else {
            &self.container_reason
        };
        Outside {
            reason: &self.pod_reason,
            message: &self.pod_message,
            container: exit_code.map(|exit_code| EndedContainer {
                name: &self.container,
                exit_code,
                reason,
                message: &self.container_message,
            }),
        }
    }
}

/// The answer to one case. Field names are OpenPAI's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseVerdict {
    /// The case's name.
    pub name: String,
    /// The code users see.
    pub code: i32,
    /// What the container exits with; absent if none ended.
    pub container_exit_code: Option<i32>,
    /// The code in words; absent if the file has no words.
    pub phrase: Option<String>,
    /// The rough type of the code.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The part of the user log that the rule matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched_user_log: Option<String>,
    /// The part of the runtime's log that the rule matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched_platform_log: Option<String>,
}

#[derive(Deserialize)]
struct ClassifyRequest {
    cases: Vec<Case>,
}

/// Answers `{"cases": [..]}`, in order.
///
/// # Errors
/// If the text is not such an object or holds more than [`CASES_MAX`] cases.
pub fn classify_cases(rules: &RuleSet, json: &str) -> Result<Vec<CaseVerdict>, ClassifyError> {
    let request: ClassifyRequest = serde_json::from_str(json).map_err(ClassifyError::Json)?;
    if request.cases.len() > CASES_MAX {
        return Err(ClassifyError::TooMany(request.cases.len()));
    }
    Ok(request
        .cases
        .iter()
        .map(|case| rules.classify_case(case))
        .collect())
}

/// Recorded cases write `null` where there was nothing.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    input: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

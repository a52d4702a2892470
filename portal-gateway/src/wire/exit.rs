//! How an end looks: the exit spec row and the messages around it.

use muster_model::aftermath::Actor;
use muster_model::exit::{Behavior, ExitSpec, LinePlace, Verdict};
use muster_model::health::DeviceEvent;
use schemars::JsonSchema;
use serde::Serialize;

/// The container that OpenPAI ran a task's commands in.
const CONTAINER: &str = "app";

/// A row of the exit spec table. What a row does not say is absent, not null.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExitSpecRow {
    code: i32,
    phrase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    causer: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<String>,
    behavior: Behavior,
    #[serde(skip_serializing_if = "Option::is_none")]
    reaction: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repro: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    solution: Vec<String>,
}

impl ExitSpecRow {
    pub(crate) fn of(spec: &ExitSpec) -> Self {
        let spec = spec.clone();
        Self {
            code: spec.code,
            phrase: spec.phrase,
            issuer: spec.issuer,
            causer: spec.causer,
            kind: spec.kind,
            stage: spec.stage,
            behavior: spec.behavior,
            reaction: spec.reaction,
            reason: spec.reason,
            repro: spec.repro,
            solution: spec.solution,
        }
    }
}

/// `appExitMessages`: who said what of the end. Upstream has words of the runtime where the
/// container ended by itself and failed, else of the launcher.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Messages {
    container: Option<String>,
    runtime: Option<RuntimeExit>,
    launcher: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RuntimeExit {
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin_user_exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_logs: Option<ExitLogs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    matched_user_log_string: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    matched_platform_log_string: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ExitLogs {
    user: String,
    platform: String,
}

impl Messages {
    pub(crate) fn of(verdict: &Verdict) -> Self {
        if verdict.code() > 0 {
            Self {
                container: None,
                runtime: Some(RuntimeExit::of(verdict)),
                launcher: None,
            }
        } else {
            Self {
                container: None,
                runtime: None,
                launcher: Some(verdict.diagnostics.clone()),
            }
        }
    }
}

impl RuntimeExit {
    fn of(verdict: &Verdict) -> Self {
        let silent = verdict.user_log.is_empty() && verdict.platform_log.is_empty();
        Self {
            name: CONTAINER,
            exit_code: verdict.container_exit_code,
            origin_user_exit_code: verdict.origin_exit_code,
            error_logs: (!silent).then(|| ExitLogs {
                user: verdict.user_log.clone(),
                platform: verdict.platform_log.clone(),
            }),
            matched_user_log_string: verdict.matched_user_log.clone(),
            matched_platform_log_string: verdict.matched_platform_log.clone(),
        }
    }
}

/// What Muster tells of a verdict beyond what OpenPAI's fields hold.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JudgedExit {
    /// Who can do something about it: `owner`, `admin` or `platform`.
    who_acts: &'static str,
    /// The version of the failure rules; 0 for the shipped ones. Absent if no node judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules_version: Option<u64>,
    /// Which pattern of the rule with this code held, counted from 1; absent if the code follows from the exit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<u32>,
    /// Where the lines that led to it stand in the log `all` of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    log_place: Option<LinePlace>,
    /// What was reported of the task's devices while it ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    device_events: Vec<DeviceEvent>,
}

impl JudgedExit {
    /// None for a success, which needs no explanation.
    pub(crate) fn of(verdict: &Verdict) -> Option<Self> {
        let judged = verdict.judged.as_ref();
        (verdict.code() != 0).then(|| Self {
            who_acts: Actor::of(&verdict.spec).as_str(),
            rules_version: judged.map(|judged| judged.rules_version),
            pattern: judged.and_then(|judged| judged.pattern),
            log_place: judged.and_then(|judged| judged.place),
            device_events: verdict.device_events.clone(),
        })
    }
}

/// `appExitType`: FrameworkController knew these two words.
pub(crate) fn kind(code: i32) -> &'static str {
    if code == 0 { "Succeeded" } else { "Failed" }
}

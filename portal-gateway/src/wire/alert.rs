//! Alarms of the cluster in the shape of alertmanager's API, version 2.

use std::collections::BTreeMap;

use md5::{Digest as _, Md5};
use muster_model::alarm::{Alarm, AlarmKind, AlarmSubject};
use schemars::JsonSchema;
use serde::Serialize;

use super::event::iso_8601;
use super::hex;

/// Who is told of alerts, where alertmanager has names of its own.
const RECEIVER: &str = "muster";
/// An alert that stands is told with an end so far ahead, as alertmanager does until it hears of the end.
const ENDS_AFTER_MS: u64 = 5 * 60 * 1000;

/// An alert that stands.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireAlert {
    annotations: Annotations,
    ends_at: String,
    fingerprint: String,
    receivers: [Receiver; 1],
    starts_at: String,
    status: AlertStatus,
    updated_at: String,
    #[serde(rename = "generatorURL")]
    generator_url: &'static str,
    labels: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Annotations {
    summary: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Receiver {
    name: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AlertStatus {
    state: &'static str,
    silenced_by: [String; 0],
    inhibited_by: [String; 0],
}

impl WireAlert {
    /// An alarm that stands now.
    pub(crate) fn of(alarm: &Alarm, now_ms: u64) -> Self {
        let labels = labels(alarm);
        Self {
            annotations: Annotations {
                summary: alarm.text.clone(),
            },
            ends_at: iso_8601(now_ms.saturating_add(ENDS_AFTER_MS)),
            fingerprint: fingerprint(&labels),
            receivers: [Receiver { name: RECEIVER }],
            starts_at: iso_8601(alarm.at_ms),
            status: AlertStatus {
                state: "active",
                silenced_by: [],
                inhibited_by: [],
            },
            updated_at: iso_8601(alarm.at_ms),
            generator_url: "",
            labels,
        }
    }
}

/// The kind, how bad it is, and what it concerns.
fn labels(alarm: &Alarm) -> BTreeMap<&'static str, String> {
    let (concerns, name) = match &alarm.subject {
        AlarmSubject::Cluster => ("cluster", String::new()),
        AlarmSubject::VirtualCluster(vc) => ("virtual_cluster", vc.to_string()),
        AlarmSubject::Member(name) => ("node_name", name.clone()),
        AlarmSubject::Document(name) => ("document", name.clone()),
    };
    let mut labels = BTreeMap::from([
        ("alertname", alarm.kind.to_string()),
        ("severity", severity(alarm.kind).to_owned()),
    ]);
    if !name.is_empty() {
        labels.insert(concerns, name);
    }
    labels
}

/// By upstream's words.
const fn severity(kind: AlarmKind) -> &'static str {
    match kind {
        AlarmKind::Expelled | AlarmKind::KeyUsedTwice | AlarmKind::MajorityLost => "error",
        _ => "warn",
    }
}

/// The same as long as the labels are.
fn fingerprint(labels: &BTreeMap<&'static str, String>) -> String {
    let mut digest = Md5::new();
    for (name, value) in labels {
        digest.update(format!("{name}={value}\n"));
    }
    hex(&digest.finalize()[..8])
}

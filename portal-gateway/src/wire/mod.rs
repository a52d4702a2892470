//! OpenPAI's JSON shapes, built from the model's views. Serialise only; no decisions beyond
//! OpenPAI's own mapping rules.

pub(crate) mod alert;
pub(crate) mod attempt;
pub(crate) mod cluster;
pub(crate) mod event;
pub(crate) mod exit;
pub(crate) mod group;
pub(crate) mod job;
pub(crate) mod kubernetes;
pub(crate) mod metric_text;
pub(crate) mod storage;
pub(crate) mod task;
pub(crate) mod user;

use md5::{Digest as _, Md5};
use muster_model::id::{JobKey, TaskId};
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

/// The name FrameworkController knew a job by: the MD5 of `user~name` in hex.
pub(crate) fn framework_name(key: &JobKey) -> String {
    hex(&Md5::digest(key.to_string()))
}

/// The name FrameworkController gave the pod of a task.
pub(crate) fn pod_name(key: &JobKey, task: &TaskId) -> String {
    format!("{}-{}-{}", framework_name(key), task.role, task.index)
}

/// Bytes in hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from(DIGITS[usize::from(half)]));
        }
    }
    text
}

/// Serialises pairs as an object in their order.
fn object<S, V>(pairs: &[(String, V)], serializer: S) -> Result<S::Ok, S::Error>
where
    S: Serializer,
    V: Serialize,
{
    let mut map = serializer.serialize_map(Some(pairs.len()))?;
    for (key, value) in pairs {
        map.serialize_entry(key, value)?;
    }
    map.end()
}

//! The audit log: each change of users and groups, and each token issued and revoked, with its author. It holds
//! no secret: of a password and of what clients keep with a user, only whether and which parts of it changed;
//! of a token, all but its text.

use std::cmp::Reverse;
use std::collections::VecDeque;

use muster_model::id::{GroupName, UserName};
use muster_model::people::{AuditLog, AuditRecord, Author};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ClusterState;
use super::groups::UserGroup;
use super::users::{ClusterUser, UserToken};

/// Records of changes, at most, and as many of tokens.
pub const AUDIT_RECORDS_MAX: usize = 4_000;
/// Bytes of all records of changes, at most, and as many of tokens: they are part of every snapshot.
pub const AUDIT_BYTES_MAX: usize = 2 << 20;
/// Records that are older than this are dropped: 400 days.
pub const AUDIT_AGE_MS: u64 = 400 * 24 * 3_600_000;

const TOKEN_ISSUED: &str = "token.issue";
const TOKEN_REVOKED: &str = "token.revoke";
const TOKEN_KEY_CHANGED: &str = "token.rotate-key";
/// Stands for the subject where all users are meant.
const ALL_USERS: &str = "*";

/// The records that are kept. Those of tokens have room of their own: logins are many, and must not push changes
/// of users out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditTrail {
    changes: AuditRecords,
    tokens: AuditRecords,
}

/// Records, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AuditRecords {
    records: VecDeque<AuditRecord>,
    /// Bytes of all records.
    bytes: usize,
    /// How many were dropped.
    dropped: u64,
}

/// What a change did, as a record shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuditChange {
    action: &'static str,
    subject: String,
    before: String,
    after: String,
}

impl AuditTrail {
    /// Adds what was changed by the entry at `index`, with its author and its time in ms.
    pub(super) fn add(&mut self, index: u64, (by, at_ms): (&Author, u64), change: AuditChange) {
        let records = match change.action {
            TOKEN_ISSUED | TOKEN_REVOKED => &mut self.tokens,
            _ => &mut self.changes,
        };
        records.add(AuditRecord {
            number: index,
            at_ms,
            by: by.clone(),
            action: change.action.to_owned(),
            subject: change.subject,
            before: change.before,
            after: change.after,
        });
    }

    fn newest(&self, subject: Option<&str>, limit: usize) -> AuditLog {
        let both = [&self.changes, &self.tokens];
        let newest = both.iter().flat_map(|it| it.newest(subject).take(limit));
        let mut records: Vec<AuditRecord> = newest.cloned().collect();
        records.sort_by_key(|record| Reverse(record.number));
        records.truncate(limit);
        AuditLog {
            records,
            dropped: both.iter().map(|it| it.dropped).sum(),
        }
    }
}

impl AuditRecords {
    fn add(&mut self, record: AuditRecord) {
        let now_ms = record.at_ms;
        self.bytes += size(&record);
        self.records.push_back(record);
        while self.is_too_much(now_ms) {
            let Some(oldest) = self.records.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(size(&oldest));
            self.dropped += 1;
        }
    }

    fn is_too_much(&self, now_ms: u64) -> bool {
        let is_old = |it: &AuditRecord| it.at_ms.saturating_add(AUDIT_AGE_MS) < now_ms;
        // The newest one stays in any case.
        self.records.len() > 1
            && (self.records.len() > AUDIT_RECORDS_MAX
                || self.bytes > AUDIT_BYTES_MAX
                || self.records.front().is_some_and(is_old))
    }

    /// The newest first.
    fn newest(&self, subject: Option<&str>) -> impl Iterator<Item = &AuditRecord> {
        let is_wanted = move |it: &&AuditRecord| subject.is_none_or(|name| name == it.subject);
        self.records.iter().rev().filter(is_wanted)
    }
}

impl ClusterState {
    /// The newest records of the audit log, at most `limit`; of one user or group if one is named.
    pub fn audit(&self, subject: Option<&str>, limit: usize) -> AuditLog {
        self.audit.newest(subject, limit)
    }
}

fn size(record: &AuditRecord) -> usize {
    let texts = [
        &record.by.user,
        &record.by.address,
        &record.by.node,
        &record.action,
        &record.subject,
        &record.before,
        &record.after,
    ];
    texts.iter().map(|text| text.len() + 8).sum()
}

/// What became of a user.
pub(super) fn of_user(
    name: &UserName,
    before: Option<&ClusterUser>,
    after: Option<&ClusterUser>,
) -> AuditChange {
    let mut shown = after.map(user);
    if let (Some(shown), Some(before), Some(after)) = (&mut shown, before, after) {
        if before.password_hash != after.password_hash {
            shown["passwordChanged"] = json!(true);
        }
        if before.extension != after.extension {
            shown["extensionChanged"] = json!(changed(&before.extension, &after.extension));
        }
    }
    AuditChange {
        action: match (before, after) {
            (None, _) => "user.add",
            (Some(_), Some(_)) => "user.change",
            (Some(_), None) => "user.remove",
        },
        subject: name.to_string(),
        before: text(before.map(user)),
        after: text(shown),
    }
}

/// What became of a group.
pub(super) fn of_group(
    name: &GroupName,
    before: Option<&UserGroup>,
    after: Option<&UserGroup>,
) -> AuditChange {
    let mut shown = after.map(group);
    if let (Some(shown), Some(before), Some(after)) = (&mut shown, before, after)
        && before.extension != after.extension
    {
        shown["extensionChanged"] = json!(changed(&before.extension, &after.extension));
    }
    AuditChange {
        action: match (before, after) {
            (None, _) => "group.add",
            (Some(_), Some(_)) => "group.change",
            (Some(_), None) => "group.remove",
        },
        subject: name.to_string(),
        before: text(before.map(group)),
        after: text(shown),
    }
}

/// A token that was issued.
pub(super) fn of_issue(user: &UserName, issued: &UserToken) -> AuditChange {
    AuditChange {
        action: TOKEN_ISSUED,
        subject: user.to_string(),
        before: String::new(),
        after: text(Some(token(issued))),
    }
}

/// Tokens that were revoked: of one user, or of all.
pub(super) fn of_revocation(user: Option<&UserName>, revoked: &[UserToken]) -> AuditChange {
    let before = match revoked {
        [one] => token(one),
        many => json!({ "tokens": many.len() }),
    };
    AuditChange {
        action: TOKEN_REVOKED,
        subject: user.map_or_else(|| ALL_USERS.to_owned(), ToString::to_string),
        before: text(Some(before)),
        after: String::new(),
    }
}

/// Another key of tokens, of this number.
pub(super) fn of_token_key(number: u32) -> AuditChange {
    AuditChange {
        action: TOKEN_KEY_CHANGED,
        subject: ALL_USERS.to_owned(),
        before: text(Some(json!({ "key": number.saturating_sub(1) }))),
        after: text(Some(json!({ "key": number }))),
    }
}

fn token(token: &UserToken) -> Value {
    json!({
        "id": token.id,
        "kind": token.kind,
        "name": token.name,
        "expiresS": token.expires_s,
    })
}

fn text(value: Option<Value>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn user(user: &ClusterUser) -> Value {
    json!({
        "email": user.email,
        "groups": user.groups,
        "hasPassword": !user.password_hash.0.is_empty(),
    })
}

fn group(group: &UserGroup) -> Value {
    json!({
        "description": group.description,
        "externalName": group.external_name,
        "admin": group.acl.admin,
        "virtualClusters": group.acl.vcs,
        "storages": group.acl.storages,
    })
}

/// Names of the members of two JSON objects that differ.
fn changed(before: &str, after: &str) -> Vec<String> {
    let object = |text| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
    let (before, after) = (object(before), object(after));
    let names = before.keys().chain(after.keys());
    let mut names: Vec<String> = names
        .filter(|name| before.get(*name) != after.get(*name))
        .cloned()
        .collect();
    names.sort();
    names.dedup();
    names
}

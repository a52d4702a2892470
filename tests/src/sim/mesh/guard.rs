//! What must hold whatever happens: looked at with frames that bring records, and over all
//! tables when asked.

use std::sync::Arc;

use muster_gossip::Mesh;
use muster_gossip::record::{Record, RecordKey, RecordVersion};

use super::authority::SimAuthority;
use super::host::SimHost;

/// Sentences kept; one tells as much as a thousand.
const SAID_MAX: usize = 20;
/// Largest tables that outsiders can make grow, beside those that have one entry a member.
const DEFERRED_MAX: usize = 256;

/// Notes what must not be.
#[derive(Debug, Default)]
pub(crate) struct InvariantGuard {
    /// What must not be, and is.
    pub(crate) violations: Vec<String>,
    before: Vec<RecordVersion>,
}

impl InvariantGuard {
    /// Something is wrong.
    pub(crate) fn say(&mut self, what: String) {
        if self.violations.len() < SAID_MAX {
            self.violations.push(what);
        }
    }

    /// To be called before a node takes these records.
    pub(crate) fn before(&mut self, core: &Mesh, records: &[Arc<Record>]) {
        self.before.clear();
        let versions = records.iter().map(|record| version(core, record.key));
        self.before.extend(versions);
    }

    /// And after it.
    pub(crate) fn after(
        &mut self,
        authority: &SimAuthority,
        node: usize,
        core: &Mesh,
        records: &[Arc<Record>],
    ) {
        for (at, record) in records.iter().enumerate() {
            let before = self.before[at];
            let known = core.record(record.key);
            let now = known.map_or_else(RecordVersion::default, |known| known.version);
            if now < before {
                self.went_back(node, now, record.key, before);
            }
            let taken = now > before && known.is_some_and(|known| known.hash == record.hash);
            if taken {
                self.check_writer(authority, node, record);
            }
        }
    }

    /// A node's newest of a key is older than what it had.
    fn went_back(
        &mut self,
        node: usize,
        now: RecordVersion,
        key: RecordKey,
        before: RecordVersion,
    ) {
        // What an expelled member said is dropped with it.
        let dropped = now == RecordVersion::default()
            && matches!(key, RecordKey::Node(_) | RecordKey::Watch(_));
        if !dropped {
            self.say(format!(
                "n{node} went back from {before:?} to {now:?} of {key:?}"
            ));
        }
    }

    fn check_writer(&mut self, authority: &SimAuthority, node: usize, record: &Record) {
        if !authority
            .ledger
            .holds(record, &authority.writer(record.key))
        {
            self.say(format!(
                "n{node} took {record:?}, which its writer did not sign"
            ));
        }
    }

    /// A record goes to a node's disk.
    pub(crate) fn kept(&mut self, node: usize, host: &SimHost, record: &Record) {
        let before = host
            .disk
            .records
            .get(&record.key)
            .map(|known| known.version);
        if before.is_some_and(|before| before > record.version) {
            self.say(format!("n{node} keeps {record:?} after {before:?}"));
        }
    }

    /// Looks over all tables of a node.
    pub(crate) fn check_node(&mut self, authority: &SimAuthority, node: usize, core: &Mesh) {
        for record in core.all_records() {
            self.check_writer(authority, node, record);
        }
        let members = core.ever().count();
        for (name, size) in core.sizes() {
            let bound = match name {
                "records" => 3 * members + 65,
                "deferred" => DEFERRED_MAX,
                _ => members,
            };
            if size > bound {
                self.say(format!("n{node} has {size} {name}, {bound} are the most"));
            }
        }
    }
}

fn version(core: &Mesh, key: RecordKey) -> RecordVersion {
    core.record(key)
        .map_or_else(RecordVersion::default, |record| record.version)
}

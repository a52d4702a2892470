//! Taking records: each is checked as far as it goes before the next, dearer check.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::time::Time;

use super::{Mesh, MeshEvent, MeshOutput};
use crate::key::NodeKey;
use crate::limit::{Limit, Rate};
use crate::member::{Incarnation, MemberId};
use crate::reach::VoteContext;
use crate::record::{
    self, AdmissionState, BEFORE_MAX, ClusterBody, DocumentId, Header, MemberBody,
    NODE_PAYLOAD_MAX, NodeBody, Record, RecordKey, ReplacementBody, SuspicionLevel, Vote,
};

/// Records that one node may write.
const RECORDS: Rate = Rate {
    burst: 30,
    per_s: 5,
};
/// Records kept for when their writer is admitted, or may write again.
const DEFERRED_MAX: usize = 256;
/// Most votes a watcher can have: against all that it may watch on a small island.
pub(super) const VOTES_MAX: usize = 1_024;
/// Longest name, rack, author or version.
const TEXT_MAX: usize = 255;
/// Most addresses and problems of a node.
const LIST_MAX: usize = 16;
/// Longest sentence on a problem.
const PROBLEM_MAX: usize = 1_000;

/// Why a record was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordRefusal {
    /// It is damaged or forged.
    #[error(transparent)]
    Record(#[from] record::RecordError),
    /// Its writer is not known.
    #[error("the record's writer is no member")]
    Unknown,
}

/// Who may write, and how much.
#[derive(Clone, Debug)]
pub(super) struct Writers {
    cluster: Option<ClusterBody>,
    /// By number of the member.
    limits: Vec<Limit>,
    deferred: BTreeMap<RecordKey, Deferred>,
    /// The earliest at which one of them may be taken.
    due: Option<Time>,
}

#[derive(Clone, Debug)]
struct Deferred {
    record: Arc<Record>,
    from: Option<MemberId>,
    /// `None`: until its writer is admitted.
    until: Option<Time>,
}

impl Writers {
    pub(super) const fn new(cluster: Option<ClusterBody>) -> Self {
        Self {
            cluster,
            limits: Vec::new(),
            deferred: BTreeMap::new(),
            due: None,
        }
    }

    pub(super) const fn cluster(&self) -> Option<&ClusterBody> {
        self.cluster.as_ref()
    }

    pub(super) const fn deadline(&self) -> Option<Time> {
        self.due
    }

    pub(super) fn deferred(&self) -> usize {
        self.deferred.len()
    }

    fn limit(&mut self, member: MemberId) -> &mut Limit {
        if self.limits.len() <= member.index() {
            self.limits.resize(member.index() + 1, Limit::full());
        }
        &mut self.limits[member.index()]
    }

    fn defer(&mut self, record: &Arc<Record>, from: Option<MemberId>, until: Option<Time>) {
        let known = self.deferred.get(&record.key);
        if known.is_some_and(|known| known.record.version >= record.version) {
            return;
        }
        if known.is_none() && self.deferred.len() >= DEFERRED_MAX {
            return;
        }
        let record = record.clone();
        let deferred = Deferred {
            record,
            from,
            until,
        };
        self.deferred.insert(deferred.record.key, deferred);
        self.due = [self.due, until].into_iter().flatten().min();
    }

    fn take_due(&mut self, is_due: impl Fn(&Deferred) -> bool) -> Vec<Deferred> {
        let keys: Vec<_> = self
            .deferred
            .iter()
            .filter(|(_, deferred)| is_due(deferred))
            .map(|(key, _)| *key)
            .collect();
        let due = keys
            .iter()
            .filter_map(|key| self.deferred.remove(key))
            .collect();
        self.due = self.deferred.values().filter_map(|d| d.until).min();
        due
    }
}

impl Mesh {
    /// Takes a record if it is new, valid, and its writer does not write too often.
    pub(super) fn take(
        &mut self,
        now: Time,
        from: Option<MemberId>,
        record: &Arc<Record>,
        out: &mut Vec<MeshOutput>,
    ) {
        let key = record.key;
        if self.is_old(record) {
            self.counters.records_old += 1;
            return;
        }
        if !self.store.has_room(key) {
            self.counters.records_malformed += 1;
            return;
        }
        let Some(writer) = self.writer(key) else {
            self.counters.records_unknown += 1;
            if matches!(key, RecordKey::Node(member) if self.roster.body(member).is_none()) {
                self.writers.defer(record, from, None);
            }
            return;
        };
        let verified = record.verify(self.identity.cluster, &writer, &*self.verifier);
        if verified.is_err() {
            self.forged(from);
            return;
        }
        if self.is_foreign(record) {
            self.foreign(now, record, out);
            return;
        }
        if let Err(until) = self.may_write(now, key) {
            self.counters.records_limited += 1;
            self.writers.defer(record, from, Some(until));
            return;
        }
        match self.apply(now, record, out) {
            Ok(()) => self.took(now, record, from, out),
            Err(_) => self.counters.records_malformed += 1,
        }
    }

    /// Counts a record with a wrong signature. Whoever passes a record on has checked it, so it is
    /// the sender's own doing.
    fn forged(&mut self, from: Option<MemberId>) {
        self.counters.records_forged += 1;
        if let Some(from) = from {
            *self.forged.entry(from).or_default() += 1;
        }
    }

    /// The newest wins; of two with one version, which only clones write, the larger hash.
    fn is_old(&self, record: &Record) -> bool {
        self.store
            .get(record.key)
            .is_some_and(|known| (known.version, known.hash) >= (record.version, record.hash))
    }

    fn writer(&self, key: RecordKey) -> Option<NodeKey> {
        match key {
            RecordKey::Cluster => Some(self.identity.root),
            RecordKey::Member(_) | RecordKey::Document(_) | RecordKey::Replacement => {
                self.writers.cluster().map(|cluster| cluster.signing)
            }
            RecordKey::Node(member) | RecordKey::Watch(member) => {
                let body = self.roster.body(member)?;
                (body.state == AdmissionState::Admitted).then_some(body.key)
            }
        }
    }

    fn may_write(&mut self, now: Time, key: RecordKey) -> Result<(), Time> {
        match key {
            RecordKey::Node(member) | RecordKey::Watch(member)
                if member != self.identity.member =>
            {
                self.writers.limit(member).take(now, RECORDS)
            }
            _ => Ok(()),
        }
    }

    /// Records of writers that may write again.
    pub(super) fn take_deferred(&mut self, now: Time, out: &mut Vec<MeshOutput>) {
        if self.writers.deadline().is_none_or(|at| at > now) {
            return;
        }
        let due = self
            .writers
            .take_due(|deferred| deferred.until.is_some_and(|until| until <= now));
        for deferred in due {
            self.has(deferred.from, &deferred.record);
            self.take(now, deferred.from, &deferred.record, out);
        }
    }

    /// Who a record came from need not be sent it.
    fn has(&mut self, from: Option<MemberId>, record: &Arc<Record>) {
        if let Some(from) = from {
            self.push
                .has(from, std::slice::from_ref(record), &self.store);
        }
    }

    /// Stored, and on to everybody.
    fn took(
        &mut self,
        now: Time,
        record: &Arc<Record>,
        from: Option<MemberId>,
        out: &mut Vec<MeshOutput>,
    ) {
        self.counters.records_taken += 1;
        self.put(record.clone());
        if !matches!(record.key, RecordKey::Watch(_)) {
            out.push(MeshOutput::Keep(record.clone()));
        }
        self.push.add(now, record.key, from);
    }

    /// Stores a record, and keeps up the counts of the votes.
    pub(super) fn put(&mut self, record: Arc<Record>) {
        let before = self.store.put(record.clone());
        let on = VoteContext {
            roster: &self.roster,
            store: &self.store,
        };
        match record.key {
            RecordKey::Watch(by) => {
                let before = before.as_deref().map_or(&[][..], votes);
                self.tallies.recast(on, by, before, votes(&record));
            }
            RecordKey::Node(member) => {
                let life = before.map_or(0, |before| before.version.incarnation);
                self.tallies.reborn(on, member, Incarnation(life));
            }
            RecordKey::Cluster
            | RecordKey::Member(_)
            | RecordKey::Document(_)
            | RecordKey::Replacement => {}
        }
    }

    /// What follows from a record, before it is stored.
    fn apply(
        &mut self,
        now: Time,
        record: &Arc<Record>,
        out: &mut Vec<MeshOutput>,
    ) -> Result<(), record::RecordError> {
        match record.key {
            RecordKey::Cluster => {
                let body = cluster_body(record, &self.identity.root)?;
                self.writers.cluster = Some(body);
            }
            RecordKey::Member(member) => {
                let body = member_body(record)?;
                self.apply_member(now, member, body, out);
            }
            RecordKey::Node(member) => {
                check_body(record)?;
                let life = Incarnation(record.version.incarnation);
                if self.watch.life(now, member, life) {
                    self.own.votes_changed(now);
                }
                self.said_at.insert(member, now);
                // A later life voids votes; nothing else that a node says of itself changes the view.
                if life != self.incarnation_of(member) && self.is_voted_against(member) {
                    self.view.soil(now);
                }
                out.push(MeshOutput::Event(MeshEvent::Node(member)));
            }
            RecordKey::Watch(_) => {
                check_body(record)?;
                let before = self.store.get(record.key).cloned();
                self.apply_votes(now, before.as_deref(), record);
            }
            RecordKey::Document(id) => {
                check_body(record)?;
                let header: Header = record.body()?;
                self.with_documents(out, |documents, out| {
                    documents.header(now, id, &header, out)
                });
            }
            RecordKey::Replacement => {
                check_body(record)?;
                out.push(MeshOutput::Event(MeshEvent::Replacement));
            }
        }
        Ok(())
    }

    /// Takes up the documents that were known before the start.
    pub(super) fn open_documents(&mut self, now: Time, out: &mut Vec<MeshOutput>) {
        let known: Vec<(DocumentId, Header)> = self
            .store
            .documents()
            .filter_map(|record| match record.key {
                RecordKey::Document(id) => Some((id, record.body().ok()?)),
                _ => None,
            })
            .collect();
        for (id, header) in known {
            self.with_documents(out, |documents, out| {
                documents.header(now, id, &header, out)
            });
        }
    }

    fn apply_member(
        &mut self,
        now: Time,
        member: MemberId,
        body: MemberBody,
        out: &mut Vec<MeshOutput>,
    ) {
        let admitted = body.state == AdmissionState::Admitted;
        Arc::make_mut(&mut self.roster).set(member, body);
        self.tallies.spoil();
        if !admitted {
            self.store.forget(member);
            self.said_at.remove(&member);
            self.forged.remove(&member);
            *self.writers.limit(member) = Limit::full();
            self.writers.deferred.remove(&RecordKey::Node(member));
            self.writers.deferred.remove(&RecordKey::Watch(member));
            self.senders.remove(&member);
        }
        out.push(MeshOutput::Event(MeshEvent::Members));
        if !admitted && member == self.identity.member {
            self.expelled = true;
            out.push(MeshOutput::Event(MeshEvent::Expelled));
        }
        self.view.rewire(now);
        let waited = self
            .writers
            .take_due(|deferred| deferred.record.key == RecordKey::Node(member));
        for deferred in waited {
            self.has(deferred.from, &deferred.record);
            self.take(now, deferred.from, &deferred.record, out);
        }
    }

    fn is_voted_against(&self, member: MemberId) -> bool {
        self.tallies.is_voted_against(self.ground(), member)
    }

    /// Votes, ascending by subject, replace the watcher's earlier ones. Who is heard again by
    /// another is looked for.
    pub(super) fn apply_votes(&mut self, now: Time, before: Option<&Record>, after: &Record) {
        let still = votes(after);
        let is_gone = |subject| {
            let vote = still.binary_search_by_key(&subject, |vote| vote.subject);
            vote.is_ok_and(|at| still[at].level == SuspicionLevel::Gone)
        };
        for vote in before.map_or(&[][..], votes) {
            if vote.level == SuspicionLevel::Gone && !is_gone(vote.subject) {
                self.watch.look(now, vote.subject);
            }
        }
        self.view.soil(now);
    }
}

/// What a watcher votes. Its record has been checked.
fn votes(record: &Record) -> &[Vote] {
    record.votes().unwrap_or_default()
}

/// The body of an admission, within its bounds.
pub(super) fn member_body(record: &Record) -> Result<MemberBody, record::RecordError> {
    let body: MemberBody = record.body()?;
    let fits = body.name.len() <= TEXT_MAX && body.rack.len() <= TEXT_MAX && !body.name.is_empty();
    fits.then_some(body).ok_or(record::RecordError::Body)
}

/// The cluster's body, if it is of this root.
pub(super) fn cluster_body(
    record: &Record,
    root: &NodeKey,
) -> Result<ClusterBody, record::RecordError> {
    let body: ClusterBody = record.body()?;
    let fits = body.root == *root && u64::from(body.generation) == record.version.incarnation;
    fits.then_some(body).ok_or(record::RecordError::Body)
}

/// Whether the body is what its key says, within its bounds.
pub(super) fn check_body(record: &Record) -> Result<(), record::RecordError> {
    let fits = match record.key {
        RecordKey::Node(_) => {
            let body: NodeBody = record.body()?;
            body.payload.len() <= NODE_PAYLOAD_MAX
                && body.addresses.len() <= LIST_MAX
                && body.problems.len() <= LIST_MAX
                && body.problems.iter().all(|text| text.len() <= PROBLEM_MAX)
                && body.agent_version.len() <= TEXT_MAX
        }
        RecordKey::Watch(_) => {
            let votes = record.votes()?;
            let mut pairs = votes.windows(2);
            pairs.all(|two| two[0].subject < two[1].subject) && votes.len() <= VOTES_MAX
        }
        RecordKey::Document(_) => {
            let header: Header = record.body()?;
            header.author.len() <= TEXT_MAX && header.version > 0
        }
        RecordKey::Member(_) => return member_body(record).map(|_| ()),
        RecordKey::Cluster => {
            let _: ClusterBody = record.body()?;
            true
        }
        RecordKey::Replacement => {
            let body: ReplacementBody = record.body()?;
            body.before.len() <= BEFORE_MAX && u64::from(body.generation) == record.version.number
        }
    };
    fits.then_some(()).ok_or(record::RecordError::Body)
}

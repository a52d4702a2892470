//! Which job has a name.

use std::collections::BTreeSet;

use muster_model::id::JobKey;

use super::VcState;
use crate::gang::{JobId, hash};

/// The jobs there are, ended ones included, by a number that is made of the name: the name itself is the
/// job's. Names that share a number are told apart by looking.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(BTreeSet<(u64, JobId)>);

impl Names {
    pub(super) fn insert(&mut self, key: &JobKey, id: JobId) {
        self.0.insert((number(key), id));
    }

    pub(super) fn remove(&mut self, key: &JobKey, id: JobId) {
        self.0.remove(&(number(key), id));
    }

    /// The jobs that may have the name.
    fn alike(&self, key: &JobKey) -> impl Iterator<Item = JobId> {
        let number = number(key);
        let alike = self.0.range((number, JobId(0))..=(number, JobId(u64::MAX)));
        alike.map(|(_, id)| *id)
    }
}

fn number(key: &JobKey) -> u64 {
    hash(&key.to_string())
}

impl VcState {
    /// The job's id within this virtual cluster.
    pub fn job_id(&self, key: &JobKey) -> Option<JobId> {
        let mut alike = self.index.names.alike(key);
        alike.find(|id| self.key_of(*id) == Some(key))
    }

    fn key_of(&self, id: JobId) -> Option<&JobKey> {
        let job = self.jobs.get(&id).map(|job| &job.accepted.key);
        job.or_else(|| self.finished.get(&id).map(|job| &job.summary.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_number_are_told_apart() {
        let mut names = Names::default();
        let (a, b): (JobKey, JobKey) = ("alice~a".parse().unwrap(), "alice~b".parse().unwrap());
        names.insert(&a, JobId(1));
        names.0.insert((number(&a), JobId(2)));
        names.insert(&b, JobId(3));
        assert_eq!(names.alike(&a).collect::<Vec<_>>(), [JobId(1), JobId(2)]);
        names.remove(&a, JobId(1));
        assert_eq!(names.alike(&a).collect::<Vec<_>>(), [JobId(2)]);
        assert_eq!(names.alike(&b).collect::<Vec<_>>(), [JobId(3)]);
    }
}

//! Users: they submit jobs at any machine, try elsewhere when nobody answers, and know what they were
//! told.

use muster_consensus::GroupId;
use muster_control::request::vc::{ChangeJob, FindJob};
use muster_control::request::{Json, RequestFailure};
use muster_control::vc::{AcceptedJob, JobDocument, VcApplied, VcEntry, VcRejection};
use muster_model::id::{AttemptUid, JobKey};
use muster_model::job::JobSpec;
use muster_model::sight::JobSight;
use muster_model::time::Time;
use muster_model::view::JobSummary;

use super::account::ClusterAccount;
use super::asking::{Purpose, Question};
use super::{Cluster, Out};

/// A gateway asks for so long, ms.
const PATIENCE_MS: u64 = 10_000;

/// How a job stands with its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A gateway was asked.
    Waiting(usize),
    /// It did not answer: the user tries elsewhere.
    Unsure,
    Accepted,
}

#[derive(Debug)]
struct UserJob {
    group: GroupId,
    key: JobKey,
    spec: JobSpec,
    told: Told,
    /// Names the newest submission, if there was one.
    uid: Option<AttemptUid>,
    tries: u32,
    /// How many times it was accepted and lost with those that knew of it.
    lost: u32,
}

/// All users.
#[derive(Debug, Default)]
pub(super) struct SimUsers(Vec<UserJob>);

impl SimUsers {
    /// A virtual cluster goes on in another group.
    pub(super) fn recovered(&mut self, from: GroupId, to: GroupId) {
        for job in self.0.iter_mut().filter(|job| job.group == from) {
            job.group = to;
        }
    }

    /// What of a virtual cluster only machines knew that are lost for good has to be submitted again.
    pub(super) fn forget(&mut self, group: GroupId, is_known: impl Fn(&JobKey) -> bool) {
        for job in self.0.iter_mut().filter(|job| job.group == group) {
            if job.told == Told::Accepted && !is_known(&job.key) {
                job.told = Told::Unsure;
                job.tries = 1;
                job.lost += 1;
            }
        }
    }

    /// Jobs that no gateway has answered for.
    pub(super) fn unsure(&self) -> Option<u64> {
        let unsure = self.0.iter().position(|job| job.told == Told::Unsure)?;
        Some(unsure as u64)
    }

    /// A job that was accepted, any of them.
    pub(super) fn accepted(&self, at: u64) -> Option<u64> {
        let count = self.0.len() as u64;
        let any = (0..count).map(|next| (at + next) % count.max(1));
        any.into_iter()
            .find(|job| self.job(*job).is_some_and(|it| it.told == Told::Accepted))
    }

    /// Whether all were told that their jobs are accepted.
    pub(super) fn all_know(&self) -> bool {
        self.0.iter().all(|job| job.told == Told::Accepted)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// What was submitted under this name.
    pub(super) fn spec(&self, group: GroupId, key: &JobKey) -> Option<&JobSpec> {
        let mut jobs = self.0.iter();
        let job = jobs.find(|job| job.group == group && job.key == *key);
        job.map(|job| &job.spec)
    }

    fn job(&self, job: u64) -> Option<&UserJob> {
        self.0.get(usize::try_from(job).ok()?)
    }

    fn job_mut(&mut self, job: u64) -> Option<&mut UserJob> {
        self.0.get_mut(usize::try_from(job).ok()?)
    }

    /// A machine's process is gone, and the connections of users with it.
    pub(super) fn gone(&mut self, node: usize) {
        for job in &mut self.0 {
            if job.told == Told::Waiting(node) {
                job.told = Told::Unsure;
            }
        }
    }

    /// A gateway says what became of a job.
    pub(super) fn submitted(
        &mut self,
        job: u64,
        (answer, failed): (
            Option<Result<VcApplied, VcRejection>>,
            Option<&RequestFailure>,
        ),
        account: &mut ClusterAccount,
    ) {
        let Some(job) = self.job_mut(job) else { return };
        match (answer, failed) {
            // Of names that nobody else has, one that exists was taken before.
            (Some(answer @ (Ok(_) | Err(VcRejection::JobExists(_)))), _) => {
                let first = job.tries == 1;
                let exists = answer.is_err();
                account.expect(!(first && exists), || {
                    format!("{} exists before it was submitted", job.key)
                });
                job.told = Told::Accepted;
                account.promised.insert((job.group, job.key.clone()));
            }
            (Some(Err(rejected)), _) => {
                account.expect(false, || format!("{} was refused: {rejected}", job.key));
            }
            (None, Some(RequestFailure::NotLed { .. } | RequestFailure::Refused(_))) => {
                if let Some(uid) = job.uid.clone() {
                    account.deny(job.group, uid);
                }
                job.told = Told::Unsure;
            }
            _ => job.told = Told::Unsure,
        }
    }

    /// A user has looked at a job.
    pub(super) fn looked(
        &self,
        (job, lost): (u64, u32),
        answer: Option<Json<Option<JobSummary>>>,
        account: &mut ClusterAccount,
    ) {
        let Some(job) = self.job(job) else { return };
        // One that was lost meanwhile is submitted again.
        let counts = job.told == Told::Accepted && job.lost == lost;
        let missing = counts && answer.is_some_and(|job| job.0.is_none());
        account.expect(!missing, || {
            format!("{} was accepted, and nobody knows it", job.key)
        });
    }
}

impl Cluster {
    /// A user has another job, and submits it here.
    pub(super) fn submit(
        &mut self,
        now: Time,
        gateway: usize,
        (group, spec): (GroupId, JobSpec),
        out: &mut Out,
    ) {
        let number = self.users.0.len();
        let name = format!("alice~job{number}");
        self.figures.submits(now, group, &name);
        let key = match name.parse() {
            Ok(key) => key,
            Err(error) => panic!("bug in the simulator: {error}"),
        };
        self.users.0.push(UserJob {
            group,
            key,
            spec,
            told: Told::Unsure,
            uid: None,
            tries: 0,
            lost: 0,
        });
        self.submit_again(now, gateway, number as u64, out);
    }

    /// A job is submitted here, under the same name as before.
    pub(super) fn submit_again(&mut self, now: Time, gateway: usize, job: u64, out: &mut Out) {
        let random = self.random.next();
        let Some(known) = self.users.job_mut(job) else {
            return;
        };
        known.told = Told::Waiting(gateway);
        known.tries += 1;
        let uid: AttemptUid = match format!("uid-{random:x}").parse() {
            Ok(uid) => uid,
            Err(error) => panic!("bug in the simulator: {error}"),
        };
        known.uid = Some(uid.clone());
        let submitted = self.machines[gateway].clock.wall(now);
        let (group, entry) = (known.group, accept(known, uid, submitted));
        let question = Question::vc(group, ChangeJob(entry));
        let asked = (question, Purpose::Submit(job));
        self.ask((now, gateway), asked, PATIENCE_MS, out);
    }

    /// Whether a job has ever been placed.
    pub(super) fn was_placed(&self, job: u64) -> bool {
        let job = self.users.job(job);
        job.is_some_and(|job| self.account.was_placed(job.group, &job.key))
    }

    /// How a job stands, by the word of who leads its virtual cluster.
    pub(super) fn summary(&self, job: u64) -> Option<JobSummary> {
        let job = self.users.job(job)?;
        self.state(job.group)?.summary(&job.key)
    }

    /// A user looks at a job, here.
    pub(super) fn look_at(&mut self, now: Time, gateway: usize, job: u64, out: &mut Out) {
        let Some(known) = self.users.job(job) else {
            return;
        };
        let question = Question::vc(known.group, find(known.key.clone()));
        let asked = (question, Purpose::Look(job, known.lost));
        self.ask((now, gateway), asked, PATIENCE_MS, out);
    }
}

fn find(job: JobKey) -> FindJob {
    let sight = JobSight::All;
    FindJob { job, sight }
}

fn accept(job: &UserJob, uid: AttemptUid, submitted: Time) -> VcEntry {
    let accepted = AcceptedJob {
        key: job.key.clone(),
        uid,
        spec: job.spec.clone(),
        document: JobDocument::default(),
        sealed_secrets: Vec::new(),
        submitted_ms: submitted.as_millis(),
    };
    VcEntry::Accept(Box::new(accepted))
}

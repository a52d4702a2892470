//! What concerns all virtual clusters is asked of each at the same time. One whose leader cannot be
//! reached keeps nobody from hearing the others.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use muster_control::request::vc::{
    DescriptionVersion, Explain, FindJob, GetTerm, GiveUp, JobList, ListCells, ListFoundTasks,
    ListJobs, ListNodes, ListTasksOn, ListUsage, ListWantedImages, OfVc, SayOff, TryDescription,
};
use muster_control::request::{Answers, Json};
use muster_control::vc::NotFound;
use muster_gossip::member::MemberId;
use muster_model::explanation::Explanation;
use muster_model::id::{self, JobKey, TaskId, UserName, VcName};
use muster_model::job_query::{JobFilter, JobQuery};
use muster_model::known_node::KnownNode;
use muster_model::sight::JobSight;
use muster_model::vc::{Amount, VcView, WhatIf};
use muster_model::vc_cells::VcCells;
use muster_model::view::{Age, JobSummary};
use muster_portal_gateway::port::{FoundJobs, FoundUsage};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};

use super::AtLeader;
use super::handle::{VcError, VcHandle};
use super::reading::UnseenJob;

/// Why it is not known what jobs of a virtual cluster would lose, if its leader says nothing.
const AWAY: &str = "nobody leads there who can be reached";

/// Why nodes cannot be listed, and what to do.
fn no_nodes(why: Option<&VcError>) -> String {
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    format!(
        "which nodes there are is known to the leaders of virtual clusters, and none of them answers{why}; see \
         with `muster cluster status` which voters cannot be reached, and bring a majority of them back"
    )
}

/// What each answered.
pub(crate) type VcAnswers<T> = Vec<(VcName, T)>;

/// What those answered that could be asked.
struct GatheredAnswers<T> {
    told: VcAnswers<T>,
    away: Vec<(VcName, VcError)>,
}

impl<T> GatheredAnswers<T> {
    /// All answers.
    ///
    /// # Errors
    /// When one is missing.
    fn all(self) -> Result<VcAnswers<T>, VcError> {
        match self.away.into_iter().next() {
            Some((_, why)) => Err(why),
            None => Ok(self.told),
        }
    }

    /// Some answers, and who gave none.
    ///
    /// # Errors
    /// When nobody answered who was asked.
    fn some(self) -> Result<(VcAnswers<T>, Vec<VcName>), VcError> {
        if self.told.is_empty() && !self.away.is_empty() {
            self.all().map(|told| (told, Vec::new()))
        } else {
            let away = self.away.into_iter().map(|(vc, _)| vc);
            Ok((self.told, away.collect()))
        }
    }
}

/// What may be running on a node.
#[derive(Debug)]
pub(crate) struct TasksOn {
    /// The tasks.
    pub(crate) tasks: Vec<(VcName, JobKey, TaskId)>,
    /// Virtual clusters that may have more there.
    pub(crate) away: Vec<VcName>,
}

impl VcHandle {
    /// Asks these virtual clusters.
    async fn of<R: OfVc>(&self, vcs: Vec<VcName>, request: &R) -> GatheredAnswers<R::Answer>
    where
        for<'a> AtLeader<'a>: Answers<R>,
    {
        let is_only = vcs.len() == 1;
        let ask = |vc: VcName| async move {
            let answer = self.ask_one(&vc, is_only, request.clone()).await;
            (vc, answer)
        };
        let mut heard = GatheredAnswers {
            told: Vec::new(),
            away: Vec::new(),
        };
        for (vc, answer) in join_all(vcs.into_iter().map(ask)).await {
            match answer {
                Ok(told) => heard.told.push((vc, told)),
                Err(why) => heard.away.push((vc, why)),
            }
        }
        heard
    }

    /// Asks one of several. Where there is no other, there is nothing to be told without it.
    async fn ask_one<R: OfVc>(
        &self,
        vc: &VcName,
        is_only: bool,
        request: R,
    ) -> Result<R::Answer, VcError>
    where
        for<'a> AtLeader<'a>: Answers<R>,
    {
        let asked = self.ask(vc, request);
        match is_only {
            true => asked.await,
            false => self.in_time(vc, asked).await,
        }
    }

    /// The answer, if it comes before the others have waited for too long.
    pub(super) async fn in_time<T>(
        &self,
        vc: &VcName,
        asked: impl Future<Output = Result<T, VcError>>,
    ) -> Result<T, VcError> {
        let soon = timeout(self.silent.patience(vc, Instant::now()), asked).await;
        self.judge(vc, soon).unwrap_or_else(|| {
            Err(VcError::Away(format!(
                "the leader of virtual cluster {vc} does not answer; try again when enough of its \
                 voters can be reached"
            )))
        })
    }

    /// The answer, if it came in time. Whoever asks next waits less for one that did not answer.
    pub(super) fn judge<T>(
        &self,
        vc: &VcName,
        soon: Result<Result<T, VcError>, Elapsed>,
    ) -> Option<Result<T, VcError>> {
        match soon {
            Ok(answer) => {
                self.silent.answers(vc);
                Some(answer)
            }
            Err(_) => {
                self.silent.is_late(vc, Instant::now());
                None
            }
        }
    }

    /// Asks every virtual cluster.
    async fn everywhere<R: OfVc>(&self, request: &R) -> Result<GatheredAnswers<R::Answer>, VcError>
    where
        for<'a> AtLeader<'a>: Answers<R>,
    {
        Ok(self.of(self.names()?, request).await)
    }

    /// The virtual clusters that a filter takes.
    pub(super) fn wanted(&self, filter: &JobFilter) -> Result<Vec<VcName>, VcError> {
        let mut vcs = self.names()?;
        vcs.retain(|vc| filter.vcs.is_empty() || filter.vcs.iter().any(|name| name == vc.as_str()));
        Ok(vcs)
    }

    /// The jobs that are asked for, by the leaders' word alone.
    ///
    /// # Errors
    /// When no virtual cluster can be asked that the filter takes.
    pub(crate) async fn jobs(&self, query: JobQuery) -> Result<FoundJobs, VcError> {
        let vcs = self.wanted(&query.filter)?;
        let sight = JobSight::All;
        let (told, away) = self.of(vcs, &ListJobs { query, sight }).await.some()?;
        let mut listed = FoundJobs {
            away,
            ..FoundJobs::default()
        };
        for (_, JobList { jobs, total }) in told {
            listed.jobs.extend(jobs.0);
            listed.total += total;
        }
        Ok(listed)
    }

    /// The jobs of every virtual cluster.
    ///
    /// # Errors
    /// When one of them cannot be asked.
    pub(crate) async fn all_jobs(&self) -> Result<Vec<JobSummary>, VcError> {
        let listed = self.jobs(JobQuery::default()).await?;
        match listed.away.first() {
            Some(vc) => Err(VcError::Away(format!(
                "the leader of virtual cluster {vc} does not answer; try again"
            ))),
            None => Ok(listed.jobs),
        }
    }

    /// One job, with why it waits, if it is seen or not; of two virtual clusters that have one of the name, the
    /// newest. `sight`: which others may be named.
    ///
    /// # Errors
    /// When it is not known whether there is one.
    pub(crate) async fn job(
        &self,
        key: JobKey,
        sight: &JobSight,
    ) -> Result<Option<JobSummary>, VcError> {
        let (newest, all) = self.newest(key, sight).await?;
        match newest {
            Some(job) => Ok(Some(job)),
            None => all.map(|()| None),
        }
    }

    /// The newest job of this name, of those who answer; and whether all do.
    async fn newest(
        &self,
        job: JobKey,
        sight: &JobSight,
    ) -> Result<(Option<JobSummary>, Result<(), VcError>), VcError> {
        let sight = sight.clone();
        let heard = self.everywhere(&FindJob { job, sight }).await?;
        let found = heard.told.iter().filter_map(|(_, job)| job.0.as_ref());
        let newest = found.max_by_key(|job| job.submitted).cloned();
        Ok((newest, heard.all().map(drop)))
    }

    /// The virtual cluster that has the job that is to be changed.
    ///
    /// # Errors
    /// When it is not known which: of one that has ended there may be another since, where nobody answers. One
    /// that has not is taken to be meant.
    pub(crate) async fn vc_of(&self, key: &JobKey) -> Result<Result<VcName, NotFound>, VcError> {
        let mut names = self.names()?;
        if names.len() == 1
            && let Some(only) = names.pop()
        {
            return Ok(Ok(only));
        }
        let (newest, all) = self.newest(key.clone(), &JobSight::All).await?;
        if newest.as_ref().is_none_or(|job| job.state().is_final()) {
            all?;
        }
        let missing = || NotFound::Job(key.clone());
        Ok(newest.map(|job| job.vc).ok_or_else(missing))
    }

    /// Why a job waits, in full, if it is seen.
    ///
    /// # Errors
    /// [`VcError::Away`].
    pub(crate) async fn explanation(
        &self,
        job: JobKey,
        sight: &JobSight,
    ) -> Result<Result<Explanation, UnseenJob>, VcError> {
        let Some(found) = self.job(job.clone(), sight).await? else {
            return Ok(Err(NotFound::Job(job).into()));
        };
        if let Err(hidden) = sight.check(&found.vc, &job) {
            return Ok(Err(hidden.into()));
        }
        let sight = sight.clone();
        let why = self.ask(&found.vc, Explain { job, sight }).await?;
        Ok(why.map(|why| why.0).map_err(UnseenJob::from))
    }

    /// What a virtual cluster is promised, cell by cell, and which of its jobs has what; none if there is no such one.
    ///
    /// # Errors
    /// When its leader does not answer.
    pub(crate) async fn cells(
        &self,
        name: &str,
        sight: &JobSight,
    ) -> Result<Option<VcCells>, VcError> {
        let Some(vc) = self.names()?.into_iter().find(|vc| vc.as_str() == name) else {
            return Ok(None);
        };
        let sight = sight.clone();
        let asked = self.ask(&vc, ListCells { sight });
        Ok(Some(self.in_time(&vc, asked).await?.0))
    }

    /// The images that jobs want, by virtual cluster, and those that do not answer.
    ///
    /// # Errors
    /// When nobody answers.
    pub(crate) async fn images_wanted(
        &self,
    ) -> Result<(VcAnswers<BTreeSet<String>>, Vec<VcName>), VcError> {
        self.everywhere(&ListWantedImages).await?.some()
    }

    /// The oldest version of the description that a leader of these goes by, once all know one.
    ///
    /// # Errors
    /// When one of them cannot be asked.
    pub(crate) async fn description(&self, of: Vec<VcName>) -> Result<Option<u64>, VcError> {
        let told = self.of(of, &DescriptionVersion).await.all()?;
        Ok(told.into_iter().map(|(_, version)| version).min().flatten())
    }

    /// A description of what was found, promised to one virtual cluster: to be edited.
    ///
    /// # Errors
    /// When nobody answers.
    pub(crate) async fn found(&self) -> Result<String, VcError> {
        let (told, _) = self.everywhere(&ListFoundTasks).await?.some()?;
        // A new leader has not heard of every machine yet: whoever tells most knows most.
        let texts = told.into_iter().map(|(_, text)| text);
        Ok(texts.max_by_key(String::len).unwrap_or_default())
    }

    /// Every node. One leader is asked, the next one if it does not answer: all of them hear of every node.
    ///
    /// # Errors
    /// When none of them can be asked.
    pub(crate) async fn nodes(&self) -> Result<Vec<KnownNode>, VcError> {
        let mut vcs = self.names()?;
        vcs.sort_by_key(|vc| !self.leads(vc));
        let is_only = vcs.len() == 1;
        let mut first = None;
        for vc in &vcs {
            match self.ask_one(vc, is_only, ListNodes).await {
                Ok(nodes) => return Ok(nodes),
                Err(why) => first.get_or_insert(why),
            };
        }
        Err(VcError::Away(no_nodes(first.as_ref())))
    }

    /// What would become of jobs and promises by a description; or what is wrong with it, line by
    /// line.
    ///
    /// # Errors
    /// When nobody answers.
    pub(crate) async fn what_if(
        &self,
        text: String,
    ) -> Result<Result<WhatIf, Vec<String>>, VcError> {
        let heard = self.everywhere(&TryDescription(text)).await?;
        let (told, away) = heard.some()?;
        let all = told.into_iter().map(|(_, what)| what.map(|what| what.0));
        let all: Result<Vec<_>, _> = all.collect();
        Ok(all.map(|all| together(all, away)))
    }

    /// Whether all can be asked.
    ///
    /// # Errors
    /// [`VcError::Away`] of the first that cannot.
    pub(crate) async fn answer(&self) -> Result<(), VcError> {
        let told = self.everywhere(&GetTerm).await?;
        told.all().map(drop)
    }

    /// The tasks that may be running on a node, and the virtual clusters that do not say whether they
    /// have any there.
    ///
    /// # Errors
    /// When nobody answers.
    pub(crate) async fn tasks_on(&self, node: id::NodeId) -> Result<TasksOn, VcError> {
        let heard = self.everywhere(&ListTasksOn(node)).await?;
        let (told, away) = heard.some()?;
        let tasks = told.into_iter().flat_map(|(vc, tasks)| {
            let of = move |(job, task)| (vc.clone(), job, task);
            tasks.into_iter().map(of)
        });
        let tasks = tasks.collect();
        Ok(TasksOn { tasks, away })
    }

    /// What these users, and the groups that they are in, have of what the policy limits.
    ///
    /// # Errors
    /// When nobody answers.
    pub(crate) async fn usage(&self, users: BTreeSet<UserName>) -> Result<FoundUsage, VcError> {
        let heard = self.everywhere(&ListUsage(users)).await?;
        let (told, away) = heard.some()?;
        let usage = told
            .into_iter()
            .flat_map(|(_, Json(usage))| usage)
            .collect();
        Ok(FoundUsage { usage, away })
    }

    /// Gives up the tasks on a node that is off, as an admin says: soon after this returns. The virtual
    /// clusters that did not.
    ///
    /// # Errors
    /// When nobody does it, also because the node can be reached.
    pub(crate) async fn off(&self, node: id::NodeId) -> Result<Vec<VcName>, VcError> {
        let heard = self.everywhere(&SayOff(node)).await?;
        heard.some().map(|(_, away)| away)
    }

    /// A member's copies of all logs find other places. Those that have found none in time.
    ///
    /// # Errors
    /// When no virtual cluster is known.
    pub(crate) async fn give_up(
        &self,
        member: MemberId,
    ) -> Result<Vec<(VcName, VcError)>, VcError> {
        let give_up = |vc: VcName| async move {
            let given = self.ask(&vc, GiveUp(member)).await;
            given.err().map(|why| (vc, why))
        };
        // Longer than others are waited for: a copy has to be made elsewhere first.
        let given = join_all(self.names()?.into_iter().map(give_up)).await;
        Ok(given.into_iter().flatten().collect())
    }
}

/// Each virtual cluster once. `used`: what those use whose copies answered; `away`: whose leaders did
/// not, and how old the copies' word is.
pub(super) fn views(
    told: VcAnswers<Vec<VcView>>,
    used: &BTreeMap<VcName, Amount>,
    away: &[(VcName, Option<Age>)],
) -> Vec<VcView> {
    let mut all: BTreeMap<VcName, VcView> = BTreeMap::new();
    for (of, views) in told {
        for view in views {
            if view.name == of {
                all.insert(of.clone(), view);
            } else {
                all.entry(view.name.clone()).or_insert(view);
            }
        }
    }
    // Other leaders know more of it: what it is promised, and what of that can be used.
    for (name, used) in used {
        let own = || VcView {
            used: *used,
            ..VcView::new(name.clone())
        };
        all.entry(name.clone()).or_insert_with(own);
    }
    for (name, age) in away {
        if let Some(view) = all.get_mut(name) {
            let problem = "its leader does not answer: nothing new is placed there".to_owned();
            view.problems.push(problem);
            view.age.clone_from(age);
        }
    }
    all.into_values().collect()
}

/// What all leaders say together, but for those that do not answer.
fn together(all: Vec<WhatIf>, away: Vec<VcName>) -> WhatIf {
    let mut sum = WhatIf::default();
    let mut unnamed = BTreeSet::new();
    // A new leader has not heard of every machine yet: what one of them knows is there.
    let absent = all.iter().map(|what| what.absent.iter().cloned().collect());
    let absent = absent.reduce(|one: BTreeSet<String>, other| &one & &other);
    // Who has heard most machines knows best.
    let best = all.iter().min_by_key(|what| what.absent.len());
    sum.too_many = best.map(|what| what.too_many.clone()).unwrap_or_default();
    for what in all {
        sum.lose_quota.extend(what.lose_quota);
        sum.lose_devices.extend(what.lose_devices);
        sum.impossible.extend(what.impossible);
        unnamed.extend(what.unnamed);
        sum.unheard.extend(what.unheard);
    }
    let away = away.into_iter();
    sum.unheard.extend(away.map(|vc| (vc, AWAY.to_owned())));
    sum.absent = absent.into_iter().flatten().collect();
    sum.unnamed = unnamed.into_iter().collect();
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vc(name: &str) -> VcName {
        name.parse().unwrap()
    }

    fn view(name: &str, gpu: u32) -> VcView {
        let mut view = VcView::new(vc(name));
        view.used.gpu = gpu;
        view
    }

    #[test]
    fn each_leader_speaks_for_its_own_virtual_cluster() {
        let told = vec![
            (vc("a"), vec![view("a", 1), view("b", 7), view("c", 9)]),
            (vc("b"), vec![view("a", 5), view("b", 2), view("c", 9)]),
        ];
        let all = views(told, &BTreeMap::new(), &[(vc("c"), None)]);
        let used: Vec<_> = all.iter().map(|view| view.used.gpu).collect();
        assert_eq!(used, [1, 2, 9]);
        assert!(all[0].problems.is_empty() && all[1].problems.is_empty());
        assert!(all[2].problems[0].contains("does not answer"));
    }

    #[test]
    fn a_copy_speaks_for_one_of_which_no_leader_does() {
        let told = vec![(vc("a"), vec![view("a", 1), view("b", 2)])];
        let amount = |gpu| Amount {
            gpu,
            ..Amount::default()
        };
        let used = BTreeMap::from([(vc("b"), amount(5)), (vc("c"), amount(7))]);
        let age = |name: &str, seconds| {
            let age = Age {
                vc: vc(name),
                seconds: Some(seconds),
            };
            (vc(name), Some(age))
        };
        let all = views(told, &used, &[age("b", 4), age("c", 6)]);
        let used: Vec<_> = all.iter().map(|view| view.used.gpu).collect();
        assert_eq!(used, [1, 2, 7], "another leader knows more of b");
        let ages: Vec<_> = all.iter().map(|view| view.age.as_ref()).collect();
        let seconds = |age: Option<&Age>| age.and_then(|age| age.seconds);
        let seconds: Vec<_> = ages.into_iter().map(seconds).collect();
        assert_eq!(seconds, [None, Some(4), Some(6)]);
    }

    #[test]
    fn what_all_would_lose_is_told_once() {
        let one = WhatIf {
            lose_quota: ["ada~one".parse().unwrap()].into(),
            absent: vec!["n9".to_owned()],
            ..WhatIf::default()
        };
        let other = WhatIf {
            lose_devices: ["ada~two".parse().unwrap()].into(),
            absent: vec!["n8".to_owned(), "n9".to_owned()],
            unheard: [(vc("a"), "too early".to_owned())].into(),
            ..WhatIf::default()
        };
        let sum = together(vec![one, other], vec![vc("b")]);
        assert_eq!((sum.lose_quota.len(), sum.lose_devices.len()), (1, 1));
        assert_eq!(sum.absent, ["n9"]);
        let unheard: Vec<_> = sum
            .unheard
            .iter()
            .map(|(vc, why)| (vc.as_str(), &**why))
            .collect();
        assert_eq!(unheard, [("a", "too early"), ("b", AWAY)]);
    }
}

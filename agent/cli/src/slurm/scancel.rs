//! `scancel`.

use std::collections::BTreeSet;

use muster_model::id::{JobKey, UserName};

use super::number::{JobSelector, shown};
use super::option::OptionValue::{Needed, No};
use super::option::{NO_SHORT, OF_ALL, OptionLine, SlurmOption, SlurmTool, done, refused};
use super::queued::{JobChoice, SlurmState};
use super::words;
use crate::api::{Api, ListedJob};
use crate::console::Console;
use crate::error::CliError;
use crate::names;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster slurm scancel 123456789
  scancel --me -t PD
  scancel -u ada -n train
  scancel ada~train

On a terminal it asks before it stops more than one job that is not named. A stopped job does not start again.";

const ABOUT: &str = "Stops jobs of Muster.";

const OPTIONS: &[SlurmOption] = &[
    done('u', "user", Needed, "jobs of these users"),
    done(NO_SHORT, "me", No, "jobs of mine"),
    done(
        'n',
        "name",
        Needed,
        "jobs with these names; of mine unless -u is given",
    ),
    done(NO_SHORT, "jobname", Needed, "the same"),
    done(
        'p',
        "partition",
        Needed,
        "jobs of these virtual clusters; of mine unless -u is given",
    ),
    done(
        't',
        "state",
        Needed,
        "jobs in these states; of mine unless -u is given",
    ),
    done('i', "interactive", No, "ask before each is stopped"),
    done('Q', "quiet", No, "say nothing of jobs that have ended"),
    done('v', "verbose", No, "say what is stopped"),
    done(NO_SHORT, "help", No, "this text"),
    refused(
        's',
        "signal",
        "a job gets SIGTERM when it is stopped; no other signal can be sent",
    ),
    refused('b', "batch", "all processes of a job get SIGTERM"),
    refused('f', "full", "all processes of a job get SIGTERM"),
    refused('H', "hurry", "a job has the grace period of the policy"),
    refused('A', "account", "there are no accounts; give --partition"),
    refused('q', "qos", "give --name or --partition"),
    refused('w', "nodelist", "`muster drain NODE` empties a node"),
    refused('R', "reservation", "there are none"),
    refused(NO_SHORT, "wckey", "there are none"),
];

const TOOL: SlurmTool = SlurmTool {
    name: "scancel",
    operands: "[JOB]...",
    options: &[OPTIONS, OF_ALL],
    ends_at_operand: false,
};

/// So many jobs are named in a question.
const NAMED_MAX: usize = 5;

pub(super) async fn run(
    given: &[String],
    api: impl FnOnce() -> Result<Api, CliError>,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let Some(line) = words(&TOOL, given, ABOUT, EXAMPLES, console)? else {
        return Ok(CliStatus::Ok);
    };
    let wanted = Wanted::read(&line)?;
    let api = api()?;
    let me = api.user()?;
    let found = wanted.choice(&me).find(&api, console).await?;
    let (jobs, mut is_well) = wanted.meant(found, &me, console)?;
    if jobs.len() > 1 && !wanted.is_by_name() && console.interactive && !line.has("interactive") {
        let named = names::at_most(NAMED_MAX, jobs.iter());
        if !console.agreed(&format!("stop {} jobs: {named}?", jobs.len()))? {
            return Ok(CliStatus::Negative);
        }
    }
    for key in &jobs {
        if line.has("interactive") && !console.agreed(&format!("stop {key}?"))? {
            continue;
        }
        match api.stop(key).await {
            Ok(()) if line.has("verbose") => console.note(format!("{key} is being stopped")),
            Ok(()) => {}
            Err(error) => {
                console.report(&error);
                is_well = false;
            }
        }
    }
    Ok(CliStatus::of(is_well))
}

/// What is to be stopped.
struct Wanted {
    filter: JobChoice,
    jobs: Vec<JobSelector>,
    is_mine: bool,
    is_quiet: bool,
}

impl Wanted {
    fn read(line: &OptionLine) -> Result<Self, CliError> {
        let mut filter = JobChoice::read(line)?;
        filter.names.extend(line.list("jobname"));
        filter.states = SlurmState::read_all(line, "state")?;
        let words = line.operands.iter().flat_map(|word| word.split(','));
        let words = words.filter(|word| !word.is_empty());
        let jobs: Result<Vec<_>, _> = words.map(JobSelector::read).collect();
        let jobs = jobs.map_err(CliError::Usage)?;
        let is_filtered = ["user", "me", "name", "jobname", "partition", "state"];
        let is_filtered = is_filtered.iter().any(|name| line.has(name));
        if jobs.is_empty() && !is_filtered {
            let why = "no job is named: scancel JOB, or scancel --me for all of yours";
            return Err(CliError::Usage(why.to_owned()));
        }
        Ok(Self {
            filter,
            jobs,
            is_mine: line.has("me"),
            is_quiet: line.has("quiet"),
        })
    }

    fn is_by_name(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// What to ask for. Without a user, a filter means the jobs of who asks; a job that is named may be
    /// anybody's.
    fn choice(&self, me: &UserName) -> JobChoice {
        let mut choice = self.filter.clone();
        choice.jobs.clone_from(&self.jobs);
        if self.is_mine || (choice.users.is_empty() && self.jobs.is_empty()) {
            choice.users = vec![me.clone()];
        }
        if choice.states.is_empty() && self.jobs.is_empty() {
            choice.states = SlurmState::ACTIVE.to_vec();
        }
        choice
    }

    /// The jobs to stop, and whether each that was named is among them.
    fn meant(
        &self,
        found: Vec<ListedJob>,
        me: &UserName,
        console: &Console,
    ) -> Result<(BTreeSet<JobKey>, bool), CliError> {
        let active = |job: &ListedJob| !job.state.is_final();
        if self.jobs.is_empty() {
            let keys = found.into_iter().filter(active).map(|it| it.summary.key);
            return Ok((keys.collect(), true));
        }
        let (mut keys, mut is_well) = (BTreeSet::new(), true);
        for selector in &self.jobs {
            let of_it = found.iter().filter(|job| selector.takes(&job.summary.key));
            let of_it: Vec<&ListedJob> = of_it.collect();
            let mine = of_it
                .iter()
                .filter(|job| job.summary.key.user == *me)
                .copied();
            let mine: Vec<&ListedJob> = mine.collect();
            let of_it = if mine.is_empty() { of_it } else { mine };
            let (running, ended): (Vec<&ListedJob>, Vec<_>) =
                of_it.into_iter().partition(|job| active(job));
            match (&running[..], &ended[..]) {
                ([one], _) => {
                    keys.insert(one.summary.key.clone());
                }
                ([], []) => {
                    return Err(CliError::Usage(format!(
                        "no such job: {}",
                        selector.words()
                    )));
                }
                ([], [one, ..]) => {
                    is_well = false;
                    if !self.is_quiet {
                        let job = shown(&one.summary.key);
                        console.note(format!("{job} has ended already: {}", one.state));
                    }
                }
                (several, _) => return Err(ambiguous(selector, several)),
            }
        }
        Ok((keys, is_well))
    }
}

fn ambiguous(selector: &JobSelector, several: &[&ListedJob]) -> CliError {
    let keys = several.iter().map(|job| &job.summary.key);
    let keys = names::at_most(NAMED_MAX, keys);
    let words = selector.words();
    CliError::Usage(format!(
        "{words} may be {keys}: name one as user~name, or give -n NAME for all of yours"
    ))
}

impl JobSelector {
    fn words(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Key(key) => key.to_string(),
            Self::Name(name) => name.clone(),
        }
    }
}

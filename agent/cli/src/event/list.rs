//! `muster event list`.

use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::Args;
use muster_model::alarm::{Alarm, AlarmState, AlarmsAfter};
use muster_model::id::JobKey;
use tokio::time::sleep;

use crate::api::{Api, ListedEvent};
use crate::cluster::alarm_table;
use crate::console::{Console, Paint};
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::job_ref::{Acting, JobRef};
use crate::output::OutputOption;
use crate::patience::Patience;
use crate::status::CliStatus;
use crate::table::{TableCell, TextTable};

pub(super) const EXAMPLES: &str = "\
An event that happens again is one event with a count. Of a job the newest events are kept. Alarms are those that the
agent's machine has seen; `muster cluster alarms` has more on them.

Examples:
  muster event list train
  muster event list ada~train --warning
  muster event list train -f
  muster event list -o json | jq -r '.[].text'";

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub struct EventListArguments {
    /// The job: user~name, or the name alone.
    #[arg(value_name = "JOB")]
    job: Option<JobRef>,
    /// Only warnings; of alarms, only those that something is wrong.
    #[arg(short, long)]
    warning: bool,
    /// Go on with what happens, until the job has ended.
    #[arg(short, long, conflicts_with = "format")]
    follow: bool,
    #[command(flatten)]
    acting: Acting,
    #[command(flatten)]
    output: OutputOption,
}

impl EventListArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let api = self.acting.api(connection)?;
        let key = match self.job {
            None => return of_cluster(&api, self.warning, self.follow, self.output, console).await,
            Some(JobRef::Full(key)) => key,
            Some(JobRef::Bare(name)) => JobKey {
                user: api.user()?,
                name,
            },
        };
        if self.follow {
            return follow(&api, &key, self.warning, console).await;
        }
        let events = api.events(&key, self.warning).await?;
        self.output
            .write(console, &events, |events, paint| match &events[..] {
                [] => "no events".to_owned(),
                events => table(events, paint),
            })?;
        Ok(CliStatus::Ok)
    }
}

/// Prints what is new until the job has ended.
async fn follow(
    api: &Api,
    key: &JobKey,
    only_warnings: bool,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut patience = Patience::default();
    loop {
        // In this order: what happens at the end is told before the end.
        let looked = async {
            let job = api.job(key, None).await?;
            let events = api.events(key, only_warnings).await?;
            Ok::<_, CliError>((job.value, events))
        };
        let Some((job, events)) = patience.bear(looked.await).await? else {
            continue;
        };
        let is_new = |event: &&ListedEvent| seen.get(&event.uid) != Some(&event.count);
        let new: Vec<ListedEvent> = events.iter().filter(is_new).cloned().collect();
        if !new.is_empty() {
            console.line(table(&new, console.paint).trim_end())?;
        }
        seen.extend(new.into_iter().map(|event| (event.uid, event.count)));
        if job.summary.state().is_final() {
            return Ok(CliStatus::Ok);
        }
        sleep(PAUSE).await;
    }
}

/// The oldest first.
fn table(events: &[ListedEvent], paint: Paint) -> String {
    let mut table = TextTable::new(["LAST", "TYPE", "REASON", "TASK", "NODE", "COUNT", "MESSAGE"]);
    for event in events {
        let style = match event.is_warning() {
            true => AnsiColor::Yellow.on_default(),
            false => Style::new(),
        };
        table.row([
            event.when().into(),
            TableCell::styled(&event.kind, style),
            event.reason.as_str().into(),
            event.task().into(),
            event.source_host.as_deref().unwrap_or_default().into(),
            event.count.into(),
            event.message.as_str().into(),
        ]);
    }
    table.render(paint, 0)
}

async fn of_cluster(
    api: &Api,
    only_warnings: bool,
    is_followed: bool,
    output: OutputOption,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let is_wanted = |alarm: &Alarm| !only_warnings || alarm.state == AlarmState::Raised;
    let mut after = AlarmsAfter::default();
    let mut patience = Patience::default();
    loop {
        let asked = api.alarms(&after).await;
        let asked = match is_followed {
            true => patience.bear(asked).await?,
            false => Some(asked?),
        };
        let Some(mut alarms) = asked else {
            continue;
        };
        alarms.alarms.retain(is_wanted);
        if !is_followed {
            output.write(console, &alarms.alarms, |alarms, paint| match &alarms[..] {
                [] => "no alarms".to_owned(),
                alarms => alarm_table(alarms, paint),
            })?;
            return Ok(CliStatus::Ok);
        }
        if !alarms.alarms.is_empty() {
            console.line(alarm_table(&alarms.alarms, console.paint).trim_end())?;
        }
        after = AlarmsAfter {
            number: alarms.last,
            boot: Some(alarms.boot),
        };
        sleep(PAUSE).await;
    }
}

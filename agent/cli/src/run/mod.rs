//! `muster run`: one command in a container, as if it ran here.
//!
//! It is a job like any other: it stays listed, and can be shown, followed and stopped by name.

mod document;

use clap::Args;
use muster_model::id::{JobKey, JobName, VcName};
use muster_model::state::JobState;
use muster_model::view::JobDetail;
use tokio::sync::mpsc::{self, Receiver};

pub(super) use self::document::Variable;
use self::document::{OneTaskJob, default_name};
use super::api::{Accepted, Api};
use super::byte_size::Mebibytes;
use super::console::Console;
use super::endpoint::EndpointArguments;
use super::error::CliError;
use super::follow::{EVENTS_MAX, FollowEvent, JobFollower, tell_missing};
use super::job;
use super::job_ref::Acting;
use super::progress::ProgressLine;
use super::signals::{Signals, interrupted_by};
use super::status::CliStatus;

const EXAMPLES: &str = "\
Examples:
  muster run --image ubuntu:24.04 -- nproc
  muster run --image pytorch:2.4 --gpus 2 --cpus 8 --memory 64G -- python train.py --lr 0.1
  muster run --image alpine --env WHO=world -- sh -c 'echo hello $WHO | tee /tmp/out'

The words after -- are run as they are, without a shell; use `sh -c` for one.
Ctrl-C stops the job; a second one leaves at once. The job stays listed under its name.";

/// Arguments of `muster run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArguments {
    /// The image to run in, as `muster image list` or a registry names it.
    #[arg(long, value_name = "IMAGE", env = "MUSTER_IMAGE")]
    image: String,
    /// The job's name [default: made of the command and a random part].
    #[arg(long, value_name = "NAME")]
    name: Option<JobName>,
    /// GPUs.
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpus: u32,
    /// CPU cores.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    cpus: u32,
    /// Memory: 512M, 16G, or a number of MiB.
    #[arg(long, value_name = "SIZE", default_value = "2G")]
    memory: Mebibytes,
    /// Size of /dev/shm [default: 512M].
    #[arg(long, value_name = "SIZE")]
    shm: Option<Mebibytes>,
    /// The virtual cluster [default: default].
    #[arg(long, value_name = "VC")]
    vc: Option<VcName>,
    /// A variable of the command; without =VALUE, as it is set here. May be given repeatedly.
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<Variable>,
    #[command(flatten)]
    acting: Acting,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

impl RunArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let document = OneTaskJob {
            name: match &self.name {
                Some(name) => name.to_string(),
                None => default_name(&self.command),
            },
            image: &self.image,
            cpus: self.cpus,
            gpus: self.gpus,
            memory: self.memory,
            shm: self.shm,
            vc: self.vc.as_ref(),
            env: &self.env,
            command: &self.command,
        };
        let text = document.text()?;
        let api = self.acting.api(connection)?;
        attached(&api, &document.name, text, console).await
    }
}

/// Submits a job, shows its output, and says how it ended as an exit code.
pub(super) async fn attached(
    api: &Api,
    name: &str,
    text: String,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let mut signals = Signals::new()?;
    let Accepted { key, warnings } = tokio::select! {
        accepted = api.submit(text) => accepted?,
        number = signals.next() => {
            console.note(format!("{name} may have been submitted: see `muster job list`"));
            return Ok(interrupted_by(number));
        }
    };
    console.warn(&warnings);
    attend(api, &key, signals, console).await
}

/// Shows the job's output and waits for its end; on a signal asks for that end.
async fn attend(
    api: &Api,
    key: &JobKey,
    mut signals: Signals,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let (events, received) = mpsc::channel(EVENTS_MAX);
    let follower = JobFollower::new(api, key, &["stdout", "stderr"], events);
    let work = async { tokio::try_join!(follower.run(), print(api, key, received, console)) };
    tokio::pin!(work);
    let mut interrupted = None;
    loop {
        tokio::select! {
            done = &mut work => {
                if done.is_err() && interrupted.is_none() {
                    console.note(format!("{key} may still run: see `muster job show {key}`"));
                }
                let (job, ()) = done?;
                return Ok(interrupted.unwrap_or_else(|| told(&job, console)));
            }
            number = signals.next() => {
                if let Some(status) = interrupted {
                    console.note(format!("{key} may still run: see `muster job show {key}`"));
                    return Ok(status);
                }
                interrupted = Some(interrupted_by(number));
                console.note(format!("stopping {key}"));
                tokio::spawn(stop(api.clone(), key.clone(), console.clone()));
            }
        }
    }
}

/// Runs beside the output, so that a second signal is heard even if the agent hangs.
async fn stop(api: Api, key: JobKey, console: Console) {
    if let Err(error) = api.stop(&key).await {
        console.report(&error);
    }
}

async fn print(
    api: &Api,
    key: &JobKey,
    mut received: Receiver<FollowEvent>,
    console: &Console,
) -> Result<(), CliError> {
    let mut progress = ProgressLine::new(api, key);
    while let Some(event) = received.recv().await {
        match event {
            FollowEvent::Job(summary) => progress.tell(&summary),
            FollowEvent::Missing(source, bytes) => {
                progress.suspend(|| tell_missing(&source, bytes, console))
            }
            FollowEvent::Chunk(source, bytes) => {
                progress.clear();
                if source.name == "stderr" {
                    console.err(bytes)?;
                } else {
                    console.out(bytes)?;
                }
            }
        }
    }
    Ok(())
}

/// The task's own exit code; 1 where it failed without one.
pub(super) fn told(detail: &JobDetail, console: &Console) -> CliStatus {
    let verdict = detail
        .attempt
        .as_ref()
        .and_then(|attempt| attempt.verdict.as_ref());
    let origin = verdict.and_then(|verdict| verdict.origin_exit_code);
    if detail.summary.state() == JobState::Succeeded {
        return CliStatus::Ok;
    }
    job::tell_why(detail, console);
    match origin.map(|code| u8::try_from(code & 0xff).unwrap_or(1)) {
        None | Some(0) => CliStatus::Negative,
        Some(code) => CliStatus::Task(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::{AgentStub, StubAnswer, summary};
    use muster_model::state::SubState;

    fn job(sub_state: SubState, code: Option<i32>) -> StubAnswer {
        let summary = summary("ada~j", sub_state, code);
        StubAnswer::json(JobDetail {
            summary,
            attempt: None,
            roles: Vec::new(),
            partition: None,
            run_limit: None,
            warnings: Vec::new(),
        })
    }

    async fn interrupted(signals: &[u8], jobs: [StubAnswer; 2]) -> (CliStatus, Vec<String>) {
        let stub = AgentStub::start();
        stub.answer("GET /api/muster/v1/jobs/ada~j", jobs);
        stub.answer(
            "PUT /api/v2/jobs/ada~j/executionType",
            [StubAnswer::text("{}")],
        );
        let (sender, received) = mpsc::channel(signals.len());
        for &number in signals {
            sender.send(number).await.unwrap();
        }
        let api = Api::new(&EndpointArguments::at_socket(stub.socket()), None).unwrap();
        let key = "ada~j".parse().unwrap();
        let (console, ..) = Console::captured();
        let status = attend(&api, &key, Signals(received), &console)
            .await
            .unwrap();
        (
            status,
            stub.asked().into_iter().map(|asked| asked.line).collect(),
        )
    }

    #[tokio::test]
    async fn the_first_signal_stops_the_job_and_waits_for_its_end() {
        let (running, stopped) = (
            job(SubState::AttemptRunning, None),
            job(SubState::Completed, Some(-210)),
        );
        let (status, asked) = interrupted(&[2], [running, stopped]).await;
        assert_eq!(status, CliStatus::Task(130));
        assert!(
            asked.contains(&"PUT /api/v2/jobs/ada~j/executionType".to_owned()),
            "{asked:?}"
        );
        assert!(
            asked.iter().filter(|line| line.starts_with("GET")).count() > 1,
            "{asked:?}"
        );
    }

    #[tokio::test]
    async fn the_second_signal_leaves_at_once() {
        let running = || job(SubState::AttemptRunning, None);
        let (status, _) = interrupted(&[15, 2], [running(), running()]).await;
        assert_eq!(status, CliStatus::Task(143));
    }
}

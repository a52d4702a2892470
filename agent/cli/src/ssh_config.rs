//! `muster ssh-config`.

use std::fmt::Write as _;

use clap::Args;
use muster_model::id::{JobKey, UserName};
use muster_model::state::JobState;
use muster_model::view::{JobDetail, TaskView};

use super::api::{Api, Filter};
use super::console::Console;
use super::endpoint::{AgentEndpoint, EndpointArguments};
use super::error::CliError;
use super::incomplete;
use super::job_ref::{Acting, JobRef};
use super::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster ssh-config >~/.ssh/muster            # with `Include muster` at the start of ~/.ssh/config
  muster ssh-config train ada~eval
  muster ssh-config --through train | ssh -F /dev/stdin train

It names the tasks that have an SSH server (the plugin ssh) as JOB.ROLE.INDEX, and the only one of a job as JOB, for
ssh, scp, rsync, and editors such as Visual Studio Code. An attempt of a task has its own machine and port: write it
anew after a retry.";

#[derive(Debug, Args)]
pub struct SshConfigArguments {
    /// The jobs [default: your own that run].
    #[arg(value_name = "JOB")]
    jobs: Vec<JobRef>,
    /// Connect through the cluster's REST API, where the ports of tasks cannot be reached from here.
    #[arg(long)]
    through: bool,
    #[command(flatten)]
    acting: Acting,
}

impl SshConfigArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let api = self.acting.api(connection)?;
        let user = api.user()?;
        let is_chosen = !self.jobs.is_empty();
        let keys = match is_chosen {
            true => {
                let keys = self.jobs.into_iter().map(|job| job.key(&api));
                keys.collect::<Result<_, _>>()?
            }
            false => running(&api, &user, console).await?,
        };
        let program = match self.through {
            true => Some(program(connection)?),
            false => None,
        };
        let mut text = String::new();
        for key in keys {
            let detail = api.job(&key, None).await?.value;
            let hosts = hosts(&detail, &user, program.as_deref());
            if hosts.is_empty() && is_chosen {
                return Err(CliError::Usage(no_server(&detail)));
            }
            text.push_str(&hosts);
        }
        if text.is_empty() {
            console.note("no task that runs has an SSH server; give the job the plugin ssh");
            return Ok(CliStatus::Ok);
        }
        console.line(text.trim_end())?;
        Ok(CliStatus::Ok)
    }
}

/// The user's jobs that run.
async fn running(api: &Api, user: &UserName, console: &Console) -> Result<Vec<JobKey>, CliError> {
    let listing = api
        .jobs(Filter {
            users: std::slice::from_ref(user),
            states: &[JobState::Running],
            vcs: &[],
        })
        .await?;
    for sentence in incomplete::sentences(&listing) {
        console.note(sentence);
    }
    let jobs = listing.jobs.into_iter();
    Ok(jobs.map(|job| job.summary.key).collect())
}

/// How a program that ssh starts reaches the same agent, as words of a shell. A token has no place in ssh's settings.
fn program(connection: &EndpointArguments) -> Result<String, CliError> {
    match connection.found()? {
        (Some(context), _) => Ok(format!("muster --context '{context}'")),
        (None, AgentEndpoint::Socket(path)) => {
            let path = path.display().to_string();
            let path = path.replace('\'', r"'\''").replace('%', "%%");
            Ok(format!("muster --socket '{path}'"))
        }
        (None, AgentEndpoint::Remote { .. }) => Err(CliError::Usage(
            "--through: log in with `muster login` first, so that ssh can connect without a token in its settings"
                .to_owned(),
        )),
    }
}

fn no_server(detail: &JobDetail) -> String {
    let key = &detail.summary.key;
    format!(
        "no task of {key} has an SSH server now: the job needs the plugin ssh with the keys of a user (userssh), and \
         has to run; `muster job show {key}` tells its state"
    )
}

/// An entry for each task that has a server. `program` is there where connections go through the cluster.
fn hosts(detail: &JobDetail, user: &UserName, program: Option<&str>) -> String {
    let key = &detail.summary.key;
    let name = match key.user == *user {
        true => key.name.to_string(),
        false => key.to_string(),
    };
    let served: Vec<(&TaskView, SshPlace)> = detail
        .tasks()
        .filter_map(|task| Some((task, SshPlace::of(task.ssh.as_deref()?)?)))
        .collect();
    let mut text = String::new();
    for (task, place) in &served {
        let alone = match served.len() {
            1 => format!("{name} "),
            _ => String::new(),
        };
        let SshPlace { user, host, port } = place;
        let _ = write!(
            text,
            "Host {alone}{name}.{role}.{index}\n  HostName {host}\n  Port {port}\n  User {user}\n  \
             HostKeyAlias muster-{key}\n  StrictHostKeyChecking accept-new\n",
            role = task.id.role,
            index = task.id.index,
        );
        if let Some(program) = program {
            let _ = writeln!(
                text,
                "  ProxyCommand {program} job port-forward --stdio {key}:{} ssh",
                task.id
            );
        }
    }
    text
}

/// Where a server of SSH is, from the line that users copy: `ssh -p PORT USER@HOST`.
struct SshPlace<'a> {
    user: &'a str,
    host: &'a str,
    port: &'a str,
}

impl<'a> SshPlace<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (port, target) = line.strip_prefix("ssh -p ")?.split_once(' ')?;
        let (user, host) = target.split_once('@')?;
        Some(Self { user, host, port })
    }
}

#[cfg(test)]
mod tests {
    use muster_model::state::SubState;

    use super::*;
    use crate::tests::detail;

    fn user(name: &str) -> UserName {
        name.parse().unwrap()
    }

    #[test]
    fn the_only_server_of_a_job_has_the_job_s_name_too() {
        let mut job = detail("ada~train", SubState::AttemptRunning, None, 0, 2);
        assert_eq!(hosts(&job, &user("ada"), None), "");
        job.roles[0].tasks[1].ssh = Some("ssh -p 20001 root@10.0.0.1".to_owned());
        let expected = "\
Host train train.main.1
  HostName 10.0.0.1
  Port 20001
  User root
  HostKeyAlias muster-ada~train
  StrictHostKeyChecking accept-new
";
        assert_eq!(hosts(&job, &user("ada"), None), expected);
        job.roles[0].tasks[0].ssh = Some("ssh -p 20000 root@10.0.0.2".to_owned());
        let shown = hosts(&job, &user("bo"), Some("muster --context lab"));
        for line in [
            "Host ada~train.main.0\n",
            "Host ada~train.main.1\n",
            "  ProxyCommand muster --context lab job port-forward --stdio ada~train:main:1 ssh\n",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
    }

    #[test]
    fn a_token_is_never_written() {
        let socket = EndpointArguments::at_socket(std::path::PathBuf::from("/a b/it's.sock"));
        assert_eq!(
            program(&socket).unwrap(),
            r"muster --socket '/a b/it'\''s.sock'"
        );
    }
}

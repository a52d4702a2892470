//! A real agent as a child process. Dropping it kills it by its pid.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::client::Client;

/// How long an agent may take to answer after it was started.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How long an agent may take to end when it is asked to.
const END_LIMIT: Duration = Duration::from_secs(10);

/// How much of its log is shown when it did not end well.
const LAST_LINES: usize = 5;

/// The admin's password that an agent at this home makes at its first start: a moment after it takes
/// connections.
///
/// # Errors
/// When there is none in time.
pub fn admin_password(home: &Path) -> Result<String> {
    let path = home.join("state/admin-password");
    let start = Instant::now();
    loop {
        match std::fs::read_to_string(&path) {
            Ok(password) if !password.is_empty() => return Ok(password.trim().to_owned()),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        ensure!(start.elapsed() < START_LIMIT, "no {}", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    child: Child,
    home: PathBuf,
    url: String,
}

impl Agent {
    /// Starts `muster agent` with `MUSTER_HOME=home`, whose `agent.toml` listens at `url`, and
    /// waits until it answers.
    ///
    /// # Errors
    /// When it cannot be started or does not answer in time.
    pub fn start(muster: &Path, home: &Path, url: &str) -> Result<Self> {
        Self::start_with(muster, home, url, &[])
    }

    /// The same, with more environment variables.
    ///
    /// # Errors
    /// As [`Agent::start`].
    pub fn start_with(
        muster: &Path,
        home: &Path,
        url: &str,
        environment: &[(&str, PathBuf)],
    ) -> Result<Self> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(home.join("agent.log"))
            .context("agent.log")?;
        let child = Command::new(muster)
            .arg("agent")
            .env("MUSTER_HOME", home)
            .envs(environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", muster.display()))?;
        let mut agent = Self {
            child,
            home: home.to_owned(),
            url: url.to_owned(),
        };
        agent.wait_until_up()?;
        Ok(agent)
    }

    fn wait_until_up(&mut self) -> Result<()> {
        let address = self.url.trim_start_matches("http://").to_owned();
        let start = Instant::now();
        let socket = self.home.join("agent.sock");
        // The port is open before the socket is, and may be another's.
        while std::net::TcpStream::connect(&address).is_err()
            || std::os::unix::net::UnixStream::connect(&socket).is_err()
        {
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "the agent ended with {status}; see {}/agent.log",
                    self.home.display()
                );
            }
            if start.elapsed() > START_LIMIT {
                bail!("the agent does not answer at {address}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// A client logged in as the admin.
    ///
    /// # Errors
    /// When the login fails.
    pub async fn client(&self) -> Result<Client> {
        let password = admin_password(&self.home)?;
        Client::login(&self.url, "admin", &password).await
    }

    /// The agent's pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as the system does, and waits until it has.
    ///
    /// # Errors
    /// When it does not end in time, or not well.
    pub fn terminate(&mut self) -> Result<()> {
        let pid = Pid::from_raw(self.child.id().try_into()?);
        kill(pid, Signal::SIGTERM)?;
        let start = Instant::now();
        let status = loop {
            match self.child.try_wait()? {
                Some(status) => break status,
                None if start.elapsed() > END_LIMIT => bail!("the agent does not end"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        ensure!(
            status.success(),
            "the agent ended with {status}; the end of its log:\n{}",
            self.last_lines()
        );
        Ok(())
    }

    fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(self.home.join("agent.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(LAST_LINES).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Kills it as a crash would, and reaps it.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already; there is nobody left to tell.
        let _ = self.kill();
    }
}

//! One node of a network: a home, and an agent inside a namespace.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::Namespace;
use super::lan::ipv4;
use crate::agent::{Agent, admin_password};
use crate::client::Client;
use crate::disk::MountedDisk;
use crate::home::AgentHome;
use crate::wall_clock::WallClock;

/// Where agents answer in their own namespaces.
const URL: &str = "http://127.0.0.1:7741";
/// Longest that a command line may take, in seconds.
const COMMAND_S: &str = "90";

/// A node that has no container engine: who is in the network is what its tests are about.
#[derive(Debug)]
pub struct BareNode {
    muster: PathBuf,
    home: PathBuf,
    number: usize,
    namespace: Arc<Namespace>,
    agent: Option<Agent>,
    disk: Option<MountedDisk>,
    clock: Option<WallClock>,
    pub(super) address: IpAddr,
    pub(super) moves: u8,
}

impl BareNode {
    pub(super) fn new(
        muster: &Path,
        home: PathBuf,
        number: usize,
        namespace: Arc<Namespace>,
    ) -> Result<Self> {
        std::fs::create_dir(&home)?;
        let node = Self {
            muster: muster.to_owned(),
            home,
            number,
            namespace,
            agent: None,
            disk: None,
            clock: None,
            address: ipv4(number, 0).into(),
            moves: 0,
        };
        let config = format!(
            "[node]\nname = \"{}\"\n[containerd]\nsocket = \"{}/no-containerd.sock\"\n\
             [hardware]\nsimulate = \"8xV100\"\n",
            node.name(),
            node.home.display(),
        );
        std::fs::write(node.home.join("agent.toml"), config)?;
        Ok(node)
    }

    /// Its name: `n1`.
    pub fn name(&self) -> String {
        format!("n{}", self.number)
    }

    /// Its number, from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The address it has now.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Where it is.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The agent's home.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Adds lines to `agent.toml`, for the agent that starts next.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn configure(&self, lines: &str) -> Result<()> {
        let path = self.home.join("agent.toml");
        let text = std::fs::read_to_string(&path)?;
        std::fs::write(&path, text + lines)?;
        Ok(())
    }

    /// Gives it a container engine: the one of `engine`, in a namespace of its own there. For the
    /// agent that starts next.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn equip(&self, engine: &AgentHome) -> Result<()> {
        let path = self.home.join("agent.toml");
        let text = std::fs::read_to_string(&path)?;
        let none = format!("{}/no-containerd.sock", self.home.display());
        let engine = format!(
            "{}\"\nnamespace = \"muster_{}\"\ncgroup_parent = \"{}",
            engine.socket().display(),
            self.name(),
            engine.cgroup_parent()
        );
        let room = "cpu_overcommit = 64.0\nmemory_overcommit = 8.0\n";
        std::fs::write(&path, text.replace(&none, &engine) + room)?;
        Ok(())
    }

    /// Puts its state on a small disk of its own. No agent may have run yet.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub fn mount_state(&mut self, bytes: u64) -> Result<()> {
        self.disk = Some(MountedDisk::mount(&self.home.join("state"), bytes)?);
        Ok(())
    }

    /// The disk of its state.
    ///
    /// # Errors
    /// When it has none of its own.
    pub fn disk(&self) -> Result<&MountedDisk> {
        self.disk.as_ref().context("no disk of its own")
    }

    /// Gives it a wall clock of its own, which the agent that starts next goes by.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn own_clock(&mut self, library: &Path) -> Result<()> {
        let offset = self.home.join("wall-clock");
        self.clock = Some(WallClock::new(library.to_owned(), offset)?);
        Ok(())
    }

    /// Starts another program in place of `muster` from now on.
    pub fn set_program(&mut self, program: &Path) {
        self.muster = program.to_owned();
    }

    /// Its wall clock.
    ///
    /// # Errors
    /// When it has none of its own.
    pub fn clock(&self) -> Result<&WallClock> {
        self.clock.as_ref().context("no clock of its own")
    }

    /// Whether it has an agent.
    pub fn runs(&self) -> bool {
        self.agent.is_some()
    }

    /// Starts the agent.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(&mut self) -> Result<()> {
        let (muster, home) = (&self.muster, &self.home);
        let clock = self.clock.as_ref().map(WallClock::environment);
        let clock = clock.unwrap_or_default();
        let start = || Agent::start_with(muster, home, URL, &clock);
        self.agent = Some(self.namespace.enter(start)??);
        Ok(())
    }

    /// Ends the agent as the system does.
    ///
    /// # Errors
    /// When it does not run, or does not end well.
    pub fn stop(&mut self) -> Result<()> {
        self.agent.take().context("no agent")?.terminate()
    }

    /// Kills the agent as a crash would.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&mut self) -> Result<()> {
        self.agent.take().context("no agent")?.kill()
    }

    /// Stops the agent in its tracks, until [`BareNode::resume`].
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets a paused agent go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.pid()?.try_into()?), signal)?;
        Ok(())
    }

    /// The agent's pid.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.agent.as_ref().context("no agent")?.pid())
    }

    /// Runs the command line here.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn muster(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new("timeout");
        command
            .arg(COMMAND_S)
            .arg(&self.muster)
            .args(arguments)
            .env("MUSTER_HOME", &self.home)
            .stdin(Stdio::null());
        Ok(self.namespace.enter(|| command.output())??)
    }

    /// Runs the command line here, which must succeed, and gives what it prints.
    ///
    /// # Errors
    /// When it fails, with what it says.
    pub fn prints(&self, arguments: &[&str]) -> Result<String> {
        let output = self.muster(arguments)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "muster {} on {}: {}: {text}{}",
            arguments.join(" "),
            self.name(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(text)
    }

    /// Runs the command line here with `-o json`, and gives what it prints.
    ///
    /// # Errors
    /// When it fails or prints something else.
    pub fn json(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.prints(&[arguments, &["-o", "json"]].concat())?;
        serde_json::from_str(&text).with_context(|| format!("{arguments:?} printed {text}"))
    }

    /// Runs the command line here, which must fail with this code, and gives what it says.
    ///
    /// # Errors
    /// When it does otherwise.
    pub fn refused(&self, arguments: &[&str], code: i32) -> Result<String> {
        let output = self.muster(arguments)?;
        let text = [output.stderr, output.stdout].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        ensure!(
            output.status.code() == Some(code),
            "muster {} on {}: {} in place of {code}: {text}",
            arguments.join(" "),
            self.name(),
            output.status
        );
        Ok(text)
    }

    /// A client that did not log in.
    pub fn visitor(&self) -> Client {
        self.client_of(URL)
    }

    /// A client, in its network namespace, of something else.
    pub fn client_of(&self, url: &str) -> Client {
        Client::inside(self.namespace.clone(), url)
    }

    /// A client logged in as the admin.
    ///
    /// # Errors
    /// When the login fails.
    pub async fn client(&self) -> Result<Client> {
        let password = admin_password(&self.home)?;
        self.visitor().logged_in("admin", &password).await
    }
}

//! PID 1 of a container: takes its orders over a socket, runs the commands, reports their end.
//!
//! One thread, one loop over `poll`. The agent may come and go; the task goes on without it.
//! When it ends, everything in the container ends with it, and every byte of output is with the
//! logger before the exit is told to anybody.

mod agent_link;
mod ending;
mod hold;
mod lease;
mod logger_link;
mod output_lines;
mod processes;
mod script;
pub(crate) mod shell;
pub(crate) mod syscall_filter;

use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::Signal;

pub use self::hold::{KEEP, keep};

use self::agent_link::AgentLink;
use self::ending::StopUnderWay;
use self::lease::{LeaseDue, TaskLease};
use self::logger_link::LoggerLink;
use self::output_lines::{LineRead, OutputLines};
use self::processes::{
    Asker, ProcessStatus, Processes, are_left_besides, has_children, signal_others,
    terminate_others,
};
use self::script::{CommandContext, RunningScript, ScriptOutput, ScriptSlot};
use self::shell::Shell;
use self::syscall_filter::Unfiltered;
use crate::connection::timeout;
use crate::exit_report::{ExitReport, FailureKind, RuntimeFailure, TaskPhase};
use crate::frame;
use crate::message::{InitHello, ProgressMessage, Ready, TaskSetup, ToAgent, ToInit};
use crate::wall_clock::now_ms;

/// Grace of a stop that came before any setup named one.
const GRACE_DEFAULT: Duration = Duration::from_secs(10);
/// After so long what survived a kill, because the kernel holds it, is killed again.
const KILL_AGAIN: Duration = Duration::from_secs(1);
/// How long killed processes may take to disappear.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// How long the logger may take to write what it was given.
const FLUSH_PATIENCE: Duration = Duration::from_secs(10);
/// How long the last message may take to leave.
const REPORT_PATIENCE: Duration = Duration::from_millis(500);
/// Exit status when a shell could not be started.
const CODE_CANNOT_RUN: i32 = 126;
/// Exit status when there is no shell.
const CODE_NO_SHELL: i32 = 127;
/// Exit status when the runtime itself failed.
const CODE_RUNTIME: i32 = 1;

/// The variable that tells commands the image's working directory.
const WORK_DIR_VARIABLE: &str = "PAI_WORK_DIR";
/// Used where neither image nor task names a search path.
pub(crate) const PATH_DEFAULT: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs a task with the sockets in `ctl` and returns its exit status.
pub fn run(ctl: &Path) -> ExitCode {
    match InitProcess::new(ctl) {
        Ok(mut init) => init.run(),
        Err(error) => {
            eprintln!("muster-init: cannot begin with {}: {error}", ctl.display());
            exit_code(CODE_RUNTIME)
        }
    }
}

/// One script to run, and the phase it belongs to.
#[derive(Debug)]
struct ScriptStep {
    phase: TaskPhase,
    text: String,
}

/// The commands, ready to run.
#[derive(Debug)]
struct CommandPlan {
    around: CommandContext,
    steps: VecDeque<ScriptStep>,
    grace: Duration,
}

/// How it all ended.
#[derive(Debug)]
struct ContainerOutcome {
    status: ProcessStatus,
    failure: Option<RuntimeFailure>,
}

#[derive(Debug)]
struct InitProcess {
    ctl: OwnedFd,
    slot: ScriptSlot,
    processes: Processes,
    /// Nothing is run while this is there.
    unfiltered: Option<Unfiltered>,
    agent: AgentLink,
    logger: LoggerLink,
    lease: TaskLease,
    phase: TaskPhase,
    launched_ms: u64,
    plan: Option<CommandPlan>,
    /// The shell that runs now.
    leader: Option<nix::unistd::Pid>,
    output: Option<OutputLines>,
    /// Since a stop was asked.
    ending: Option<StopUnderWay>,
    /// The lease ended before the task had.
    lease_ended: bool,
    outcome: Option<ContainerOutcome>,
    /// How long the container is kept if the commands fail; none: it is not kept.
    hold: Option<Duration>,
    /// When the hold ends, while the container is kept.
    held_until: Option<Instant>,
}

impl InitProcess {
    fn new(ctl: &Path) -> io::Result<Self> {
        let slot = ScriptSlot::reserve()?;
        // Keeps other processes of the same user out of our memory, where secrets are.
        prctl::set_dumpable(false)?;
        let unfiltered = syscall_filter::install().err();
        let processes = Processes::adopt()?;
        let ctl = OwnedFd::from(File::open(ctl)?);
        Ok(Self {
            slot,
            processes,
            unfiltered,
            agent: AgentLink::new(),
            logger: LoggerLink::connect(&ctl),
            lease: TaskLease::new()?,
            ctl,
            phase: TaskPhase::Setup,
            launched_ms: 0,
            plan: None,
            leader: None,
            output: None,
            ending: None,
            lease_ended: false,
            outcome: None,
            hold: None,
            held_until: None,
        })
    }

    fn run(&mut self) -> ExitCode {
        let outcome = loop {
            self.meet_agent();
            self.sleep();
            self.take_news();
            self.obey();
            self.heed_lease();
            self.read_output();
            self.logger.exchange();
            self.end_when_due();
            if let Some(outcome) = self.outcome.take() {
                break outcome;
            }
        };
        self.finish(outcome)
    }

    /// Connects to the agent if it is time to. Whether that was done.
    fn meet_agent(&mut self) -> bool {
        let is_new = self.agent.connect(&self.ctl);
        if is_new {
            self.agent.send(&ToAgent::Hello(InitHello {
                protocol: frame::PROTOCOL,
                phase: self.phase,
                launched_ms: self.launched_ms,
            }));
        }
        is_new
    }

    /// Waits until anything happens.
    fn sleep(&self) {
        let mut fds = vec![
            PollFd::new(self.processes.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.lease.as_fd(), PollFlags::POLLIN),
        ];
        for connection in [self.agent.connection(), self.logger.connection()] {
            fds.extend(connection.map(|it| PollFd::new(it.as_fd(), it.interest())));
        }
        if let Some(output) = self.output.as_ref().filter(|_| self.logger.is_ready()) {
            fds.push(PollFd::new(output.as_fd(), PollFlags::POLLIN));
        }
        let deadline = [
            self.agent.deadline(),
            self.ending.as_ref().map(StopUnderWay::deadline),
            self.held_until,
        ]
        .into_iter()
        .flatten()
        .min();
        let until = deadline.map_or(PollTimeout::NONE, |at| {
            timeout(at.saturating_duration_since(Instant::now()))
        });
        // Interrupted or not: everything is looked at afterwards.
        let _ = poll(&mut fds, until);
    }

    fn take_news(&mut self) {
        let news = self.processes.news();
        if let Some(asker) = news.stop {
            let grace = self.plan.as_ref().map_or(GRACE_DEFAULT, |plan| plan.grace);
            self.stop(grace, asker);
        }
        for (pid, status) in news.ended {
            if self.leader == Some(pid) {
                self.leader = None;
                self.step_ended(status);
            } else if let Some(ending) = &mut self.ending {
                ending.other_ended(status);
            }
        }
    }

    fn obey(&mut self) {
        for message in self.agent.receive() {
            match message {
                ToInit::Setup(setup) => self.set_up(setup),
                ToInit::Go(_) => self.go(),
                ToInit::Stop(stop) => {
                    self.stop(Duration::from_millis(stop.grace_ms), Asker::Outside);
                }
                ToInit::Lease(renewal) => self.lease.renew(&renewal),
                ToInit::Hold(hold) => self.hold = Some(Duration::from_millis(hold.hold_ms)),
            }
        }
    }

    fn heed_lease(&mut self) {
        match self.lease.due() {
            Some(LeaseDue::Stop(grace)) => {
                self.logger.say("nobody has renewed the run lease");
                self.lease_ended = true;
                self.stop(grace, Asker::Outside);
            }
            Some(LeaseDue::Kill) => signal_others(Signal::SIGKILL),
            None => {}
        }
    }

    fn set_up(&mut self, setup: TaskSetup) {
        if self.phase != TaskPhase::Setup || self.outcome.is_some() {
            return;
        }
        if let Some(lease) = &setup.lease {
            self.lease.renew(lease);
        }
        let allowed = match &self.unfiltered {
            Some(error) => Err(runtime_failure(error.to_string())),
            None => Ok(()),
        };
        match allowed.and_then(|()| plan(setup)) {
            Ok(plan) => {
                let shell = plan.around.shell.program.display().to_string();
                self.logger
                    .say(&format!("ready, with {shell} as the shell"));
                self.plan = Some(plan);
                self.phase = TaskPhase::Ready;
                self.agent.send(&ToAgent::Ready(Ready { shell }));
            }
            Err(failure) => {
                self.agent.send(&ToAgent::SetupFailed(failure.clone()));
                self.fail(failure);
            }
        }
    }

    fn go(&mut self) {
        if self.phase == TaskPhase::Ready && self.outcome.is_none() {
            self.launched_ms = now_ms();
            self.next_step();
        }
    }

    fn next_step(&mut self) {
        let Some(plan) = &mut self.plan else { return };
        let Some(step) = plan.steps.pop_front() else {
            return self.end(ProcessStatus::exited(0), None);
        };
        if self.phase != step.phase {
            self.phase = step.phase;
            self.logger
                .say(&format!("{} begin", commands_of(step.phase)));
            self.agent.send(&ToAgent::Progress(ProgressMessage {
                phase: step.phase,
                at_ms: now_ms(),
            }));
        }
        let output = match step.phase {
            TaskPhase::UserCommands => ScriptOutput::Container,
            _ => ScriptOutput::Pipe,
        };
        let started = self.slot.start(&step.text, &plan.around, output);
        match started.and_then(|running| self.watch(running)) {
            Ok(()) => {}
            Err(error) => {
                let failure = cannot_start(self.plan.as_ref(), &error);
                self.end(ProcessStatus::exited(CODE_CANNOT_RUN), Some(failure));
            }
        }
    }

    fn watch(&mut self, running: RunningScript) -> io::Result<()> {
        self.leader = Some(running.pid);
        self.drain_output();
        self.output = running.output.map(OutputLines::new).transpose()?;
        Ok(())
    }

    fn step_ended(&mut self, status: ProcessStatus) {
        if let Some(ending) = &mut self.ending {
            // What it had started may still be saving its work.
            return ending.shell_ended(status);
        }
        if status.code == 0 {
            return self.next_step();
        }
        self.commands_ended(status);
    }

    fn commands_ended(&mut self, status: ProcessStatus) {
        let what = commands_of(self.phase);
        self.logger
            .say(&format!("{what} ended with exit code {}", status.code));
        self.end(status, None);
    }

    /// Asks everything to end, now or sooner than asked before. The task lasts until all of it
    /// has, or until the grace is over.
    fn stop(&mut self, grace: Duration, asker: Asker) {
        let kill_at = Instant::now() + grace;
        let from_outside = asker == Asker::Outside;
        if let Some(ending) = &mut self.ending {
            return ending.ask_again(kill_at, from_outside);
        }
        let ending = self.ending.insert(StopUnderWay::new(kill_at, from_outside));
        if self.leader.is_none() {
            return self.end(ProcessStatus::signaled(Signal::SIGTERM), None);
        }
        let who = match asker {
            Asker::Outside => "stop asked",
            Asker::Inside => "one of the task's own processes asked for its end (SIGTERM)",
        };
        let grace_ms = grace.as_millis();
        self.logger.say(&format!("{who}, killing in {grace_ms} ms"));
        ending.spare(terminate_others());
    }

    /// Ends the task once all of its processes have ended after a stop; kills them when the grace
    /// is over.
    fn end_when_due(&mut self) {
        let now = Instant::now();
        let Some(ending) = self.ending.as_mut().filter(|_| self.outcome.is_none()) else {
            return;
        };
        let is_over = ending.kill_at() <= now;
        if self.leader.is_none() && (is_over || !has_children()) {
            let status = ending.status(is_over);
            self.commands_ended(status);
        } else if is_over {
            signal_others(Signal::SIGKILL);
            ending.kill_again_at(now + KILL_AGAIN);
        } else if ending.is_time_for_spared(now, are_left_besides) {
            signal_others(Signal::SIGTERM);
        }
    }

    fn fail(&mut self, failure: RuntimeFailure) {
        let code = match failure.kind {
            FailureKind::NoShell => CODE_NO_SHELL,
            FailureKind::Runtime => CODE_RUNTIME,
            FailureKind::TooLong => CODE_CANNOT_RUN,
        };
        self.end(ProcessStatus::exited(code), Some(failure));
    }

    /// Keeps the first end; nothing that happens later changes it.
    fn end(&mut self, status: ProcessStatus, failure: Option<RuntimeFailure>) {
        if let Some(failure) = &failure {
            self.logger.say(&failure.message);
        }
        self.outcome
            .get_or_insert(ContainerOutcome { status, failure });
    }

    fn read_output(&mut self) {
        while let Some(output) = self.output.as_mut().filter(|_| self.logger.is_ready()) {
            match output.read(|lines| self.logger.lines(lines)) {
                LineRead::Some => {}
                LineRead::Nothing => return,
                LineRead::End => self.close_output(),
            }
        }
    }

    /// Takes what is left of a script's output when nobody will read it any more.
    fn drain_output(&mut self) {
        let deadline = Instant::now() + FLUSH_PATIENCE;
        while let Some(output) = &mut self.output {
            match output.read(|lines| self.logger.lines(lines)) {
                LineRead::Some if Instant::now() < deadline => self.logger.exchange(),
                _ => self.close_output(),
            }
        }
    }

    fn close_output(&mut self) {
        if let Some(rest) = self.output.take().and_then(OutputLines::into_rest) {
            self.logger.lines([rest.as_slice()]);
        }
    }

    fn finish(&mut self, outcome: ContainerOutcome) -> ExitCode {
        let ended_ms = now_ms();
        self.processes.kill_all(KILL_PATIENCE);
        self.drain_output();
        self.logger.flush(FLUSH_PATIENCE);
        let report = ExitReport {
            code: outcome.status.code,
            signal: outcome.status.signal,
            phase: self.phase,
            stopped: self
                .ending
                .as_ref()
                .is_some_and(StopUnderWay::is_from_outside),
            lease_ended: self.lease_ended,
            launched_ms: self.launched_ms,
            ended_ms,
            failure: outcome.failure,
        };
        self.logger.store(&report);
        if let Some(hold) = self.hold_after(&report) {
            self.keep(&report, hold);
        }
        self.phase = TaskPhase::Ended;
        self.agent.send(&ToAgent::Exit(report));
        if !self.agent.send_all(REPORT_PATIENCE) {
            // Nobody else knows: what finds this container ended must find the report too.
            self.logger.wait_stored(FLUSH_PATIENCE);
        }
        exit_code(outcome.status.code)
    }
}

fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

const fn commands_of(phase: TaskPhase) -> &'static str {
    match phase {
        TaskPhase::PreCommands => "pre-commands",
        TaskPhase::UserCommands => "user commands",
        TaskPhase::PostCommands => "post-commands",
        TaskPhase::Setup | TaskPhase::Ready | TaskPhase::Ended => "commands",
    }
}

/// Why the shell could not be started.
fn cannot_start(plan: Option<&CommandPlan>, error: &io::Error) -> RuntimeFailure {
    let Some(CommandContext {
        shell, environment, ..
    }) = plan.map(|plan| &plan.around)
    else {
        return runtime_failure(error.to_string());
    };
    if error.raw_os_error() != Some(libc::E2BIG) {
        let shell = shell.program.display();
        return runtime_failure(format!("cannot start {shell}: {error}"));
    }
    let bytes = |(name, value): &(OsString, OsString)| name.len() + value.len() + 2;
    let all: usize = environment.iter().map(bytes).sum();
    let longest = environment.iter().max_by_key(|variable| bytes(variable));
    let longest = longest.map(|variable| (variable.0.to_string_lossy(), bytes(variable)));
    let (name, most) = longest.unwrap_or_default();
    RuntimeFailure {
        kind: FailureKind::TooLong,
        message: format!(
            "the variables of the image and the job have {all} bytes, the longest, {name}, {most}: \
             more than the kernel gives a program; shorten them"
        ),
    }
}

const fn runtime_failure(message: String) -> RuntimeFailure {
    RuntimeFailure {
        kind: FailureKind::Runtime,
        message,
    }
}

/// Checks that the setup can be carried out here.
fn plan(setup: TaskSetup) -> Result<CommandPlan, RuntimeFailure> {
    let workdir = setup.workdir.map(PathBuf::from);
    if let Some(dir) = workdir.as_ref().filter(|dir| !dir.is_dir()) {
        let dir = dir.display();
        return Err(runtime_failure(format!(
            "the working directory {dir} does not exist in the image"
        )));
    }
    let environment = environment(setup.environment, workdir.as_deref());
    let path = environment.get(OsStr::new("PATH"));
    let shell = Shell::find(path.map(|path| path.as_os_str()).unwrap_or_default())?;
    let phases = [
        (TaskPhase::PreCommands, setup.pre_commands),
        (TaskPhase::UserCommands, vec![setup.script]),
        (TaskPhase::PostCommands, setup.post_commands),
    ];
    let steps = phases.into_iter().flat_map(|(phase, texts)| {
        texts
            .into_iter()
            .map(move |text| ScriptStep { phase, text })
    });
    Ok(CommandPlan {
        around: CommandContext {
            shell,
            environment: environment.into_iter().collect(),
            workdir,
        },
        steps: steps.collect(),
        grace: Duration::from_millis(setup.grace_ms),
    })
}

/// The container's own environment under the task's.
fn environment(
    of_task: BTreeMap<String, String>,
    workdir: Option<&Path>,
) -> BTreeMap<OsString, OsString> {
    let mut environment: BTreeMap<OsString, OsString> = env::vars_os().collect();
    let here = workdir
        .map(Path::to_path_buf)
        .or_else(|| env::current_dir().ok());
    if let Some(here) = here {
        environment.insert(WORK_DIR_VARIABLE.into(), here.into());
    }
    for (name, value) in of_task {
        environment.insert(name.into(), value.into());
    }
    environment
        .entry("PATH".into())
        .or_insert_with(|| PATH_DEFAULT.into());
    environment
}

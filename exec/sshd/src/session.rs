//! One session channel: a shell, a command or SFTP, as a process of the container's user.

use std::ffi::{OsStr, OsString};
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use russh::server::{Handle, Msg};
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Sig};
use rustix::process::{Pid, Signal, ioctl_tiocsctty, kill_process_group, setsid};
use rustix::stdio::stdin;
use rustix::termios::tcsetwinsize;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::forward::AgentSocket;
use crate::login;
use crate::server::Server;
use crate::start::NAME;
use crate::terminal::{Terminal, TerminalRequest, window};

/// Variables that a client may set for a session.
const VARIABLES_MAX: usize = 128;
/// Longest name and value of one, in bytes.
const VARIABLE_BYTES_MAX: usize = 32 << 10;
/// The number of what is written to stderr (RFC 4254, section 5.2).
const STDERR: u32 = 1;
/// What is read at once.
const READ_BYTES: usize = 32 << 10;
/// How long a terminal whose program has ended is read after its last output.
const LAST_WORDS_TIME: Duration = Duration::from_millis(50);

/// The two ends of a connection: the client's and the server's.
type Addresses = Option<(std::net::SocketAddr, std::net::SocketAddr)>;
/// What the server reads of a program.
type Output = Box<dyn AsyncRead + Send + Unpin>;
/// What the server writes to a program.
type Input = Box<dyn AsyncWrite + Send + Unpin>;

/// What runs in a session.
#[derive(Debug)]
pub(crate) enum Program {
    /// The user's shell.
    Shell,
    /// A command, for that shell.
    Command(Vec<u8>),
    /// The subsystem for files.
    Sftp,
}

/// A session channel before its program begins.
#[derive(Debug)]
pub(crate) struct Opening {
    channel: Channel<Msg>,
    variables: Vec<(String, String)>,
    agent: Option<AgentSocket>,
    /// The terminal that it asked for.
    pub(crate) terminal: Option<TerminalRequest>,
}

/// A program that runs.
pub(crate) struct RunningProgram {
    channel: Channel<Msg>,
    child: Child,
    /// Its process group, for signals.
    group: Option<Pid>,
    input: Option<Input>,
    outputs: (Output, Option<Output>),
    /// Its terminal, for its size.
    terminal: Option<OwnedFd>,
    /// Kept as long as it runs.
    _agent: Option<AgentSocket>,
}

impl Opening {
    pub(crate) fn new(channel: Channel<Msg>) -> Self {
        Self {
            channel,
            variables: Vec::new(),
            agent: None,
            terminal: None,
        }
    }

    /// Takes a variable. Whether it is one.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> bool {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_fine = !name.is_empty()
            && name.chars().all(is_name)
            && !value.contains('\0')
            && name.len() + value.len() <= VARIABLE_BYTES_MAX
            && self.variables.len() < VARIABLES_MAX;
        if is_fine {
            self.variables.push((name.to_owned(), value.to_owned()));
        }
        is_fine
    }

    /// Has the session reach the client's agent.
    ///
    /// # Errors
    /// When there is no place for its socket.
    pub(crate) fn forward_agent(&mut self, handle: Handle) -> io::Result<()> {
        self.agent = Some(AgentSocket::new(handle)?);
        Ok(())
    }

    /// Starts its program.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn start(
        self,
        program: &Program,
        server: &Server,
        addresses: Addresses,
    ) -> io::Result<RunningProgram> {
        let mut command = command(program, server);
        command.envs(login::variables(&server.user, &server.shell));
        command.envs(connection_variables(addresses));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(agent) = &self.agent {
            command.env("SSH_AUTH_SOCK", agent.path());
        }
        let begun = match &self.terminal {
            Some(request) => in_terminal(command, request)?,
            None => with_pipes(command)?,
        };
        let group = begun
            .child
            .id()
            .and_then(|pid| Pid::from_raw(pid.cast_signed()));
        Ok(RunningProgram {
            channel: self.channel,
            child: begun.child,
            group,
            input: begun.input,
            outputs: begun.outputs,
            terminal: begun.terminal,
            _agent: self.agent,
        })
    }
}

/// A process with the server's ends of what it reads and writes.
struct Begun {
    child: Child,
    input: Option<Input>,
    outputs: (Output, Option<Output>),
    terminal: Option<OwnedFd>,
}

fn command(program: &Program, server: &Server) -> Command {
    match program {
        // No login shell: it would read /etc/profile, which sets another search path than the image's.
        Program::Shell => Command::new(&server.shell),
        Program::Command(text) => {
            let mut command = Command::new(&server.shell);
            command.arg("-c").arg(OsStr::from_bytes(text));
            command
        }
        Program::Sftp => {
            let mut command = Command::new("/proc/self/exe");
            command.arg0(NAME).arg("sftp");
            command
        }
    }
}

/// What OpenSSH tells programs of their connection.
fn connection_variables(addresses: Addresses) -> Vec<(&'static str, OsString)> {
    let Some((client, server)) = addresses else {
        return Vec::new();
    };
    let (from, to) = (client.ip().to_canonical(), server.ip().to_canonical());
    let ports = (client.port(), server.port());
    vec![
        (
            "SSH_CONNECTION",
            format!("{from} {} {to} {}", ports.0, ports.1).into(),
        ),
        (
            "SSH_CLIENT",
            format!("{from} {} {}", ports.0, ports.1).into(),
        ),
    ]
}

fn with_pipes(mut command: Command) -> io::Result<Begun> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = command.spawn()?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let output = output.ok_or(io::ErrorKind::BrokenPipe)?;
    Ok(Begun {
        input: input.map(|input| Box::new(input) as Input),
        outputs: (
            Box::new(output),
            child.stderr.take().map(|errors| Box::new(errors) as Output),
        ),
        child,
        terminal: None,
    })
}

fn in_terminal(mut command: Command, request: &TerminalRequest) -> io::Result<Begun> {
    let terminal = Terminal::open(request)?;
    command
        .env("TERM", &request.term)
        .env("SSH_TTY", &terminal.path)
        .stdin(terminal.program.try_clone()?)
        .stdout(terminal.program.try_clone()?)
        .stderr(terminal.program);
    let in_session = || {
        setsid()?;
        ioctl_tiocsctty(stdin())?;
        Ok(())
    };
    // SAFETY: runs between fork and exec; both calls are single system calls and allocate nothing.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(in_session);
    }
    let child = command.spawn()?;
    // A terminal is read and written like a pipe that does not block.
    let output = pipe::Receiver::from_owned_fd_unchecked(terminal.master.try_clone()?)?;
    let input = pipe::Sender::from_owned_fd_unchecked(terminal.master.try_clone()?)?;
    Ok(Begun {
        child,
        input: Some(Box::new(input)),
        outputs: (Box::new(output), None),
        terminal: Some(terminal.master),
    })
}

impl RunningProgram {
    /// Passes everything on until the program has ended and all its output is sent, or the client has closed the
    /// channel. A program whose client is gone goes on, and sees its pipes or terminal close.
    pub(crate) async fn attend(self, handle: Handle) {
        let (reader, writer) = self.channel.split();
        let (out, errors) = self.outputs;
        let (ended, end) = oneshot::channel();
        let status = reap(self.child, ended);
        // What a program has left in the background may hold a terminal open; a pipe is read to its end.
        let end = self.terminal.is_some().then_some(end);
        let output = async {
            let (status, (), ()) = tokio::join!(
                status,
                pass(Some(out), writer.make_writer(), end),
                pass(errors, writer.make_writer_ext(Some(STDERR)), None),
            );
            status.unwrap_or_else(|error| Err(io::Error::other(error)))
        };
        let mut from_client = FromClient {
            reader,
            input: self.input,
            group: self.group,
            terminal: self.terminal,
        };
        tokio::select! {
            status = output => tell_end(status, &writer, &handle).await,
            () = from_client.pass() => {}
        }
        let _ = writer.close().await;
    }
}

/// Waits for the end of a program, also after that of its connection: else a zombie process is left.
fn reap(mut child: Child, ended: oneshot::Sender<()>) -> JoinHandle<io::Result<ExitStatus>> {
    tokio::spawn(async move {
        let status = child.wait().await;
        let _ = ended.send(());
        status
    })
}

/// Passes on what a program writes: all of it, or what is there when the program ends.
async fn pass(
    from: Option<Output>,
    mut to: impl AsyncWrite + Unpin,
    mut end: Option<oneshot::Receiver<()>>,
) {
    let Some(mut from) = from else { return };
    let mut data = vec![0; READ_BYTES];
    let mut is_over = false;
    loop {
        let ended = async {
            match &mut end {
                Some(end) if !is_over => drop(end.await),
                Some(_) => sleep(LAST_WORDS_TIME).await,
                None => pending().await,
            }
        };
        let read = tokio::select! {
            read = from.read(&mut data) => read,
            () = ended => {
                if is_over {
                    return;
                }
                is_over = true;
                continue;
            }
        };
        // The end of a terminal is an error.
        let Ok(count @ 1..) = read else { return };
        if to.write_all(&data[..count]).await.is_err() {
            return;
        }
    }
}

/// A client that is gone hears nothing.
async fn tell_end(status: io::Result<ExitStatus>, writer: &ChannelWriteHalf<Msg>, handle: &Handle) {
    let _ = writer.eof().await;
    let Ok(status) = status else { return };
    if let Some(code) = status.code() {
        let _ = writer.exit_status(code.cast_unsigned()).await;
    } else if let Some(signal) = status.signal() {
        let (core, empty) = (status.core_dumped(), String::new);
        let told = handle.exit_signal_request(writer.id(), name_of(signal), core, empty(), empty());
        let _ = told.await;
    }
}

/// The client's side of a session.
struct FromClient {
    reader: ChannelReadHalf,
    input: Option<Input>,
    group: Option<Pid>,
    terminal: Option<OwnedFd>,
}

impl FromClient {
    /// Until the client closes the channel.
    async fn pass(&mut self) {
        while let Some(message) = self.reader.wait().await {
            match message {
                ChannelMsg::Data { data } => self.write(&data).await,
                // A terminal has no end of its own: the program is told by a character.
                ChannelMsg::Eof if self.terminal.is_none() => self.input = None,
                ChannelMsg::WindowChange {
                    col_width,
                    row_height,
                    pix_width,
                    pix_height,
                } => {
                    if let Some(terminal) = &self.terminal {
                        let window = window([col_width, row_height, pix_width, pix_height]);
                        let _ = tcsetwinsize(terminal, window);
                    }
                }
                ChannelMsg::Signal { signal } => {
                    if let (Some(group), Some(signal)) = (self.group, signal_of(&signal)) {
                        let _ = kill_process_group(group, signal);
                    }
                }
                ChannelMsg::Close => return,
                _ => {}
            }
        }
    }

    async fn write(&mut self, data: &[u8]) {
        let Some(input) = &mut self.input else { return };
        if input.write_all(data).await.is_err() {
            // The program does not read any more.
            self.input = None;
        }
    }
}

/// The one that RFC 4254 does not name and programs are often told by.
const USR2: &str = "USR2";

/// The signals of RFC 4254, section 6.10, and [`USR2`].
fn signal_of(told: &Sig) -> Option<Signal> {
    Some(match told {
        Sig::ABRT => Signal::ABORT,
        Sig::ALRM => Signal::ALARM,
        Sig::FPE => Signal::FPE,
        Sig::HUP => Signal::HUP,
        Sig::ILL => Signal::ILL,
        Sig::INT => Signal::INT,
        Sig::KILL => Signal::KILL,
        Sig::PIPE => Signal::PIPE,
        Sig::QUIT => Signal::QUIT,
        Sig::SEGV => Signal::SEGV,
        Sig::TERM => Signal::TERM,
        Sig::USR1 => Signal::USR1,
        Sig::Custom(name) if name == USR2 => Signal::USR2,
        Sig::Custom(_) => return None,
    })
}

fn name_of(number: i32) -> Sig {
    let all = [
        Sig::ABRT,
        Sig::ALRM,
        Sig::FPE,
        Sig::HUP,
        Sig::ILL,
        Sig::INT,
        Sig::KILL,
        Sig::PIPE,
        Sig::QUIT,
        Sig::SEGV,
        Sig::TERM,
        Sig::USR1,
        Sig::Custom(USR2.to_owned()),
    ];
    let is_it = |name: &Sig| signal_of(name).is_some_and(|signal| signal.as_raw() == number);
    let known = all.into_iter().find(is_it);
    known.unwrap_or_else(|| Sig::Custom(format!("{number}@muster")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_their_names() {
        for number in [1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15] {
            let signal = signal_of(&name_of(number)).unwrap();
            assert_eq!(signal.as_raw(), number);
        }
        assert_eq!(signal_of(&Sig::Custom("STOP".to_owned())), None);
        assert!(matches!(name_of(31), Sig::Custom(name) if name == "31@muster"));
    }

    #[test]
    fn programs_know_their_connection() {
        let addresses = ("[::ffff:10.0.0.9]:4000", "[::ffff:10.0.0.1]:22");
        let addresses = (addresses.0.parse().unwrap(), addresses.1.parse().unwrap());
        let told = connection_variables(Some(addresses));
        assert_eq!(told[0].1, "10.0.0.9 4000 10.0.0.1 22");
        assert_eq!(told[1].1, "10.0.0.9 4000 22");
        assert!(connection_variables(None).is_empty());
    }
}

//! The server of a task, with OpenSSH's own client. It runs as the user of the test, in no container.

#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use muster_model::ssh::{SSH_SETTINGS_VARIABLE, SshSettings};
use tempfile::TempDir;

/// The longest that one step of a test may take.
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// A server that runs, and a client's key that opens it.
struct Scene {
    home: TempDir,
    port: u16,
    server: Option<i32>,
}

impl Scene {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        keygen(&home.path().join("key"), "ed25519");
        let public = fs::read_to_string(home.path().join("key.pub")).unwrap();
        let mut scene = Self {
            home,
            port: free_port(),
            server: None,
        };
        scene.start(&[public.trim()]);
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Starts the server as the commands of a task do.
    fn start(&mut self, keys: &[&str]) {
        let settings = SshSettings {
            user: "ada".to_owned(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            host_key: "0a".repeat(32),
            job_key: None,
            peers: Vec::new(),
            barrier_s: None,
        };
        let settings = serde_json::to_string(&settings).unwrap();
        let pid = self.path("pid");
        // The server is a child of this program, whose children it looks through.
        let output = Command::new(env!("CARGO_BIN_EXE_muster-sshd"))
            .arg("start")
            .env(SSH_SETTINGS_VARIABLE, settings)
            .env("PAI_CONTAINER_SSH_PORT", self.port.to_string())
            .env("PAI_JOB_NAME", "ada~train")
            .env("PID_FILE", &pid)
            .current_dir(self.home.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(text(&output.stdout).contains("for ada or "), "{output:?}");
        let pid = text(&self.ssh(&["ps -o ppid= -p $$"]).stdout);
        self.server = pid.trim().parse().ok();
    }

    /// The options of every client.
    fn options(&self) -> Vec<String> {
        [
            format!("IdentityFile={}", self.path("key").display()),
            "IdentitiesOnly=yes".to_owned(),
            "StrictHostKeyChecking=no".to_owned(),
            "UserKnownHostsFile=/dev/null".to_owned(),
            "LogLevel=ERROR".to_owned(),
            "BatchMode=yes".to_owned(),
            "ConnectTimeout=20".to_owned(),
        ]
        .into_iter()
        .flat_map(|option| ["-o".to_owned(), option])
        .collect()
    }

    /// A client of the server, before its own arguments.
    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let flag = if program == "ssh" { "-p" } else { "-P" };
        command
            .args(["-F", "none"])
            .args(self.options())
            .args([flag, &self.port.to_string()])
            .env_remove("SSH_AUTH_SOCK");
        command
    }

    fn ssh(&self, arguments: &[impl AsRef<OsStr>]) -> Output {
        let mut command = self.client("ssh");
        command.arg("ada@127.0.0.1").args(arguments);
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// What a command prints, which is to succeed.
    fn run(&self, command: &str) -> String {
        let output = self.ssh(&[command]);
        assert!(output.status.success(), "{command}: {output:?}");
        text(&output.stdout)
    }

    /// Runs a client with this input.
    fn with_input(&self, mut command: Command, input: &[u8]) -> Output {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        let _ = writer.join().unwrap();
        output
    }

    /// Runs a batch of SFTP, which is to succeed.
    fn sftp(&self, batch: &str) -> String {
        let mut command = self.client("sftp");
        command.args(["-b", "-", "ada@127.0.0.1"]);
        let output = self.with_input(command, batch.as_bytes());
        assert!(output.status.success(), "{batch}: {output:?}");
        text(&output.stdout)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let pid = self.server.and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// A client that runs in the background.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn keygen(path: &Path, kind: &str) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-N", "", "-t", kind, "-f"])
        .arg(path)
        .status();
    assert!(made.unwrap().success());
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for a condition.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        sleep(PAUSE);
    }
}

/// Bytes that no packing makes small.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut made = Vec::with_capacity(bytes + 8);
    while made.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        made.extend(state.to_le_bytes());
    }
    made.truncate(bytes);
    made
}

/// Echoes what each connection says, for as long as the test runs.
fn echo_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut said = Vec::new();
                let _ = stream.read_to_end(&mut said);
                let _ = stream.write_all(&said);
            });
        }
    });
    port
}

fn echoed(port: u16, said: &[u8]) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let mut writer = stream.try_clone().ok()?;
    let said = said.to_vec();
    let written = std::thread::spawn(move || {
        let _ = writer.write_all(&said);
        let _ = writer.shutdown(std::net::Shutdown::Write);
    });
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).ok()?;
    written.join().ok()?;
    Some(heard)
}

#[test]
fn commands_have_their_output_and_exit_codes() {
    let scene = Scene::new();
    let output = scene.ssh(&["echo out; echo err >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(
        (&*text(&output.stdout), &*text(&output.stderr)),
        ("out\n", "err\n")
    );
    // OpenSSH's client exits with 255 for a signal.
    assert_eq!(scene.ssh(&["kill -TERM $$"]).status.code(), Some(255));
    // The environment and the directory of the task's commands.
    let told = scene.run("echo $PAI_JOB_NAME; pwd; echo ${SSH_CONNECTION%% *}");
    let home = scene.home.path().canonicalize().unwrap();
    assert_eq!(told, format!("ada~train\n{}\n127.0.0.1\n", home.display()));
    assert_eq!(scene.run("echo \"[$MUSTER_SSH]\""), "[]\n");
    // Much in both directions, without a terminal: every byte.
    let bytes = noise(5 << 20);
    let mut command = scene.client("ssh");
    command.args(["ada@127.0.0.1", "cat; cat /dev/null >&2"]);
    assert!(scene.with_input(command, &bytes).stdout == bytes);
    // VS Code sends its script to a shell so.
    let mut command = scene.client("ssh");
    command.args(["-T", "ada@127.0.0.1", "sh"]);
    let output = scene.with_input(command, b"echo in-the-script\nexit 3\n");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stdout), "in-the-script\n");
    // Variables that the client sets.
    let mut command = scene.client("ssh");
    command.args(["-o", "SetEnv=LC_X=given", "ada@127.0.0.1", "echo $LC_X"]);
    assert_eq!(text(&command.output().unwrap().stdout), "given\n");
}

#[test]
fn a_terminal_has_a_size_and_a_kind() {
    let scene = Scene::new();
    let mut command = scene.client("ssh");
    command
        .args(["-tt", "ada@127.0.0.1"])
        .arg("tty; echo $TERM; stty -a | head -n1; test $SSH_TTY = $(tty) && exit 5")
        .env("TERM", "xterm-256color");
    let output = scene.with_input(command, b"");
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(5), "{told}");
    let expected = ["/dev/pts/", "xterm-256color", "rows", "columns"];
    assert!(expected.iter().all(|part| told.contains(part)), "{told}");
    // A shell that is typed to, and ^C for what runs in it.
    let mut command = scene.client("ssh");
    command.args(["-tt", "ada@127.0.0.1"]).env("TERM", "dumb");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut typed = child.stdin.take().unwrap();
    typed
        .write_all(b"echo up-$((1+1)); trap 'echo caught' INT; sleep 100 & wait\n")
        .unwrap();
    sleep(Duration::from_millis(700));
    typed.write_all(b"\x03\nexit 4\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let told = text(&output.stdout);
    assert!(told.contains("up-2"), "{told}");
    assert_eq!(output.status.code(), Some(4), "{told}");
}

#[test]
fn a_terminal_that_is_closed_ends_its_programs() {
    let scene = Scene::new();
    let mark = scene.path("mark");
    let mut command = scene.client("ssh");
    command
        .args(["-tt", "ada@127.0.0.1"])
        .arg(format!("echo $$ >{}; exec sleep 1000", mark.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut client = Background(command.spawn().unwrap());
    let pid = || {
        fs::read_to_string(&mark)
            .ok()
            .filter(|pid| pid.ends_with('\n'))
    };
    until("the program begins", || pid().is_some());
    client.0.kill().unwrap();
    let process = format!("/proc/{}", pid().unwrap().trim());
    until("the program ends", || !Path::new(&process).exists());
}

#[test]
fn only_its_keys_and_names_open_it() {
    let mut scene = Scene::new();
    keygen(&scene.path("other"), "ed25519");
    let refused = |scene: &Scene, key: &str, user: &str| {
        let mut command = Command::new("ssh");
        command
            .args(["-F", "none", "-p", &scene.port.to_string(), "-i"])
            .arg(scene.path(key))
            .args(&scene.options()[2..])
            .arg(format!("{user}@127.0.0.1"))
            .arg("true");
        let output = command.env_remove("SSH_AUTH_SOCK").output().unwrap();
        let told = text(&output.stderr);
        assert!(
            output.status.success() || told.contains("Permission denied (publickey)"),
            "{told}"
        );
        !output.status.success()
    };
    assert!(refused(&scene, "other", "ada"));
    assert!(refused(&scene, "key", "eve"));
    assert!(!refused(&scene, "key", "ada"));
    let own = scene.run("id -un");
    assert!(!refused(&scene, "key", own.trim()));
    // Other kinds of keys.
    for kind in ["rsa", "ecdsa"] {
        let name = format!("key-{kind}");
        keygen(&scene.path(&name), kind);
        let public = fs::read_to_string(scene.path(&format!("{name}.pub"))).unwrap();
        scene.port = free_port();
        let first = fs::read_to_string(scene.path("key.pub")).unwrap();
        let before = scene.server;
        scene.start(&[first.trim(), public.trim()]);
        assert!(!refused(&scene, &name, "ada"), "{kind}");
        if let Some(pid) = before.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

#[test]
fn files_are_put_and_fetched() {
    let scene = Scene::new();
    let bytes = noise(8 << 20);
    fs::write(scene.path("local"), &bytes).unwrap();
    fs::set_permissions(scene.path("local"), Permissions::from_mode(0o640)).unwrap();
    let (local, back) = (scene.path("local"), scene.path("back"));
    let (local, back) = (local.display(), back.display());
    scene.sftp(&format!(
        "mkdir far\nput -p {local} far/one\nrename far/one far/two\nget far/two {back}\nln -s two far/link\n\
         chmod 600 far/two\n"
    ));
    assert!(fs::read(scene.path("back")).unwrap() == bytes);
    assert_eq!(
        fs::read_link(scene.path("far/link")).unwrap(),
        Path::new("two")
    );
    let mode = fs::metadata(scene.path("far/two"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let listed = scene.sftp("ls -la far\npwd\ndf\n");
    assert!(
        listed.contains("two") && listed.contains("link"),
        "{listed}"
    );
    // Both resume.
    for (name, batch) in [
        ("far/two", format!("reput {local} far/two\n")),
        ("back", format!("reget far/two {back}\n")),
    ] {
        let part = fs::File::options()
            .write(true)
            .open(scene.path(name))
            .unwrap();
        part.set_len(3 << 20).unwrap();
        scene.sftp(&batch);
        assert!(fs::read(scene.path(name)).unwrap() == bytes, "{name}");
    }
    scene.sftp("rm far/two\nrm far/link\nrmdir far\n");
    assert!(!scene.path("far").exists());
    // scp, which speaks SFTP too, and the old way of it.
    for (flags, name) in [("-pr", "new"), ("-Opr", "old")] {
        let mut command = scene.client("scp");
        command
            .arg(flags)
            .arg(scene.path("local"))
            .arg(format!("ada@127.0.0.1:{name}"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(fs::read(scene.path(name)).unwrap() == bytes, "{name}");
    }
}

#[test]
fn ports_are_forwarded_in_both_directions() {
    let scene = Scene::new();
    let far = echo_server();
    let [local, remote, dynamic] = [(); 3].map(|()| free_port());
    let socket = scene.path("socket");
    let mut command = scene.client("ssh");
    command
        .args(["-N", "-o", "ExitOnForwardFailure=yes"])
        .args(["-L", &format!("{local}:localhost:{far}")])
        .args(["-R", &format!("{remote}:localhost:{far}")])
        .args(["-D", &dynamic.to_string()])
        .args(["-R", &format!("{}:localhost:{far}", socket.display())])
        .arg("ada@127.0.0.1");
    let _client = Background(command.stdin(Stdio::null()).spawn().unwrap());
    let bytes = noise(2 << 20);
    for (name, port) in [("-L", local), ("-R", remote)] {
        until(name, || echoed(port, b"x") == Some(b"x".to_vec()));
        assert!(echoed(port, &bytes) == Some(bytes.clone()), "{name}");
    }
    until("-R of a socket", || socket.exists());
    // SOCKS 5: no login, then an address.
    let mut stream = TcpStream::connect(("127.0.0.1", dynamic)).unwrap();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).unwrap();
    let port = far.to_be_bytes();
    stream
        .write_all(&[5, 1, 0, 1, 127, 0, 0, 1, port[0], port[1]])
        .unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[1], 0, "connected");
    stream.write_all(b"by socks").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "by socks");
    // What does not listen is refused, and the connection goes on.
    let mut command = scene.client("ssh");
    command.args(["-W", &format!("localhost:{}", free_port()), "ada@127.0.0.1"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success());
}

#[test]
fn a_session_reaches_the_clients_agent() {
    let scene = Scene::new();
    let socket = scene.path("agent");
    let mut agent = Command::new("ssh-agent");
    agent.args(["-D", "-a"]).arg(&socket).stdout(Stdio::null());
    let _agent = Background(agent.spawn().unwrap());
    until("the agent listens", || socket.exists());
    let added = Command::new("ssh-add")
        .arg("-q")
        .arg(scene.path("key"))
        .env("SSH_AUTH_SOCK", &socket)
        .status();
    assert!(added.unwrap().success());
    let asked = |flag: &str| {
        let mut command = scene.client("ssh");
        command
            .args([flag, "ada@127.0.0.1", "ssh-add -l; echo $SSH_AUTH_SOCK"])
            .env("SSH_AUTH_SOCK", &socket);
        text(&command.output().unwrap().stdout)
    };
    let told = asked("-A");
    assert!(told.contains("ED25519"), "{told}");
    let path = told.lines().last().unwrap_or_default();
    until("its socket is removed", || !Path::new(path).exists());
    assert!(!asked("-a").contains("ED25519"));
}

#[test]
fn sessions_share_a_connection() {
    let scene = Scene::new();
    let control = scene.path("control");
    let option = format!("ControlPath={}", control.display());
    let mut command = scene.client("ssh");
    command.args(["-N", "-M", "-o", &option, "ada@127.0.0.1"]);
    let _master = Background(command.stdin(Stdio::null()).spawn().unwrap());
    until("the connection is there", || control.exists());
    let all: Vec<_> = (0..20)
        .map(|index| {
            let mut command = scene.client("ssh");
            command.args(["-o", &option, "ada@127.0.0.1"]);
            command.arg(format!("head -c 200000 /dev/zero | wc -c; exit {index}"));
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for (index, child) in (0..).zip(all) {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(index));
        assert_eq!(text(&output.stdout).trim(), "200000");
    }
}

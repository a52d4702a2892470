//! A person's command in a task's container, beside the task's own.
//!
//! The engine starts it with what the container's first process has. What the task's own commands have besides, it
//! takes from them: their environment, which was never written to a disk, and the filter of system calls.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::container::PATH_DEFAULT;
use crate::container::shell::{Shell, ShellKind};
use crate::container::syscall_filter;

/// A variable that the task's own commands have, and nothing else.
const MARK: &[u8] = b"PAI_CURRENT_TASK_ROLE_NAME=";
/// The variable that says what the person's terminal is.
const TERM: &str = "TERM";
const PATH: &str = "PATH";
/// Exit statuses as a shell's: a command that cannot be run, and one that is not there.
const CODE_CANNOT_RUN: u8 = 126;
const CODE_NOT_FOUND: u8 = 127;

type Variables = BTreeMap<OsString, OsString>;

/// Runs `command`, or a shell of the image where it is empty. Returns only if it cannot be run.
pub fn run(command: &[OsString]) -> ExitCode {
    let environment = environment();
    let (program, arguments) = match command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments.to_vec()),
        None => match shell(&environment) {
            Ok(shell) => shell,
            Err(why) => return failed(CODE_NOT_FOUND, &why),
        },
    };
    if let Err(error) = syscall_filter::install() {
        return failed(CODE_CANNOT_RUN, &error.to_string());
    }
    let error = Command::new(&program)
        .args(arguments)
        .env_clear()
        .envs(environment)
        .exec();
    let program = program.display();
    match error.kind() {
        io::ErrorKind::NotFound => failed(
            CODE_NOT_FOUND,
            &format!("{program}: there is no such program in the task's container"),
        ),
        _ => failed(CODE_CANNOT_RUN, &format!("{program}: {error}")),
    }
}

fn failed(code: u8, why: &str) -> ExitCode {
    eprintln!("muster: {why}");
    ExitCode::from(code)
}

/// This process's own variables, those of the task's commands over them, and the person's terminal over both.
fn environment() -> Variables {
    let own: Variables = std::env::vars_os().collect();
    let terminal = own.get(OsStr::new(TERM)).cloned();
    let mut all = own;
    match task_variables(Path::new("/proc")) {
        Some(variables) => all.extend(variables),
        None => eprintln!(
            "muster: no command of the task runs, so its variables (PAI_...) are not set here"
        ),
    }
    if let Some(terminal) = terminal {
        all.insert(TERM.into(), terminal);
    }
    all.entry(PATH.into())
        .or_insert_with(|| PATH_DEFAULT.into());
    all
}

/// The environment of the oldest process that the container's first process has started, or has adopted, with the
/// task's variables.
fn task_variables(proc: &Path) -> Option<Variables> {
    let entries = fs::read_dir(proc).ok()?.flatten();
    let started = entries.filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (parent, started) = parent_and_start(&stat)?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let is_task = environment
            .split(|byte| *byte == 0)
            .any(|line| line.starts_with(MARK));
        (parent == 1 && is_task).then_some((started, environment))
    });
    let (_, environment) = started.min_by_key(|(started, _)| *started)?;
    Some(variables(&environment))
}

/// The parent of a process, and when it was started, of `/proc/PID/stat`. The name in it may hold anything.
fn parent_and_start(stat: &str) -> Option<(u32, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some((parent, started))
}

fn variables(environment: &[u8]) -> Variables {
    let lines = environment.split(|byte| *byte == 0);
    let pairs = lines.filter_map(|line| {
        let middle = line.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&line[..middle], &line[middle + 1..]);
        Some((
            OsStr::from_bytes(name).to_owned(),
            OsString::from_vec(value.to_owned()),
        ))
    });
    pairs.collect()
}

/// The best shell of the image, as a person uses it.
fn shell(environment: &Variables) -> Result<(OsString, Vec<OsString>), String> {
    let path = environment.get(OsStr::new(PATH));
    let shell = Shell::find(path.map(OsString::as_os_str).unwrap_or_default());
    let shell = shell.map_err(|failure| failure.message)?;
    let arguments = match shell.kind {
        ShellKind::Bash | ShellKind::Sh => Vec::new(),
        ShellKind::Busybox => vec!["sh".into()],
    };
    Ok((shell.program.into(), arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(proc: &Path, pid: u32, (parent, started): (u32, u64), environment: &str) {
        let dir = proc.join(pid.to_string());
        fs::create_dir(&dir).unwrap();
        let between = vec!["0"; 17].join(" ");
        let stat = format!("{pid} (a ) b) S {parent} {between} {started} 0 0\n");
        fs::write(dir.join("stat"), stat).unwrap();
        fs::write(dir.join("environ"), environment).unwrap();
    }

    #[test]
    fn the_task_s_variables_are_those_of_its_oldest_command() {
        let proc = tempfile::tempdir().unwrap();
        let proc = proc.path();
        assert_eq!(task_variables(proc), None);
        let task = |more: &str| format!("PAI_CURRENT_TASK_ROLE_NAME=worker\0{more}\0");
        process(proc, 1, (0, 10), &task("WHO=init"));
        process(proc, 7, (1, 20), "PATH=/bin\0");
        process(proc, 8, (1, 40), &task("WHO=a daemon that it has left"));
        process(proc, 9, (1, 30), &task("WHO=the shell\0EQUALS=a=b\0BROKEN"));
        process(proc, 10, (9, 25), &task("WHO=a child"));
        fs::create_dir(proc.join("sys")).unwrap();
        let found = task_variables(proc).unwrap();
        let value = |name: &str| found.get(OsStr::new(name)).and_then(|value| value.to_str());
        assert_eq!(value("WHO"), Some("the shell"));
        assert_eq!(value("EQUALS"), Some("a=b"));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_stat_that_is_none_is_passed_over() {
        for stat in ["", "1 (x", "1 (x) S", "1 (x) S one 2"] {
            assert_eq!(parent_and_start(stat), None, "{stat}");
        }
    }
}

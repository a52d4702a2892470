//! Ends what a test process that was killed left behind: agents, and their homes.

use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::disk::unmount_below;

/// How the homes of networks begin.
const PREFIX: &str = "muster-lan-";

/// The beginning of a home's name: who made it. A pid may be given again, so its start is named.
pub fn prefix() -> String {
    let pid = std::process::id();
    format!("{PREFIX}{pid}-{}-", started(pid).unwrap_or_default())
}

/// Ends the agents of homes whose makers are gone, and removes those homes.
pub fn sweep() {
    let entries = std::fs::read_dir(std::env::temp_dir())
        .into_iter()
        .flatten();
    for home in entries.flatten().map(|entry| entry.path()) {
        if is_left_behind(&home) {
            end_agents_of(&home);
            // Another test process may sweep at the same time.
            let _ = unmount_below(&home);
            let _ = std::fs::remove_dir_all(&home);
        }
    }
}

fn is_left_behind(home: &Path) -> bool {
    let name = home.file_name().unwrap_or_default().to_string_lossy();
    let mut parts = name.strip_prefix(PREFIX).unwrap_or_default().split('-');
    let pid = parts.next().and_then(|part| part.parse().ok());
    let start = parts.next().and_then(|part| part.parse().ok());
    match pid.zip(start) {
        Some((pid, start)) => started(pid) != Some(start),
        None => false,
    }
}

/// Those that were started with this home, whatever they are called.
fn end_agents_of(home: &Path) {
    let mark = format!("MUSTER_HOME={}/", home.display());
    let names_it = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable.starts_with(mark.as_bytes()))
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for pid in pids.filter(names_it) {
        // It may have ended by itself.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// When a process started, in ticks since the system's start; `None` if it runs no more.
fn started(pid: u32) -> Option<u64> {
    let stat = PathBuf::from(format!("/proc/{pid}/stat"));
    let stat = std::fs::read_to_string(stat).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    let state = fields.next()?;
    (state != "Z").then_some(fields.nth(18)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_homes_of_the_dead_are_swept() {
        let mine = PathBuf::from(format!("/tmp/{}x", prefix()));
        assert!(!is_left_behind(&mine), "{}", mine.display());
        let pid = std::process::id();
        for (name, expect) in [
            (format!("muster-lan-{pid}-1-x"), true),
            ("muster-lan-999999999-1-x".to_owned(), true),
            ("muster-lan-x".to_owned(), false),
            ("muster-test-1-1-x".to_owned(), false),
        ] {
            assert_eq!(is_left_behind(Path::new(&name)), expect, "{name}");
        }
    }
}

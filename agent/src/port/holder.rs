//! Which process holds a port of this machine, as `/proc` tells.

use std::fs;
use std::path::Path;

use crate::sockets::BoundSocket;

/// A process with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortHolder {
    /// Its number.
    pub(crate) pid: u32,
    /// Its name, as the kernel has it.
    pub(crate) command: String,
    /// The uid of the task that it belongs to, if it is one of those asked about.
    pub(crate) task: Option<String>,
}

/// The process that holds one of these sockets. `tasks` are the uids of this node's tasks; a
/// process of a task has its uid in the path of its cgroup. `None` if it cannot be seen.
pub(crate) fn find(root: &Path, sockets: &[BoundSocket], tasks: &[String]) -> Option<PortHolder> {
    let names: Vec<String> = sockets
        .iter()
        .map(|socket| format!("socket:[{}]", socket.inode))
        .collect();
    let processes = fs::read_dir(root.join("proc")).ok()?.flatten();
    let mut pids: Vec<u32> = processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    // The first of a family is the one to end.
    pids.sort_unstable();
    let pid = pids.into_iter().find(|pid| holds(root, *pid, &names))?;
    let read = |file: &str| {
        let text = fs::read_to_string(root.join(format!("proc/{pid}/{file}")));
        text.unwrap_or_default()
    };
    let cgroup = read("cgroup");
    let mut parts = cgroup.split(['/', '\n', ':']);
    Some(PortHolder {
        pid,
        command: read("comm").trim().to_owned(),
        task: parts
            .find(|part| tasks.iter().any(|uid| uid == part))
            .map(str::to_owned),
    })
}

fn holds(root: &Path, pid: u32, names: &[String]) -> bool {
    let Ok(files) = fs::read_dir(root.join(format!("proc/{pid}/fd"))) else {
        // It has ended meanwhile.
        return false;
    };
    let targets = files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok());
    targets
        .filter_map(|target| target.to_str().map(str::to_owned))
        .any(|target| names.contains(&target))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn process(root: &Path, pid: u32, command: &str, cgroup: &str, inode: u64) {
        let directory = root.join(format!("proc/{pid}"));
        fs::create_dir_all(directory.join("fd")).unwrap();
        fs::write(directory.join("comm"), format!("{command}\n")).unwrap();
        fs::write(directory.join("cgroup"), cgroup).unwrap();
        symlink("/dev/null", directory.join("fd/0")).unwrap();
        symlink(format!("socket:[{inode}]"), directory.join("fd/3")).unwrap();
    }

    #[test]
    fn a_holder_is_found_with_its_task() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let net = root.join("proc/net");
        fs::create_dir_all(&net).unwrap();
        let line = |port: u16, inode: u64| {
            format!(
                " 0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 \
                 0 0 {inode} 1 0 100 0 0 10 0\n"
            )
        };
        fs::write(net.join("tcp"), line(7741, 11) + &line(80, 12)).unwrap();
        process(root, 9, "other", "0::/system.slice\n", 99);
        process(root, 10, "nc", "3:cpu:/muster/a-0\n0::/\n", 11);
        process(root, 8, "nginx", "0::/system.slice/nginx.service\n", 12);
        let tasks = ["b-0".to_owned(), "a-0".to_owned()];
        let holder = |port: u16| {
            let sockets = crate::sockets::sockets_at(root, port);
            let holder = find(root, &sockets, &tasks)?;
            Some((holder.pid, holder.command, holder.task))
        };
        let task = Some("a-0".to_owned());
        assert_eq!(holder(7741), Some((10, "nc".to_owned(), task)));
        assert_eq!(holder(80), Some((8, "nginx".to_owned(), None)));
        assert_eq!(holder(81), None);
    }
}

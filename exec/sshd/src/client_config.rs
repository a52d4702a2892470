//! What a client in the task needs to log in to the other tasks: `ssh worker-1`.
//!
//! The files lie in the container's own shared memory, and the configuration in the home directory includes them. A
//! home directory on a storage may belong to the tasks of several jobs.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use russh::keys::PrivateKey;
use russh::keys::ssh_key::LineEnding;

use crate::peers::PeerTask;

/// The directory of the files. Every container has it, in memory and of its own.
pub(crate) const DIRECTORY: &str = "/dev/shm/muster-ssh";
/// The private key, in that directory.
const KEY: &str = "id_ed25519";
/// The configuration, in that directory.
const CONFIG: &str = "config";
const MODE_DIRECTORY: u32 = 0o700;
const MODE_FILE: u32 = 0o600;

/// Writes the key and the configuration, and has the client of the user read it.
///
/// # Errors
/// What could not be written, and how the tasks can be reached all the same.
pub(crate) fn write(
    directory: &Path,
    home: &Path,
    (user, key): (&str, &PrivateKey),
    peers: &[PeerTask],
) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write {}: {error}", directory.display());
    make_directory(directory).map_err(failed)?;
    let key = key.to_openssh(LineEnding::LF);
    let key = key.map_err(|error| format!("cannot write the key of the job: {error}"))?;
    write_file(&directory.join(KEY), &key).map_err(failed)?;
    let config = directory.join(CONFIG);
    write_file(&config, text(directory, user, peers)).map_err(failed)?;
    include(home, &config).map_err(|error| {
        format!(
            "cannot write {}/.ssh/config: {error}. Other tasks are reached with ssh -F {} ROLE-INDEX",
            home.display(),
            config.display()
        )
    })
}

fn text(directory: &Path, user: &str, peers: &[PeerTask]) -> String {
    let key = directory.join(KEY);
    let host = |peer: &PeerTask| {
        format!(
            "Host {}\n  HostName {}\n  Port {}\n  User {user}\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n",
            peer.name,
            peer.address,
            peer.port,
            key.display()
        )
    };
    peers.iter().map(host).collect()
}

/// Names a configuration at the start of the user's own, where it holds for all hosts. What is there stays.
fn include(home: &Path, config: &Path) -> io::Result<()> {
    let folder = home.join(".ssh");
    make_directory(&folder)?;
    let path = folder.join("config");
    let line = format!("Include {}", config.display());
    let before = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut lines = before.split(|byte| *byte == b'\n');
    if lines.any(|known| known.trim_ascii() == line.as_bytes()) {
        return Ok(());
    }
    let mut after = format!("# Added by Muster: the tasks of the job.\n{line}\n\n").into_bytes();
    after.extend(before);
    write_file(&path, after)
}

fn make_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(MODE_DIRECTORY).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        done => done,
    }
}

/// Writes a file in place: a link stays one, and so do the rights of a file that is there.
fn write_file(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    options.mode(MODE_FILE).open(path)?.write_all(text.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::private_key;

    fn peer() -> PeerTask {
        PeerTask {
            name: "worker-1".to_owned(),
            address: "10.0.0.12".to_owned(),
            port: 20000,
        }
    }

    #[test]
    fn the_users_own_configuration_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("shm");
        let own = "Host mine\n  User me\n";
        fs::create_dir(home.path().join(".ssh")).unwrap();
        let config = home.path().join(".ssh/config");
        fs::write(&config, own).unwrap();
        let key = private_key(&"01".repeat(32)).unwrap();
        for _ in 0..2 {
            write(&directory, home.path(), ("ada", &key), &[peer()]).unwrap();
        }
        let text = fs::read_to_string(&config).unwrap();
        assert!(text.ends_with(own), "{text}");
        assert_eq!(text.matches("Include").count(), 1, "{text}");
        let hosts = fs::read_to_string(directory.join(CONFIG)).unwrap();
        for line in [
            "Host worker-1\n",
            "HostName 10.0.0.12\n",
            "Port 20000\n",
            "User ada\n",
        ] {
            assert!(hosts.contains(line), "{hosts}");
        }
        let read = PrivateKey::read_openssh_file(directory.join(KEY)).unwrap();
        assert_eq!(read.public_key().key_data(), key.public_key().key_data());
    }

    #[test]
    fn a_home_that_cannot_be_written_is_told_with_the_other_way() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(".ssh"), "no directory").unwrap();
        let key = private_key(&"01".repeat(32)).unwrap();
        let directory = home.path().join("shm");
        let told = write(&directory, home.path(), ("ada", &key), &[peer()]).unwrap_err();
        assert!(
            told.contains("ssh -F") && directory.join(CONFIG).exists(),
            "{told}"
        );
    }
}

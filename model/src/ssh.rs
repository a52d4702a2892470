//! SSH into tasks: what a job asks for, and what the server of a task is told.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::id::RoleName;

/// The variable that hands [`SshSettings`], as JSON, to the program that starts the server.
pub const SSH_SETTINGS_VARIABLE: &str = "MUSTER_SSH";
/// Most keys that may log in to a task.
pub const SSH_KEYS_MAX: usize = 100;
/// Longest line of a key, in bytes. RSA of 16384 bits has 2,800.
pub const SSH_KEY_BYTES_MAX: usize = 8192;
/// Longest text of all keys of a job, in bytes. The kernel gives a variable 128 KiB.
pub const SSH_KEYS_BYTES_MAX: usize = 64 << 10;

/// Who may log in to the tasks of a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshAccess {
    /// Public keys, a line of OpenSSH each.
    pub keys: Vec<String>,
    /// Whether the keys of the user's profile are to be added. They are when the job is submitted.
    pub system_keys: bool,
    /// The roles whose tasks log in to each other; none without `jobssh`.
    pub peers: Vec<RoleName>,
    /// The commands wait so many seconds at most until the servers of all peers answer; not at all if none.
    pub barrier_s: Option<u32>,
    /// Whether the commands go on when the server cannot be started.
    pub may_fail: bool,
}

/// What the server of a task is told.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshSettings {
    /// The job's user, a name to log in by.
    pub user: String,
    /// Who may log in: public keys, a line of OpenSSH each.
    pub keys: Vec<String>,
    /// The private key of the host, Ed25519: 32 bytes in hexadecimal digits.
    pub host_key: String,
    /// The private key by which tasks of the job log in to each other, likewise.
    pub job_key: Option<String>,
    /// The roles whose tasks log in to each other.
    pub peers: Vec<RoleName>,
    /// See [`SshAccess::barrier_s`].
    pub barrier_s: Option<u32>,
}

impl fmt::Debug for SshSettings {
    /// Leaves out the private keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SshSettings")
            .field("user", &self.user)
            .field("keys", &self.keys.len())
            .field("peers", &self.peers)
            .field("barrier_s", &self.barrier_s)
            .finish_non_exhaustive()
    }
}

/// The kinds of keys that are taken, with the fields of each after its name (RFC 4253, RFC 5656, RFC 8709 and
/// OpenSSH's PROTOCOL.u2f).
const KINDS: [(&str, usize); 7] = [
    ("ssh-ed25519", 1),
    ("ssh-rsa", 2),
    ("ecdsa-sha2-nistp256", 2),
    ("ecdsa-sha2-nistp384", 2),
    ("ecdsa-sha2-nistp521", 2),
    ("sk-ssh-ed25519@openssh.com", 2),
    ("sk-ecdsa-sha2-nistp256@openssh.com", 3),
];

/// The public keys in a text, one in a line, without their comments. Empty lines and lines that begin with `#` are
/// left out.
///
/// # Errors
/// Why a line is no public key, with the number of the line and what to do about it.
pub fn public_keys(text: &str) -> Result<Vec<String>, String> {
    let mut keys = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = public_key(line);
        keys.push(key.map_err(|problem| format!("line {}: {problem}", index + 1))?);
    }
    Ok(keys)
}

/// The key in a line as OpenSSH writes it into a file `.pub`: its kind and its body.
fn public_key(line: &str) -> Result<String, String> {
    if line.contains("PRIVATE KEY") {
        let message = "this is a private key: make a new pair, for others have seen this one now, and give its \
                       public key, the file that ends in .pub";
        return Err(message.to_owned());
    }
    if line.len() > SSH_KEY_BYTES_MAX {
        return Err(format!(
            "should NOT be longer than {SSH_KEY_BYTES_MAX} bytes"
        ));
    }
    let mut words = line.split_ascii_whitespace();
    let (name, body) = (words.next().unwrap_or_default(), words.next());
    let Some((_, fields)) = KINDS.iter().find(|(kind, _)| *kind == name) else {
        return Err(unknown_kind(name));
    };
    let text = body.unwrap_or_default();
    let bytes = STANDARD.decode(text).unwrap_or_default();
    if is_of(&bytes, name, *fields) {
        return Ok(format!("{name} {text}"));
    }
    Err(format!(
        "the {name} key is cut short or damaged: paste the whole line of the file that ends in .pub"
    ))
}

fn unknown_kind(name: &str) -> String {
    let name: String = name.chars().take(40).collect();
    if name == "ssh-dss" {
        return "keys of kind ssh-dss (DSA) are too weak: make one with ssh-keygen -t ed25519"
            .to_owned();
    }
    format!(
        "it begins with {name}, which is no kind of key: a line is `ssh-ed25519 AAAA... comment`, without options \
         before it; ssh-keygen -t ed25519 makes one, in a file that ends in .pub"
    )
}

/// Whether the bytes are a key of this kind: fields with their lengths before them, the first one its name.
fn is_of(body: &[u8], name: &str, fields: usize) -> bool {
    let mut rest = body;
    let mut field = || {
        let (length, tail) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (value, tail) = tail.split_at_checked(length)?;
        rest = tail;
        Some(value)
    };
    let is_named = field() == Some(name.as_bytes());
    let are_whole = (0..fields).all(|_| field().is_some_and(|value| !value.is_empty()));
    is_named && are_whole && rest.is_empty() && (name != "ssh-ed25519" || body.len() == 51)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED25519: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILl71p6NupexlB2OXwcMWSFU7MXaGQaPxRz5iWZm6ifa ada@desk";

    #[test]
    fn keys_are_read_line_by_line() {
        let text = format!("\n# mine\n  {ED25519}\r\n\n");
        let bare = ED25519.trim_end_matches(" ada@desk");
        assert_eq!(public_keys(&text).unwrap(), [bare]);
        assert_eq!(public_keys("").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_key_is_told_with_its_line_and_the_remedy() {
        let of = |text: &str| public_keys(&format!("{ED25519}\n{text}")).unwrap_err();
        let (name, body) = ("ssh-ed25519", ED25519.split(' ').nth(1).unwrap());
        let cut = &body[..body.len() - 8];
        for (line, told) in [
            (format!("{name} {cut}"), "cut short"),
            (format!("ssh-rsa {body}"), "cut short"),
            (format!("{name} *{}", &body[1..]), "cut short"),
            (name.to_owned(), "cut short"),
            (format!("from=\"x\" {name} {body}"), "without options"),
            ("ssh-dss AAAA".to_owned(), "-t ed25519"),
            (
                "-----BEGIN OPENSSH PRIVATE KEY-----".to_owned(),
                "private key",
            ),
            ("a".repeat(SSH_KEY_BYTES_MAX + 1), "NOT be longer"),
        ] {
            let problem = of(&line);
            assert!(
                problem.starts_with("line 2: ") && problem.contains(told),
                "{problem}"
            );
        }
    }

    #[test]
    fn settings_do_not_show_their_private_keys() {
        let settings = SshSettings {
            user: "ada".to_owned(),
            keys: vec![ED25519.to_owned()],
            host_key: "11".repeat(32),
            job_key: Some("22".repeat(32)),
            peers: Vec::new(),
            barrier_s: None,
        };
        let shown = format!("{settings:?}");
        assert!(
            !shown.contains("1111") && !shown.contains("2222"),
            "{shown}"
        );
    }
}

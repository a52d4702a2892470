//! From a declared storage to what mount(8) is told.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use muster_init::storage::MountCall;
use muster_model::storage::{Storage, StorageKind};
use sha2::{Digest as _, Sha256};

/// Bytes of a declaration's digest that tell two declarations of one name apart.
const DIGEST_BYTES: usize = 6;

/// A storage that a task uses, with its credentials opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// It is mounted.
    Mounted(StorageUse),
    /// A directory of the machine.
    Host(PathBuf),
}

/// A storage to be mounted.
#[derive(Clone, PartialEq, Eq)]
pub struct StorageUse {
    /// Its name in the cluster.
    pub name: String,
    /// How long its server may be silent before tasks that use it fail; none: they wait.
    pub fail_after: Option<Duration>,
    /// Names its mount on this node. Another declaration of the same name is another mount.
    pub(super) key: String,
    pub(super) kind: &'static str,
    pub(super) source: String,
    pub(super) options: Vec<String>,
    pub(super) secrets: Vec<(String, String)>,
}

impl MountSource {
    /// The source of a declared storage whose credentials are opened; `None` for a kind that cannot be mounted.
    pub fn of(storage: &Storage) -> Option<Self> {
        let entry = |name: &str| storage.data.get(name).cloned().unwrap_or_default();
        let (kind, source) = match storage.kind {
            StorageKind::HostPath => return Some(Self::Host(entry("path").into())),
            StorageKind::Nfs => (
                "nfs",
                format!("{}:{}", bracketed(&entry("server")), entry("path")),
            ),
            StorageKind::Samba => ("cifs", entry("address")),
            StorageKind::AzureFile => ("cifs", azure_share(storage)),
            StorageKind::AzureBlob | StorageKind::Dshuttle | StorageKind::Other => return None,
        };
        let options = options(storage);
        let secrets = match kind {
            "cifs" => password(storage)
                .map(|password| ("PASSWD".to_owned(), password))
                .into_iter()
                .collect(),
            _ => Vec::new(),
        };
        let fail_after = storage.fail_after_seconds;
        Some(Self::Mounted(StorageUse {
            name: storage.name.clone(),
            fail_after: (fail_after > 0).then(|| Duration::from_secs(fail_after.into())),
            key: key(
                &storage.name,
                &[&[kind.to_owned(), source.clone()], &*options].concat(),
            ),
            kind,
            source,
            options,
            secrets,
        }))
    }
}

impl fmt::Debug for StorageUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("StorageUse");
        shown.field("key", &self.key);
        shown.finish_non_exhaustive()
    }
}

impl StorageUse {
    /// What mount(8) is told.
    pub(super) fn call(&self, target: PathBuf) -> MountCall {
        MountCall {
            target,
            kind: self.kind.to_owned(),
            source: self.source.clone(),
            options: self.options.clone(),
            secrets: self.secrets.clone(),
        }
    }
}

/// An IPv6 address in brackets, as nfs(5) has it.
fn bracketed(server: &str) -> String {
    match server.contains(':') && !server.starts_with('[') {
        true => format!("[{server}]"),
        false => server.to_owned(),
    }
}

/// The share of Azure Files at its public address.
fn azure_share(storage: &Storage) -> String {
    let entry = |name: &str| storage.data.get(name).map_or("", String::as_str);
    let (account, share) = (entry("accountName"), entry("shareName"));
    format!("//{account}.file.core.windows.net/{share}")
}

fn password(storage: &Storage) -> Option<String> {
    let name = match storage.kind {
        StorageKind::AzureFile => "accountKey",
        _ => "password",
    };
    storage.data.get(name).cloned()
}

/// The options that it is mounted with. Of two that contradict each other the later one holds: those of the declaration
/// go before the usual ones, and what no declaration may undo before all.
fn options(storage: &Storage) -> Vec<String> {
    let user = |name: &str| {
        storage
            .data
            .get(name)
            .map(|user| format!("username={user}"))
    };
    let own: Vec<String> = match storage.kind {
        // mount.nfs goes on for two minutes by itself; the next try is another task's. With a cache of its own, requests
        // of one storage can be made to fail without those of another one on the same server.
        StorageKind::Nfs => ["retry=0", "nosharecache"].map(str::to_owned).into(),
        // A program waits for a server that is away, as with NFS.
        StorageKind::Samba => {
            let user = user("username").unwrap_or_else(|| "guest".to_owned());
            vec!["hard".to_owned(), user]
        }
        // What Azure's own documentation mounts it with.
        StorageKind::AzureFile => [
            "hard",
            "vers=3.1.1",
            "serverino",
            "mfsymlinks",
            "dir_mode=0777",
            "file_mode=0777",
        ]
        .map(str::to_owned)
        .into_iter()
        .chain(user("accountName"))
        .collect(),
        _ => Vec::new(),
    };
    let always = ["nosuid", "nodev"].into_iter();
    let always = always
        .chain(storage.read_only.then_some("ro"))
        .map(str::to_owned);
    let written = storage.mount_options.iter();
    // Each may be a list of its own, as for mount -o.
    let written = written
        .flat_map(|options| options.split(','))
        .map(str::to_owned);
    own.into_iter().chain(written).chain(always).collect()
}

fn key(name: &str, parts: &[String]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let digest: String = digest
        .finalize()
        .iter()
        .take(DIGEST_BYTES)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{name}-{digest}")
}

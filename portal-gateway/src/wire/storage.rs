//! Storages: upstream's summary and detail, and the two shapes that it gave up.

use std::collections::BTreeMap;

use muster_model::storage::{Storage, StorageGrant, StorageKind};
use schemars::JsonSchema;
use serde::Serialize;

/// A row of the listing.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StorageRow {
    name: String,
    share: bool,
    volume_name: String,
    default: bool,
}

impl StorageRow {
    pub(crate) fn of(grant: &StorageGrant) -> Self {
        let storage = &grant.storage;
        Self {
            name: storage.name.clone(),
            share: storage.share,
            volume_name: storage.volume_name.clone(),
            default: grant.default,
        }
    }
}

/// A storage as clients of version 0.17 knew it: what is mounted where.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OldConfig {
    name: String,
    default: bool,
    servers: [String; 1],
    mount_infos: [OldMount; 1],
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OldMount {
    mount_point: String,
    path: &'static str,
    server: String,
    permission: &'static str,
}

impl OldConfig {
    pub(crate) fn of(grant: &StorageGrant) -> Self {
        let storage = &grant.storage;
        let mount = OldMount {
            mount_point: format!("/mnt/{}", storage.name),
            path: if storage.share {
                ""
            } else {
                "${PAI_USER_NAME}"
            },
            server: storage.volume_name.clone(),
            permission: if storage.read_only { "ro" } else { "rw" },
        };
        Self {
            name: storage.name.clone(),
            default: grant.default,
            servers: [storage.volume_name.clone()],
            mount_infos: [mount],
        }
    }
}

/// The server behind it, as those clients knew it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OldServer {
    spn: String,
    #[serde(rename = "type")]
    kind: String,
    data: BTreeMap<&'static str, String>,
    extension: BTreeMap<String, String>,
}

impl OldServer {
    pub(crate) fn of(storage: &Storage) -> Self {
        Self {
            spn: storage.volume_name.clone(),
            kind: storage.kind.as_str().to_lowercase(),
            data: server_data(storage),
            extension: BTreeMap::new(),
        }
    }
}

/// What those clients called the entries. Secrets are absent where they were taken out before.
fn server_data(storage: &Storage) -> BTreeMap<&'static str, String> {
    let entry = |name: &str| storage.data.get(name).cloned();
    let pairs: Vec<(&str, Option<String>)> = match storage.kind {
        StorageKind::Nfs => vec![("address", entry("server")), ("rootPath", entry("path"))],
        StorageKind::Samba => {
            let address = entry("address").unwrap_or_default();
            let address = address.trim_start_matches('/');
            let (server, path) = address.split_once('/').unwrap_or((address, ""));
            vec![
                ("address", Some(server.to_owned())),
                ("rootPath", Some(path.to_owned())),
                ("userName", entry("username")),
                ("password", entry("password")),
                ("domain", Some(String::new())),
            ]
        }
        StorageKind::AzureFile => vec![
            (
                "dataStore",
                entry("accountName").map(|name| format!("{name}.file.core.windows.net")),
            ),
            ("fileShare", entry("shareName")),
            ("accountName", entry("accountName")),
            ("key", entry("accountKey")),
        ],
        StorageKind::AzureBlob => vec![
            ("dataStore", Some(String::new())),
            ("containerName", entry("containerName")),
            ("accountName", entry("accountName")),
            ("key", entry("accountKey")),
        ],
        StorageKind::HostPath => vec![("rootPath", entry("path"))],
        StorageKind::Dshuttle | StorageKind::Other => Vec::new(),
    };
    let known = pairs
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    known.collect()
}

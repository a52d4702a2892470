//! `agent.toml`. Every field has a default, so a missing file is valid.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use muster_model::id::GroupName;
use muster_portal_gateway::OidcConfig;
use serde::{Deserialize, Serialize};

use crate::certificate::pair::PairFiles;
use crate::identity_provider;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is there but cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not valid TOML, or names an unknown field.
    #[error("{path} is not valid: {message}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        message: String,
    },
    /// Fields that are well-formed but make no sense.
    #[error("{path} is not valid: {}", problems.join("; "))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Each names the field and the remedy.
        problems: Vec<String>,
    },
}

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// `[node]`
    pub node: NodeConfig,
    /// `[http]`
    pub http: Http,
    /// `[tls]`
    pub tls: TlsConfig,
    /// `[oidc]`
    pub oidc: OidcSection,
    /// `[containerd]`
    pub containerd: EngineConfig,
    /// `[hardware]`
    pub hardware: Hardware,
    /// `[tasks]`
    pub tasks: Tasks,
    /// `[images]`
    pub images: ImagesConfig,
    /// `[mesh]`
    pub mesh: MeshConfig,
    /// `[figures]`
    pub figures: FiguresConfig,
}

/// Who this node is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeConfig {
    /// Its name; the host name if absent.
    pub name: Option<String>,
    /// The address other machines reach it at; the address of the default route if absent.
    pub advertise: Option<IpAddr>,
}

/// The REST API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Names besides its own that the machine is reached by: the pages are shown under no others.
    pub host_names: Vec<String>,
    /// Jobs one user may submit in an hour; 0 for no limit.
    pub submits_per_hour: u32,
    /// Requests one address may make in a minute; 0 for no limit. Loopback is exempt.
    pub requests_per_minute: u32,
    /// Connections at a time. Where there are as many, the one is closed that has been idle
    /// longest.
    pub connections: NonZeroU32,
    /// Connections at a time from one address. All of loopback is one address.
    pub connections_per_address: NonZeroU32,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 7741),
            host_names: Vec::new(),
            submits_per_hour: 3600,
            requests_per_minute: 600,
            connections: NonZeroU32::MIN.saturating_add(4095),
            connections_per_address: NonZeroU32::MIN.saturating_add(63),
        }
    }
}

/// TLS of the REST API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// Whether other machines are answered by TLS alone. If not, everybody is answered in clear.
    pub enabled: bool,
    /// The certificate, with those that lead to its authority; the agent's own one if absent.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// Whether the agent may make a certificate of its own, signed by itself: where none is named, and
    /// to start with while the named one cannot be used.
    pub self_signed: bool,
    /// Whether programs on this machine are answered in clear too.
    pub plain_loopback: bool,
    /// How many seconds browsers are told to come by TLS alone, unless the certificate is signed by
    /// itself; 0 for not at all.
    pub strict_transport_s: u32,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            cert: None,
            key: None,
            self_signed: true,
            plain_loopback: true,
            strict_transport_s: 0,
        }
    }
}

impl TlsConfig {
    /// The files that are named, if any are.
    pub(crate) fn files(&self) -> Option<PairFiles> {
        Some(PairFiles {
            certificate: self.cert.clone()?,
            key: self.key.clone()?,
        })
    }

    /// What makes no sense, each with its remedy.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let named = [("tls.cert", &self.cert), ("tls.key", &self.key)];
        for (field, path) in named {
            if path.as_ref().is_some_and(|path| !path.is_absolute()) {
                problems.push(format!(
                    "{field} must be a whole path, as /etc/muster/tls/..."
                ));
            }
        }
        match (&self.cert, &self.key) {
            (Some(_), None) => problems.push("tls.key is missing: name the key of tls.cert".into()),
            (None, Some(_)) => {
                problems.push("tls.cert is missing: name the certificate of tls.key".into());
            }
            (None, None) if self.enabled && !self.self_signed => problems.push(
                "tls.self_signed = false needs tls.cert and tls.key; tls.enabled = false answers \
                 everybody in clear"
                    .into(),
            ),
            _ => {}
        }
        problems
    }
}

/// Logins by an identity provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OidcSection {
    /// The provider, as it names itself; none if people log in by passwords alone.
    pub issuer: Option<String>,
    /// What this cluster is called there.
    pub client_id: String,
    /// The file with the secret of the client, if it has one.
    pub client_secret_file: Option<PathBuf>,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// The claim that holds a person's name here.
    pub name_claim: String,
    /// The claim that holds a person's groups there.
    pub groups_claim: String,
    /// The groups here that each group there stands for.
    pub groups: BTreeMap<String, BTreeSet<GroupName>>,
    /// Where browsers reach the cluster, if not at the node that they ask.
    pub public_url: Option<String>,
    /// Origins of portals that may be given tokens.
    pub portals: Vec<String>,
    /// Whether people may log in by a password as well.
    pub passwords: bool,
}

impl Default for OidcSection {
    fn default() -> Self {
        Self {
            issuer: None,
            client_id: "muster".to_owned(),
            client_secret_file: None,
            scopes: ["openid", "profile", "email", "groups"]
                .map(str::to_owned)
                .into(),
            name_claim: "preferred_username".to_owned(),
            groups_claim: "groups".to_owned(),
            groups: BTreeMap::new(),
            public_url: None,
            portals: Vec::new(),
            passwords: true,
        }
    }
}

impl OidcSection {
    /// What the gateway is told; none without a provider.
    pub(crate) fn logins(&self) -> Option<OidcConfig> {
        Some(OidcConfig {
            issuer: self.issuer.clone()?,
            client_id: self.client_id.clone(),
            scopes: self.scopes.clone(),
            name_claim: self.name_claim.clone(),
            groups_claim: self.groups_claim.clone(),
            groups: self.groups.clone(),
            public_url: self.public_url.clone(),
            portals: self.portals.clone(),
            passwords: self.passwords,
        })
    }

    /// What makes no sense, each with its remedy.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(issuer) = &self.issuer
            && let Err(why) = identity_provider::safe(issuer)
        {
            problems.push(format!("oidc.issuer: {why}"));
        }
        if !self.scopes.iter().any(|scope| scope == "openid") {
            problems.push("oidc.scopes must hold \"openid\"".to_owned());
        }
        let urls = self.public_url.iter().map(|url| ("public_url", url));
        let urls = urls.chain(self.portals.iter().map(|url| ("portals", url)));
        for (field, url) in urls {
            let is_origin = url.parse::<http::Uri>().is_ok_and(|uri| {
                uri.scheme().is_some() && uri.authority().is_some() && uri.path() == "/"
            });
            if !is_origin {
                problems.push(format!(
                    "oidc.{field}: write {url:?} as https://host or https://host:port"
                ));
            }
        }
        problems
    }
}

/// The container engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineConfig {
    /// Its socket.
    pub socket: PathBuf,
    /// The namespace that all of Muster's containers and images live in.
    pub namespace: String,
    /// The snapshotter that holds the containers' file systems.
    pub snapshotter: String,
    /// The program that makes containers: `auto` (crun where it works, else runc), a name or a
    /// path.
    pub runtime: String,
    /// Parent of every task's cgroup.
    pub cgroup_parent: String,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            socket: "/run/containerd/containerd.sock".into(),
            namespace: "muster".into(),
            snapshotter: "overlayfs".into(),
            runtime: "auto".into(),
            cgroup_parent: "muster".into(),
        }
    }
}

/// What the node offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hardware {
    /// Devices made up for trials, as `8xV100`. Real GPUs are then not offered.
    pub simulate: Option<String>,
    /// Cores to offer for each core there is.
    pub cpu_overcommit: f64,
    /// Memory to offer for each byte there is.
    pub memory_overcommit: f64,
    /// Memory kept back for the system, in MiB.
    pub memory_reserved_mb: u64,
    /// First and last port for tasks; clear of the ports that the kernel takes for outgoing
    /// connections. The widest such range if absent.
    pub ports: Option<[u16; 2]>,
    /// The kernel's log, in which drivers report faults of devices.
    pub kernel_log: PathBuf,
}

impl Default for Hardware {
    fn default() -> Self {
        Self {
            simulate: None,
            cpu_overcommit: 1.0,
            memory_overcommit: 1.0,
            memory_reserved_mb: 512,
            ports: None,
            kernel_log: "/dev/kmsg".into(),
        }
    }
}

/// How tasks are run on this machine. Their limits are in the cluster's policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tasks {
    /// The program that runs as PID 1 of every task; beside `muster` or in /usr/lib/muster if
    /// absent.
    pub init: Option<PathBuf>,
    /// Bytes of one log file before it is rotated; one older file is kept.
    pub log_bytes: u64,
    /// Whether tasks may open raw and packet sockets. They share the machine's network: with
    /// these they can read what all others send, passwords included, and send in their name.
    pub raw_sockets: bool,
    /// Bytes that the logs of finished tasks may use in all.
    pub logs_bytes_max: u64,
}

impl Default for Tasks {
    fn default() -> Self {
        Self {
            init: None,
            log_bytes: 64 << 20,
            raw_sockets: false,
            logs_bytes_max: 20 << 30,
        }
    }
}

/// Where images come from and how many are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImagesConfig {
    /// Mirrors to ask first, by registry: `"docker.io" = ["https://mirror.example"]`.
    pub mirrors: std::collections::BTreeMap<String, Vec<String>>,
    /// Registries spoken to without TLS. Loopback addresses always are.
    pub insecure: Vec<String>,
    /// Whether a job needs a login of its own for an image that was pulled with one, by whomever.
    pub check_logins: bool,
    /// Unused images are removed when the disk is fuller than this, in percent.
    pub disk_percent_max: u8,
    /// ... until it is no fuller than this.
    pub disk_percent_target: u8,
}

impl Default for ImagesConfig {
    fn default() -> Self {
        Self {
            mirrors: std::collections::BTreeMap::new(),
            insecure: Vec::new(),
            check_logins: true,
            disk_percent_max: 85,
            disk_percent_target: 80,
        }
    }
}

/// How this node finds the others and is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MeshConfig {
    /// UDP and TCP address of the mesh, used once the node is in a cluster. `[::]` takes IPv4 too.
    pub listen: SocketAddr,
    /// Where this machine stands, such as the name of its network switch: machines of one rack are taken to fail
    /// together, and gangs of several machines are placed in one where they can. Told when it joins.
    pub rack: String,
    /// Whether to be found in the local network by multicast, and to look there when
    /// `muster cluster join` is to.
    pub mdns: bool,
}

impl Default for MeshConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), 7740),
            rack: String::new(),
            mdns: false,
        }
    }
}

/// What others are told of this machine's GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FiguresConfig {
    /// Whether to keep files that tell other exporters which job has which GPU.
    pub gpu_job_files: bool,
    /// Where they are; in /run/muster if absent.
    pub gpu_jobs: Option<PathBuf>,
}

impl Default for FiguresConfig {
    fn default() -> Self {
        Self {
            gpu_job_files: true,
            gpu_jobs: None,
        }
    }
}

impl AgentConfig {
    /// Reads the file. A missing one gives the defaults.
    ///
    /// # Errors
    /// When it cannot be read, parsed, or makes no sense; the error names field and remedy.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(source) => {
                return Err(ConfigError::Read {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        let config: Self = toml::from_str(&text).map_err(|e| ConfigError::Parse {
            path: path.to_owned(),
            message: e.to_string(),
        })?;
        let problems = config.problems();
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(ConfigError::Invalid {
                path: path.to_owned(),
                problems,
            })
        }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.tls.problems();
        problems.extend(self.oidc.problems());
        let mut check = |ok: bool, text: &str| {
            if !ok {
                problems.push(text.to_owned());
            }
        };
        let hardware = &self.hardware;
        check(
            (0.1..=1000.0).contains(&hardware.cpu_overcommit),
            "hardware.cpu_overcommit must be from 0.1 to 1000",
        );
        check(
            (0.1..=1000.0).contains(&hardware.memory_overcommit),
            "hardware.memory_overcommit must be from 0.1 to 1000",
        );
        check(
            hardware
                .ports
                .is_none_or(|[first, last]| first >= 1024 && first < last),
            "hardware.ports must name a first port of at least 1024 and a higher last one",
        );
        check(
            self.tasks.log_bytes >= 64 << 10,
            "tasks.log_bytes must be at least 65536, or no log would be left to explain a failure",
        );
        check(
            self.images.disk_percent_target <= self.images.disk_percent_max
                && self.images.disk_percent_max <= 100,
            "images.disk_percent_target must not be above images.disk_percent_max, nor that above 100",
        );
        check(
            self.figures
                .gpu_jobs
                .as_ref()
                .is_none_or(|path| path.is_absolute()),
            "figures.gpu_jobs must be a whole path, as /run/muster/gpu-jobs",
        );
        check(
            !self.containerd.namespace.is_empty(),
            "containerd.namespace must not be empty; remove the line for the default, muster",
        );
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AgentConfig, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.toml");
        std::fs::write(&path, text).unwrap();
        AgentConfig::read(&path)
    }

    #[test]
    fn a_missing_file_gives_the_defaults() {
        let config = AgentConfig::read(Path::new("/nonexistent/agent.toml")).unwrap();
        assert_eq!(config, AgentConfig::default());
    }

    #[test]
    fn errors_name_the_field() {
        for (text, expect) in [
            ("[http]\nlisten = \"nowhere\"", "listen"),
            ("[htp]\n", "htp"),
            ("[http]\ntls = \"off\"", "tls"),
            ("[tls]\ncert = \"/a\"", "tls.key"),
            ("[tls]\nkey = \"/a\"", "tls.cert"),
            ("[tls]\ncert = \"a\"\nkey = \"/a\"", "tls.cert"),
            ("[tls]\nself_signed = false", "tls.cert"),
            ("[oidc]\nissuer = \"http://id.example\"", "oidc.issuer"),
            ("[oidc]\nscopes = [\"email\"]", "oidc.scopes"),
            ("[oidc]\nportals = [\"portal.example\"]", "oidc.portals"),
            (
                "[oidc]\npublic_url = \"https://m.example/x\"",
                "oidc.public_url",
            ),
            (
                "[http]\nconnections_per_address = 0",
                "connections_per_address",
            ),
            ("[hardware]\nports = [40000, 30000]", "hardware.ports"),
            ("[figures]\ngpu_jobs = \"jobs\"", "figures.gpu_jobs"),
            (
                "[images]\ndisk_percent_target = 90",
                "images.disk_percent_target",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expect), "{text:?} gave {error}");
        }
    }

    /// The example file shows every field with its default, commented out.
    #[test]
    fn the_example_file_is_the_defaults() {
        let example = include_str!("../../deploy/config.example.toml");
        let live: String = example
            .lines()
            .map(|line| {
                line.strip_prefix("# ")
                    .filter(|l| l.contains(" = "))
                    .unwrap_or(line)
            })
            .filter(|line| !line.starts_with('#'))
            .fold(String::new(), |text, line| text + line + "\n");
        let shown: toml::Table = toml::from_str(&live).unwrap();
        let read: AgentConfig = toml::from_str(&live).unwrap();
        let expect = AgentConfig {
            node: NodeConfig {
                name: Some("gpu-1".into()),
                advertise: Some("192.0.2.10".parse().unwrap()),
            },
            tls: TlsConfig {
                cert: Some("/etc/muster/tls/fullchain.pem".into()),
                key: Some("/etc/muster/tls/privkey.pem".into()),
                ..TlsConfig::default()
            },
            oidc: OidcSection {
                issuer: Some("https://id.example.org".into()),
                client_secret_file: Some("/etc/muster/oidc-secret".into()),
                groups: [("/lab/vision".into(), ["vision".parse().unwrap()].into())].into(),
                public_url: Some("https://muster.example.org".into()),
                ..OidcSection::default()
            },
            hardware: Hardware {
                simulate: Some("8xV100".into()),
                ports: Some([15_000, 32_767]),
                ..Hardware::default()
            },
            tasks: Tasks {
                init: Some("/usr/lib/muster/muster-init".into()),
                ..Tasks::default()
            },
            figures: FiguresConfig {
                gpu_jobs: Some("/run/muster/gpu-jobs".into()),
                ..FiguresConfig::default()
            },
            images: ImagesConfig {
                mirrors: [("docker.io".into(), vec!["https://mirror.example".into()])].into(),
                ..ImagesConfig::default()
            },
            ..AgentConfig::default()
        };
        assert_eq!(read, expect);
        let all = toml::Table::try_from(&expect).unwrap();
        for (section, fields) in &all {
            for field in fields.as_table().unwrap().keys() {
                assert!(
                    shown[section].get(field).is_some(),
                    "{section}.{field} is not shown"
                );
            }
        }
    }
}

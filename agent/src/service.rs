//! `muster agent`: opens the state, starts the loops, serves REST until it is told to end.

use std::num::NonZeroU32;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use muster_cli::AgentArgs;
use muster_control::coordinator::{self, Coordinator};
use muster_control::fence::StartId;
use muster_control::groups::MakeCoordinator;
use muster_control::ledger::{self, Ledger};
use muster_control::usage_rules::UsageRules;
use muster_exec::engine::Engine;
use muster_exec::engine::containerd::{Containerd, ContainerdConfig};
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_model::id::UserName;
use muster_model::policy::ClusterPolicy;
use muster_portal_gateway::port::{IdentityProvider, NoIdentityProvider, Ports};
use muster_portal_gateway::{Gateway, GatewayConfig, HostNames, LogLinkKey, OidcLogins, Rates};
use muster_tls::ShownCertificate;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::accepted::Accepted;
use crate::accounts::Accounts;
use crate::alarms::Alarms;
use crate::certificate::{self, CertificateNow, OpenedCertificate};
use crate::cluster::{self, LocalUses};
use crate::config::AgentConfig;
use crate::description::Descriptions;
use crate::doctor::{self, Doctor};
use crate::documents::failure_rules::{Rules, RulesInForce};
use crate::documents::policy::{PolicyInForce, coordinator_policy};
use crate::documents::storages::StoragesInForce;
use crate::documents::{DocumentKinds, VirtualClusters};
use crate::executor::Executor;
use crate::failures::{self, FailureStore, RuleTester};
use crate::first_admin::ADMIN;
use crate::groups::elsewhere::OtherReplicas;
use crate::groups::opened::{self, OpenedStore};
use crate::groups::{self, Groups};
use crate::health::NodeParts;
use crate::home_lock::HomeLock;
use crate::identity::{self, NodeIdentity};
use crate::identity_provider::HttpIdentityProvider;
use crate::images::NodeImages;
use crate::ledger_store::LedgerStore;
use crate::loops;
use crate::loops::hardware::HardwareParts;
use crate::loops::health::{BreakerTalk, HealthConfig};
use crate::loops::node::NodeHandle;
use crate::mesh::member::MembershipDependencies;
use crate::mesh::membership::{Files, StoredMembership};
use crate::mesh::peers::MeshPeers;
use crate::node_status::NodeStatus;
use crate::paths::{HOME_VARIABLE, Paths};
use crate::port::{self, Port};
use crate::sessions::TaskSessions;
use crate::stacks::StackTaker;
use crate::systemd::Manager;
use crate::thread::{OwnThread, WaitKind};
use crate::vc::{Seat, VcHandle};
use crate::waits::AgentWaits;
use crate::{hardware, init_binary, lost_log, mesh};

/// The agent's exit code when it could not start.
const CANNOT_START: u8 = 1;
/// Threads that run the loops and answer requests; the mesh, the groups, and what blocks, run on
/// threads of their own.
const WORKERS: usize = 2;
/// Stack of a thread. Only the pages that are used cost memory; unoptimised builds need many.
const STACK_BYTES: usize = 8 << 20;

/// How long threads that wait for the machine may go on when the agent ends.
const END_LIMIT: Duration = Duration::from_secs(1);

/// The key that signs links to logs, and every change of it.
type LinkKey = watch::Receiver<LogLinkKey>;

/// Runs the agent until SIGTERM or SIGINT. Tasks go on afterwards.
pub fn main(arguments: &AgentArgs) -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::try_from_env("MUSTER_LOG").unwrap_or_else(|_| EnvFilter::new("info")),
        )
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
    // Before there are threads: it changes the environment.
    let manager = Manager::from_environment();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build();
    let threads = runtime.and_then(|runtime| {
        let mesh = OwnThread::start("mesh", STACK_BYTES, WaitKind::Network)?;
        let groups = OwnThread::start("groups", STACK_BYTES, WaitKind::Time)?;
        Ok((runtime, mesh, groups))
    });
    let result = threads
        .context("cannot start threads")
        .and_then(|(runtime, mesh, groups)| {
            let threads = Threads {
                mesh: mesh.handle(),
                groups: groups.handle(),
            };
            let result = runtime.block_on(run(arguments.config.as_deref(), threads, &manager));
            // A thread that hangs in a sick driver or on a dead disk holds nobody up. The mesh's is
            // first: on it runs who takes the end of the other loops for a failure.
            mesh.end(END_LIMIT);
            runtime.shutdown_timeout(END_LIMIT);
            groups.end(END_LIMIT);
            result
        });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            manager.status(&format!("cannot go on: {error:#}"));
            eprintln!("muster agent: {error:#}");
            ExitCode::from(CANNOT_START)
        }
    }
}

/// Threads beside those that answer requests.
struct Threads {
    /// Runs what this node does as a member.
    mesh: Handle,
    /// Runs its copies of groups.
    groups: Handle,
}

async fn run(config_file: Option<&Path>, threads: Threads, manager: &Manager) -> Result<()> {
    let home = std::env::var_os(HOME_VARIABLE).map(PathBuf::from);
    let paths = Paths::new(home.as_deref());
    let config = AgentConfig::read(config_file.unwrap_or(&paths.config))?;
    // First of all: tasks share the network with the agent, and one may be about to take the port.
    let tcp = listen(&config, manager).await?;
    let found = StartupInputs::by(&config)?;
    let directories = [paths.state.clone(), paths.tasks()];
    for directory in &directories {
        make_private_directory(directory)?;
    }
    let _lock = HomeLock::take(&paths.lock())?;
    let port = Port::http(config.http.listen);
    let unix = bind_socket(&paths.socket)?;
    manager.status("opening the state");
    let identity = found.identity.clone();
    let (host, address) = (&identity.host_name, identity.address);
    let (shown, certificate) = shown(certificate::open(&config.tls, &paths, host, address)?);
    let given = (manager, &port, &certificate);
    let (ports, node, groups) = start(&config, found, &paths, threads, given).await?;
    let gateway = gateway(&config, &identity, ports, shown)?;
    let stop = CancellationToken::new();
    let serving = async {
        tokio::join!(
            serve_tcp(&gateway, (tcp, &port), (&node, manager), &stop),
            gateway.serve_unix(unix, stop.clone())
        )
    };
    tracing::info!(
        http = %config.http.listen,
        certificate = certificate.fingerprint().as_deref().unwrap_or("none"),
        socket = %paths.socket.display(),
        state = %paths.state.display(),
        "the agent is up"
    );
    manager.ready(&format!("serves at {}", config.http.listen));
    let ending = async {
        end_signal().await?;
        tracing::info!("ending; tasks go on");
        manager.stopping("ending; tasks go on");
        groups.hand_over().await;
        stop.cancel();
        anyhow::Ok(())
    };
    let (((), ()), result) = tokio::join!(serving, ending);
    result
}

/// REST's listener; none while another process holds the port.
async fn listen(config: &AgentConfig, manager: &Manager) -> Result<Option<TcpListener>> {
    let listening = manager.http(config.http.listen).await;
    port::unless_taken(listening).with_context(|| {
        format!(
            "cannot listen at {}; change http.listen in agent.toml",
            config.http.listen
        )
    })
}

/// Serves REST, once the port is free, until the agent ends.
async fn serve_tcp(
    gateway: &Gateway,
    (listener, port): (Option<TcpListener>, &Port),
    (node, manager): (&NodeHandle, &Manager),
    stop: &CancellationToken,
) {
    let listener = match listener {
        Some(listener) => listener,
        None => {
            let address = port.address();
            let waiting = port.wait(node, || manager.http(address));
            tokio::select! {
                listener = waiting => listener,
                () = stop.cancelled() => return,
            }
        }
    };
    gateway.serve_tcp(listener, stop.clone()).await;
}

/// What the configuration names. Looked for before there is a socket: whoever asks an agent that cannot start
/// is to hear that there is none, and not to be cut off.
struct StartupInputs {
    identity: NodeIdentity,
    init: PathBuf,
}

impl StartupInputs {
    fn by(config: &AgentConfig) -> Result<Self> {
        Ok(Self {
            identity: NodeIdentity::find(&config.node).context("node.name in agent.toml")?,
            init: init_binary::find(config.tasks.init.as_deref())?,
        })
    }
}

/// Opens the state and starts the loops over it.
async fn start(
    config: &AgentConfig,
    found: StartupInputs,
    paths: &Paths,
    threads: Threads,
    (manager, http, certificate): (&Manager, &Port, &CertificateNow),
) -> Result<((Ports, LinkKey), NodeHandle, Groups)> {
    let StartupInputs { identity, init } = found;
    let rules = RulesInForce::new(Rules::shipped()?);
    let probed = hardware::probe(&config.hardware)?;
    let look = Arc::new(Notify::new());
    let accepted = Accepted::open(paths.accepted());
    let accepted = accepted.with_context(|| paths.accepted().display().to_string())?;
    let (health, health_loop) = loops::health::open(
        HealthConfig {
            root: "/".into(),
            kernel_log: config.hardware.kernel_log.clone(),
            file: paths.health(),
            cgroup_parent: config.containerd.cgroup_parent.clone(),
        },
        probed.capacity.clone(),
        Arc::clone(&look),
    )?;
    let feels = AgentWaits::default();
    let (hardware, hardware_loop) = loops::hardware::watch(HardwareParts {
        config: config.hardware.clone(),
        known: probed,
        accepted: accepted.clone(),
        health: health.watch(),
        look: Arc::clone(&look),
        calls: feels.device.clone(),
    });
    // With the faults of before: nothing is granted that is known to be bad.
    let capacity = hardware.borrow().capacity.clone();
    let task_ports = (capacity.port_first, capacity.port_last);
    let engine = engine(config)?;
    let images = Arc::new(NodeImages::new(config)?);
    let accounts = Accounts::new();
    let lost_log = lost_log::problem(paths);
    let descriptions = Descriptions::default();
    let policy = PolicyInForce::default();
    let storages = StoragesInForce::default();
    let alarms = Alarms::new(identity.node.as_str());
    let (groups, ends) = groups::handle::queue();
    let (node_handle, node_queue) = loops::node::queue();
    let files = Files::new(paths.mesh());
    let member = membership(&files, paths, (&accounts, &policy))?;
    if let Some(problem) = &lost_log {
        tracing::error!("{problem}");
    }
    let opened = opened::open(&paths.log(), member.as_ref())?;
    let (seat_sender, seat) = watch::channel(Seat::Unknown);
    let vc_handle = VcHandle::new(groups.clone(), seat);
    let (mut store, epoch) = LedgerStore::open(&paths.ledger(), rand::random())?;
    let ledger_identity = ledger::LedgerIdentity {
        node: identity.node.clone(),
        address: identity.address.to_string(),
        epoch,
        start: StartId(rand::random()),
    };
    let ledger = Ledger::recover(ledger_identity, store.records()?, capacity)?;
    let uses = LocalUses::default();
    let sample = Arc::new(Notify::new());
    let (gpu_samples, gpu_sample_loop) =
        loops::gpu_samples::watch(uses.devices.clone(), Arc::clone(&sample));
    let (failures, pending) = failures::notes();
    let kept = FailureStore::new(paths.failures());
    tokio::spawn(
        loops::failures::FailuresLoop {
            store: kept.clone(),
            pending,
            accounts: accounts.clone(),
            tasks: paths.tasks(),
        }
        .run(),
    );
    let tester = RuleTester::new(kept, rules.clone(), identity.node.to_string());
    let sessions = TaskSessions::new(engine.clone(), paths.tasks());
    let executor = Executor::new(crate::executor::ExecutorDependencies {
        engine: engine.clone(),
        images: images.clone(),
        rules: rules.clone(),
        accounts: accounts.clone(),
        node: node_handle.clone(),
        hardware: hardware.clone(),
        health: health.clone(),
        init,
        tasks: paths.tasks(),
        limits: config.tasks.clone(),
        policy: policy.clone(),
        host_name: identity.host_name.clone(),
        uses: uses.clone(),
        failures,
        storages: storages.clone(),
        sessions: sessions.clone(),
    });

    let OpenedStore {
        started,
        host,
        outputs,
        disk,
    } = opened;
    let made = loops::groups::GroupLoopParts {
        started,
        host,
        outputs,
        disk,
        coordinator: coordinator(),
        node: node_handle.clone(),
        alarms: alarms.clone(),
    };
    let groups_loop = loops::groups::GroupsLoop::new(made, ends);
    let stopper = executor.stopper();
    let storage_files = executor.storage_files();
    let node_loop = loops::node::NodeLoop::new(
        identity.node.clone(),
        (ledger, store),
        executor,
        (groups.clone(), vc_handle.clone()),
        node_queue,
    );
    threads.groups.spawn(groups_loop.run());
    tokio::spawn(
        descriptions
            .clone()
            .follow(accounts.clone(), groups.clone()),
    );
    tokio::spawn(policy.clone().follow(accounts.clone(), groups.clone()));
    tokio::spawn(node_loop.run());
    tokio::spawn(loops::terms::run(vc_handle.clone(), node_handle.clone()));
    // Not among what it watches: a thread of the others that hangs may take all their tasks with it.
    threads.mesh.spawn(loops::watchdog::run(
        vc_handle.clone(),
        node_handle.clone(),
        feels.loops.clone(),
        manager.clone(),
    ));
    tokio::spawn(loops::resident::run());
    tokio::spawn(health_loop.run(
        (hardware.clone(), node_handle.clone()),
        (gpu_samples.clone(), sample),
        BreakerTalk::new(vc_handle.clone(), alarms.clone()),
    ));
    tokio::spawn(hardware_loop.run(node_handle.clone(), stopper));
    if config.hardware.simulate.is_none() {
        tokio::spawn(gpu_sample_loop.run(node_handle.clone(), health.clone()));
    }
    if config.figures.gpu_job_files {
        let directory = config.figures.gpu_jobs.as_ref().unwrap_or(&paths.gpu_jobs);
        tokio::spawn(loops::gpu_job_files::run(
            directory.clone(),
            node_handle.clone(),
            gpu_samples.clone(),
        ));
    }
    tokio::spawn(loops::sweep::run(
        paths.tasks(),
        config.tasks.clone(),
        policy.clone(),
        node_handle.clone(),
    ));
    tokio::spawn(loops::images::run(
        images.clone(),
        config.images.clone(),
        vc_handle.clone(),
    ));
    let disk = loops::disk::watch(paths.state.clone());
    tokio::spawn(loops::disk::close(disk.clone(), node_handle.clone()));
    let engine_state = loops::engine::watch(engine.clone(), feels.engine.clone());

    let address = identity.address;
    let mesh_port = Port::mesh(config.mesh.listen);
    let node = NodeStatus {
        started: Instant::now(),
        identity,
        node: node_handle.clone(),
        images: Arc::clone(&images),
        vc: vc_handle.clone(),
        engine: engine_state,
        parts: NodeParts::new((health.clone(), hardware.clone()), (accepted, look)),
        hardware,
        health,
        tester: tester.clone(),
        stacks: StackTaker::new((engine.clone(), uses.clone()), paths.tasks()),
        sessions,
        disk,
        ports: [http.problem(), mesh_port.problem()],
        lost_log: lost_log.clone(),
        certificate: certificate.clone(),
    };
    let described = VirtualClusters::new(descriptions.clone(), vc_handle.clone());
    let documents = DocumentKinds::new(policy.clone(), rules.clone(), described, storages.clone());
    let dependencies = MembershipDependencies {
        config: config.mesh.clone(),
        manager: manager.clone(),
        node: node.clone(),
        feels,
        documents: documents.clone(),
        policy: policy.clone(),
        thread: threads.mesh,
        groups: groups.clone(),
        seat: Arc::new(seat_sender),
        accounts: accounts.clone(),
        admin_password: paths.admin_password(),
    };
    let mesh = mesh::Service::open(files, dependencies, mesh_port).await?;
    let mesh = Arc::new(mesh);
    mesh.open_ports().await;
    let doctor = Doctor::new(doctor::DoctorTargets {
        root: "/".into(),
        state: paths.state.clone(),
        http: config.http.listen,
        http_problem: http.problem(),
        certificate: certificate.clone(),
        lost_log,
        address,
        task_ports,
        policy: policy.clone(),
        engine,
        peers: Arc::new(MeshPeers(Arc::clone(&mesh))),
    });
    let link_key = accounts.link_key();
    let ports = cluster::ports(cluster::ClusterDependencies {
        vc: vc_handle,
        accounts,
        alarms,
        tasks: paths.tasks(),
        images,
        descriptions,
        doctor,
        documents,
        rules,
        tester,
        identity: identity_provider(config)?,
        mesh,
        node,
        policy,
        storages,
        storage_files,
        uses,
        gpu_samples,
    });
    Ok(((ports, link_key), node_handle, groups))
}

/// This node's number in its cluster, and what others have of the cluster's groups; none before the
/// first start has founded one.
fn membership(
    files: &Files,
    paths: &Paths,
    (accounts, policy): (&Accounts, &PolicyInForce),
) -> Result<Option<(MemberId, OtherReplicas)>> {
    let current = files.current()?;
    let is_alone = |membership: &StoredMembership| !membership.open;
    if !paths.log().exists() && current.as_ref().is_some_and(|(_, it)| is_alone(it)) {
        // Nobody else has anything of that cluster: another one begins.
        files.own().put_aside()?;
        return Ok(None);
    }
    let Some((folder, membership)) = current else {
        return Ok(None);
    };
    let cluster = ClusterId::of_root(&membership.root);
    // Before tasks want their secrets.
    accounts.enter(cluster, folder.cluster_map());
    policy.recall(&folder.mesh_file())?;
    let (member, cluster_map) = (membership.member, accounts.cluster_map());
    let elsewhere =
        OtherReplicas::read(&folder.mesh_file(), member, cluster, cluster_map.as_deref())?;
    Ok(Some((member, elsewhere)))
}

/// Makes coordinators by the default policy; [`PolicyInForce::follow`] tells them the cluster's.
fn coordinator() -> MakeCoordinator {
    Box::new(move |vc, generation| {
        Coordinator::new(coordinator::CoordinatorOptions {
            vc: vc.clone(),
            generation,
            seed: rand::random(),
            policy: coordinator_policy(&ClusterPolicy::default(), UsageRules::default()),
        })
    })
}

fn engine(config: &AgentConfig) -> Result<Arc<dyn Engine>> {
    let containerd = &config.containerd;
    let engine = Containerd::connect(ContainerdConfig {
        socket: containerd.socket.clone(),
        namespace: containerd.namespace.clone(),
        snapshotter: containerd.snapshotter.clone(),
        runtime: containerd.runtime.clone(),
        cgroup_parent: containerd.cgroup_parent.clone(),
        ..ContainerdConfig::default()
    })?;
    Ok(Arc::new(engine))
}

/// What REST proves itself with, unless everybody is answered in clear. Its files are followed from now on.
fn shown(opened: Option<OpenedCertificate>) -> (Option<ShownCertificate>, CertificateNow) {
    let Some(opened) = opened else {
        return (None, CertificateNow::default());
    };
    tokio::spawn(opened.follow.run());
    (Some(opened.shown), opened.now)
}

fn gateway(
    config: &AgentConfig,
    identity: &NodeIdentity,
    (ports, link_key): (Ports, LinkKey),
    tls: Option<ShownCertificate>,
) -> Result<Gateway> {
    let admin: UserName = ADMIN.parse()?;
    let mut gateway = GatewayConfig::new(link_key, config.http.listen.port(), admin);
    gateway.tls = tls;
    gateway.plain_loopback = config.tls.plain_loopback;
    let resolver = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let names = identity::host_names(identity, &resolver).into_iter();
    let names = names.chain(config.http.host_names.clone());
    gateway.host_names = HostNames::new(names.chain(public_host(config)));
    let logins = config.oidc.logins();
    gateway.oidc = logins.map(|logins| Arc::new(OidcLogins::new(logins)));
    gateway.rates = rates(&config.http, gateway.rates);
    gateway.limits.connections = config.http.connections;
    gateway.limits.connections_per_address = config.http.connections_per_address;
    Ok(Gateway::new(ports, gateway))
}

/// The name by which browsers reach the cluster through what stands before it.
fn public_host(config: &AgentConfig) -> Option<String> {
    let url: http::Uri = config.oidc.public_url.as_ref()?.parse().ok()?;
    Some(url.host()?.to_owned())
}

/// Where the ID tokens of people come from.
fn identity_provider(config: &AgentConfig) -> Result<Arc<dyn IdentityProvider>> {
    Ok(match &config.oidc.issuer {
        Some(issuer) => Arc::new(HttpIdentityProvider::new(&config.oidc, issuer)?),
        None => Arc::new(NoIdentityProvider),
    })
}

/// The configured rates. 0 stands for no limit, which is one that nobody reaches.
fn rates(http: &crate::config::Http, defaults: Rates) -> Rates {
    let limit = |count: u32| NonZeroU32::new(count).unwrap_or(NonZeroU32::MAX);
    Rates {
        api_per_minute: limit(http.requests_per_minute),
        submit_per_hour: limit(http.submits_per_hour),
        ..defaults
    }
}

/// Makes a directory that only root may enter.
fn make_private_directory(path: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make {}", path.display()))
}

/// Binds the socket that gives full rights. The lock is held, so what lies there is stale.
fn bind_socket(path: &Path) -> Result<UnixListener> {
    let fail = || format!("cannot listen at {}", path.display());
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(fail)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(fail);
        }
        _ => {}
    }
    private_listener(path).with_context(fail)
}

/// A listener whose file is root's alone from the first moment on: it gets the mode of the socket,
/// less what the umask takes away.
fn private_listener(path: &Path) -> std::io::Result<UnixListener> {
    use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
    use nix::sys::{socket, stat};
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let file = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    stat::fchmod(&file, stat::Mode::S_IRUSR | stat::Mode::S_IWUSR)?;
    socket::bind(file.as_raw_fd(), &UnixAddr::new(path)?)?;
    socket::listen(&file, Backlog::MAXCONN)?;
    UnixListener::from_std(std::os::unix::net::UnixListener::from(file))
}

async fn end_signal() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;

use std::os::unix::fs::PermissionsExt as _;

use muster_init::task_dir::TaskDir;
use muster_model::people::{Author, GroupAcl, GroupPatch, PeopleChange};
use muster_model::sight::JobSight;
use muster_portal_gateway::conformance;
use muster_portal_gateway::port::{Caller, EditedText, JobReader, PortError};

use super::*;

/// The agent of a machine alone. It has no container engine, and nobody can reach it.
async fn alone(home: &Path) -> (Paths, Ports) {
    let paths = Paths::new(Some(home));
    make_private_directory(&paths.tasks()).unwrap();
    let mut config = AgentConfig::default();
    config.node.name = Some("n1".to_owned());
    config.node.advertise = Some([127, 0, 0, 1].into());
    config.containerd.socket = home.join("no-containerd.sock");
    let found = StartupInputs {
        identity: NodeIdentity::find(&config.node).unwrap(),
        init: home.join("no-init"),
    };
    let threads = Threads {
        mesh: Handle::current(),
        groups: Handle::current(),
    };
    let (manager, http) = (Manager::default(), Port::http(config.http.listen));
    let certificate = CertificateNow::default();
    let given = (&manager, &http, &certificate);
    let started = start(&config, found, &paths, threads, given).await;
    (paths, started.unwrap().0.0)
}

/// Waits until the leader has heard of its node.
async fn heard(ports: &Ports) {
    let is_heard = async || ports.nodes.list().await.is_ok_and(|all| !all.is_empty());
    let wait = async {
        while !is_heard().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let heard = tokio::time::timeout(Duration::from_secs(30), wait).await;
    assert!(heard.is_ok(), "the leader has not heard of its node");
}

/// Whose jobs are hidden from now on is not shown any more, and what is being read of them ends.
async fn a_policy_holds_at_once(ports: &Ports, admin: &Caller) {
    let (vc, guest) = ("default".parse().unwrap(), JobReader::Guest);
    let hidden = ports.jobs.until_hidden(&guest, &vc, &admin.user);
    assert_eq!(ports.jobs.sight(&guest).unwrap(), JobSight::All);
    let edit = |base, text: &str| EditedText {
        base,
        text: text.to_owned(),
        now: true,
    };
    let private = edit(0, "access: {jobs: private}");
    let version = ports.documents.edit(admin, "policy", private).await;
    let sight = ports.jobs.sight(&guest).unwrap();
    assert!(!sight.sees(&vc, &admin.user));
    let ended = tokio::time::timeout(Duration::from_secs(5), hidden).await;
    assert!(ended.is_ok(), "it is read on");
    let own = JobReader::User(admin.user.clone());
    assert_eq!(ports.jobs.sight(&own).unwrap(), JobSight::All, "an admin");
    let public = edit(version.unwrap(), "{}");
    let edited = ports.documents.edit(admin, "policy", public).await;
    assert!(edited.is_ok(), "{edited:?}");
    assert_eq!(ports.jobs.sight(&guest).unwrap(), JobSight::All);
}

/// Images are left out: they are containerd's. So is what needs the network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_what_its_gateway_takes_it_for() {
    let home = tempfile::tempdir().unwrap();
    let (paths, ports) = alone(home.path()).await;
    heard(&ports).await;
    let admin = Caller {
        user: ADMIN.parse().unwrap(),
        admin: true,
        application: false,
    };
    conformance::alone(&*ports.membership, &admin).await;
    let password = std::fs::read_to_string(paths.admin_password()).unwrap();
    conformance::users(&*ports.users, (ADMIN, password.trim())).await;
    conformance::documents(&*ports.documents, &admin, "failure-rules").await;
    storages(&ports, &admin).await;
    conformance::nodes(&*ports.nodes, &*ports.membership, &admin).await;
    conformance::jobs(&*ports.jobs, &admin).await;
    conformance::sessions(&*ports.sessions, &*ports.jobs, &admin).await;

    a_policy_holds_at_once(&ports, &admin).await;

    let log = TaskDir::new(paths.tasks().join("a-0")).log();
    make_private_directory(&log).unwrap();
    std::fs::write(log.join("stdout"), "0123456789").unwrap();
    conformance::logs(&*ports.logs, &"a-0".parse().unwrap()).await;
}

/// Storages are declared and granted before a job can name them.
async fn storages(ports: &Ports, admin: &Caller) {
    conformance::storages(&*ports.storages, &[]).await;
    let storages = EditedText {
        base: 0,
        text: "storages: [{name: data, type: hostPath, data: {path: /srv}}, {name: other, type: other}]"
            .to_owned(),
        now: true,
    };
    let edited = ports.documents.edit(admin, "storages", storages);
    assert_eq!(edited.await, Ok(1));
    conformance::storages(&*ports.storages, &["data", "other"]).await;

    let job = |name: &str, storages: &str| {
        format!(
            "protocolVersion: 2\nname: {name}\ntype: job\nextras: {{storages: [{storages}]}}\nprerequisites: \
             [{{type: dockerimage, name: i, uri: no.such.registry/i}}]\ntaskRoles: {{w: {{dockerImage: i, \
             resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}, commands: ['true']}}}}\n"
        )
    };
    let submit = async |text: String| ports.jobs.submit(admin, &text).await;
    let refused = submit(job("early", "{name: data}")).await;
    assert!(
        matches!(refused, Err(PortError::NoStorage(_))),
        "{refused:?}"
    );
    let acl = GroupAcl {
        vcs: ["default".parse().unwrap()].into(),
        storages: ["other", "data", "undeclared"].map(str::to_owned).into(),
        ..GroupAcl::default()
    };
    let change = PeopleChange::ChangeGroup {
        group: "default".parse().unwrap(),
        patch: GroupPatch {
            acl: Some(acl),
            ..GroupPatch::default()
        },
    };
    let author = Author {
        user: ADMIN.to_owned(),
        address: "socket".to_owned(),
        node: String::new(),
    };
    ports.users.change(&author, change).await.unwrap();
    // The default one is of a type that is not mounted.
    for (name, storages, warned) in [
        ("named", "{name: data}", &[][..]),
        ("default", "", &[".extras.storages"]),
    ] {
        let submitted = submit(job(name, storages)).await.unwrap();
        let paths: Vec<_> = submitted.warnings.iter().map(|it| &*it.path).collect();
        assert_eq!(paths, warned);
    }
    for (name, storages) in [("late", "{name: undeclared}"), ("typed", "{name: other}")] {
        let refused = submit(job(name, storages)).await;
        assert!(
            matches!(refused, Err(PortError::NoStorage(_))),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn the_socket_is_private_from_the_first_moment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent.sock");
    // Whatever the umask lets through: the mode is set before there is a file.
    let before = nix::sys::stat::umask(nix::sys::stat::Mode::empty());
    let listener = bind_socket(&path).unwrap();
    nix::sys::stat::umask(before);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let client = tokio::net::UnixStream::connect(&path);
    let (accepted, connected) = tokio::join!(listener.accept(), client);
    assert!(accepted.is_ok() && connected.is_ok());
    // What an agent left behind that was killed is in nobody's way.
    drop(listener);
    assert!(bind_socket(&path).is_ok());
}

#[test]
fn rates_are_as_configured_and_zero_lifts_one() {
    let http = crate::config::Http {
        submits_per_hour: 0,
        requests_per_minute: 7,
        ..crate::config::Http::default()
    };
    let rates = rates(&http, Rates::default());
    assert_eq!(rates.submit_per_hour, NonZeroU32::MAX);
    assert_eq!(rates.api_per_minute.get(), 7);
}

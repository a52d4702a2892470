//! A gateway over a fake cluster, the job of the recorded samples, and a way to ask.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use muster_model::exit::{Behavior, ExitSpec, Verdict};
use muster_model::id::JobKey;
use muster_model::node::{Capacity, Device, DeviceId, Free, NodeTask, NodeView};
use muster_model::state::{ExecutionType, PriorityClass, SubState};
use muster_model::view::{
    AttemptView, JobDetail, JobSummary, Retries, RoleView, TaskAttemptView, TaskView, Trigger,
};
use serde_json::Value;
use tower::ServiceExt as _;

use super::described;
use crate::config::{GatewayConfig, LogLinkKey};
use crate::fake::FakeCluster;
use crate::gateway::Gateway;
use crate::peer::RemoteEnd;
use crate::port::{Caller, UserView};
use crate::web::session;

pub(super) const ADMIN: &str = "Bearer admin-token";
pub(super) const ANN: &str = "Bearer ann-token";
pub(super) const PROGRAM: &str = "Bearer program-token";

/// A gateway and the fake behind it.
pub(super) struct Setup {
    pub(super) fake: Arc<FakeCluster>,
    pub(super) gateway: Gateway,
    pub(super) peer: RemoteEnd,
}

/// An answer, whole.
pub(super) struct WholeAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl WholeAnswer {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

/// One request.
pub(super) struct TestRequest<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a str,
}

impl Setup {
    pub(super) fn new() -> Self {
        Self::with(config())
    }

    pub(super) fn with(config: GatewayConfig) -> Self {
        let fake = Arc::new(FakeCluster::default());
        people(&fake);
        fake.set_node(node());
        Self {
            gateway: Gateway::new(fake.ports(), config),
            fake,
            peer: RemoteEnd::Tcp([127, 0, 0, 1].into()),
        }
    }

    pub(super) async fn ask(&self, ask: TestRequest<'_>) -> WholeAnswer {
        let mut request = Request::builder()
            .method(Method::from_bytes(ask.method.as_bytes()).unwrap())
            .uri(ask.path);
        for (name, value) in ask.headers {
            request = request.header(*name, *value);
        }
        let mut request = request
            .body(Full::new(Bytes::copy_from_slice(ask.body.as_bytes())))
            .unwrap();
        request.extensions_mut().insert(self.peer);
        let response = warp::service(self.gateway.filter())
            .oneshot(request)
            .await
            .unwrap();
        let (head, body) = response.into_parts();
        let answer = WholeAnswer {
            status: head.status,
            headers: head.headers,
            body: body.collect().await.unwrap().to_bytes(),
        };
        described::check(&ask, &answer);
        answer
    }

    /// Without a login.
    pub(super) async fn guest(&self, method: &str, path: &str) -> WholeAnswer {
        self.ask(TestRequest {
            method,
            path,
            headers: &[],
            body: "",
        })
        .await
    }

    /// With a token and an empty body.
    pub(super) async fn get(&self, token: &str, path: &str) -> WholeAnswer {
        self.send(token, "GET", path, "").await
    }

    /// With a token and a body of JSON under the name of plain text, as browsers send it.
    pub(super) async fn send(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> WholeAnswer {
        self.ask(TestRequest {
            method,
            path,
            headers: &[
                ("authorization", token),
                ("content-type", "text/plain;charset=UTF-8"),
            ],
            body,
        })
        .await
    }
}

pub(super) fn config() -> GatewayConfig {
    let (_, key) = tokio::sync::watch::channel(LogLinkKey([3; 32]));
    GatewayConfig::new(key, 7741, "admin".parse().unwrap())
}

fn people(fake: &FakeCluster) {
    for (name, admin) in [("admin", true), ("ann", false)] {
        let groups: &[&str] = if admin {
            &["default", "admingroup"]
        } else {
            &["default"]
        };
        let user = UserView {
            name: name.parse().unwrap(),
            email: String::new(),
            groups: groups.iter().map(|group| group.parse().unwrap()).collect(),
            extension: serde_json::json!({"jobSSH": {"key": "secret"}, "mark": "plain"}),
            admin,
            vcs: vec!["default".parse().unwrap()],
            storages: Vec::new(),
            revision: 1,
        };
        fake.add_user(&format!("{name}-password"), user);
        let caller = |application| Caller {
            user: name.parse().unwrap(),
            admin,
            application,
        };
        fake.add_token(&format!("{name}-token"), caller(false));
        if !admin {
            fake.add_token("program-token", caller(true));
        }
    }
}

/// Four GPUs, one of them faulty, one taken.
pub(super) fn node() -> NodeView {
    let device = |index: u32| Device {
        memory_mb: 16_160,
        fault: (index == 3).then(|| "Xid 79: fell off the bus".to_owned()),
        simulated: false,
        ..Device::simulated(format!("GPU-{index}"), index, "Tesla <V100>")
    };
    NodeView {
        id: "n1".parse().unwrap(),
        host_name: "n1".to_owned(),
        address: [10, 0, 0, 1].into(),
        rack: String::new(),
        capacity: Capacity {
            cpu: 8,
            memory_mb: 16_384,
            devices: (0..4).map(device).collect(),
            levels: Vec::new(),
            port_first: 15_000,
            port_last: 32_767,
        },
        free: Free {
            cpu: 7,
            memory_mb: 16_256,
            devices: vec![(1, DeviceId("GPU-1".into())), (2, DeviceId("GPU-2".into()))],
            ports: 100,
        },
        agent_version: "0.1.0".to_owned(),
        engine: Ok("containerd 1.6.20".to_owned()),
        engine_faults: Vec::new(),
        problems: Vec::new(),
        health: Vec::new(),
        pulls: Vec::new(),
        certificate: None,
        tasks: vec![NodeTask {
            job: "admin~train".to_owned(),
            vc: "default".parse().unwrap(),
            task: "worker:0".to_owned(),
            uid: "a-0".to_owned(),
            state: "Held".to_owned(),
            devices: vec![0],
            cpu: 1,
            memory_mb: 128,
        }],
    }
}

pub(super) const SUBMITTED: u64 = 1_795_167_174_631;
pub(super) const CREATED: u64 = 1_795_167_175_093;
pub(super) const LAUNCHED: u64 = 1_795_167_175_520;
pub(super) const COMPLETED: u64 = 1_795_167_176_802;

pub(super) fn key(text: &str) -> JobKey {
    text.parse().unwrap()
}

/// A job in a listing.
pub(super) fn summary(key_text: &str, sub_state: SubState) -> JobSummary {
    let launched = !matches!(
        sub_state,
        SubState::AttemptCreationPending | SubState::AttemptPreparing
    );
    JobSummary {
        key: key(key_text),
        sub_state,
        exit_code: None,
        execution_type: ExecutionType::Start,
        tags: Vec::new(),
        retries: Retries::default(),
        retry_at: None,
        last_end: None,
        submitted: SUBMITTED,
        created: (sub_state != SubState::AttemptCreationPending).then_some(CREATED),
        launched: launched.then_some(LAUNCHED),
        attempt_launched: launched.then_some(LAUNCHED),
        completed: None,
        vc: "default".parse().unwrap(),
        gpus: 2,
        gpus_idle: 0,
        tasks: 2,
        tasks_failed: 0,
        roles: 1,
        priority: Some(PriorityClass::Prod),
        waiting_for: None,
    }
}

/// A job before its first attempt, as right after the submit.
pub(super) fn waiting(key_text: &str) -> JobDetail {
    JobDetail {
        summary: summary(key_text, SubState::AttemptCreationPending),
        attempt: None,
        roles: Vec::new(),
        partition: None,
        run_limit: None,
        warnings: Vec::new(),
    }
}

/// The samples' job with two workers, in its first attempt.
pub(super) fn placed(key_text: &str, sub_state: SubState) -> JobDetail {
    let summary = summary(key_text, sub_state);
    let tasks = (0..2).map(|index| task(index, &summary)).collect();
    JobDetail {
        attempt: Some(AttemptView {
            id: 0,
            uid: Some("0-cb5ece7b".parse().unwrap()),
            sub_state,
            created: summary.created,
            launched: summary.launched,
            completed: None,
            verdict: None,
            trigger: None,
        }),
        partition: None,
        run_limit: None,
        warnings: Vec::new(),
        roles: vec![RoleView {
            name: "worker".to_owned(),
            tasks,
        }],
        summary,
    }
}

fn task(index: u32, job: &JobSummary) -> TaskView {
    let preparing = job.sub_state == SubState::AttemptPreparing;
    let first = u16::try_from(16_536 + index * 10).unwrap();
    TaskView {
        id: muster_model::id::TaskId {
            role: "worker".parse().unwrap(),
            index,
        },
        uid: format!("task-{index}"),
        by_cells: false,
        // Of the first task alone.
        ssh: (index == 0 && !preparing).then(|| format!("ssh -p {} ada@127.0.0.1", first + 2)),
        sub_state: job.sub_state,
        retries: Retries::default(),
        created: job.created,
        launched: job.launched,
        completed: None,
        attempts: vec![TaskAttemptView {
            on_hold: None,
            id: 0,
            uid: Some(format!("a-{index}").parse().unwrap()),
            sub_state: job.sub_state,
            created: job.created,
            launched: job.launched,
            completed: None,
            node: (!preparing).then(|| "n1".parse().unwrap()),
            address: (!preparing).then(|| "127.0.0.1".to_owned()),
            ports: vec![
                ("my".to_owned(), vec![first, first + 1]),
                ("ssh".to_owned(), vec![first + 2]),
                ("http".to_owned(), vec![first + 3]),
            ],
            devices: vec![0],
            verdict: None,
        }],
    }
}

/// The same, ended by its first worker.
pub(super) fn ended(key_text: &str, verdict: &Verdict) -> JobDetail {
    let mut job = placed(key_text, SubState::Completed);
    job.summary.exit_code = Some(verdict.code());
    job.summary.completed = Some(COMPLETED);
    if let Some(attempt) = &mut job.attempt {
        attempt.completed = Some(COMPLETED);
        attempt.verdict = Some(verdict.clone());
        attempt.trigger = Some(Trigger {
            message: "m".to_owned(),
            task: Some(job.roles[0].tasks[0].id.clone()),
        });
    }
    for task in &mut job.roles[0].tasks {
        task.completed = Some(COMPLETED);
        task.attempts[0].completed = Some(COMPLETED);
        task.attempts[0].verdict = Some(verdict.clone());
    }
    job
}

fn verdict(spec: ExitSpec, diagnostics: &str) -> Verdict {
    Verdict {
        spec,
        container_exit_code: None,
        origin_exit_code: None,
        signal: None,
        matched_user_log: None,
        matched_platform_log: None,
        user_log: String::new(),
        platform_log: String::new(),
        device_events: Vec::new(),
        used: None,
        judged: None,
        progress: None,
        diagnostics: diagnostics.to_owned(),
    }
}

pub(super) fn success() -> Verdict {
    let spec = ExitSpec {
        code: 0,
        phrase: "Succeeded".to_owned(),
        issuer: Some("USER_CONTAINER".to_owned()),
        causer: Some("USER_CONTAINER".to_owned()),
        kind: Some("USER_SUCCESS".to_owned()),
        stage: Some("COMPLETING".to_owned()),
        behavior: Behavior::Unknown,
        reaction: Some("NEVER_RETRY".to_owned()),
        reason: None,
        repro: vec!["User program exits with exitcode 0".to_owned()],
        solution: Vec::new(),
    };
    verdict(spec, "Pod succeeded")
}

pub(super) fn failure(code: i32) -> Verdict {
    let spec = ExitSpec {
        code,
        phrase: "PAIRuntimeExitAbnormally".to_owned(),
        issuer: Some("PAI_RUNTIME".to_owned()),
        causer: Some("PAI_RUNTIME".to_owned()),
        kind: Some("PLATFORM_FAILURE".to_owned()),
        stage: Some("UNKNOWN".to_owned()),
        behavior: Behavior::Unknown,
        reaction: Some("RETRY_TO_MAX".to_owned()),
        reason: Some("it ended".to_owned()),
        repro: vec!["exit".to_owned()],
        solution: vec!["ask".to_owned()],
    };
    Verdict {
        container_exit_code: Some(code),
        ..verdict(spec, "the command exited with 3")
    }
}

pub(super) fn stopped() -> Verdict {
    let spec = ExitSpec {
        code: -210,
        phrase: "StopFrameworkRequested".to_owned(),
        behavior: Behavior::Permanent,
        ..success().spec
    };
    verdict(spec, "User has requested to stop the Framework")
}

/// Three storages, two of them with secrets.
pub(super) fn storages_declared() -> muster_model::storage::ClusterStorages {
    let text = "storages:
  - {name: data, volumeName: data-pv, type: nfs, data: {server: 127.0.0.1, path: /data}}
  - {name: home, share: false, type: samba, data: {address: //fs/home/all, username: u, password: hunter2}}
  - {name: blob, type: azureBlob, readOnly: true, secretName: s, mountOptions: [o],
     data: {containerName: c, accountName: a, accountKey: hunter2}}
";
    muster_model::storage::ClusterStorages::read(text).unwrap()
}

/// The key that the forms of a session's page carry.
pub(super) fn form_key(token: &str) -> String {
    session::form_key(token).unwrap_or_default()
}

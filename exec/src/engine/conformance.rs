//! What every engine does, run on the fake and on a real containerd.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use muster_model::id::AttemptUid;
use muster_model::launch::TaskLimits;

use super::containerd::{Containerd, ContainerdConfig};
use super::fake::FakeEngine;
use super::{
    BindMount, ContainerSpec, ContainerStatus, DeviceGrant, Engine, EngineError, EngineExit, Logger,
};
use crate::testing::{PrivateContainerd, TestImage, logger_script};

mod commands;

const IMAGE: &str = "test.local/busybox:1";
/// For what needs no more than a moment.
const SOON: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

/// An engine under test, with what containers of it need.
struct EngineUnderTest<'e> {
    engine: &'e dyn Engine,
    dir: PathBuf,
    logger: PathBuf,
}

impl<'e> EngineUnderTest<'e> {
    fn new(engine: &'e dyn Engine, dir: &Path) -> Self {
        let logger = logger_script(dir).unwrap();
        Self {
            engine,
            dir: dir.to_owned(),
            logger,
        }
    }

    /// A container that runs `script` in a shell.
    fn spec(&self, name: &str, script: &str) -> ContainerSpec {
        ContainerSpec {
            uid: name.parse().unwrap(),
            labels: [("muster.test".to_owned(), name.to_owned())].into(),
            image: IMAGE.to_owned(),
            limits: TaskLimits {
                cpu: 1,
                memory_mb: 64,
                shm_mb: 8,
                pids: 64,
                disk_mb: 0,
            },
            devices: Vec::new(),
            environment: BTreeMap::new(),
            default_environment: BTreeMap::new(),
            mounts: Vec::new(),
            args: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            logger: Logger {
                binary: self.logger.clone(),
                dir: self.dir.join(name),
            },
            infiniband: false,
            raw_sockets: false,
        }
    }

    async fn create_and_start(&self, spec: &ContainerSpec) -> u32 {
        self.engine.create(spec).await.unwrap();
        self.engine.start(&spec.uid).await.unwrap()
    }

    /// Runs a script to its end, removes the container and returns its exit status and output.
    async fn run(&self, name: &str, script: &str) -> (u32, String) {
        self.run_spec(&self.spec(name, script)).await
    }

    async fn run_spec(&self, spec: &ContainerSpec) -> (u32, String) {
        self.create_and_start(spec).await;
        let exit = within(self.engine.wait(&spec.uid)).await.unwrap();
        self.engine.remove(&spec.uid).await.unwrap();
        self.log(spec, "done", |_| true).await;
        (exit.code, self.output(spec, |_| true).await)
    }

    /// What the container wrote to its standard output so far, once it is enough.
    async fn output(&self, spec: &ContainerSpec, enough: impl Fn(&str) -> bool) -> String {
        self.log(spec, "stdout", enough).await
    }

    /// One file of the logger's, once it is enough.
    async fn log(&self, spec: &ContainerSpec, file: &str, enough: impl Fn(&str) -> bool) -> String {
        let path = spec.logger.dir.join(file);
        let read = || {
            std::fs::read_to_string(&path)
                .ok()
                .filter(|text| enough(text))
        };
        until(read).await
    }

    async fn status(&self, uid: &AttemptUid) -> Option<ContainerStatus> {
        let list = self.engine.list().await.unwrap();
        list.into_iter().find(|c| c.uid == *uid).map(|c| c.status)
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future)
        .await
        .expect("no answer in time")
}

async fn until<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < deadline, "nothing came in time");
        tokio::time::sleep(POLL).await;
    }
}

async fn conforms(bench: &EngineUnderTest<'_>) {
    assert!(!bench.engine.version().await.unwrap().is_empty());
    a_life(bench).await;
    signals_end_it(bench).await;
    removal_ends_all_of_it(bench).await;
    what_is_not_there_is_said(bench).await;
    a_layer_and_usage_are_measured(bench).await;
    a_mount_is_seen(bench).await;
    commands::run_beside_it(bench).await;
}

async fn a_life(bench: &EngineUnderTest<'_>) {
    let engine = bench.engine;
    let mut spec = bench.spec("life", "echo out; echo err >&2; echo $GREETING; exit 42");
    spec.environment
        .insert("GREETING".to_owned(), "hello world".to_owned());
    engine.create(&spec).await.unwrap();
    engine
        .create(&spec)
        .await
        .expect("a second time is no error");
    assert_eq!(
        bench.status(&spec.uid).await,
        Some(ContainerStatus::Created)
    );

    let waiting = engine.wait(&spec.uid);
    let starting = async {
        let pid = engine.start(&spec.uid).await.unwrap();
        (pid, engine.start(&spec.uid).await.unwrap())
    };
    let (exit, (pid, again)) = within(futures::future::join(waiting, starting)).await;
    let exit: EngineExit = exit.unwrap();
    assert!(pid > 0);
    assert_eq!((exit.code, pid), (42, again));
    assert!(exit.ended_ms > 1_700_000_000_000, "{}", exit.ended_ms);
    assert_eq!(
        within(engine.wait(&spec.uid)).await.unwrap(),
        exit,
        "kept until removed"
    );

    let list = engine.list().await.unwrap();
    let listed = list.iter().find(|c| c.uid == spec.uid).unwrap();
    assert_eq!(listed.labels, spec.labels);
    assert_eq!(listed.status, ContainerStatus::Stopped(exit));
    let output = bench.output(&spec, |text| text.lines().count() == 2).await;
    assert_eq!(output, "out\nhello world\n");
    bench.log(&spec, "stderr", |text| text == "err\n").await;

    engine
        .signal(&spec.uid, 15)
        .await
        .expect("an ended one counts as signalled");
    engine.remove(&spec.uid).await.unwrap();
    engine
        .remove(&spec.uid)
        .await
        .expect("a second time is no error");
    assert_eq!(bench.status(&spec.uid).await, None);
}

async fn signals_end_it(bench: &EngineUnderTest<'_>) {
    let spec = bench.spec(
        "signals",
        "trap 'exit 7' TERM; echo set; while :; do sleep 0.02; done",
    );
    bench.create_and_start(&spec).await;
    bench.output(&spec, |text| text == "set\n").await;
    bench.engine.signal(&spec.uid, 15).await.unwrap();
    assert_eq!(within(bench.engine.wait(&spec.uid)).await.unwrap().code, 7);
    bench.engine.remove(&spec.uid).await.unwrap();

    let spec = bench.spec("killed", "sleep 1000");
    let pid = bench.create_and_start(&spec).await;
    assert_eq!(
        bench.status(&spec.uid).await,
        Some(ContainerStatus::Running { pid })
    );
    // More waits than an HTTP/2 connection carries at once by default.
    let mut waits: FuturesUnordered<_> = (0..200).map(|_| bench.engine.wait(&spec.uid)).collect();
    assert!(futures::poll!(waits.next()).is_pending());
    bench.engine.signal(&spec.uid, 9).await.unwrap();
    while let Some(exit) = within(waits.next()).await {
        assert_eq!(exit.unwrap().code, 137);
    }
    bench.engine.remove(&spec.uid).await.unwrap();
}

async fn removal_ends_all_of_it(bench: &EngineUnderTest<'_>) {
    // The grandchild holds the output open, so the logger sees the end only once it is gone.
    let spec = bench.spec("family", "sleep 1000 & echo up; trap '' TERM; wait");
    let pid = bench.create_and_start(&spec).await;
    bench.output(&spec, |text| text == "up\n").await;
    let grandchildren = || {
        let file = format!("/proc/{pid}/task/{pid}/children");
        std::fs::read_to_string(file)
            .ok()
            .filter(|text| !text.is_empty())
    };
    let grandchild = until(grandchildren).await;
    let waiting = bench.engine.wait(&spec.uid);
    let removing = bench.engine.remove(&spec.uid);
    let (_, removed) = within(futures::future::join(waiting, removing)).await;
    removed.unwrap();
    let left = format!("/proc/{}/cmdline", grandchild.trim());
    let cmdline = std::fs::read_to_string(left).unwrap_or_default();
    assert!(!cmdline.contains("sleep"), "a process is left: {cmdline}");
    let unstarted = bench.spec("unstarted", "true");
    bench.engine.create(&unstarted).await.unwrap();
    within(bench.engine.remove(&unstarted.uid)).await.unwrap();
    assert_eq!(bench.status(&unstarted.uid).await, None);
}

async fn what_is_not_there_is_said(bench: &EngineUnderTest<'_>) {
    let engine = bench.engine;
    let nobody: AttemptUid = "nobody".parse().unwrap();
    let absent = |error: EngineError| matches!(error, EngineError::NoContainer(_));
    assert!(absent(engine.start(&nobody).await.unwrap_err()));
    assert!(absent(within(engine.wait(&nobody)).await.unwrap_err()));
    assert!(absent(engine.signal(&nobody, 15).await.unwrap_err()));
    assert!(absent(engine.usage(&nobody).await.unwrap_err()));
    assert!(absent(engine.process_ids(&nobody).await.unwrap_err()));
    assert!(absent(engine.writable_bytes(&nobody).await.unwrap_err()));
    let mut spec = bench.spec("imageless", "true");
    spec.image = "test.local/missing:1".to_owned();
    let error = engine.create(&spec).await.unwrap_err();
    assert!(matches!(error, EngineError::NoImage(_)), "{error}");

    let mut spec = bench.spec("commandless", "");
    spec.args = vec!["/no/such/command".to_owned()];
    let refusal = match engine.create(&spec).await {
        Ok(()) => engine.start(&spec.uid).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(refusal, EngineError::Refused { .. }), "{refusal}");
    assert!(
        refusal.to_string().to_lowercase().contains("no such file"),
        "{refusal}"
    );
    engine
        .remove(&spec.uid)
        .await
        .expect("half-made ones are removed too");
    assert_eq!(bench.status(&spec.uid).await, None);
}

async fn a_layer_and_usage_are_measured(bench: &EngineUnderTest<'_>) {
    let spec = bench.spec(
        "usage",
        "head -c 3000000 /dev/zero >big; echo done; while :; do sleep 1; done",
    );
    bench.create_and_start(&spec).await;
    bench.output(&spec, |text| text == "done\n").await;
    let bytes = bench.engine.writable_bytes(&spec.uid).await.unwrap();
    assert!((3_000_000..4_000_000).contains(&bytes), "{bytes}");
    let usage = bench.engine.usage(&spec.uid).await.unwrap();
    assert!(usage.pids >= 1 && usage.memory_bytes > 0, "{usage:?}");
    let processes = bench.engine.process_ids(&spec.uid).await.unwrap();
    let Some(ContainerStatus::Running { pid }) = bench.status(&spec.uid).await else {
        panic!("it does not run");
    };
    assert!(processes.contains(&pid), "{pid} is not in {processes:?}");
    bench.engine.remove(&spec.uid).await.unwrap();
}

async fn a_mount_is_seen(bench: &EngineUnderTest<'_>) {
    let source = bench.dir.join("source");
    std::fs::create_dir_all(&source).unwrap();
    std::fs::write(source.join("script"), "echo from a mount >\"$TO\"").unwrap();
    let mut spec = bench.spec("mounts", "");
    spec.args = ["/bin/sh", "/muster/deep/script"]
        .map(str::to_owned)
        .to_vec();
    spec.environment
        .insert("TO".to_owned(), "/muster/deep/reply".to_owned());
    spec.mounts.push(BindMount {
        source: source.clone(),
        target: "/muster/deep".into(),
        read_only: false,
    });
    assert_eq!(bench.run_spec(&spec).await.0, 0);
    assert_eq!(
        std::fs::read_to_string(source.join("reply")).unwrap(),
        "from a mount\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fake_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeEngine::new(dir.path().join("containers"), [IMAGE]);
    conforms(&EngineUnderTest::new(&fake, dir.path())).await;
    fake.set_silent(true);
    assert!(matches!(
        fake.version().await,
        Err(EngineError::Unavailable { .. })
    ));
}

/// A containerd with test images, or `None` where there can be none.
fn containerd(test: &str, runtime: &str) -> Option<PrivateContainerd> {
    let containerd = PrivateContainerd::start_or_skip(test, runtime)?;
    let user_image = TestImage {
        user: "app".to_owned(),
        working_dir: "/home/app".to_owned(),
        environment: vec!["FROM_IMAGE=yes".to_owned()],
    };
    for (name, image) in [(IMAGE, TestImage::default()), (USER_IMAGE, user_image)] {
        let archive = containerd.dir().join("image.tar");
        image.write(name, &archive).unwrap();
        containerd.import(&archive).unwrap();
    }
    Some(containerd)
}

const USER_IMAGE: &str = "test.local/user:1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containerd_conforms() {
    let Some(containerd) = containerd("containerd_conforms", "runc") else {
        return;
    };
    let engine = Containerd::connect(containerd.config()).unwrap();
    let bench = EngineUnderTest::new(&engine, containerd.dir());
    conforms(&bench).await;
    commands::terminals_are_real(&bench).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containerd_with_crun_conforms() {
    let Some(containerd) = containerd("containerd_with_crun_conforms", "crun") else {
        return;
    };
    let engine = Containerd::connect(containerd.config()).unwrap();
    let bench = EngineUnderTest::new(&engine, containerd.dir());
    conforms(&bench).await;
    commands::terminals_are_real(&bench).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containerd_keeps_what_it_promises_of_a_container() {
    promises_are_kept("containerd_keeps_what_it_promises", "runc").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containerd_with_crun_keeps_what_it_promises_of_a_container() {
    promises_are_kept("containerd_with_crun_keeps_what_it_promises", "crun").await;
}

async fn promises_are_kept(test: &str, runtime: &str) {
    let Some(containerd) = containerd(test, runtime) else {
        return;
    };
    let engine = Containerd::connect(containerd.config()).unwrap();
    let bench = EngineUnderTest::new(&engine, containerd.dir());
    limits_bite(&bench).await;
    the_host_is_shut_out(&bench).await;
    the_network_is_not_overheard(&bench).await;
    the_image_is_honoured(&bench).await;
    cdi_devices_come_with_their_edits(&bench, &containerd.config().cdi_dirs[0]).await;
}

async fn limits_bite(bench: &EngineUnderTest<'_>) {
    // One core for work that would use two: cgroup time may not run faster than the clock.
    let busy = bench.spec("cpu", "yes >/dev/null & yes >/dev/null & echo up; wait");
    bench.create_and_start(&busy).await;
    bench.output(&busy, |text| text == "up\n").await;
    let used = async || bench.engine.usage(&busy.uid).await.unwrap().cpu_usec;
    let (before, clock) = (used().await, Instant::now());
    while clock.elapsed() < Duration::from_secs(1) {
        tokio::time::sleep(POLL).await;
    }
    let spent = used().await - before;
    let passed = u64::try_from(clock.elapsed().as_micros()).unwrap();
    assert!(
        spent < passed + passed / 4,
        "{spent} us of CPU in {passed} us"
    );
    bench.engine.remove(&busy.uid).await.unwrap();

    let hungry = bench.spec("memory", "head -c 200m /dev/zero | tail; echo survived");
    bench.create_and_start(&hungry).await;
    within(bench.engine.wait(&hungry.uid)).await.unwrap();
    let usage = bench.engine.usage(&hungry.uid).await.unwrap();
    assert!(usage.oom_kills > 0, "{usage:?}");
    bench.engine.remove(&hungry.uid).await.unwrap();

    let mut forking = bench.spec(
        "pids",
        "for i in 1 2 3 4 5 6 7 8 9; do sleep 9 & done; wait",
    );
    forking.limits.pids = 5;
    bench.create_and_start(&forking).await;
    within(bench.engine.wait(&forking.uid)).await.unwrap();
    let usage = bench.engine.usage(&forking.uid).await.unwrap();
    assert!(usage.pids_refused > 0, "{usage:?}");
    bench.engine.remove(&forking.uid).await.unwrap();

    let (code, shm) = bench
        .run(
            "shm",
            "df -m /dev/shm | tail -n1; ! head -c 9m /dev/zero >/dev/shm/x",
        )
        .await;
    assert_eq!(code, 0);
    assert_eq!(shm.split_whitespace().nth(1), Some("8"), "{shm}");
}

async fn the_host_is_shut_out(bench: &EngineUnderTest<'_>) {
    for (name, script, expect) in [
        (
            "pid",
            "echo $$; ls -d /proc/[0-9]* | wc -l | head -c1",
            "1\n",
        ),
        (
            "caps",
            "grep -h -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status",
            CAPS,
        ),
        (
            "syscall",
            "mount -t tmpfs x /tmp 2>&1 | head -c5; mknod d b 8 0; cat d 2>&1 | tail -c24",
            "",
        ),
        ("proc", "cat /proc/keys /proc/timer_list | wc -c", "0\n"),
        (
            "kernel",
            "(echo 1 >/proc/sys/vm/overcommit_memory) 2>&1 | grep -c Read-only",
            "1\n",
        ),
        ("files", "cat /proc/self/oom_score_adj", "500\n"),
        ("name", "hostname", ""),
    ] {
        let (_, output) = bench.run(name, script).await;
        match name {
            "syscall" => assert!(output.contains("not permitted"), "{output}"),
            "pid" => assert!(output.starts_with(expect), "{output}"),
            "name" => assert_eq!(
                output,
                std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap()
            ),
            _ => assert_eq!(output, expect, "{name}"),
        }
    }
    let mut spec = bench.spec("device", "test -c /dev/null && echo ok");
    spec.devices.push(DeviceGrant::file("/dev/null"));
    assert_eq!(bench.run_spec(&spec).await.1, "ok\n");
    let mut spec = bench.spec("no-device", "true");
    spec.devices.push(DeviceGrant::file("/dev/no-such-device"));
    let error = bench.engine.create(&spec).await.unwrap_err();
    assert!(matches!(error, EngineError::NoDevice(_)), "{error}");
    let error = error.to_string();
    assert!(error.contains("/dev/no-such-device"), "{error}");
    bench.engine.remove(&spec.uid).await.unwrap();
}

/// Docker's default set without raw sockets, confined.
const CAPS: &str = "CapEff:\t00000000a80405fb\nCapBnd:\t00000000a80405fb\nNoNewPrivs:\t1\n";

/// Containers share the host's network: what is sent there is for nobody else to read.
async fn the_network_is_not_overheard(bench: &EngineUnderTest<'_>) {
    // Opens a packet socket, then a raw one.
    let script = "busybox arping -c 1 -w 1 -I lo 127.0.0.1 2>&1; \
                  busybox traceroute -I -m 1 -w 1 127.0.0.1 2>&1";
    let refusals = |output: &str| output.matches("ot permitted").count();
    let (_, output) = bench.run("overheard", script).await;
    assert_eq!(refusals(&output), 2, "{output}");
    let mut spec = bench.spec("granted", script);
    spec.raw_sockets = true;
    let (_, output) = bench.run_spec(&spec).await;
    assert_eq!(refusals(&output), 0, "{output}");
}

async fn the_image_is_honoured(bench: &EngineUnderTest<'_>) {
    let mut spec = bench.spec("user", "id -u; id -g; id -G; pwd; echo $FROM_IMAGE $HOME");
    spec.image = USER_IMAGE.to_owned();
    let (_, output) = bench.run_spec(&spec).await;
    assert_eq!(output, "1000\n1001\n1001 44\n/home/app\nyes /home/app\n");
}

async fn cdi_devices_come_with_their_edits(bench: &EngineUnderTest<'_>, cdi: &Path) {
    let hooked = bench.dir.join("hooked");
    let file = serde_json::json!({
        "cdiVersion": "0.6.0",
        "kind": "test.local/device",
        "devices": [{ "name": "sick", "containerEdits": {
            "hooks": [{ "hookName": "createRuntime", "path": "/bin/false", "args": ["false"] }],
        }}, { "name": "a", "containerEdits": {
            "env": ["FROM_CDI=yes"],
            "deviceNodes": [{ "path": "/dev/nothing", "hostPath": "/dev/null" }],
            "mounts": [{ "hostPath": "/etc/os-release", "containerPath": "/lib/from-host" }],
            "hooks": [{
                "hookName": "createRuntime",
                "path": "/usr/bin/touch",
                "args": ["touch", hooked],
            }],
        }}],
    });
    std::fs::create_dir_all(cdi).unwrap();
    std::fs::write(cdi.join("test.json"), file.to_string()).unwrap();
    let script = "echo $FROM_CDI; echo x >/dev/nothing && test -s /lib/from-host && echo all";
    let mut spec = bench.spec("cdi", script);
    spec.devices.push(DeviceGrant {
        cdi_names: vec!["test.local/device=a".to_owned()],
        paths: Vec::new(),
    });
    assert_eq!(bench.run_spec(&spec).await.1, "yes\nall\n");
    assert!(hooked.exists());

    for device in ["sick", "unheard-of"] {
        let mut spec = bench.spec(device, "true");
        spec.devices.push(DeviceGrant {
            cdi_names: vec![format!("test.local/device={device}")],
            paths: Vec::new(),
        });
        let error = bench.engine.create(&spec).await.unwrap_err();
        assert!(
            matches!(error, EngineError::Unfit { .. } | EngineError::NoDevice(_)),
            "{error}"
        );
        bench.engine.remove(&spec.uid).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_crash_leaves_is_listed_completed_and_removed() {
    let Some(containerd) = containerd("what_a_crash_leaves", "runc") else {
        return;
    };
    let engine = Containerd::connect(containerd.config()).unwrap();
    let bench = EngineUnderTest::new(&engine, containerd.dir());
    let spec = bench.spec("half", "exit 3");
    engine.create(&spec).await.unwrap();
    let lost = containerd
        .ctr(&["tasks", "delete", "--force", "half"])
        .unwrap();
    assert!(lost.status.success(), "{lost:?}");
    assert_eq!(
        bench.status(&spec.uid).await,
        Some(ContainerStatus::NoProcess)
    );
    let no_process = |error: EngineError| matches!(error, EngineError::NoProcess(_));
    assert!(no_process(engine.start(&spec.uid).await.unwrap_err()));
    assert!(no_process(
        within(engine.wait(&spec.uid)).await.unwrap_err()
    ));
    assert!(no_process(engine.signal(&spec.uid, 15).await.unwrap_err()));
    assert!(no_process(engine.usage(&spec.uid).await.unwrap_err()));
    assert!(no_process(engine.process_ids(&spec.uid).await.unwrap_err()));
    assert_eq!(bench.run_spec(&spec).await.0, 3, "created again, it runs");

    let killed = bench.spec("shimless", "sleep 1000");
    let pid = bench.create_and_start(&killed).await;
    kill_shim_of(pid);
    within(engine.wait(&killed.uid))
        .await
        .expect_err("its exit is not known");
    until_async(async || bench.status(&killed.uid).await == Some(ContainerStatus::NoProcess)).await;
    within(engine.remove(&killed.uid)).await.unwrap();
    assert!(
        !Path::new(&format!("/proc/{pid}/root")).exists(),
        "its process is left"
    );
}

/// Kills the shim that looks after the container whose first process is `pid`.
fn kill_shim_of(pid: u32) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let parent = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .nth(1)
        .unwrap();
    let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).unwrap();
    assert!(name.starts_with("containerd-shim"), "{name}");
    let parent = nix::unistd::Pid::from_raw(parent.parse().unwrap());
    nix::sys::signal::kill(parent, nix::sys::signal::Signal::SIGKILL).unwrap();
}

async fn until_async(ready: impl AsyncFn() -> bool) {
    within(async {
        while !ready().await {
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hang_and_a_restart_of_containerd_are_survived() {
    let Some(mut containerd) = containerd("a_hang_and_a_restart_of_containerd", "runc") else {
        return;
    };
    let config = ContainerdConfig {
        call_timeout: Duration::from_millis(300),
        ..containerd.config()
    };
    let impatient = Containerd::connect(config).unwrap();
    let engine = Containerd::connect(containerd.config()).unwrap();
    let bench = EngineUnderTest::new(&engine, containerd.dir());
    let spec = bench.spec(
        "survivor",
        "while ! test -e go; do sleep 0.02; done; exit 5",
    );
    let pid = bench.create_and_start(&spec).await;
    impatient.version().await.unwrap();

    containerd.freeze(true).unwrap();
    let hung = within(impatient.list()).await.unwrap_err();
    assert!(matches!(hung, EngineError::Unavailable { .. }), "{hung}");
    containerd.freeze(false).unwrap();
    impatient.version().await.unwrap();

    let mut waiting = Box::pin(engine.wait(&spec.uid));
    assert!(futures::poll!(&mut waiting).is_pending());
    containerd.restart().unwrap();
    let broken = within(waiting).await.unwrap_err();
    assert!(
        matches!(broken, EngineError::Unavailable { .. }),
        "{broken}"
    );
    assert_eq!(
        bench.status(&spec.uid).await,
        Some(ContainerStatus::Running { pid })
    );
    std::fs::write(format!("/proc/{pid}/root/go"), "").unwrap();
    assert_eq!(within(engine.wait(&spec.uid)).await.unwrap().code, 5);
    engine.remove(&spec.uid).await.unwrap();
    let output = containerd.ctr(&["snapshots", "list"]).unwrap().stdout;
    assert!(!String::from_utf8_lossy(&output).contains("survivor"));
}

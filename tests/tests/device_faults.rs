//! Faults of devices that the kernel reports: who is blamed, who is charged, what is granted no
//! more. The driver is played by a text file, and so is the kernel's log.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::home::{self, AgentHome};
use muster_tests::played_driver::PlayedDriver;
use nix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::stage::{Job, LIMIT, Stage, status};

/// Minor numbers of the played GPUs, which no machine of ours has.
const MINORS: std::ops::Range<u64> = 200..203;

/// Where tasks ask how to end: they are let go by the test, and told exit codes.
struct Gate {
    port: u16,
    is_open: Arc<AtomicBool>,
}

impl Gate {
    /// Each task that is let go is told the next code; all after the last one are told that.
    fn new(codes: &'static [u32]) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let gate = Self {
            port: listener.local_addr()?.port(),
            is_open: Arc::default(),
        };
        let is_open = Arc::clone(&gate.is_open);
        std::thread::spawn(move || {
            let mut told = 0;
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 512];
                let _ = stream.read(&mut request);
                let answer = if is_open.load(Ordering::SeqCst) {
                    told += 1;
                    codes[(told - 1).min(codes.len() - 1)].to_string()
                } else {
                    "wait".to_owned()
                };
                let length = answer.len();
                let _ = write!(
                    stream,
                    "HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}"
                );
            }
        });
        Ok(gate)
    }

    /// What a task runs: it prints a text and ends with the code, once it is let go.
    fn commands(&self, text: &str) -> String {
        let port = self.port;
        format!(
            "code=wait\nwhile [ \"$code\" = wait ]; do sleep 0.1; \
             code=$(wget -q -O - http://127.0.0.1:{port}/); done\n\
             [ $code = 0 ] || echo '{text}'\nexit $code"
        )
    }

    fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
    }
}

/// A kernel's log that a test writes.
struct PlayedLog {
    path: PathBuf,
    sequence: AtomicU64,
}

impl PlayedLog {
    fn new(home: &AgentHome) -> Result<Self> {
        let path = home.path().join("kmsg");
        std::fs::write(&path, "")?;
        home.configure(&format!(
            "[hardware]\nkernel_log = \"{}\"\n",
            path.display()
        ))?;
        Ok(Self {
            path,
            sequence: AtomicU64::new(100),
        })
    }

    fn write(&self, line: &str) -> Result<()> {
        let since_boot = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
        let sequence = self.sequence.fetch_add(1, Ordering::SeqCst);
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .mode(0o600)
            .open(&self.path)?;
        writeln!(file, "3,{sequence},{},-;{line}", since_boot.as_micros())?;
        Ok(())
    }
}

/// A machine with played GPUs.
struct Machine {
    stage: Stage,
    log: PlayedLog,
    driver: PlayedDriver,
    _directory: tempfile::TempDir,
}

impl Machine {
    async fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut driver = PlayedDriver::new(directory.path())?;
        driver.make_files(MINORS)?;
        let gpus = MINORS.enumerate().map(|(index, minor)| {
            format!(
                "gpu.{index}.uuid = GPU-{index}\ngpu.{index}.name = NVIDIA A100\n\
                 gpu.{index}.minor = {minor}\ngpu.{index}.memory = 40960\n\
                 gpu.{index}.pci = 0000{index}000:18:00.0\n"
            )
        });
        driver.answer(&format!("devices = 3\n{}", gpus.collect::<String>()))?;
        let home = AgentHome::new("")?;
        let log = PlayedLog::new(&home)?;
        let agent = driver.agent(&home)?;
        home.import_busybox()?;
        let client = agent.client().await?;
        Ok(Self {
            stage: Stage {
                client,
                agent,
                home,
            },
            log,
            driver,
            _directory: directory,
        })
    }

    /// The kernel reports an Xid of the GPU with this index.
    fn xid(&self, index: u32, what: &str) -> Result<()> {
        self.log
            .write(&format!("NVRM: Xid (PCI:{index}000:18:00): {what}"))
    }

    /// Submits a job with a GPU and waits until it runs. Answers the GPU's index.
    async fn runs(&self, job: &Job<'_>) -> Result<u32> {
        self.stage.client.submit(&job.yaml()).await?;
        self.stage
            .client
            .wait(&format!("admin~{}", job.name), LIMIT, |state| {
                state == "RUNNING"
            })
            .await?;
        self.gpu_of(job.name).await?.context("it holds no GPU")
    }

    async fn gpu_of(&self, job: &str) -> Result<Option<u32>> {
        let node = self.stage.client.get("/api/muster/v1/node").await?;
        let tasks = node["tasks"].as_array().into_iter().flatten();
        let mut own = tasks.filter(|task| task["job"] == format!("admin~{job}"));
        let index = own.find_map(|task| task["devices"][0].as_u64());
        Ok(index.and_then(|index| u32::try_from(index).ok()))
    }

    /// Why a GPU is not granted, if it is not.
    async fn fault(&self, index: u32) -> Result<Option<String>> {
        let node = self.stage.client.get("/api/muster/v1/node").await?;
        let devices = node["capacity"]["devices"].as_array();
        let mut devices = devices.into_iter().flatten();
        let device = devices.find(|device| device["index"] == index);
        let device = device.context("no such device")?;
        Ok(device["fault"].as_str().map(str::to_owned))
    }

    async fn waits_for_fault(&self, index: u32, begin: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            let fault = self.fault(index).await?;
            if fault.as_deref().is_some_and(|it| it.starts_with(begin)) {
                return Ok(());
            }
            ensure!(begun.elapsed() < LIMIT, "GPU {index}: {fault:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The code and the retries of a job: all of them, and those that its user pays for.
fn end(detail: &Value) -> (i64, i64, i64) {
    let number = |value: &Value| value.as_i64().unwrap_or(-1);
    let status = &detail["jobStatus"];
    let details = &status["retryDetails"];
    (
        number(&status["appExitCode"]),
        number(&status["retries"]),
        number(&details["user"]),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_gpu_that_fails_is_blamed_and_quarantined_and_the_job_runs_again() -> Result<()>
{
    if home::missing().is_some() {
        return Ok(());
    }
    let machine = Machine::new().await?;
    let (victim, other) = (Gate::new(&[134, 0])?, Gate::new(&[0])?);
    let commands = victim.commands("RuntimeError: CUDA error: unspecified launch failure");
    let job = Job {
        gpu: 1,
        ..Job::new("victim", &commands)
    };
    let gpu = machine.runs(&job).await?;
    let waits = other.commands("");
    let bystander = Job {
        gpu: 1,
        ..Job::new("bystander", &waits)
    };
    let second = machine.runs(&bystander).await?;
    ensure!(gpu != second);
    machine.xid(gpu, "48, pid=4711, name=python, DBE (double bit error)")?;
    machine.waits_for_fault(gpu, "xid 48: ").await?;
    // Its next attempt runs on the third GPU.
    victim.open();
    let detail = machine.stage.waits("victim").await?;
    ensure!(end(&detail) == (0, 1, 0), "{:?}", status(&detail));
    let first = machine
        .stage
        .client
        .get("/api/v2/jobs/admin~victim/attempts/0")
        .await?;
    ensure!(status(&first).1 == 211, "{first}");
    let told = first.to_string();
    ensure!(told.contains("DBE (double bit error)"), "{told}");
    // The bystander is not touched.
    other.open();
    let detail = machine.stage.waits("bystander").await?;
    ensure!(end(&detail) == (0, 0, 0), "{detail}");
    let shown = machine
        .stage
        .home
        .muster(&["job", "show", "bystander", "-o", "json"])?;
    let shown: Value = serde_json::from_slice(&shown.stdout)?;
    let used = &shown["roles"][0]["tasks"][0]["attempts"][0]["verdict"]["used"];
    ensure!(used["cpu_ms"].as_u64() > Some(0), "{shown}");
    // Figures are those of the newest samples, which may be on their way.
    let begun = Instant::now();
    let last = format!("DCGM_FI_DEV_XID_ERRORS{{gpu=\"{gpu}\",");
    loop {
        let figures = machine.stage.client.text("/metrics").await?;
        let mut lines = figures.lines().filter(|line| line.starts_with(&last));
        if lines.any(|line| line.ends_with(" 48")) {
            return Ok(());
        }
        ensure!(begun.elapsed() < LIMIT, "{figures}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_what_a_program_does_wrong_is_charged_and_its_gpu_stays() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let machine = Machine::new().await?;
    for (name, text, code) in [
        // The driver's word decides where the log says nothing.
        ("silent", "", 214),
        (
            "named",
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            236,
        ),
    ] {
        let gate = Gate::new(&[134])?;
        let commands = gate.commands(text);
        let job = Job {
            gpu: 1,
            ..Job::new(name, &commands)
        };
        let gpu = machine.runs(&job).await?;
        machine.xid(gpu, "31, pid=4711, name=python, MMU Fault: ENGINE GRAPHICS")?;
        gate.open();
        let detail = machine.stage.waits(name).await?;
        ensure!(end(&detail) == (code, 0, 0), "{:?}", status(&detail));
        ensure!(machine.fault(gpu).await? == None);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_fault_of_before_or_of_another_job_is_not_blamed_twice() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let mut machine = Machine::new().await?;
    let gate = Gate::new(&[3])?;
    let commands = gate.commands("no rule knows this");
    let job = Job {
        gpu: 1,
        ..Job::new("bystander", &commands)
    };
    let gpu = machine.runs(&job).await?;
    // Another GPU fails, and nothing of it is told again after a restart of the agent.
    let sick = (gpu + 1) % 3;
    machine.xid(
        sick,
        "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    )?;
    machine.waits_for_fault(sick, "xid 79: ").await?;
    machine.stage.agent.terminate()?;
    machine.stage.agent = machine.driver.agent(&machine.stage.home)?;
    machine.stage.client = machine.stage.agent.client().await?;
    ensure!(
        machine.fault(sick).await?.is_some(),
        "what was quarantined stays so"
    );
    gate.open();
    let detail = machine.stage.waits("bystander").await?;
    ensure!(end(&detail) == (255, 0, 0), "{:?}", status(&detail));
    let health = machine
        .stage
        .home
        .muster(&["node", "health", "-o", "json"])?;
    let checks: Value = serde_json::from_slice(&health.stdout)?;
    let standing = checks.as_array().into_iter().flatten();
    let of_79 = standing.filter(|check| check["name"] == "xid 79").count();
    ensure!(of_79 == 1, "{checks}");
    // A repair is a boundary.
    let node = home::NODE;
    let part = sick.to_string();
    let told = machine
        .stage
        .home
        .muster(&["node", "repaired", node, &part])?;
    ensure!(told.status.success(), "{told:?}");
    let begun = Instant::now();
    while machine.fault(sick).await?.is_some() {
        ensure!(begun.elapsed() < LIMIT, "{:?}", machine.fault(sick).await?);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_task_whose_gpu_vanishes_is_ended_and_runs_elsewhere() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let machine = Machine::new().await?;
    let gate = Gate::new(&[0])?;
    let commands = gate.commands("");
    let job = Job {
        gpu: 1,
        ..Job::new("victim", &commands)
    };
    let gpu = machine.runs(&job).await?;
    // Its program would wait for the GPU for ever.
    machine.xid(
        gpu,
        "79, pid=4711, name=python, GPU has fallen off the bus.",
    )?;
    machine.waits_for_fault(gpu, "xid 79: ").await?;
    let begun = Instant::now();
    loop {
        if machine
            .gpu_of("victim")
            .await?
            .is_some_and(|now| now != gpu)
        {
            break;
        }
        ensure!(begun.elapsed() < LIMIT, "it does not run elsewhere");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    gate.open();
    let detail = machine.stage.waits("victim").await?;
    ensure!(end(&detail) == (0, 1, 0), "{:?}", status(&detail));
    Ok(())
}

/// What the breaker may admit in a cluster of three devices: one.
const BREAKER: &str = "health:\n  breaker: {cluster_devices_min: 3, devices_free: 1}\n";

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_rule_that_takes_many_gpus_is_held_back_and_a_person_is_not() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let machine = Machine::new().await?;
    machine.stage.policy(BREAKER)?;
    let word = "48, pid=4711, name=python, DBE (double bit error)";
    machine.xid(0, word)?;
    machine.waits_for_fault(0, "xid 48: ").await?;
    // The leader has counted it before the next one comes.
    tokio::time::sleep(Duration::from_secs(3)).await;
    machine.xid(1, word)?;
    let begun = Instant::now();
    let page = loop {
        let page = machine.stage.home.muster(&["node", "health"])?;
        let page = String::from_utf8_lossy(&page.stdout).into_owned();
        if page.contains("Held back by the breaker: rules have quarantined 1 of 3 devices") {
            break page;
        }
        ensure!(begun.elapsed() < LIMIT, "{page}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    ensure!(page.matches("not granted").count() == 1, "{page}");
    while machine.fault(1).await?.is_some() {
        ensure!(begun.elapsed() < LIMIT, "{:?}", machine.fault(1).await?);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    ensure!(
        machine.fault(0).await?.is_some(),
        "what was admitted stands"
    );
    let alarms = machine.stage.home.muster(&["cluster", "alarms"])?;
    let alarms = String::from_utf8_lossy(&alarms.stdout).into_owned();
    ensure!(alarms.contains("quarantines_held_back"), "{alarms}");
    let hold = ["node", "hold", home::NODE, "1", "--reason", "odd results"];
    let told = machine.stage.home.muster(&hold)?;
    ensure!(told.status.success(), "{told:?}");
    machine.waits_for_fault(1, "held: ").await
}

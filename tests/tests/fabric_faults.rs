//! A port of the fabric fails under a gang of several machines: who is blamed, who is charged,
//! where the gang runs next. The ports are played by files. Before it, the gang lies in one rack.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::home;
use muster_tests::net::BareNode;
use muster_tests::played_fabric::{FabricFile, PlayedFabric};
use serde_json::{Value, json};

use crate::gangs::{LIMIT, Site, ends, submit, waits};
use crate::stage::Job;

/// What the watchdog of PyTorch says where a peer has gone silent.
const NCCL_TIMEOUT: &str = "[Rank 0] Watchdog caught collective operation timeout: \
                            WorkNCCL(SeqNum=8213, OpType=ALLREDUCE, Timeout(ms)=600000) ran for \
                            600029 milliseconds before timing out.";

/// Where the tasks of a gang ask how to end, each by its index.
#[derive(Clone)]
struct Director {
    address: std::net::SocketAddr,
    words: Arc<Mutex<BTreeMap<String, &'static str>>>,
}

impl Director {
    /// On this node. A task that it has no word for is told to wait.
    fn new(node: &BareNode) -> Result<Self> {
        let bind = || TcpListener::bind((node.address(), 0));
        let listener = node.namespace().enter(bind)??;
        let director = Self {
            address: listener.local_addr()?,
            words: Arc::default(),
        };
        let words = Arc::clone(&director.words);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 512];
                let length = stream.read(&mut request).unwrap_or(0);
                let request = String::from_utf8_lossy(&request[..length]);
                let path = request.split(' ').nth(1).unwrap_or_default();
                let words = words.lock().unwrap_or_else(PoisonError::into_inner);
                let word = words.get(path).copied().unwrap_or("wait");
                let length = word.len();
                let _ = write!(
                    stream,
                    "HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n{word}"
                );
            }
        });
        Ok(director)
    }

    /// Tells a task of an attempt its exit code.
    fn tell(&self, attempt: u32, task: usize, code: &'static str) {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.insert(format!("/{attempt}/{task}"), code);
    }

    fn commands(&self) -> String {
        let address = self.address;
        format!(
            "code=wait\nwhile [ \"$code\" = wait ]; do sleep 0.2; \
             code=$(wget -q -O - http://{address}/$FC_FRAMEWORK_ATTEMPT_ID/$PAI_TASK_INDEX); \
             done\n[ $code = 0 ] || echo '{NCCL_TIMEOUT}'\nexit $code"
        )
    }
}

/// The nodes of a gang's tasks, by their index.
fn nodes_of(detail: &Value) -> Result<Vec<String>> {
    let tasks = detail["roles"][0]["tasks"].as_array().context("tasks")?;
    let node = |task: &Value| {
        let attempts = task["attempts"].as_array()?;
        attempts.last()?["node"].as_str().map(str::to_owned)
    };
    tasks
        .iter()
        .map(|task| node(task).with_context(|| task.to_string()))
        .collect()
}

/// Waits until a job's attempt runs, and answers its tasks' nodes.
fn runs_on(node: &BareNode, name: &str, attempt: u64) -> Result<Vec<String>> {
    let begun = Instant::now();
    loop {
        let detail = waits(node, name, &["RUNNING"])?;
        if detail["attempt"]["id"] == attempt {
            return nodes_of(&detail);
        }
        ensure!(begun.elapsed() < LIMIT, "{detail:#}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The code of an attempt's end, and the retries of the job: all, and those its user pays for.
async fn end_of(node: &BareNode, name: &str, attempt: u32) -> Result<(Value, Value, Value)> {
    let client = node.client().await?;
    let path = format!("/api/v2/jobs/admin~{name}");
    let job = client.get(&path).await?;
    let attempt = client.get(&format!("{path}/attempts/{attempt}")).await?;
    let (job, attempt) = (&job["jobStatus"], &attempt["jobStatus"]);
    Ok((
        attempt["appExitCode"].clone(),
        job["retries"].clone(),
        job["retryDetails"]["user"].clone(),
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_gang_that_loses_a_peer_s_port_runs_elsewhere_uncharged() -> Result<()> {
    let (muster, file) = (home::muster()?, FabricFile::new());
    let Ok(file) = file else {
        // Only root makes device files, and the rest needs root too.
        ensure!(home::missing().is_some(), "{file:?}");
        return Ok(());
    };
    let ports = RefCell::new(BTreeMap::new());
    let prepare = |node: &mut BareNode| {
        let port = PlayedFabric::new(node.home(), &muster, Arc::clone(&file))?;
        node.set_program(port.program());
        // The second machine, which is the next one by name, stands alone.
        let rack = if node.number() == 2 { "r2" } else { "r1" };
        node.configure(&format!("[mesh]\nrack = \"{rack}\"\n"))?;
        ports.borrow_mut().insert(node.name(), port);
        Ok(())
    };
    let Some(mut site) = Site::prepared(3, prepare)? else {
        return Ok(());
    };
    site.engine.keep_memory_limit()?;
    site.lan.unite().await?;
    let ports = ports.into_inner();
    let node = site.node(1);
    let director = Director::new(node)?;
    let commands = director.commands();
    // Eight simulated GPUs a node: each task takes one whole.
    let job = Job {
        gpu: 8,
        instances: 2,
        role: "extraContainerOptions: {infiniband: true}",
        ..Job::new("gang", &commands)
    };
    submit(node, &job)?;
    let first = runs_on(node, "gang", 0)?;
    let rack: BTreeSet<&str> = first.iter().map(String::as_str).collect();
    ensure!(
        rack == BTreeSet::from(["n1", "n3"]),
        "not in one rack: {first:?}"
    );
    let shown = site.node(3).json(&["node", "show"])?;
    ensure!(shown["rack"] == "r1", "{shown:#}");
    // The peer's port fails. It tells nothing; the other one waits for it, and gives up.
    let broken = &first[1];
    ports.get(broken).context("no port")?.pull()?;
    director.tell(0, 0, "1");
    let second = runs_on(node, "gang", 1)?;
    ensure!(!second.contains(broken), "{first:?}, then {second:?}");
    let end = end_of(node, "gang", 0).await?;
    ensure!(end == (json!(212), json!(1), json!(0)), "{end:?}");
    director.tell(1, 0, "0");
    director.tell(1, 1, "0");
    ends(node, "gang")?;
    Ok(())
}

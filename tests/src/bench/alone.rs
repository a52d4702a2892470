//! A machine with jobs, alone or among others: an agent as it is, in a network namespace, over a container engine
//! that has no images.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use hyper::{Method, StatusCode};
use muster_tests::client::Client;
use muster_tests::fake_containerd::FakeContainerd;
use muster_tests::job::Job;
use muster_tests::net::{BareNode, Lan};

use crate::{mesh, unique};

/// Requests at a time while jobs are put there.
const AT_ONCE: usize = 16;
/// How long jobs may take until they run.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
/// Where agents answer in their own namespaces.
const PORT: u16 = 7741;

/// An agent, its engine, and a client of it. Dropped in this order.
#[derive(Debug)]
pub(crate) struct Alone {
    lan: Lan,
    _engine: FakeContainerd,
    pub(crate) client: Client,
}

impl Alone {
    /// Starts it.
    ///
    /// # Errors
    /// When it does not come up.
    pub(crate) async fn start(muster: &Path) -> Result<Self> {
        Self::among(muster, 1).await
    }

    /// Starts it in a cluster of so many agents, of which it alone has an engine.
    ///
    /// # Errors
    /// When they do not come up or find each other.
    pub(crate) async fn among(muster: &Path, agents: usize) -> Result<Self> {
        let mut lan = Lan::running(muster, agents)?;
        let socket = lan.node(1).home().join("no-containerd.sock");
        let engine = FakeContainerd::start(&[socket])?;
        lan.node(1)
            .configure("cpu_overcommit = 1000.0\nmemory_overcommit = 1000.0\n")?;
        lan.start()?;
        if agents > 1 {
            mesh::form(&lan).await?;
        }
        let client = lan.node(1).client().await?;
        Ok(Self {
            lan,
            _engine: engine,
            client,
        })
    }

    pub(crate) fn node(&self) -> &BareNode {
        self.lan.node(1)
    }

    pub(crate) fn address() -> SocketAddr {
        ([127, 0, 0, 1], PORT).into()
    }

    /// Keeps all jobs waiting: none is tried, and so none is tried again and again for want of an image.
    pub(crate) async fn cordon(&self) -> Result<()> {
        let path = format!(
            "/api/muster/v1/cluster/members/{}/scheduling",
            self.node().name()
        );
        let body = r#"{"mode": "cordoned", "reason": "a benchmark"}"#.to_owned();
        let asked = self
            .client
            .send(Method::PUT, &path, "application/json", body);
        let (status, text) = asked.await?;
        ensure!(status.is_success(), "{status}: {text}");
        Ok(())
    }

    /// Puts a job there, and gives its name. Its engine has no images, so that it waits for another try.
    pub(crate) async fn one_job(&self) -> Result<String> {
        let name = unique("one");
        self.client.submit(&yaml(&name)).await?;
        Ok(format!("admin~{name}"))
    }

    /// Puts jobs there until there are so many, as many of which wait as have ended.
    pub(crate) async fn fill(&self, jobs: usize) -> Result<()> {
        let prefix = unique("many");
        let have = self.count("").await?;
        let name = |nth: usize| format!("{prefix}-{nth}");
        let put = async |nth: usize| {
            let name = name(nth);
            self.client.submit(&yaml(&name)).await?;
            if nth.is_multiple_of(2) {
                self.stop(&name).await?;
            }
            anyhow::Ok(())
        };
        let next = AtomicUsize::new(0);
        let worker = |_| async {
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                if have + nth >= jobs {
                    return anyhow::Ok(());
                }
                put(nth).await?;
            }
        };
        try_join_all((0..AT_ONCE).map(worker)).await?;
        self.until_ended(jobs / 3).await?;
        let count = self.count("").await?;
        ensure!(count == jobs, "{count} jobs in place of {jobs}");
        Ok(())
    }

    async fn stop(&self, name: &str) -> Result<()> {
        let path = format!("/api/v2/jobs/admin~{name}/executionType");
        let body = r#"{"value": "STOP"}"#.to_owned();
        let stopped = self
            .client
            .send(Method::PUT, &path, "application/json", body);
        let (status, text) = stopped.await?;
        ensure!(status == StatusCode::ACCEPTED, "{status}: {text}");
        Ok(())
    }

    /// Waits until no job is stopping, and at least so many have ended.
    async fn until_ended(&self, jobs: usize) -> Result<()> {
        let begun = Instant::now();
        loop {
            let stopping = self.count("&state=STOPPING").await?;
            let stopped = self.count("&state=STOPPED").await?;
            if stopping == 0 && stopped >= jobs {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < LIMIT,
                "{stopped} stopped, {stopping} to go"
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// How many jobs there are, of those that the filter names.
    pub(crate) async fn count(&self, filter: &str) -> Result<usize> {
        let path = format!("/api/v2/jobs?withTotalCount=true&limit=1{filter}");
        let page = self.client.get(&path).await?;
        let count = page["totalCount"].as_u64().context("no count")?;
        Ok(usize::try_from(count)?)
    }

    /// A file's place in the node's home, which goes with it.
    pub(crate) fn folder(&self) -> &Path {
        self.node().home()
    }
}

/// A job of a task that wants a device.
fn yaml(name: &str) -> String {
    let job = Job {
        gpu: 1,
        memory_mb: 32,
        ..Job::new(name, "sleep 600")
    };
    job.yaml()
}

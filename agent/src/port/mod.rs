//! The agent's ports, where another process may be first: tasks share the network of their host.
//! The agent then runs without, says who is in the way, and takes the port when it is free.

mod holder;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_model::node::NodeTask;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use self::holder::PortHolder;
use crate::loops::node::NodeHandle;

/// From one try to the next. The holder may take the port again as soon as it let go of it.
const HTTP_PAUSE: Duration = Duration::from_millis(100);
/// Others wait for longer than that for a member.
const MESH_PAUSE: Duration = Duration::from_secs(1);
/// How often it is looked who holds the port.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Why a port is not served, if so; for people.
pub(crate) type PortProblem = watch::Receiver<Option<String>>;

/// A port that the agent wants.
#[derive(Debug)]
pub(crate) struct Port {
    root: PathBuf,
    /// What it is for, as in "REST".
    purpose: &'static str,
    /// The field of agent.toml that names it.
    field: &'static str,
    address: SocketAddr,
    pause: Duration,
    problem: watch::Sender<Option<String>>,
}

impl Port {
    /// REST's port.
    pub(crate) fn http(address: SocketAddr) -> Self {
        Self::new(("REST", "http.listen"), address, HTTP_PAUSE)
    }

    /// The mesh's ports, of one number.
    pub(crate) fn mesh(address: SocketAddr) -> Self {
        Self::new(("the mesh", "mesh.listen"), address, MESH_PAUSE)
    }

    fn new(
        (purpose, field): (&'static str, &'static str),
        address: SocketAddr,
        pause: Duration,
    ) -> Self {
        Self {
            root: "/".into(),
            purpose,
            field,
            address,
            pause,
            problem: watch::Sender::new(None),
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Why it is not served, if so.
    pub(crate) fn problem(&self) -> PortProblem {
        self.problem.subscribe()
    }

    /// Tries `open` again and again while another process holds the port. What is in the way is
    /// told by [`Port::problem`] and in the log. Other errors are told too: they may be over
    /// as well.
    pub(crate) async fn wait<T, E, F>(&self, node: &NodeHandle, mut open: impl FnMut() -> F) -> T
    where
        F: Future<Output = Result<T, E>>,
        E: std::fmt::Display,
    {
        let mut looked: Option<Instant> = None;
        loop {
            let error = match open().await {
                Ok(opened) => break self.opened(opened),
                Err(error) => format!("{error:#}"),
            };
            if looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
                looked = Some(Instant::now());
                self.tell(&error, node).await;
            }
            sleep(self.pause).await;
        }
    }

    fn opened<T>(&self, opened: T) -> T {
        if self.problem.send_replace(None).is_some() {
            tracing::info!(address = %self.address, "the port is free; {} is served", self.purpose);
        }
        opened
    }

    /// Looks who holds the port, for it could not be opened.
    pub(crate) async fn tell(&self, error: &str, node: &NodeHandle) {
        let text = self.explain(error, node).await;
        let is_news = self.problem.send_if_modified(|problem| {
            let is_news = problem.as_ref() != Some(&text);
            *problem = Some(text.clone());
            is_news
        });
        if is_news {
            tracing::error!("{text}");
        }
    }

    /// Why the port could not be opened, and what to do.
    pub(crate) async fn explain(&self, error: &str, node: &NodeHandle) -> String {
        let tasks = node.view().await.map(|view| view.tasks);
        let tasks = tasks.unwrap_or_default();
        let (root, port) = (self.root.clone(), self.address.port());
        let uids: Vec<String> = tasks.iter().map(|task| task.uid.clone()).collect();
        let found = tokio::task::spawn_blocking(move || find(&root, port, &uids)).await;
        self.text(error, found.ok().flatten(), &tasks)
    }

    fn text(&self, error: &str, holder: Option<PortHolder>, tasks: &[NodeTask]) -> String {
        let Self {
            purpose,
            field,
            address,
            ..
        } = self;
        let not_served = format!("{purpose} is not served, for {address} is taken");
        let Some(PortHolder { pid, command, task }) = holder else {
            return format!("{not_served} ({error}); see `ss -lntup`, or change {field}");
        };
        let task = task.and_then(|uid| tasks.iter().find(|task| task.uid == uid));
        match task {
            Some(NodeTask { job, task, .. }) => format!(
                "{not_served} by process {pid} ({command}) of task {task} of job {job}; \
                 `muster job stop {job}` ends it"
            ),
            None => format!(
                "{not_served} by process {pid} ({command}); end it with `kill {pid}`, or change \
                 {field} in agent.toml"
            ),
        }
    }
}

fn find(root: &Path, port: u16, tasks: &[String]) -> Option<PortHolder> {
    let sockets = crate::sockets::sockets_at(root, port);
    holder::find(root, &sockets, tasks)
}

/// What was opened, or none while another process holds the port.
///
/// # Errors
/// When it cannot be opened for another reason.
pub(crate) fn unless_taken<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn the_holder_is_named_with_what_ends_it() {
        let port = Port::http(([0, 0, 0, 0], 7741).into());
        let task = NodeTask {
            job: "ann~evil".to_owned(),
            vc: "default".parse().unwrap(),
            task: "main:0".to_owned(),
            uid: "a-0".to_owned(),
            state: "Held".to_owned(),
            devices: Vec::new(),
            cpu: 1,
            memory_mb: 1,
        };
        let told = |task_uid: Option<&str>| {
            let holder = PortHolder {
                pid: 12,
                command: "nc".to_owned(),
                task: task_uid.map(str::to_owned),
            };
            port.text("taken", Some(holder), std::slice::from_ref(&task))
        };
        assert_eq!(
            told(Some("a-0")),
            "REST is not served, for 0.0.0.0:7741 is taken by process 12 (nc) of task main:0 of \
             job ann~evil; `muster job stop ann~evil` ends it"
        );
        assert!(told(None).ends_with("`kill 12`, or change http.listen in agent.toml"));
        let unseen = port.text("Address in use", None, &[]);
        assert!(unseen.contains("(Address in use); see `ss"), "{unseen}");
    }

    #[tokio::test]
    async fn a_port_is_taken_once_it_is_free_and_told_of_until_then() {
        let held = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = held.local_addr().unwrap();
        let early = TcpListener::bind(address).await;
        assert!(unless_taken(early).unwrap().is_none());
        let port = Port::http(address);
        let mut problem = port.problem();
        let (node, queue) = crate::loops::node::queue();
        drop(queue);
        let free = async {
            let told = problem.wait_for(Option::is_some).await.unwrap().clone();
            drop(held);
            told.unwrap()
        };
        let opening = port.wait(&node, || TcpListener::bind(address));
        let (listener, told) = tokio::join!(opening, free);
        assert_eq!(listener.local_addr().unwrap(), address);
        let pid = std::process::id();
        assert!(told.contains(&format!("by process {pid} (")), "{told}");
        assert_eq!(*problem.borrow(), None);
    }
}

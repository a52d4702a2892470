//! Sessions in tasks.

use muster_model::id::{JobKey, TaskId};
use muster_model::session::{ExecWish, SUBPROTOCOL};

use super::{Api, encode};
use crate::client::AgentSocket;
use crate::error::CliError;

impl Api {
    /// Runs a command in a task.
    pub(crate) async fn exec(
        &self,
        key: &JobKey,
        task: &TaskId,
        wish: &ExecWish,
    ) -> Result<AgentSocket, CliError> {
        let words = wish.command.iter();
        let mut query: Vec<_> = words
            .map(|word| format!("command={}", encode(word)))
            .collect();
        query.push(format!("stdin={}", wish.stdin));
        if let Some(terminal) = &wish.terminal {
            let size = terminal.size;
            let term = encode(&terminal.term);
            let (width, height) = (size.width, size.height);
            query.push(format!(
                "tty=true&term={term}&width={width}&height={height}"
            ));
        }
        let path = format!("{}/exec?{}", place(key, task), query.join("&"));
        let what = format!("cannot run a command in {task} of {key}");
        self.client.socket(&what, &path, Some(SUBPROTOCOL)).await
    }

    /// Connects to a port that a task listens on.
    pub(crate) async fn port(
        &self,
        key: &JobKey,
        task: &TaskId,
        port: &str,
    ) -> Result<AgentSocket, CliError> {
        let path = format!("{}/ports/{port}", place(key, task));
        let what = format!("cannot connect to port {port} of {task} of {key}");
        self.client.socket(&what, &path, None).await
    }
}

fn place(key: &JobKey, task: &TaskId) -> String {
    let job = encode(&key.to_string()).to_string();
    let role = encode(task.role.as_str()).to_string();
    format!("/api/muster/v1/jobs/{job}/tasks/{role}/{}", task.index)
}

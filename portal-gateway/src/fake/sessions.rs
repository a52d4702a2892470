//! Sessions in memory: what is sent comes back.

use async_trait::async_trait;
use muster_model::id::{JobKey, TaskId};
use muster_model::session::{
    FRAME_HEAD_BYTES, SessionChannel, SessionEnd, SessionWish, frame_head,
};
use muster_model::sight::JobSight;
use muster_model::state::SubState;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::FakeCluster;
use crate::port::{Jobs as _, PortError, SessionIo, SessionOpener, Sessions};

/// On which ports there is a web tool; on all others, what is sent comes back. The second one is the port `http` of the
/// first task of the tests' jobs.
const TOOL_PORTS: [u16; 2] = [6006, 16_539];
/// What the tool answers before what it was asked.
const TOOL_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\
    Set-Cookie: tool=1; Path=/; Domain=localhost\r\nSet-Cookie: muster_session=stolen; Path=/\r\n\
    Clear-Site-Data: \"*\"\r\nService-Worker-Allowed: /\r\n\r\n";

/// Its answer to who asks for the protocol `chat`, in which what is sent comes back.
const TOOL_SWITCHED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n";

/// A web tool that says what it was asked.
async fn tool(mut far: DuplexStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if far.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let asked = String::from_utf8_lossy(&head).to_ascii_lowercase();
    if asked.contains("upgrade: chat") {
        let _ = far.write_all(TOOL_SWITCHED.as_bytes()).await;
        return echo(far).await;
    }
    let _ = far.write_all(TOOL_HEAD.as_bytes()).await;
    let _ = far.write_all(&head).await;
    let _ = far.shutdown().await;
}

#[async_trait]
impl Sessions for FakeCluster {
    async fn open(
        &self,
        _: &SessionOpener,
        (sight, job, task): (&JobSight, &JobKey, &TaskId),
        wish: SessionWish,
    ) -> Result<Box<dyn SessionIo>, PortError> {
        let detail = self.job(sight, job, None).await?.value;
        let mut tasks = detail.roles.iter().flat_map(|role| &role.tasks);
        let missing = || PortError::NoTask {
            job: job.to_string(),
            task: task.to_string(),
        };
        let found = tasks.find(|found| found.id == *task).ok_or_else(missing)?;
        if found.sub_state != SubState::AttemptRunning {
            let state = found.sub_state;
            return Err(PortError::NotNow(format!("Task {task} is {state}")));
        }
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move {
            match wish {
                SessionWish::Exec(_) => shell(far).await,
                SessionWish::Port(port) if TOOL_PORTS.contains(&port) => tool(far).await,
                SessionWish::Port(_) => echo(far).await,
            }
        });
        Ok(Box::new(near))
    }
}

async fn echo(mut far: DuplexStream) {
    let mut bytes = Vec::new();
    if far.read_to_end(&mut bytes).await.is_ok() {
        let _ = far.write_all(&bytes).await;
        let _ = far.shutdown().await;
    }
}

/// A command that says again what it reads, and ends with status 3 at the end of its input, or at the key ^D. The line
/// `break` breaks the stream off, and so does `broken` after the key ^X.
async fn shell(mut far: DuplexStream) {
    let mut head = [0; FRAME_HEAD_BYTES];
    while far.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut payload = vec![0; usize::try_from(length).unwrap_or_default()];
        if far.read_exact(&mut payload).await.is_err()
            || [&b"break\n"[..], b"\x18broken"].contains(&&*payload)
        {
            return;
        }
        let is_end = head[0] == SessionChannel::Close.number() || payload == b"\x04";
        let (channel, payload) = match is_end {
            true => (
                SessionChannel::Status,
                SessionEnd::Exited(3).to_json().into_bytes(),
            ),
            false => (SessionChannel::Stdout, payload),
        };
        let _ = far.write_all(&frame_head(channel, payload.len())).await;
        let _ = far.write_all(&payload).await;
        if is_end {
            return;
        }
    }
}

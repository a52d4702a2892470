//! Sessions in the tasks of this node: commands of people, and connections to what tasks listen on.
//!
//! A session is asked for by a member, which may be this one, on a stream of its own. Who may ask was checked where
//! the request came in.

mod command;
mod frames;
mod listening;
mod opening;
mod port;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_exec::engine::{Engine, EngineError};
use muster_gossip::net::quic::IncomingStream;
use muster_init::task_dir::TaskDir;
use muster_model::id::AttemptUid;
use muster_model::session::{SessionAnswer, SessionRequest, SessionWish};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

pub(crate) use self::opening::{ask, not_asked, opened};
use crate::causes::causes;

/// Sessions on this node at a time.
const SESSIONS_MAX: usize = 512;
/// Commands that the engine starts at a time. More of them are not sooner done, and all of them are late then.
const STARTS_MAX: usize = 4;
/// How long a command may wait for that.
const START_WAIT: Duration = Duration::from_secs(30);

/// Serves sessions in the tasks of this node. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct TaskSessions(Arc<TaskSessionsParts>);

#[derive(Debug)]
struct TaskSessionsParts {
    engine: Arc<dyn Engine>,
    /// The directories of this node's tasks.
    tasks: PathBuf,
    turns: Semaphore,
    starts: Semaphore,
}

/// A session that has begun, before it is served.
enum BegunSession {
    Command(command::CommandSession),
    Port(tokio::net::TcpStream),
}

impl TaskSessions {
    /// Sessions in the containers of this engine, whose tasks have their directories below `tasks`.
    pub(crate) fn new(engine: Arc<dyn Engine>, tasks: PathBuf) -> Self {
        Self(Arc::new(TaskSessionsParts {
            engine,
            tasks,
            turns: Semaphore::new(SESSIONS_MAX),
            starts: Semaphore::new(STARTS_MAX),
        }))
    }

    /// Serves a session from its answer to its end.
    pub(crate) async fn serve<S>(&self, request: SessionRequest, mut stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin,
    {
        let SessionRequest {
            job, task, user, ..
        } = &request;
        let (address, wish) = (&request.address, &request.wish);
        let refused = match self.begin(&request).await {
            Ok((begun, _turn)) => {
                tracing::info!(%job, %task, user, address, %wish, "a session begins");
                let answered = opening::answer(&mut stream, &SessionAnswer::Open).await;
                match answered {
                    Ok(()) => begun.serve(stream).await,
                    // The member that asked has gone.
                    Err(_) => begun.give_up().await,
                }
                tracing::info!(%job, %task, user, address, %wish, "a session has ended");
                return;
            }
            Err(refused) => refused,
        };
        tracing::info!(%job, %task, user, address, %wish, ?refused, "a session is refused");
        // The member that asked may be gone.
        let _ = opening::answer(&mut stream, &refused).await;
    }

    async fn begin(
        &self,
        request: &SessionRequest,
    ) -> Result<(BegunSession, tokio::sync::SemaphorePermit<'_>), SessionAnswer> {
        let turn = self.0.turns.try_acquire().map_err(|_| {
            let text = format!("{SESSIONS_MAX} sessions are open on the node; close some of them");
            SessionAnswer::Unavailable(text)
        })?;
        let begun = match &request.wish {
            SessionWish::Exec(wish) => {
                if let Some(problem) = wish.problem() {
                    return Err(SessionAnswer::Invalid(problem));
                }
                let busy = || {
                    let text = "it starts many other commands; try again".to_owned();
                    SessionAnswer::Unavailable(text)
                };
                let start = timeout(START_WAIT, self.0.starts.acquire()).await;
                let _start = start.ok().and_then(Result::ok).ok_or_else(busy)?;
                let place = (self.0.engine.clone(), self.0.task_dir(&request.uid));
                let session = command::CommandSession::start(place, &request.uid, wish).await;
                BegunSession::Command(session.map_err(|error| not_begun(&error))?)
            }
            SessionWish::Port(number) => {
                let pids = self.0.engine.process_ids(&request.uid).await;
                let pids = pids.map_err(|error| not_begun(&error))?;
                BegunSession::Port(port::connect(*number, pids).await?)
            }
        };
        Ok((begun, turn))
    }

    /// Ends the commands that an earlier life of the agent has left in a container.
    pub(crate) async fn end_left(&self, uid: &AttemptUid) {
        let dir = self.0.task_dir(uid).exec();
        let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let left: BTreeSet<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        for id in left {
            if let Err(error) = self.0.engine.end_exec(uid, &id).await {
                tracing::warn!(%uid, id, error = causes(&error), "a person's command is left in a task");
            }
            // What is left of it is removed with the task's directory.
            let _ = std::fs::remove_dir_all(dir.join(id));
        }
    }
}

impl TaskSessionsParts {
    fn task_dir(&self, uid: &AttemptUid) -> TaskDir {
        TaskDir::new(self.tasks.join(uid.as_str()))
    }
}

impl BegunSession {
    async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin>(self, stream: S) {
        match self {
            Self::Command(session) => session.serve(stream).await,
            Self::Port(connection) => port::serve(connection, stream).await,
        }
    }

    async fn give_up(self) {
        if let Self::Command(session) = self {
            session.give_up().await;
        }
    }
}

/// Why no command was started.
fn not_begun(error: &EngineError) -> SessionAnswer {
    match error {
        EngineError::NoContainer(_) | EngineError::NoProcess(_) => {
            SessionAnswer::NotNow("the task has ended".to_owned())
        }
        EngineError::Refused { .. } => SessionAnswer::NotNow(causes(error)),
        _ => SessionAnswer::Unavailable(causes(error)),
    }
}

/// Serves the sessions that members ask for, until the port is closed. They run on `others`: the mesh's own thread has
/// signs of life to give.
pub(crate) async fn run(
    sessions: TaskSessions,
    mut streams: mpsc::Receiver<IncomingStream>,
    others: Handle,
) {
    while let Some(incoming) = streams.recv().await {
        let sessions = sessions.clone();
        others.spawn(async move {
            let mut stream = incoming.stream;
            match opening::request_of(&incoming.header) {
                Ok(request) => sessions.serve(request, stream).await,
                Err(why) => {
                    // The member that asked may be gone.
                    let _ = opening::answer(&mut stream, &SessionAnswer::Invalid(why)).await;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests;

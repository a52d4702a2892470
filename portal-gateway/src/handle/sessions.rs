//! Sessions in tasks: for the job's owner, and for admins. Each is a WebSocket.

use muster_model::id::{JobKey, TaskId};
use muster_model::session::{
    ExecWish, SUBPROTOCOL, SessionWish, TERM_DEFAULT, TerminalSize, TerminalWish,
};

use crate::call::Call;
use crate::error::ApiError;
use crate::handle::task_port::task_port;
use crate::port::{Jobs, SessionIo, Sessions};
use crate::reply::HandlerResult;
use crate::session;
use crate::websocket::WebSocketRequest;

/// `GET jobs/:job/tasks/:role/:index/exec?command=&command=&stdin=&tty=&term=&width=&height=`
pub(crate) async fn exec(
    mut call: Call,
    jobs: &dyn Jobs,
    sessions: &dyn Sessions,
) -> HandlerResult {
    let (key, task) = owned_task(&call, jobs).await?;
    let wish = exec_wish(&call)?;
    let asked = WebSocketRequest::of(&mut call, Some(SUBPROTOCOL))?;
    let wish = SessionWish::Exec(wish);
    let opened = opened(&call, (jobs, sessions), (&key, &task), wish).await?;
    Ok(asked.grant(move |socket| session::pass_command(socket, opened)))
}

/// `GET jobs/:job/tasks/:role/:index/ports/:port`
pub(crate) async fn port(
    mut call: Call,
    jobs: &dyn Jobs,
    sessions: &dyn Sessions,
) -> HandlerResult {
    let (key, task) = owned_task(&call, jobs).await?;
    let number = task_port(&call, jobs, (&key, &task)).await?;
    let asked = WebSocketRequest::of(&mut call, None)?;
    let wish = SessionWish::Port(number);
    let opened = opened(&call, (jobs, sessions), (&key, &task), wish).await?;
    Ok(asked.grant(move |socket| session::pass_connection(socket, opened)))
}

/// The task that the path names, of a job that the caller may change.
pub(crate) async fn owned_task(call: &Call, jobs: &dyn Jobs) -> Result<(JobKey, TaskId), ApiError> {
    let key = call.job_key()?;
    call.check_owner(&key, jobs).await?;
    let task = call.task_id(&key)?;
    Ok((key, task))
}

async fn opened(
    call: &Call,
    (jobs, sessions): (&dyn Jobs, &dyn Sessions),
    (key, task): (&JobKey, &TaskId),
    wish: SessionWish,
) -> Result<Box<dyn SessionIo>, ApiError> {
    let opener = call.session_opener()?;
    let sight = call.sight(jobs)?;
    Ok(sessions.open(&opener, (&sight, key, task), wish).await?)
}

fn exec_wish(call: &Call) -> Result<ExecWish, ApiError> {
    let wish = ExecWish {
        command: call.query.all("command"),
        stdin: call.query.is_true("stdin"),
        terminal: match call.query.is_true("tty") {
            true => Some(terminal(call)?),
            false => None,
        },
    };
    match wish.problem() {
        Some(problem) => Err(ApiError::Parameters(problem)),
        None => Ok(wish),
    }
}

/// The terminal that a query describes.
pub(crate) fn terminal(call: &Call) -> Result<TerminalWish, ApiError> {
    let usual = TerminalSize::default();
    let side = |name: &str, usual: u16| {
        let wrong = || ApiError::Parameters(format!("{name} must be 1 to 65535"));
        let number = call.number(name)?;
        let number = number.map(u16::try_from).transpose().map_err(|_| wrong())?;
        match number {
            Some(0) => Err(wrong()),
            number => Ok(number.unwrap_or(usual)),
        }
    };
    Ok(TerminalWish {
        term: call.query.text("term").unwrap_or(TERM_DEFAULT).to_owned(),
        size: TerminalSize {
            width: side("width", usual.width)?,
            height: side("height", usual.height)?,
        },
    })
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use http::StatusCode;

    use super::ApiError;
    use crate::openapi::{RouteDoc, any};
    use crate::port::PortError;

    fn session(sentence: &'static str) -> RouteDoc {
        RouteDoc::new(sentence)
            .of_job()
            .of_owner()
            .checks_parameters()
            .fails([ApiError::Upgrade("")])
            .fails([
                PortError::NoTask {
                    job: any(),
                    task: any(),
                },
                PortError::Invalid(any()),
                PortError::NotNow(any()),
            ])
            .empty(
                StatusCode::SWITCHING_PROTOCOLS,
                "The connection is a WebSocket from now on.",
            )
    }

    pub(crate) fn exec() -> RouteDoc {
        session(
            "Runs a command in a task, over a WebSocket whose messages are those of Kubernetes' v5.channel.k8s.io.",
        )
        .query::<Vec<String>>("command", "The program and its arguments, one each time. A shell if absent.")
        .query::<bool>("stdin", "Whether it has an input.")
        .query::<bool>("tty", "Whether it has a terminal.")
        .query::<String>("term", "What the terminal is; xterm-256color unless told.")
        .query::<u16>("width", "Columns of the terminal; 80 unless told.")
        .query::<u16>("height", "Lines of the terminal; 24 unless told.")
    }

    pub(crate) fn port() -> RouteDoc {
        session(
            "Connects to a TCP port that a task listens on, over a WebSocket: binary messages are the bytes, and an \
             empty one is the end of its direction.",
        )
    }
}

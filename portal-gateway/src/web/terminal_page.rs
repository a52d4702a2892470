//! The page with a terminal in a task, and the connection that it opens.

use maud::{Markup, html};
use muster_model::id::{JobKey, TaskId};
use muster_model::session::{ExecWish, SessionWish};

use super::frame::{PortalPage, Section};
use super::{asset, job_list, origin};
use crate::call::Call;
use crate::handle;
use crate::port::{Jobs, Membership, PortError, Sessions};
use crate::reply::HandlerResult;
use crate::session;
use crate::websocket::WebSocketRequest;

/// `GET /jobs/:job/tasks/:role/:index/terminal`
pub(crate) async fn page(
    call: Call,
    jobs: &dyn Jobs,
    membership: &dyn Membership,
) -> HandlerResult {
    let (key, task) = handle::sessions::owned_task(&call, jobs).await?;
    let detail = jobs.job(&call.sight(jobs)?, &key, None).await?.value;
    if !detail.tasks().any(|one| one.id == task) {
        let (job, task) = (key.to_string(), task.to_string());
        return Err(PortError::NoTask { job, task }.into());
    }
    let page = PortalPage {
        section: Section::Jobs,
        title: format!("Terminal of {task} of {}", key.name),
        refresh_s: None,
        body: body(&key, &task),
    };
    Ok(page.reply(&call, &membership.node_name()))
}

/// The path of the page.
pub(super) fn path(key: &JobKey, task: &TaskId) -> String {
    let job = job_list::job_path(key);
    format!("{job}/tasks/{}/{}/terminal", task.role, task.index)
}

fn body(key: &JobKey, task: &TaskId) -> Markup {
    let command = format!("muster job exec -it {key}:{task}");
    html! {
        p { a #terminal-leave href=(job_list::job_path(key)) { (key.name.as_str()) } }
        h1 { "Terminal of task " (task.to_string()) " of " (key.name.as_str()) }
        noscript {
            p.card.warn { "A terminal needs JavaScript, which this browser does not run. The same in a shell of yours: "
                code { (command) } }
        }
        section.card #terminal-card hidden {
            div.row.turn {
                p #terminal-state role="status" {}
                button #terminal-again type="button" hidden { "Start a new shell" }
            }
            div.terminal #terminal data-connect={ (path(key, task)) "/connect" } {
                div.past {}
                div.screen {
                    div.rows {}
                    div.cursor {}
                    textarea #typed rows="1" aria-label="Input of the terminal. Control, Shift and L leaves it."
                        autocapitalize="off" autocomplete="off" spellcheck="false" {}
                }
            }
            p.dim { "All keys go to the program, Tab too. " kbd { "Ctrl+Shift+L" } " leaves the terminal. "
                kbd { "Ctrl+Shift+C" } " copies what is marked, " kbd { "Ctrl+Shift+V" } " pastes, "
                kbd { "Shift+Page up" } " scrolls. Leaving this page ends the shell, and what it runs; "
                "the same in a shell of yours: " code { (command) } }
        }
        script defer src=(asset::terminal()) {}
    }
}

/// `GET /jobs/:job/tasks/:role/:index/terminal/connect?width=&height=`: a WebSocket. What a browser sends and is sent
/// is the script's own, and no interface for others.
pub(crate) async fn connect(
    mut call: Call,
    jobs: &dyn Jobs,
    sessions: &dyn Sessions,
) -> HandlerResult {
    let (key, task) = handle::sessions::owned_task(&call, jobs).await?;
    origin::check(
        &call.headers,
        "open a terminal: open it on the page of the job",
    )?;
    let terminal = handle::sessions::terminal(&call)?;
    let size = terminal.size;
    let asked = WebSocketRequest::of(&mut call, None)?;
    let opener = call.session_opener()?;
    let sight = call.sight(jobs)?;
    let wish = SessionWish::Exec(ExecWish {
        command: Vec::new(),
        stdin: true,
        terminal: Some(terminal),
    });
    let opened = sessions.open(&opener, (&sight, &key, &task), wish).await;
    // Scripts are not told why a browser got no WebSocket: it is said over one.
    let opened = opened.map_err(|why| why.to_string());
    Ok(asked.grant(move |socket| session::pass_terminal(socket, opened, size)))
}

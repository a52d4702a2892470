//! The port of a task that a path names.

use muster_model::id::{JobKey, TaskId};
use muster_model::view::TaskView;

use crate::call::Call;
use crate::error::ApiError;
use crate::port::{Jobs, PortError};

/// The port that the parameter `port` of a path names: a number, or the label of a port that the task was given.
pub(crate) async fn task_port(
    call: &Call,
    jobs: &dyn Jobs,
    (key, task): (&JobKey, &TaskId),
) -> Result<u16, ApiError> {
    let text = call.params.text("port");
    if text.starts_with(|letter: char| letter.is_ascii_digit()) {
        let port = text.parse().ok().filter(|port| *port > 0);
        let wrong = || ApiError::Parameters(format!("port must be 1 to 65535, not {text:?}"));
        return port.ok_or_else(wrong);
    }
    let detail = jobs.job(&call.sight(jobs)?, key, None).await?.value;
    let found = detail.tasks().find(|view| view.id == *task);
    let view = found.ok_or_else(|| PortError::NoTask {
        job: key.to_string(),
        task: task.to_string(),
    })?;
    labelled(view, text).map_err(|why| PortError::Invalid(why).into())
}

/// The first port with this label of a task's newest attempt, or why there is none.
fn labelled(view: &TaskView, label: &str) -> Result<u16, String> {
    let ports = view.attempts.last().map_or(&[][..], |last| &last.ports);
    let found = ports.iter().find(|(name, _)| name == label);
    found
        .and_then(|(_, numbers)| numbers.first().copied())
        .ok_or_else(|| {
            let labels: Vec<_> = ports.iter().map(|(name, _)| name.as_str()).collect();
            match labels.as_slice() {
                [] => format!("{} has no port {label:?} before it is placed", view.id),
                labels => format!(
                    "{} has no port {label:?}: name one by its number, or by its label, {}",
                    view.id,
                    labels.join(" or ")
                ),
            }
        })
}

//! States as people see them: a word with a colour, never a colour alone.

use maud::{Markup, html};
use muster_model::state::{JobState, SubState};

/// The state of a job, an attempt or a task.
pub(super) fn state(state: JobState) -> Markup {
    let (class, word) = match state {
        JobState::Waiting => ("chip warn", "Waiting"),
        JobState::Running => ("chip busy", "Running"),
        JobState::Stopping => ("chip", "Stopping"),
        JobState::Succeeded => ("chip good", "Succeeded"),
        JobState::Stopped => ("chip", "Stopped"),
        JobState::Failed => ("chip bad", "Failed"),
    };
    html! { span class=(class) { (word) } }
}

/// The same with what is under way where that says more: an image is pulled while a task is prepared.
pub(super) fn detailed(seen: JobState, sub_state: SubState) -> Markup {
    html! {
        (state(seen))
        @if sub_state == SubState::AttemptPreparing { " " span class="dim" { "preparing" } }
    }
}

/// A word that is good or bad news.
pub(super) fn word(is_good: bool, text: &str) -> Markup {
    let class = if is_good { "chip good" } else { "chip bad" };
    html! { span class=(class) { (text) } }
}

//! The form beside a job's YAML: its fields, and how they come back.
//!
//! The form says what it was shown with (`form_shown`), so that only what was changed in it goes into the YAML,
//! whatever was changed there meanwhile.

use maud::{Markup, html};
use muster_model::protocol::{JobForm, RoleForm};
use muster_model::state::PriorityClass;

use super::image_names;
use crate::port::DEFAULT_VC;
use crate::query::Query;

/// The field with what the form was shown with, as JSON.
const SHOWN: &str = "form_shown";
/// Roles that a form has at most; the YAML may have more.
const ROLES_MAX: usize = 20;

const PRIORITIES: [PriorityClass; 4] = [
    PriorityClass::Crit,
    PriorityClass::Prod,
    PriorityClass::Test,
    PriorityClass::Oppo,
];

/// What came back of a form.
pub(super) struct ReturnedForm {
    /// As it was shown.
    pub(super) shown: JobForm,
    /// As the user left it.
    pub(super) filled: JobForm,
}

/// The form of a request, if it has one.
pub(super) fn returned(fields: &Query) -> Option<ReturnedForm> {
    let shown: JobForm = serde_json::from_str(fields.text(SHOWN)?).ok()?;
    // A field that did not come stays as it was.
    let field = |name: &str, before: &String| match fields.has(name) {
        true => fields.text(name).unwrap_or_default().replace("\r\n", "\n"),
        false => before.clone(),
    };
    let role = |(nth, before): (usize, &RoleForm)| {
        let own = |name: &str, before| field(&format!("role{nth}_{name}"), before);
        RoleForm {
            role: before.role.clone(),
            instances: own("instances", &before.instances),
            image: own("image", &before.image),
            command: own("command", &before.command),
            cpu: own("cpu", &before.cpu),
            memory_mb: own("memory", &before.memory_mb),
            gpu: own("gpu", &before.gpu),
        }
    };
    let filled = JobForm {
        name: field("form_name", &shown.name),
        vc: field("form_vc", &shown.vc),
        priority: field("form_priority", &shown.priority),
        retries: field("form_retries", &shown.retries),
        max_run_s: field("form_max_run", &shown.max_run_s),
        roles: shown.roles.iter().enumerate().map(role).collect(),
    };
    Some(ReturnedForm { shown, filled })
}

/// The fields. `shown`: what the YAML has, `filled`: what they hold. `vcs`: those that the user may use.
pub(super) fn fields(shown: &JobForm, filled: &JobForm, vcs: &[String]) -> Markup {
    let kept = serde_json::to_string(shown).unwrap_or_default();
    let more = filled.roles.len().saturating_sub(ROLES_MAX);
    html! {
        input type="hidden" name=(SHOWN) value=(kept);
        div.fields.row {
            (text("form_name", "Name", &filled.name, ""))
            (vc(&filled.vc, vcs))
            (priority(&filled.priority))
            (number("form_retries", "Retries after a failure", &filled.retries, "0"))
            (number("form_max_run", "Expected run time, seconds", &filled.max_run_s, ""))
        }
        p.dim { "The expected run time is for the forecast of starts; the job is not stopped when it takes longer, unless its virtual cluster limits run times." }
        @for (nth, role) in filled.roles.iter().enumerate().take(ROLES_MAX) { (role_fields(nth, role)) }
        @if more > 0 { p.dim { (more) " more task roles are in the YAML." } }
        div.row {
            div { label for="new_role" { "One more task role" }
                input #new_role name="new_role" size="12" autocapitalize="none" spellcheck="false"; }
            button name="action" value="add-role" { "Add the role" }
        }
    }
}

fn role_fields(nth: usize, role: &RoleForm) -> Markup {
    let name = |field: &str| format!("role{nth}_{field}");
    let command = name("command");
    html! {
        fieldset {
            legend { "Task role " strong { (role.role) } }
            div.fields.row {
                (number(&name("instances"), "Tasks", &role.instances, "1"))
                (number(&name("gpu"), "GPUs of each", &role.gpu, ""))
                (number(&name("cpu"), "Cores of each", &role.cpu, ""))
                (number(&name("memory"), "Memory of each, MiB", &role.memory_mb, ""))
            }
            (image(&name("image"), &role.image))
            label for=(command) { "Commands" }
            textarea.short id=(command) name=(command) rows="3" spellcheck="false" autocapitalize="none" {
                "\n" (role.command)
            }
            button name="action" value={ "remove-role:" (role.role) } { "Remove the role " (role.role) }
        }
    }
}

/// With the images that nodes have as suggestions.
fn image(name: &str, value: &str) -> Markup {
    html! {
        div { label for=(name) { "Image" }
            input id=(name) name=(name) value=(value) placeholder="pytorch/pytorch" list=(image_names::LIST)
                autocapitalize="none" autocomplete="off" spellcheck="false"; }
    }
}

fn text(name: &str, label: &str, value: &str, example: &str) -> Markup {
    html! {
        div { label for=(name) { (label) }
            input id=(name) name=(name) value=(value) placeholder=[Some(example).filter(|it| !it.is_empty())]
                autocapitalize="none" autocomplete="off" spellcheck="false"; }
    }
}

/// What is no number is shown as it was written: the check says what is wrong with it.
fn number(name: &str, label: &str, value: &str, example: &str) -> Markup {
    html! {
        div { label for=(name) { (label) }
            input id=(name) name=(name) value=(value) inputmode="numeric" autocomplete="off"
                placeholder=[Some(example).filter(|it| !it.is_empty())]; }
    }
}

fn vc(value: &str, vcs: &[String]) -> Markup {
    let own = |name: &str| vcs.iter().any(|vc| vc == name);
    let is_own = value.is_empty() || own(value);
    // Not set is the same as the name of the default one: there is one choice for both.
    let unset = if own(DEFAULT_VC) {
        DEFAULT_VC
    } else {
        "not set"
    };
    let is_unset = value.is_empty() || value == DEFAULT_VC && own(DEFAULT_VC);
    let unset_value = if is_unset { value } else { "" };
    html! {
        div { label for="form_vc" { "Virtual cluster" }
            select #form_vc name="form_vc" {
                option value=(unset_value) selected[is_unset] { (unset) }
                @for vc in vcs.iter().filter(|vc| *vc != DEFAULT_VC) { option value=(vc) selected[vc == value] { (vc) } }
                @if !is_own { option value=(value) selected { (value) ", which is not yours" } }
            } }
    }
}

fn priority(value: &str) -> Markup {
    let is_known = value.is_empty() || PRIORITIES.iter().any(|one| one.as_str() == value);
    let unset = PriorityClass::Test.as_str();
    let is_unset = value.is_empty() || value == unset;
    let unset_value = if is_unset { value } else { "" };
    html! {
        div { label for="form_priority" { "Priority" }
            select #form_priority name="form_priority" {
                option value=(unset_value) selected[is_unset] { (unset) }
                @for one in PRIORITIES.iter().filter(|one| one.as_str() != unset) { option value=(one.as_str()) selected[one.as_str() == value] { (one.as_str()) } }
                @if !is_known { option value=(value) selected { (value) ", which there is not" } }
            } }
    }
}

//! References inside a document: prerequisites, deployments and what the hived section names.

use std::collections::{BTreeMap, BTreeSet};

use crate::image_name::ImageName;

use super::advice::excerpt;
use super::document::{HivedRole, Prerequisite, PrerequisiteKind, WrittenJob, WrittenRole};
use super::nearest::nearest;
use super::rules::{PLUGINS_MAX, TASKS_MAX};
use super::template::OPEN;
use super::{JobProblem, muster};

/// The type of prerequisites that are images.
const IMAGE: &str = "dockerimage";

/// Every reference that leads nowhere, every name that is taken twice, and too many tasks.
pub(super) fn check(document: &WrittenJob) -> Vec<JobProblem> {
    let mut problems = Vec::new();
    check_duplicates(document, &mut problems);
    for (name, role) in &document.task_roles {
        check_role(document, &format!(".taskRoles.{name}"), role, &mut problems);
    }
    if let Some(name) = &document.defaults.deployment
        && document.deployment().is_none()
    {
        let message = format!("Default deployment {name} does not exist.");
        problems.push(JobProblem::at(".defaults.deployment", message));
    }
    check_hived(document, &mut problems);
    check_pinned(document, &mut problems);
    problems.extend(muster::read(document).err().into_iter().flatten());
    check_task_count(document, &mut problems);
    let plugins = document.extras.plugins.len();
    if plugins > PLUGINS_MAX {
        let message = format!("The job has {plugins} plugins; at most {PLUGINS_MAX} are allowed.");
        problems.push(JobProblem::at(".extras", message));
    }
    problems
}

fn check_duplicates(document: &WrittenJob, problems: &mut Vec<JobProblem>) {
    let mut seen = BTreeSet::new();
    for (index, item) in document.prerequisites.iter().enumerate() {
        if !seen.insert((item.kind(), item.name())) {
            let message = format!("Duplicate {} prerequisites {}.", item.kind(), item.name());
            problems.push(JobProblem::at(format!(".prerequisites[{index}]"), message));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, deployment) in document.deployments.iter().enumerate() {
        if !seen.insert(&deployment.name) {
            let message = format!("Duplicate deployments {}.", deployment.name);
            problems.push(JobProblem::at(format!(".deployments[{index}]"), message));
        }
    }
}

fn check_role(
    document: &WrittenJob,
    path: &str,
    role: &WrittenRole,
    problems: &mut Vec<JobProblem>,
) {
    let image = check_image(document, role);
    problems.extend(image.filter(|image| !problems.contains(image)));
    let mut missing = |path: String, name: &str| {
        let message = format!("Prerequisite {name} does not exist.");
        let known = document.prerequisites.iter().map(Prerequisite::name);
        let problem = JobProblem::at(path, &*message);
        problems.push(match nearest(name, known) {
            Some(meant) if meant != name => {
                problem.advised("", format!("{message} Did you mean {meant}?"))
            }
            _ => problem,
        });
    };
    for (index, name) in role.prerequisites.iter().enumerate() {
        if document.prerequisites.named(name).is_none() {
            missing(format!("{path}.prerequisites[{index}]"), name);
        }
    }
    for (kind, field, name) in role.selected() {
        if document.prerequisites.of_kind(kind, name).is_none() {
            missing(format!("{path}.{field}"), name);
        }
    }
}

/// An image whose name no registry can have.
fn check_image(document: &WrittenJob, role: &WrittenRole) -> Option<JobProblem> {
    let mut prerequisites = document.prerequisites.iter();
    let is_image = |item: &Prerequisite| item.kind() == IMAGE && item.name() == role.docker_image;
    let index = prerequisites.position(is_image)?;
    let image = document
        .prerequisites
        .of_kind(PrerequisiteKind::DockerImage, &role.docker_image)?;
    let uri = image.text("uri").trim();
    // An empty one is told of elsewhere.
    let why = ImageName::parse(uri).err().filter(|_| !uri.is_empty())?;
    let why = match uri.contains(OPEN) {
        true => "parameters count in commands only: write the name itself",
        false => why,
    };
    let message = format!("{:?} is no image name: {why}.", excerpt(uri));
    Some(JobProblem::at(
        format!(".prerequisites[{index}].uri"),
        message,
    ))
}

fn check_hived(document: &WrittenJob, problems: &mut Vec<JobProblem>) {
    let mut groups: BTreeMap<&str, &HivedRole> = BTreeMap::new();
    for (name, hived) in &document.extras.hived_scheduler.task_roles {
        let path = format!(".extras.hivedScheduler.taskRoles.{name}");
        if !document.has_role(name) {
            let message = format!("Taskrole {name} does not exist.");
            problems.push(JobProblem::at(path.clone(), message));
        }
        if hived.sku_type.is_some() && hived.pinned_cell_id.is_some() {
            let message =
                format!("Taskrole {name} has both skuType and pinnedCellId, only one is allowed.");
            problems.push(JobProblem::at(path.clone(), message));
        }
        if let Some(group) = &hived.affinity_group_name {
            let first = *groups.entry(group).or_insert(hived);
            if first.sku_type != hived.sku_type || first.pinned_cell_id != hived.pinned_cell_id {
                let message =
                    format!("AffinityGroup {group} has inconsistent skuType or pinnedCellId.");
                problems.push(JobProblem::at(path, message));
            }
        }
    }
}

/// What starts together is placed in one pinned cell.
fn check_pinned(document: &WrittenJob, problems: &mut Vec<JobProblem>) {
    let roles = &document.extras.hived_scheduler.task_roles;
    let mut pinned = roles
        .iter()
        .filter_map(|(name, role)| Some((name, role.pinned()?)));
    let Some((first, cell)) = pinned.next().filter(|_| document.is_gang()) else {
        return;
    };
    for (name, other) in pinned.filter(|(_, other)| *other != cell) {
        let message = format!(
            "Taskroles {first} and {name} have different pinnedCellIds, {cell} and {other}, but \
             start together. Name one cell, or set extras.gangAllocation to false."
        );
        let path = format!(".extras.hivedScheduler.taskRoles.{name}.pinnedCellId");
        problems.push(JobProblem::at(path, message));
    }
}

fn check_task_count(document: &WrittenJob, problems: &mut Vec<JobProblem>) {
    let tasks: u64 = document
        .task_roles
        .iter()
        .map(|(_, role)| u64::from(role.instances))
        .sum();
    if tasks > TASKS_MAX {
        let message = format!("The job has {tasks} tasks; at most {TASKS_MAX} are allowed.");
        problems.push(JobProblem::at(".taskRoles", message));
    }
}

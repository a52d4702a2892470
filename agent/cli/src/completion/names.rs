//! Names that the agent knows.

use muster_model::state::JobState;

use crate::api::{Api, Filter};
use crate::error::CliError;

/// Kinds of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    Job,
    Node,
    Vc,
    User,
    Group,
    Image,
}

/// All names of a kind. Of jobs those that have not ended, or all where none is active.
pub(super) async fn of(kind: NameKind, api: &Api) -> Result<Vec<String>, CliError> {
    Ok(match kind {
        NameKind::Job => jobs(api).await?,
        NameKind::Node => {
            let nodes = api.nodes().await?;
            nodes.iter().map(|node| node.id.to_string()).collect()
        }
        NameKind::Vc => {
            let vcs = api.virtual_clusters().await?;
            vcs.iter().map(|vc| vc.name.to_string()).collect()
        }
        NameKind::User => {
            let users = api.users().await?;
            users.into_iter().map(|user| user.username).collect()
        }
        NameKind::Group => {
            let groups = api.groups().await?;
            groups.into_iter().map(|group| group.groupname).collect()
        }
        NameKind::Image => {
            let images = api.images().await?;
            images.into_iter().map(|image| image.name).collect()
        }
    })
}

/// `user~name`; of the acting user the name alone, too.
async fn jobs(api: &Api) -> Result<Vec<String>, CliError> {
    let any = Filter {
        users: &[],
        states: &[],
        vcs: &[],
    };
    let active = [JobState::Waiting, JobState::Running, JobState::Stopping];
    let of_active = Filter {
        states: &active,
        ..any
    };
    let mut listing = api.jobs(of_active).await?;
    if listing.jobs.is_empty() {
        listing = api.jobs(any).await?;
    }
    let me = api.user()?;
    let mut names = Vec::new();
    for job in listing.jobs {
        let key = job.summary.key;
        if key.user == me {
            names.push(key.name.to_string());
        }
        names.push(key.to_string());
    }
    Ok(names)
}

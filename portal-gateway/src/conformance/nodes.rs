use muster_model::health::{HealthCheck, PersonMark};
use muster_model::mesh::{Scheduling, SchedulingView};
use muster_model::sight::JobSight;

use super::NOBODY;
use crate::port::{Caller, DEFAULT_VC, Membership, NewScheduling, Nodes, PortError};

/// Nodes, of which only this one is a member; what admins want of it is seen by `membership`.
pub async fn nodes(nodes: &dyn Nodes, membership: &dyn Membership, caller: &Caller) {
    let this = nodes.this().await.unwrap();
    let me = this.id.as_str();
    let list = nodes.list().await.unwrap();
    assert!(list.iter().any(|node| node.id == this.id));
    let vcs = nodes.virtual_clusters().await.unwrap();
    assert!(vcs.iter().any(|vc| vc.name.as_str() == DEFAULT_VC));
    refused!(nodes.cells(&JobSight::All, NOBODY), PortError::NoVc(_));
    let cells = nodes.cells(&JobSight::All, DEFAULT_VC).await.unwrap();
    assert!(cells.users.is_empty(), "nothing runs");
    refused!(nodes.what_if("]"), PortError::InvalidDocument(_));
    assert!(!nodes.health().await.unwrap().checks.is_empty());
    assert!(!nodes.doctor().await.unwrap().is_empty());

    let wanted = |scheduling| NewScheduling {
        scheduling,
        reason: "fans".to_owned(),
    };
    let cordoned = wanted(Scheduling::Cordoned);
    let nobodys = nodes.schedule(caller, NOBODY, &cordoned);
    refused!(nobodys, PortError::NoMember(_));
    refused!(
        nodes.tasks_on(&JobSight::All, NOBODY),
        PortError::NoMember(_)
    );
    refused!(nodes.images_on(NOBODY), PortError::NoMember(_));
    refused!(nodes.say_off(caller, NOBODY), PortError::NoMember(_));
    refused!(nodes.say_off(caller, me), PortError::NotNow(_));
    assert_eq!(nodes.tasks_on(&JobSight::All, me).await.unwrap(), []);

    refused!(nodes.accept_inventory(NOBODY), PortError::NoMember(_));
    assert_eq!(nodes.accept_inventory(me).await.unwrap(), []);
    refused!(nodes.health_on(NOBODY), PortError::NoMember(_));
    let released = || PersonMark::Released;
    refused!(
        nodes.mark(NOBODY, "machine", released()),
        PortError::NoMember(_)
    );
    refused!(nodes.mark(me, NOBODY, released()), PortError::NoPart(_));
    let held = PersonMark::Held {
        by: caller.user.to_string(),
        why: "fans".to_owned(),
    };
    let checks = nodes.mark(me, "machine", held).await.unwrap();
    let is_held = |checks: &[HealthCheck]| {
        let told = |check: &HealthCheck| check.evidence.contains("fans");
        checks.iter().any(told)
    };
    assert!(is_held(&checks), "{checks:?}");
    assert!(is_held(&nodes.health_on(me).await.unwrap()));
    let checks = nodes.mark(me, "machine", released()).await.unwrap();
    assert!(!is_held(&checks), "{checks:?}");

    nodes.schedule(caller, me, &cordoned).await.unwrap();
    let word = scheduling(membership).await.unwrap();
    assert_eq!(word.scheduling, Scheduling::Cordoned);
    assert_eq!((&*word.reason, &*word.by), ("fans", caller.user.as_str()));
    let open = wanted(Scheduling::Open);
    nodes.schedule(caller, me, &open).await.unwrap();
    assert_eq!(scheduling(membership).await, None);
}

/// What holds of this node.
async fn scheduling(membership: &dyn Membership) -> Option<SchedulingView> {
    let view = membership.view().await.unwrap();
    let this = view.members.into_iter().find(|one| one.name == view.me);
    this.unwrap().scheduling
}

//! What is asked of several groups at a time, and how a member's copy of one goes.

use muster_consensus::GroupId;
use muster_gossip::member::MemberId;
use muster_model::id::NodeId;

use crate::answers::port::CopiesPort;
use crate::answers::together::{all, within};
use crate::groups::{GroupError, name};
use crate::request::RequestFailure;

/// How long a group's majority is waited for by those who asked of several: one without a majority holds up
/// no other.
const MAJORITY_LIMIT_MS: u64 = 1_000;
/// How long a member that goes is waited for until it has given its copy away.
const GIVE_UP_LIMIT_MS: u64 = 6_000;
/// Pause between two looks at that.
const GIVE_UP_PAUSE_MS: u64 = 100;

/// Up to which entry those of these groups are committed that are led here, by the word of a majority given
/// after this was asked.
pub async fn committed(port: &impl CopiesPort, groups: Vec<u64>) -> Vec<(u64, u64)> {
    let committed = groups.into_iter().map(|group| async move {
        let index = port.read(GroupId(group), |seen| seen.applied);
        let index = within(port, MAJORITY_LIMIT_MS, index).await;
        Some((group, index?.ok()?))
    });
    all(committed).await.into_iter().flatten().collect()
}

/// A node asks for renewal of what it holds of these groups. Those that are led here, as a majority has
/// confirmed after this was asked.
pub async fn renew_all(port: &impl CopiesPort, groups: Vec<u64>, node: &NodeId) -> Vec<u64> {
    let renewed = groups.into_iter().map(|group| async move {
        let renewed = port.renew(GroupId(group), node.clone());
        let renewed = within(port, MAJORITY_LIMIT_MS, renewed).await;
        matches!(renewed, Some(Ok(()))).then_some(group)
    });
    all(renewed).await.into_iter().flatten().collect()
}

/// Takes a member's copy of a group that is led here away, for the member is about to go.
///
/// # Errors
/// When this node does not lead the group, or the copy has not found another place in time.
pub async fn give_up(
    port: &impl CopiesPort,
    group: GroupId,
    member: MemberId,
) -> Result<(), RequestFailure> {
    let until = port.now().steady.plus_millis(GIVE_UP_LIMIT_MS);
    while going(port, group, member).await? {
        if port.now().steady >= until {
            return Err(RequestFailure::unavailable(
                "its copy of a log has not found another place yet; try again",
            ));
        }
        port.pause(GIVE_UP_PAUSE_MS).await;
    }
    Ok(())
}

/// Has its copy find another place. Whether it has one still.
async fn going(
    port: &impl CopiesPort,
    group: GroupId,
    member: MemberId,
) -> Result<bool, GroupError> {
    port.going(group, member).await?;
    // A leader that was deposed names the one that leads now.
    port.read(group, |_| ()).await?;
    let look = port.look(group, move |local| {
        let mut homes = local.standing.view.membership.homes.values();
        homes.any(|home| home.node == name::node(member))
    });
    Ok(look.await? == Some(true))
}

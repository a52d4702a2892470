use std::collections::BTreeSet;

use muster_model::alarm::AlarmsAfter;
use muster_model::mesh::NewToken;

use super::NOBODY;
use crate::port::{Caller, DEFAULT_VC, JoinRequest, Membership, PortError};

/// The membership of a node that is alone, and has no jobs. It is afterwards too.
pub async fn alone(membership: &dyn Membership, caller: &Caller) {
    let view = membership.view().await.unwrap();
    let names: Vec<_> = view.members.iter().map(|one| &one.name).collect();
    assert!(view.solo && names == [&view.me], "{names:?}");
    assert_eq!(membership.join_plan().await.unwrap().jobs, [""; 0]);
    let nowhere = JoinRequest {
        address: "127.0.0.1:1".to_owned(),
        token: "no token".to_owned(),
    };
    refused!(
        membership.join(&nowhere),
        PortError::Invalid(_) | PortError::JoinRefused(_)
    );
    refused!(membership.leave(), PortError::NotNow(_));
    refused!(membership.expel(caller, NOBODY), PortError::NoMember(_));
    refused!(membership.expel(caller, &view.me), PortError::Invalid(_));

    let recover = async |vc| membership.recover(caller, vc, &BTreeSet::new()).await;
    refused!(recover(None), PortError::NotNow(_));
    refused!(recover(Some(DEFAULT_VC)), PortError::NotNow(_));
    refused!(recover(Some(NOBODY)), PortError::NoVc(_));

    refused!(
        membership.create_token(caller, token()),
        PortError::Invalid(_)
    );
    refused!(membership.revoke_token(NOBODY), PortError::NoJoinToken(_));
    assert_eq!(membership.tokens().await.unwrap(), []);
    assert!(membership.view().await.unwrap().solo);
    alarms(membership).await;
}

/// Alarms are in order, and a reader that has all of them gets no more, but those of another start.
async fn alarms(membership: &dyn Membership) {
    let all = membership.alarms(&AlarmsAfter::default()).await.unwrap();
    assert!(!all.boot.is_empty() && !all.dropped);
    let numbers: Vec<u64> = all.alarms.iter().map(|one| one.number).collect();
    assert_eq!(numbers, (1..=all.last).collect::<Vec<u64>>());
    assert!(all.alarms.iter().all(|one| one.boot == all.boot));
    let after = async |boot: &str| {
        let after = AlarmsAfter {
            number: all.last,
            boot: Some(boot.to_owned()),
        };
        membership.alarms(&after).await.unwrap()
    };
    let none = after(&all.boot).await;
    assert_eq!((none.alarms, none.standing), (vec![], all.standing.clone()));
    assert_eq!(after("another start").await, all);
}

/// The membership of a node that is alone, and is so again afterwards. In between it is to be reached
/// from the network.
pub async fn membership(membership: &dyn Membership, caller: &Caller) {
    let cluster = membership.init("prod").await.unwrap();
    refused!(membership.init("test"), PortError::NotNow(_));
    let view = membership.view().await.unwrap();
    assert!(!view.solo);
    assert_eq!(view.cluster.map(|it| it.name), Some(cluster.name));

    let made = membership.create_token(caller, token()).await.unwrap();
    let tokens = membership.tokens().await.unwrap();
    assert_eq!(tokens, std::slice::from_ref(&made.token));
    assert_eq!(made.token.created_by, caller.user.as_str());
    membership.revoke_token(&made.token.id).await.unwrap();
    assert!(membership.tokens().await.unwrap()[0].revoked);
    membership.leave().await.unwrap();
    assert!(membership.view().await.unwrap().solo);
}

fn token() -> NewToken {
    NewToken {
        expires_s: 60,
        uses: 2,
        votes: true,
    }
}

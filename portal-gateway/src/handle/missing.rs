//! Routes of OpenPAI that there is nothing behind. They answer so, rather than 404, for a
//! client would take that for an older server.

use crate::call::Call;
use crate::error::Error;
use crate::reply::Answer;

pub(crate) async fn users(_: Call) -> Answer {
    Err(Error::NotImplemented("changing users over REST"))
}

pub(crate) async fn groups(_: Call) -> Answer {
    Err(Error::NotImplemented("changing groups over REST"))
}

pub(crate) async fn kubernetes(_: Call) -> Answer {
    Err(Error::NotImplemented("Kubernetes"))
}

pub(crate) async fn update_vc(_: Call) -> Answer {
    Err(Error::NotImplementedUpstream("updateVc"))
}

pub(crate) async fn remove_vc(_: Call) -> Answer {
    Err(Error::NotImplementedUpstream("removeVc"))
}

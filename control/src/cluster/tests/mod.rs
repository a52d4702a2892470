//! The cluster's state machine, entry by entry.

mod activation;
mod binding;
mod creations;
mod documents;
mod joining;
mod members;
mod people;
mod records;
mod recovery;
mod replacement;
mod scheduling;
mod tokens;
mod user_tokens;
mod users;
mod world;

use super::ClusterState;

/// The state of a cluster that admitted so many members, some of which were expelled since.
pub(crate) fn members(admitted: u8, expelled: &[u32]) -> ClusterState {
    let mut bench = world::Bench::of(admitted);
    for member in expelled {
        bench.expel(*member).unwrap();
    }
    bench.state
}

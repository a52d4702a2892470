//! How a host goes about it.

use crate::id::{NodeId, StoreId};

/// How a host goes about it. Equal on all nodes but for who they are.
#[derive(Clone, Copy, Debug)]
pub struct HostOptions {
    /// This node.
    pub node: NodeId,
    /// Its log store.
    pub store: StoreId,
    /// Decides in which order replicas lose patience with a silent leader, term by term: the same
    /// on all nodes.
    pub seed: u64,
    /// Length of a tick in milliseconds. All times below are counted in ticks.
    pub tick_ms: u64,
    /// Between two signs of life of a leader.
    pub heartbeat_ticks: usize,
    /// The least patience with a silent leader; the most is less than twice as much. A leader that
    /// hears no majority for so long steps down.
    pub election_ticks: usize,
    /// After which a state that was sent and not acknowledged is sent again.
    pub snapshot_ticks: u64,
    /// Entries after which the state is written as a snapshot and the log cut. A quarter of them
    /// stays for replicas that lag.
    pub log_entries_max: u64,
    /// Bytes of entries after which the same happens. A quarter of them stays at most.
    pub log_bytes_max: usize,
    /// Bytes of entries in one message, and applied at a time.
    pub message_bytes: u64,
    /// Messages with entries on their way to one replica.
    pub messages_in_flight: usize,
    /// Questions of a group without an answer; more are refused as busy.
    pub questions_max: usize,
    /// Bytes of entries that are not yet committed; more are refused as busy.
    pub uncommitted_bytes: u64,
}

impl HostOptions {
    /// For a node: a leader is heard every 240 ms and missed after 480 to 840 ms, with five voters.
    /// At rest these signs of life are most of what a group costs. Two fit into the least patience:
    /// one that is late costs no election.
    pub const fn new(node: NodeId, store: StoreId, seed: u64) -> Self {
        Self {
            node,
            store,
            seed,
            tick_ms: 60,
            heartbeat_ticks: 4,
            election_ticks: 8,
            snapshot_ticks: 84,
            log_entries_max: 4096,
            log_bytes_max: 16 << 20,
            message_bytes: 128 << 10,
            messages_in_flight: 64,
            questions_max: 16_384,
            uncommitted_bytes: 8 << 20,
        }
    }
}

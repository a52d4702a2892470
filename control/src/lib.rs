//! What a virtual cluster and the whole cluster decide, as pure parts. None of them does IO, knows
//! a clock or draws a random number: time comes in as an argument, and everything that looks random
//! is a hash of names, so one input list is one behaviour.
//!
//! - [`vc::VcState`]: the replicated state of one virtual cluster. Every fact about jobs is an
//!   [`vc::VcEntry`] that was made durable and then applied here. Answers all queries on jobs.
//! - [`coordinator::Coordinator`]: the leader's side. Looks at the state and at what nodes
//!   tell, proposes entries and sends orders. Holds nothing that a restart could lose.
//! - [`ledger::Ledger`]: a node's side. The only place where anything is granted. Admits or
//!   refuses orders, remembers what must outlive a crash, tells the executor what to do.
//! - [`lease`]: how long a task may run on a node of which nobody hears anything: the node's side,
//!   and the leader's.
//! - [`node::NodeCore`]: ledger and leases of a node, with whom it tells.
//! - [`groups::GroupHost`]: this node's copies of Raft groups, with the coordinators of those that it
//!   leads.
//! - [`request`]: what agents ask each other.
//! - [`usage_rules`]: how much of a virtual cluster users and groups may have.
//! - [`answers`]: what they answer, as async code over a port.
//! - [`environment`]: the variables that a task is started with.
//! - [`cluster::ClusterState`]: the replicated state of the whole cluster: members, tokens,
//!   documents. Its entries are applied as those of a virtual cluster are; what it says to the
//!   mesh are statements, which the cluster's key signs.
//!
//! # Driving them
//! The caller owns one loop per core. For a virtual cluster's leader:
//! 1. On winning a term: `coordinator.handle(now, &state, Input::Elected { .. }, &mut out)`.
//! 2. Perform `out` in order. `Propose(entry)`: encode it, commit it, `state.apply(index,
//!    &entry)`, then `Input::Applied(..)` with what `apply` returned (rejections too).
//!    `Send`: to that node's ledger. `AskReport`: ask that node for `Tell::Report`.
//! 3. Everything a node tells: `Input::Tell { node, tell }`.
//! 4. Entries proposed by others (a submission, a stop): commit and apply, then
//!    `Input::Applied` just the same.
//! 5. `Input::Tick` when `deadline()` has passed.
//!
//! For a node:
//! 1. `Ledger::recover(identity, records, capacity)`, then `Input::Started`: out come `Adopt` steps.
//!    `Input::Found` says which containers there are: what the ledger does not know is removed first.
//! 2. `Input::Learned` for each virtual cluster that the node serves, with its present term.
//! 3. Orders and the executor's observations go in; perform `out` in order. `Persist`: make
//!    all changes durable in one transaction before the outputs after it. `Tell`: to the leader.
//!    `Step`: to the executor, which answers with `Input::Observed`.
//! 4. `Input::Tick` when `deadline()` has passed; `Input::Report` when a leader asks for a
//!    report.
//!
//! # How a task that never ran ends
//! - It has no place after all (the reservation ended, the node lost it, or cannot be reached): it gets
//!   another one in the next round, and the others keep theirs. Where there is none the round is void,
//!   and the whole gang is stopped and waits for a place again. Users see a `PlacedAgain` event, no
//!   failure. See `docs/decisions/002-rounds.md`.
//! - It cannot be launched: what may be the node's fault, as a taken port (253), a registry that does
//!   not answer (250) or a container that vanished because the agent died at the wrong moment (-101),
//!   is tried on another node three times. Then, or if it is the job's fault, as an image that does not
//!   exist (254), its verdict ends the attempt and the retry policy goes by the exit spec, as with
//!   OpenPAI: 254 fails the job, the others are tried again and not charged, however often; see
//!   [`vc`]'s limits.
//!
//! # Invariants
//! A device or port is granted to one task at a time. A container is made only for a committed
//! `Placed`. No user command runs before `Go` of its own round is committed. An accepted job
//! ends, and only then is forgotten. The simulation in `tests/` checks these after each event.

pub mod answers;
pub mod bound;
pub mod breaker;
pub mod cluster;
pub mod coordinator;
mod entry_bytes;
pub mod environment;
pub mod fence;
pub mod gang;
pub mod groups;
mod launch;
pub mod lease;
pub mod ledger;
pub mod member;
pub mod node;
pub mod now;
pub mod order;
pub mod request;
mod small_map;
pub mod usage_rules;
pub mod vc;
pub mod verdict;

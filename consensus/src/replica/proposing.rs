//! What the leader adds to the log, and who waits for it.
//!
//! Raft sends each proposal to every other copy in a message of its own, and each is acknowledged. So one
//! that comes while others are under way is held, and all that were held go as one: under load a copy
//! is told and answers once a write, however many entries that is of.

use raft::eraftpb::{Entry, Message, MessageType};

use super::{Old, Replica};
use crate::input::Ticket;
use crate::machine::StateMachine;
use crate::membership::{self, ReplicaChange};
use crate::output::{HostOutput, HostRefusal};

impl<M: StateMachine> Replica<M> {
    pub(crate) fn propose(&mut self, ticket: Ticket, entry: Vec<u8>) -> Result<Old, HostRefusal> {
        self.lead()?;
        if entry.is_empty() {
            return Err(HostRefusal::Empty);
        }
        if self.is_under_way() {
            return self.hold_back(ticket, entry);
        }
        let proposed = self.raw.propose(Vec::new(), entry);
        self.wait_for(&[ticket], proposed)
            .map(|old| Old(old.first().copied()))
    }

    pub(crate) fn change(
        &mut self,
        ticket: Ticket,
        changes: &[ReplicaChange],
    ) -> Result<Old, HostRefusal> {
        self.lead()?;
        let fits = self.membership.check(changes, self.raw.store().conf());
        fits.map_err(HostRefusal::Unfit)?;
        let raft = membership::to_raft(changes).ok_or(HostRefusal::Busy)?;
        let proposed = self.raw.propose_conf_change(Vec::new(), raft);
        self.wait_for(&[ticket], proposed)
            .map(|old| Old(old.first().copied()))
    }

    /// As much is held as may be uncommitted: more would only be refused later.
    fn hold_back(&mut self, ticket: Ticket, entry: Vec<u8>) -> Result<Old, HostRefusal> {
        let bytes = self.held_bytes.saturating_add(entry.len() as u64);
        if bytes > self.options.uncommitted_bytes {
            return Err(HostRefusal::Busy);
        }
        self.held_bytes = bytes;
        self.held.push((ticket, entry));
        Ok(Old(None))
    }

    /// All that was held; nothing is from then on.
    pub(super) fn take_held(&mut self) -> Vec<(Ticket, Vec<u8>)> {
        self.held_bytes = 0;
        std::mem::take(&mut self.held)
    }

    /// Whether what was proposed before is neither on the disk here nor committed by others: neither a
    /// slow disk nor slow others hold up what comes next.
    fn is_under_way(&self) -> bool {
        let log = &self.raw.raft.raft_log;
        !self.unwritten.is_empty() && log.committed < log.last_index()
    }

    /// Proposes what was held, if nothing is in its way any more.
    pub(super) fn propose_held(&mut self, out: &mut Vec<HostOutput<M::Output>>) {
        if self.held.is_empty() {
            return;
        }
        if !self.is_leader() {
            let why = HostRefusal::NotLeader(self.leader());
            for (ticket, _) in self.take_held() {
                self.refuse(ticket, why, out);
            }
        } else if !self.is_under_way() {
            let held = self.take_held();
            let (tickets, entries): (Vec<Ticket>, Vec<Entry>) = held
                .into_iter()
                .map(|(ticket, data)| (ticket, says(data)))
                .unzip();
            self.propose_all(&tickets, entries, out);
        }
    }

    /// All of them or, where there is not so much room, as many as there is room for.
    fn propose_all(
        &mut self,
        tickets: &[Ticket],
        entries: Vec<Entry>,
        out: &mut Vec<HostOutput<M::Output>>,
    ) {
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.id.0;
        message.set_entries(entries.clone().into());
        let proposed = self.raw.step(message);
        match self.wait_for(tickets, proposed) {
            Ok(old) => {
                for ticket in old {
                    self.refuse(ticket, HostRefusal::Unknown, out);
                }
            }
            Err(why) if tickets.len() < 2 => {
                for ticket in tickets {
                    self.refuse(*ticket, why, out);
                }
            }
            Err(_) => {
                for (ticket, entry) in tickets.iter().zip(entries) {
                    self.propose_all(&[*ticket], vec![entry], out);
                }
            }
        }
    }

    /// They wait for the last entries of the log. Whose entry had such a place when this replica led
    /// before is given back: it is not told any more whether that was committed, for others may still hold
    /// it.
    fn wait_for(
        &mut self,
        tickets: &[Ticket],
        proposed: raft::Result<()>,
    ) -> Result<Vec<Ticket>, HostRefusal> {
        proposed.map_err(|_| HostRefusal::Busy)?;
        let (term, last) = (self.raw.raft.term, self.raw.raft.raft_log.last_index());
        let places = (0..=last).rev().zip(tickets.iter().rev());
        let old = places.filter_map(|(index, ticket)| self.waiting.insert(index, (term, *ticket)));
        Ok(old.map(|(_, ticket)| ticket).collect())
    }
}

fn says(data: Vec<u8>) -> Entry {
    Entry {
        data: data.into(),
        ..Entry::default()
    }
}

//! Committed entries, one by one, and what they answer.

use raft::eraftpb::{Entry, EntryType};

use super::Replica;
use crate::input::Ticket;
use crate::machine::StateMachine;
use crate::membership;
use crate::output::{HostOutput, HostRefusal};

impl<M: StateMachine> Replica<M> {
    /// Applies the next committed entry, if there is one.
    pub(crate) fn apply_next(&mut self, out: &mut Vec<HostOutput<M::Output>>) -> bool {
        let Some(entry) = self.committed.pop_front() else {
            return false;
        };
        self.apply(entry, out);
        self.tell_applied();
        self.answer_reads(out);
        true
    }

    fn apply(&mut self, entry: Entry, out: &mut Vec<HostOutput<M::Output>>) {
        self.applied = entry.index;
        let waiting = self.waiting.remove(&entry.index);
        let ticket = match waiting {
            Some((term, ticket)) if term == entry.term => Some(ticket),
            Some((_, ticket)) => {
                self.refuse(ticket, HostRefusal::Superseded, out);
                None
            }
            None => None,
        };
        match entry.get_entry_type() {
            EntryType::EntryNormal if entry.data.is_empty() => self.begin(&entry, ticket, out),
            EntryType::EntryNormal => {
                let output = self.machine.apply(entry.index, &entry.data);
                out.push(HostOutput::Applied {
                    group: self.group,
                    index: entry.index,
                    entry: entry.data.into(),
                    ticket,
                    output,
                });
            }
            EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
                self.reconfigure(&entry.data, ticket, out);
            }
        }
    }

    /// A leader's first entry, or what is left of a change that came at a bad time.
    fn begin(
        &mut self,
        entry: &Entry,
        ticket: Option<Ticket>,
        out: &mut Vec<HostOutput<M::Output>>,
    ) {
        if let Some(ticket) = ticket {
            self.refuse(ticket, HostRefusal::Busy, out);
        }
        let term = self.term();
        if self.is_leader() && entry.term == term && self.led != term {
            self.led = term;
            out.push(HostOutput::Leads {
                group: self.group,
                term,
            });
        }
    }

    fn reconfigure(
        &mut self,
        bytes: &[u8],
        ticket: Option<Ticket>,
        out: &mut Vec<HostOutput<M::Output>>,
    ) {
        // Every copy sees the same bytes in the same state, and so comes to the same end.
        match self.make_changes(bytes) {
            Ok(()) => out.push(HostOutput::Changed {
                group: self.group,
                ticket,
            }),
            Err(why) => {
                if let Some(ticket) = ticket {
                    self.refuse(ticket, why, out);
                }
            }
        }
    }

    fn make_changes(&mut self, bytes: &[u8]) -> Result<(), HostRefusal> {
        let (raft, changes) = membership::from_raft(bytes).ok_or(HostRefusal::Busy)?;
        let leaves_joint = changes.is_empty();
        if !leaves_joint {
            let fits = self.membership.check(&changes, self.raw.store().conf());
            fits.map_err(HostRefusal::Unfit)?;
        }
        let conf = self.raw.apply_conf_change(&raft);
        let conf = conf.map_err(|_| HostRefusal::Busy)?;
        for change in changes {
            self.membership.make(change);
        }
        // Whose vote was taken away counts until the last majority that it belongs to has agreed.
        self.membership.keep_only(&conf);
        self.raw.mut_store().set_conf(conf);
        self.removed |= self.membership.is_gone(self.id);
        Ok(())
    }

    /// Raft drops questions that come before the leader's first entry is committed.
    pub(super) fn ask_others(&mut self) {
        if self.asked.is_empty() || !self.raw.raft.commit_to_current_term() {
            return;
        }
        for ticket in std::mem::take(&mut self.asked) {
            self.raw.read_index(ticket.0.to_le_bytes().to_vec());
            self.confirming.push(ticket);
        }
    }

    pub(super) fn confirm(&mut self, index: u64, context: &[u8]) {
        let Ok(number) = context.try_into().map(u64::from_le_bytes) else {
            return;
        };
        let ticket = Ticket(number);
        if let Some(place) = self.confirming.iter().position(|other| *other == ticket) {
            self.confirming.remove(place);
            self.confirmed.push((index, ticket));
        }
    }

    pub(super) fn answer_reads(&mut self, out: &mut Vec<HostOutput<M::Output>>) {
        let (group, applied) = (self.group, self.applied);
        let answered = self
            .confirmed
            .extract_if(.., |(index, _)| *index <= applied);
        out.extend(answered.map(|(_, ticket)| HostOutput::Read { group, ticket }));
    }
}

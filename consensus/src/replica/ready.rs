//! What Raft wants written and said, in an order that keeps its promises.

use protobuf::Message as _;
use raft::eraftpb::{Message, MessageType, Snapshot};

use super::state::{promise, thaw};
use super::{Replica, Sink, Unwritten};
use crate::machine::StateMachine;
use crate::output::{HostOutput, HostRefusal};
use crate::write::StoredChange;

impl<M: StateMachine> Replica<M> {
    /// A write is durable: what waited for it may be said.
    pub(crate) fn written(&mut self, write: u64, messages: &mut Vec<Message>) {
        while let Some(done) = self.unwritten.pop_front_if(|front| front.write <= write) {
            self.raw.on_persist_ready(done.ready);
            messages.extend(done.messages);
        }
        self.tell_applied();
        self.draw();
    }

    /// Performs all that Raft has ready.
    pub(crate) fn flush(&mut self, sink: &mut Sink<'_, M::Output>) {
        self.ask_others();
        self.propose_held(sink.out);
        while self.unreadable.is_none() && self.raw.has_ready() {
            self.perform(sink);
            self.draw();
        }
        self.say_who_leads(sink.out);
        self.cut_log(sink);
    }

    fn perform(&mut self, sink: &mut Sink<'_, M::Output>) {
        let mut ready = self.raw.ready();
        let number = ready.number();
        self.send(ready.take_messages(), sink);
        let mut durable = ready.must_sync();
        if !ready.snapshot().is_empty() {
            let snapshot = ready.snapshot().clone();
            self.restart(&snapshot, sink);
            durable = true;
        }
        let entries = ready.take_entries();
        if let Some(first) = entries.first() {
            let bytes = entries
                .iter()
                .map(|entry| entry.write_to_bytes().unwrap_or_default());
            sink.kept.push(StoredChange::Entries(
                self.group,
                first.index,
                bytes.collect(),
            ));
            self.raw.mut_store().append(&entries);
            durable = true;
        }
        if durable {
            let hard = ready
                .hs()
                .cloned()
                .unwrap_or_else(|| self.raw.raft.hard_state());
            sink.kept
                .push(StoredChange::Promise(self.group, self.id, promise(&hard)));
        }
        let messages = ready.take_persisted_messages();
        let committed = ready.take_committed_entries();
        let reads = ready.take_read_states();
        self.raw.advance_append_async(ready);
        self.hold(durable, number, messages, sink);
        self.committed.extend(committed);
        self.tell_applied();
        for state in reads {
            self.confirm(state.index, &state.request_ctx);
        }
        self.answer_reads(sink.out);
    }

    /// Raft hears of what is applied and durable: a state that was sent is applied before.
    pub(super) fn tell_applied(&mut self) {
        let log = &self.raw.raft.raft_log;
        let applied = self.applied.min(log.persisted);
        if applied > log.applied {
            self.raw.advance_apply_to(applied);
        }
    }

    /// What a follower says rests on what it has written.
    fn hold(
        &mut self,
        durable: bool,
        ready: u64,
        mut messages: Vec<Message>,
        sink: &mut Sink<'_, M::Output>,
    ) {
        match self.unwritten.back_mut() {
            _ if durable => self.unwritten.push_back(Unwritten {
                write: sink.write,
                ready,
                messages,
            }),
            Some(last) => {
                last.ready = ready;
                last.messages.append(&mut messages);
            }
            None => {
                self.raw.on_persist_ready(ready);
                self.send(messages, sink);
            }
        }
    }

    fn send(&mut self, mut messages: Vec<Message>, sink: &mut Sink<'_, M::Output>) {
        let states = messages
            .iter()
            .filter(|m| m.get_msg_type() == MessageType::MsgSnapshot);
        for message in states {
            self.sent.insert(message.to, self.options.snapshot_ticks);
        }
        sink.messages.append(&mut messages);
    }

    /// Takes over the state of another copy.
    fn restart(&mut self, snapshot: &Snapshot, sink: &mut Sink<'_, M::Output>) {
        match thaw(&mut self.machine, snapshot) {
            Ok(membership) => self.membership = membership,
            Err(why) => {
                self.unreadable = Some(why);
                return;
            }
        }
        let index = snapshot.get_metadata().index;
        self.raw.mut_store().restart(snapshot);
        (self.applied, self.snapshot) = (index, index);
        self.committed.clear();
        sink.kept.push(StoredChange::Snapshot {
            group: self.group,
            bytes: snapshot.write_to_bytes().unwrap_or_default(),
            keep: None,
        });
        let later = self.waiting.split_off(&(index + 1));
        for (_, ticket) in std::mem::replace(&mut self.waiting, later).into_values() {
            self.refuse(ticket, HostRefusal::Unknown, sink.out);
        }
        let group = self.group;
        sink.out.push(HostOutput::Restored { group, index });
    }

    /// Keeps the log short, and makes a snapshot for who needs one.
    fn cut_log(&mut self, sink: &mut Sink<'_, M::Output>) {
        let memory = self.raw.store();
        let wanted = memory.wants_snapshot();
        let entries = self.applied - self.snapshot;
        let long = entries >= self.options.log_entries_max
            || (entries > 0 && memory.bytes() > self.options.log_bytes_max);
        if !wanted && !long {
            return;
        }
        let snapshot = self.freeze();
        if long {
            let (entries, bytes) = (
                self.options.log_entries_max / 4,
                self.options.log_bytes_max / 4,
            );
            let keep = self.raw.store().trail(self.applied, entries, bytes);
            sink.kept.push(StoredChange::Snapshot {
                group: self.group,
                bytes: snapshot.write_to_bytes().unwrap_or_default(),
                keep: Some(keep),
            });
            self.snapshot = self.applied;
            self.raw.mut_store().cut(keep - 1);
        }
        if wanted {
            self.offer = self.options.snapshot_ticks;
            self.raw.mut_store().offer(snapshot);
        }
    }
}

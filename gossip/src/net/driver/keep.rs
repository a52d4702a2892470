//! Keeping records, as a port: the agent's disk.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::mesh::MeshOutput;
use crate::record::Record;

/// Records could not be kept. The mesh cannot go on: what it said could be belied by its next
/// start.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep the mesh's records on disk")]
pub struct RecordStoreError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Where records are kept: the newest of each key.
pub trait RecordStore: Send + Sync + 'static {
    /// Keeps these, in order; done when a crash cannot lose them any more.
    ///
    /// # Errors
    /// When they are not safe.
    fn keep(&self, records: Vec<Arc<Record>>) -> BoxFuture<'static, Result<(), RecordStoreError>>;
}

/// Outputs that are not performed yet, because something is being kept first.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Wait for what is being kept now.
    held: Vec<MeshOutput>,
    /// Came since it began to be kept.
    later: Vec<MeshOutput>,
}

/// Outputs that wait for the disk. Beyond that the oldest frames are dropped: cores say again what
/// matters.
const BACKLOG_MAX: usize = 10_000;

impl Backlog {
    /// Takes in outputs in their order.
    pub(super) fn extend(&mut self, outputs: impl IntoIterator<Item = MeshOutput>) {
        self.later.extend(outputs);
    }

    /// What was to be kept is kept: gives back what waited for it.
    pub(super) fn kept(&mut self) -> Vec<MeshOutput> {
        std::mem::take(&mut self.held)
    }

    /// When nothing is being kept: the records to keep next, all that wait. What is kept early is
    /// kept. If there are none nothing has to wait: see [`Backlog::free`].
    pub(super) fn next_records(&mut self) -> Vec<Arc<Record>> {
        let mut records = Vec::new();
        self.later.retain(|output| match output {
            MeshOutput::Keep(record) => {
                records.push(Arc::clone(record));
                false
            }
            _ => true,
        });
        if !records.is_empty() {
            self.held.append(&mut self.later);
        }
        records
    }

    /// When nothing is being kept and nothing is to be: all there is.
    pub(super) fn free(&mut self) -> Vec<MeshOutput> {
        std::mem::take(&mut self.later)
    }

    /// While something is being kept: what need not wait for it.
    pub(super) fn overtaking(&mut self, may: impl Fn(&MeshOutput) -> bool) -> Vec<MeshOutput> {
        let mut now: Vec<MeshOutput> = self.held.extract_if(.., |output| may(output)).collect();
        now.extend(self.later.extract_if(.., |output| may(output)));
        now
    }

    /// Drops the oldest frames beyond the bound; says how many.
    pub(super) fn shed(&mut self) -> usize {
        let before = self.held.len() + self.later.len();
        let mut over = before.saturating_sub(BACKLOG_MAX);
        for waiting in [&mut self.held, &mut self.later] {
            waiting.retain(|output| {
                let drop = over > 0 && matches!(output, MeshOutput::Send { .. });
                over -= usize::from(drop);
                !drop
            });
        }
        before - self.held.len() - self.later.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Ack, Carrier, MeshFrame};
    use crate::key::ClusterId;
    use crate::member::MemberId;
    use crate::net::keys::Ed25519Signer;
    use crate::record::{RecordKey, RecordVersion};

    fn send(to: u32) -> MeshOutput {
        MeshOutput::Send {
            to: MemberId(to),
            carrier: Carrier::Datagram,
            frame: MeshFrame::Ack(Ack { numbers: vec![] }),
        }
    }

    fn receivers(outputs: &[MeshOutput]) -> Vec<u32> {
        let to = |output: &MeshOutput| match output {
            MeshOutput::Send { to, .. } => to.0,
            other => panic!("{other:?}"),
        };
        outputs.iter().map(to).collect()
    }

    fn keep() -> MeshOutput {
        let signer = Ed25519Signer::generate();
        let (cluster, version) = (ClusterId::default(), RecordVersion::default());
        let record = Record::sign(cluster, RecordKey::Cluster, version, &0_u8, &signer);
        MeshOutput::Keep(Arc::new(record.unwrap()))
    }

    #[test]
    fn what_follows_waits_in_order_for_what_it_follows_and_no_longer() {
        let mut backlog = Backlog::default();
        backlog.extend([send(1), keep(), send(2)]);
        assert_eq!(backlog.next_records().len(), 1);
        backlog.extend([send(3), keep(), send(4)]);
        let urgent =
            |output: &MeshOutput| matches!(output, MeshOutput::Send { to, .. } if to.0 == 3);
        assert_eq!(receivers(&backlog.overtaking(urgent)), [3]);
        assert_eq!(receivers(&backlog.kept()), [1, 2]);
        assert_eq!(backlog.next_records().len(), 1);
        assert_eq!(receivers(&backlog.kept()), [4]);
        backlog.extend([send(5)]);
        assert!(backlog.next_records().is_empty());
        assert_eq!(receivers(&backlog.free()), [5]);
    }

    #[test]
    fn a_disk_that_hangs_does_not_fill_the_memory() {
        let mut backlog = Backlog::default();
        backlog.extend([keep(), send(0)]);
        backlog.next_records();
        backlog.extend((1..=10_000).map(send).chain([keep()]));
        assert_eq!(backlog.shed(), 2);
        assert!(backlog.kept().is_empty());
        assert_eq!(backlog.next_records().len(), 1);
        assert_eq!(receivers(&backlog.kept())[0], 2);
    }
}

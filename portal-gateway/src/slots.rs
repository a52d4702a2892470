//! How many connections there may be, and which goes when there are more.
//!
//! Every address has its own number of slots, so that one cannot take those of all. Where they
//! are taken, the connection goes that has been idle longest; where none is idle, a slot of the
//! reserve is left, in which only `/healthz` is answered.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::activity::Activity;

/// Bounds of one kind of slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// In all.
    pub(crate) total: usize,
    /// Of one address.
    pub(crate) per_address: usize,
}

/// Which kind of slot a connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    /// Everything is answered.
    Ordinary,
    /// Only whether the server lives.
    Reserve,
}

/// The slots of one listener.
#[derive(Debug)]
pub(crate) struct Slots {
    ordinary: Bounds,
    reserve: Bounds,
    table: Mutex<SlotTable>,
}

#[derive(Debug, Default)]
struct SlotTable {
    next_id: u64,
    held: HashMap<u64, HeldSlot>,
}

#[derive(Debug)]
struct HeldSlot {
    /// `None` on the agent's socket.
    address: Option<IpAddr>,
    standing: SlotKind,
    activity: Arc<Activity>,
    cut: CancellationToken,
}

/// A connection's slot, free again when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    id: u64,
    pub(crate) standing: SlotKind,
    pub(crate) activity: Arc<Activity>,
    /// Cancelled when the slot went to another connection.
    pub(crate) cut: CancellationToken,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.table().held.remove(&self.id);
    }
}

impl Slots {
    pub(crate) fn new(ordinary: Bounds, reserve: Bounds) -> Arc<Self> {
        Arc::new(Self {
            ordinary,
            reserve,
            table: Mutex::default(),
        })
    }

    /// A slot for a connection taken `now`; `None` if every slot it may have is in use.
    pub(crate) fn admit(self: &Arc<Self>, address: Option<IpAddr>, now: Instant) -> Option<Slot> {
        let mut table = self.table();
        let kinds = [
            (SlotKind::Ordinary, self.ordinary),
            (SlotKind::Reserve, self.reserve),
        ];
        let (standing, _) = kinds
            .into_iter()
            .find(|(standing, bounds)| table.make_room(address, *standing, *bounds))?;
        let id = table.next_id;
        table.next_id += 1;
        let (activity, cut) = (Activity::new(now), CancellationToken::new());
        let held = HeldSlot {
            address,
            standing,
            activity: Arc::clone(&activity),
            cut: cut.clone(),
        };
        table.held.insert(id, held);
        Some(Slot {
            slots: Arc::clone(self),
            id,
            standing,
            activity,
            cut,
        })
    }

    fn table(&self) -> MutexGuard<'_, SlotTable> {
        // Entries are put in and taken out whole.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotTable {
    /// Whether there is room for one more, if need be by closing an idle one.
    fn make_room(&mut self, address: Option<IpAddr>, standing: SlotKind, bounds: Bounds) -> bool {
        let of_kind = |held: &&HeldSlot| held.standing == standing;
        let all = self.held.values().filter(of_kind).count();
        let own = self.held.values().filter(of_kind);
        let own = own.filter(|held| held.address == address).count();
        if own >= bounds.per_address {
            self.close_idle(|held| held.standing == standing && held.address == address)
        } else if all >= bounds.total {
            self.close_idle(|held| held.standing == standing)
        } else {
            true
        }
    }

    /// Closes the connection that has been idle longest among some; false if none is idle.
    fn close_idle(&mut self, among: impl Fn(&HeldSlot) -> bool) -> bool {
        let some = self.held.iter().filter(|(_, held)| among(held));
        let idle = some.filter_map(|(id, held)| Some((held.activity.idle_since()?, *id)));
        let Some((_, id)) = idle.min() else {
            return false;
        };
        if let Some(held) = self.held.remove(&id) {
            held.cut.cancel();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NONE: Bounds = Bounds {
        total: 0,
        per_address: 0,
    };

    fn slots(total: usize, per_address: usize, reserve: Bounds) -> Arc<Slots> {
        Slots::new(Bounds { total, per_address }, reserve)
    }

    fn address(last: u8) -> Option<IpAddr> {
        Some([10, 0, 0, last].into())
    }

    #[tokio::test]
    async fn an_address_closes_its_own_connections_only() {
        let slots = slots(10, 2, NONE);
        let now = Instant::now();
        let at = |ms| now + Duration::from_millis(ms);
        let other = slots.admit(address(2), at(0)).unwrap();
        let first = slots.admit(address(1), at(1)).unwrap();
        let second = slots.admit(address(1), at(2)).unwrap();
        let third = slots.admit(address(1), at(3)).unwrap();
        let cut = [&other, &first, &second, &third].map(|slot| slot.cut.is_cancelled());
        assert_eq!(cut, [false, true, false, false]);
        drop(first);
        assert_eq!(slots.table().held.len(), 3, "counted once");
    }

    #[tokio::test]
    async fn busy_connections_stay_and_the_reserve_is_left() {
        let reserve = Bounds {
            total: 2,
            per_address: 1,
        };
        let slots = slots(2, 2, reserve);
        let now = Instant::now();
        let busy: Vec<_> = (0..2)
            .map(|_| slots.admit(address(1), now).unwrap())
            .collect();
        let turns: Vec<_> = busy.iter().map(|slot| slot.activity.begin()).collect();
        let probe = slots.admit(address(1), now).unwrap();
        assert_eq!(probe.standing, SlotKind::Reserve);
        let newer = slots.admit(address(1), now).unwrap();
        assert!(probe.cut.is_cancelled(), "one of the reserve an address");
        let probing = newer.activity.begin();
        assert!(slots.admit(address(1), now).is_none());
        assert_eq!(
            slots.admit(address(2), now).unwrap().standing,
            SlotKind::Reserve
        );
        drop((turns, probing));
        let last = slots.admit(address(2), now).unwrap();
        assert_eq!(last.standing, SlotKind::Ordinary);
        assert!(busy[0].cut.is_cancelled(), "it has been idle longest");
    }
}

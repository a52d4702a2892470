//! What it costs to keep cells for overdue gangs, many of them one after the other as in a plan.

use super::{BenchError, BenchRun, apply, workload};
use crate::cells::CellEvent;
use crate::decide::keep;
use crate::gang::{GUARANTEED_MIN, Grant};
use crate::random::SplitMix64;

/// Overdue gangs of several machines.
const GANGS: u64 = 64;

impl BenchRun<'_> {
    /// Nanoseconds for one gang, on average. The draws are apart from the workload's, and the
    /// cells are as before afterwards.
    pub(super) fn reservations(&mut self) -> Result<u64, BenchError> {
        let mut random = SplitMix64::new(self.setup.seed);
        let (mut total, mut kept) = (0, Vec::new());
        for number in 0..GANGS {
            let id = self.next + 1 + number;
            let gang = loop {
                let (gang, _) = workload::draw(&mut random, &self.setup, id);
                if gang.pods() > 1 && gang.priority >= GUARANTEED_MIN {
                    break gang;
                }
                if self.setup.opportunistic >= 100 {
                    return Ok(0);
                }
            };
            let start = (self.clock)();
            let placement = keep(&self.cells, &gang);
            total += (self.clock)() - start;
            if let Some(placement) = placement {
                kept.push(gang.id);
                let grant = Grant {
                    placement,
                    ..Grant::default()
                };
                apply(&mut self.cells, CellEvent::Preempting { gang, grant })?;
            }
        }
        for gang in kept {
            apply(&mut self.cells, CellEvent::PreemptionCancelled(gang))?;
        }
        Ok(total / GANGS)
    }
}

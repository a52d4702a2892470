//! Figures of the last day in bounded memory: of the last hour each, of the day before every five minutes.

use std::collections::VecDeque;

/// Points of the last hour, ten seconds apart.
pub(crate) const FINE_MAX: usize = 360;
/// Points of the day before, each of so many fine ones.
pub(crate) const COARSE_MAX: usize = 288;
pub(crate) const FINE_IN_COARSE: usize = 30;

/// A point of a ring.
pub(crate) trait DayPoint: Copy {
    /// One point for several, which are not none, oldest first.
    fn merged(points: &[Self]) -> Self;
}

/// Points of one thing, oldest first.
#[derive(Debug)]
pub(crate) struct DayRing<P> {
    fine: VecDeque<P>,
    coarse: VecDeque<P>,
    /// What goes into the next coarse point.
    gathered: Vec<P>,
}

impl<P> Default for DayRing<P> {
    fn default() -> Self {
        Self {
            fine: VecDeque::new(),
            coarse: VecDeque::new(),
            gathered: Vec::new(),
        }
    }
}

impl<P: DayPoint> DayRing<P> {
    /// Adds the newest point.
    pub(crate) fn push(&mut self, point: P) {
        self.fine.push_back(point);
        if self.fine.len() > FINE_MAX
            && let Some(oldest) = self.fine.pop_front()
        {
            self.gather(oldest);
        }
    }

    /// Takes a point that leaves the fine part into the coarse one.
    fn gather(&mut self, point: P) {
        self.gathered.push(point);
        if self.gathered.len() < FINE_IN_COARSE {
            return;
        }
        self.coarse.push_back(P::merged(&self.gathered));
        self.gathered.clear();
        if self.coarse.len() > COARSE_MAX {
            self.coarse.pop_front();
        }
    }

    /// The newest point.
    pub(crate) fn newest(&self) -> Option<P> {
        self.fine.back().copied()
    }

    /// All points, oldest first.
    pub(crate) fn points(&self) -> impl Iterator<Item = P> {
        let points = self.coarse.iter().chain(&self.gathered).chain(&self.fine);
        points.copied()
    }
}

//! What time it is.

use muster_model::time::Time;

/// What time it is, by two clocks. What is waited for goes by the first: a time of day that is set by an
/// hour makes nobody wait for one. The second is for people, for what admins name by it, and for who comes
/// before whom: whose turn is overdue, and who has run for long enough to be preempted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// By a clock that nobody sets; since when it counts, its owner knows.
    pub steady: Time,
    /// Since the epoch, by the machine's clock.
    pub wall: Time,
}

impl Now {
    /// When the time of day will be this, by the first clock, as far as that can be known.
    pub fn when(self, wall: Time) -> Time {
        Time(self.steady.0.saturating_add(wall.micros_since(self.wall)))
    }
}

/// Both clocks show the same, as in tests.
impl From<Time> for Now {
    fn from(time: Time) -> Self {
        Self {
            steady: time,
            wall: time,
        }
    }
}

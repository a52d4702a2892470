//! What every node thinks of every other, kept up from what nodes report, so that looking at all
//! of it costs nothing.

use muster_gossip::mesh::Reach;
use muster_model::time::Time;

/// A process just started counts as healthy after this, µs: until then others may still hear old
/// news of it.
const SETTLED_US: u64 = 2_000_000;

/// What every node thinks of every other.
#[derive(Debug)]
pub(crate) struct Views {
    nodes: usize,
    reach: Vec<Reach>,
    /// Of each observer: digest of what it thinks of all.
    digests: Vec<u64>,
    /// Of each subject: how many think it cannot be reached.
    against: Vec<u32>,
    /// Of each subject: when its process started; `None` while it is down.
    started: Vec<Option<Time>>,
    /// Whether nodes cannot hear each other, so that nobody is wrongly unreachable.
    pub(crate) excused: bool,
    /// Subjects that cannot be reached though they run.
    pub(crate) excuses: Vec<bool>,
    /// Who was held for unreachable though it was not, and when first.
    pub(crate) wrongs: Vec<(usize, Time)>,
}

impl Views {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            nodes,
            reach: vec![Reach::Alive; nodes * nodes],
            digests: vec![0; nodes],
            against: vec![0; nodes],
            started: vec![None; nodes],
            excused: false,
            excuses: vec![false; nodes],
            wrongs: Vec::new(),
        }
    }

    /// A node's process started.
    pub(crate) fn start(&mut self, node: usize, now: Time) {
        self.started[node] = Some(now);
    }

    /// A node's process is gone, and with it what it thought.
    pub(crate) fn stop(&mut self, node: usize) {
        self.started[node] = None;
        for subject in 0..self.nodes {
            self.set(node, subject, Reach::Alive);
        }
    }

    /// `observer` thinks so of `subject` from now on.
    pub(crate) fn learn(&mut self, now: Time, observer: usize, subject: usize, reach: Reach) {
        let before = self.against[subject];
        self.set(observer, subject, reach);
        if before == 0 && self.against[subject] > 0 && self.healthy(subject, now) {
            self.wrongs.push((subject, now));
        }
    }

    pub(crate) fn reach(&self, observer: usize, subject: usize) -> Reach {
        self.reach[observer * self.nodes + subject]
    }

    /// Digest of what a node thinks of all others.
    pub(crate) fn digest(&self, observer: usize) -> u64 {
        self.digests[observer]
    }

    fn healthy(&self, subject: usize, now: Time) -> bool {
        let settled = |started: Time| now.micros_since(started) >= SETTLED_US;
        !self.excused && !self.excuses[subject] && self.started[subject].is_some_and(settled)
    }

    fn set(&mut self, observer: usize, subject: usize, reach: Reach) {
        let place = &mut self.reach[observer * self.nodes + subject];
        let before = std::mem::replace(place, reach);
        self.digests[observer] ^= share(subject, before) ^ share(subject, reach);
        self.against[subject] -= u32::from(before == Reach::Unreachable);
        self.against[subject] += u32::from(reach == Reach::Unreachable);
    }
}

/// One subject's part in a digest; 0 for whoever is well.
fn share(subject: usize, reach: Reach) -> u64 {
    let level = match reach {
        Reach::Alive => return 0,
        Reach::Suspect => 1,
        Reach::Unreachable => 2,
    };
    let seed = (subject as u64) << 2 | level;
    super::random::Random::new(seed, 99).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_views_have_equal_digests_however_they_came_about() {
        let mut views = Views::new(3);
        views.learn(Time(0), 0, 2, Reach::Suspect);
        views.learn(Time(0), 0, 2, Reach::Unreachable);
        assert_ne!(views.digest(0), views.digest(1));
        views.learn(Time(0), 1, 2, Reach::Unreachable);
        assert_eq!(views.digest(0), views.digest(1));
        views.learn(Time(0), 0, 2, Reach::Alive);
        assert_eq!(views.digest(0), 0);
    }

    #[test]
    fn only_the_healthy_are_wronged() {
        let mut views = Views::new(3);
        let late = Time(10_000_000);
        views.learn(late, 0, 1, Reach::Unreachable);
        views.start(2, Time(0));
        views.learn(late, 0, 2, Reach::Unreachable);
        views.learn(late, 1, 2, Reach::Unreachable);
        assert_eq!(views.wrongs, [(2, late)]);
    }
}

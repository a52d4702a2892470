//! The images that this node gets for tasks right now, and how far each is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use muster_exec::image::OperationStep;
use muster_model::pull::Pull;

/// Pulls under way. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulls(Arc<Mutex<KnownPulls>>);

#[derive(Debug, Default)]
struct KnownPulls {
    last: u64,
    pulls: BTreeMap<u64, (Instant, Pull)>,
}

impl Pulls {
    /// A pull begins. It is known until what this gives is dropped.
    pub(crate) fn begin(&self, image: &str) -> Pulling {
        let mut known = self.known();
        known.last += 1;
        let number = known.last;
        let pull = Pull {
            image: image.to_owned(),
            bytes: 0,
            bytes_total: None,
            layers: 0,
            layers_total: 0,
            for_ms: 0,
        };
        known.pulls.insert(number, (Instant::now(), pull));
        drop(known);
        Pulling {
            pulls: self.clone(),
            number,
        }
    }

    /// All of them; an image that several tasks wait for once, as far as the first of them is.
    pub(crate) fn list(&self) -> Vec<Pull> {
        let known = self.known();
        let mut listed: BTreeMap<&str, Pull> = BTreeMap::new();
        for (since, pull) in known.pulls.values() {
            let for_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            let now = || Pull {
                for_ms,
                ..pull.clone()
            };
            listed.entry(&pull.image).or_insert_with(now);
        }
        listed.into_values().collect()
    }

    fn known(&self) -> MutexGuard<'_, KnownPulls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pull under way.
#[derive(Debug)]
pub(crate) struct Pulling {
    pulls: Pulls,
    number: u64,
}

impl Pulling {
    /// It got on.
    pub(crate) fn step(&self, step: &OperationStep) {
        let mut known = self.pulls.known();
        let Some((_, pull)) = known.pulls.get_mut(&self.number) else {
            return;
        };
        match step {
            OperationStep::Bytes { done, total } => {
                (pull.bytes, pull.bytes_total) = (*done, *total)
            }
            OperationStep::Layers { done, total } => {
                (pull.layers, pull.layers_total) = (*done, *total)
            }
            OperationStep::Ready(_) | OperationStep::Failed(_) => {}
        }
    }
}

impl Drop for Pulling {
    fn drop(&mut self) {
        self.pulls.known().pulls.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_is_listed_once_and_for_as_long_as_it_goes_on() {
        let pulls = Pulls::default();
        let bytes = |done| OperationStep::Bytes {
            done,
            total: Some(9),
        };
        let first = pulls.begin("a:1");
        let second = pulls.begin("a:1");
        let other = pulls.begin("b:1");
        first.step(&bytes(5));
        second.step(&bytes(3));
        other.step(&OperationStep::Layers { done: 1, total: 4 });
        let told = |pull: Pull| (pull.image, pull.bytes, pull.bytes_total, pull.layers_total);
        let listed: Vec<_> = pulls.list().into_iter().map(told).collect();
        let expected = [
            ("a:1".to_owned(), 5, Some(9), 0),
            ("b:1".to_owned(), 0, None, 4),
        ];
        assert_eq!(listed, expected);
        drop((first, other));
        let listed: Vec<_> = pulls.list().into_iter().map(told).collect();
        assert_eq!(listed, [("a:1".to_owned(), 3, Some(9), 0)]);
        drop(second);
        assert!(pulls.list().is_empty());
    }
}

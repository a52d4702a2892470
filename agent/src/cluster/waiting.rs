//! When those who wait for something of a job look at it again.
//!
//! A copy of the log here tells of every entry as it is applied, so that they hear at once. Without one, and
//! where there are very many of them, they ask now and then.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

/// So many are woken by what is applied; more look by the clock.
const WOKEN_MAX: usize = 256;
/// By the clock a job is looked at so often: at first, where it may start and end at once, and at last.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_LAST: Duration = Duration::from_millis(500);
/// The pause after an entry grows by this with every entry that was another job's, up to the limit: in a
/// busy cluster waiting costs no more than so many looks a second.
const GAP_STEP: Duration = Duration::from_micros(500);
const GAP_MAX: Duration = Duration::from_millis(25);

/// Those who wait.
#[derive(Debug)]
pub(super) struct WaitingClients {
    woken: Arc<Semaphore>,
}

impl Default for WaitingClients {
    fn default() -> Self {
        Self {
            woken: Arc::new(Semaphore::new(WOKEN_MAX)),
        }
    }
}

/// The agent is ending.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AgentEnding;

impl WaitingClients {
    /// Somebody begins to wait. `applied` changes with every entry that is applied here.
    pub(super) fn watch(&self, applied: watch::Receiver<u64>) -> WaitingClient {
        WaitingClient {
            applied,
            permit: Arc::clone(&self.woken).try_acquire_owned().ok(),
            pause: PAUSE_FIRST,
            gap: Duration::ZERO,
        }
    }
}

/// One who waits.
#[derive(Debug)]
pub(super) struct WaitingClient {
    applied: watch::Receiver<u64>,
    permit: Option<OwnedSemaphorePermit>,
    pause: Duration,
    gap: Duration,
}

impl WaitingClient {
    /// What is applied from here on is news.
    pub(super) fn mark(&mut self) {
        self.applied.mark_unchanged();
    }

    /// Waits until the job is to be looked at again, at the latest until `end`. The leader has every
    /// entry; the copy of another voter may lag behind and is only a hint.
    pub(super) async fn next(&mut self, leads: bool, end: Instant) -> Result<(), AgentEnding> {
        let now = Instant::now();
        let by_clock = match leads && self.permit.is_some() {
            true => PAUSE_LAST,
            false => self.pause,
        };
        self.pause = (self.pause * 3 / 2).min(PAUSE_LAST);
        let look = end.min(now + by_clock);
        if self.permit.is_none() {
            sleep_until(look).await;
            return Ok(());
        }
        match timeout_at(look, self.applied.changed()).await {
            Err(_) => {
                self.gap = Duration::ZERO;
                Ok(())
            }
            Ok(Err(_)) => Err(AgentEnding),
            Ok(Ok(())) => {
                let gap = self.gap;
                self.gap = (self.gap + GAP_STEP).min(GAP_MAX);
                sleep_until(end.min(Instant::now() + gap)).await;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    #[tokio::test]
    async fn what_is_applied_is_heard_at_once_and_less_so_the_more_there_is() {
        let (applied, told) = watch::channel(0_u64);
        let waiting = WaitingClients::default();
        let mut watch = waiting.watch(told);
        let start = Instant::now();
        for count in 1..=100 {
            watch.mark();
            applied.send_replace(count);
            assert_eq!(watch.next(true, far()).await, Ok(()));
        }
        assert_eq!(watch.gap, GAP_MAX);
        // The sum of the gaps, the last of which are as long as any.
        assert!(start.elapsed() >= GAP_MAX * 70, "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn without_news_it_is_looked_at_by_the_clock() {
        let (_applied, told) = watch::channel(0_u64);
        let waiting = WaitingClients::default();
        let mut watch = waiting.watch(told.clone());
        let start = Instant::now();
        assert_eq!(watch.next(true, far()).await, Ok(()));
        assert!(start.elapsed() >= PAUSE_LAST);
        // Where another node leads, soon at first.
        let mut watch = waiting.watch(told.clone());
        let start = Instant::now();
        assert_eq!(watch.next(false, far()).await, Ok(()));
        assert!(start.elapsed() < PAUSE_LAST, "{:?}", start.elapsed());
        assert!(watch.pause > PAUSE_FIRST);
        let mut late = waiting.watch(told);
        let end = Instant::now() + Duration::from_millis(3);
        assert_eq!(late.next(true, end).await, Ok(()));
        assert!(Instant::now() < end + PAUSE_LAST);
    }

    #[tokio::test]
    async fn the_many_look_by_the_clock_and_leave_room_when_they_go() {
        let (applied, told) = watch::channel(0_u64);
        let waiting = WaitingClients::default();
        let first: Vec<WaitingClient> = (0..WOKEN_MAX)
            .map(|_| waiting.watch(told.clone()))
            .collect();
        let mut more = waiting.watch(told.clone());
        applied.send_replace(1);
        let start = Instant::now();
        assert_eq!(more.next(true, far()).await, Ok(()));
        assert!(start.elapsed() >= PAUSE_FIRST);
        drop(first);
        assert!(waiting.watch(told.clone()).permit.is_some());
        drop(applied);
        let mut last = waiting.watch(told);
        last.mark();
        assert_eq!(last.next(true, far()).await, Err(AgentEnding));
    }
}

//! Whose turn it is on a connection: while the server works nobody may close it, while it waits
//! for the client it is idle.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::Instant;

/// What happens on one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    state: Mutex<ActivityState>,
    /// Rung when a request has ended.
    ended: Notify,
}

#[derive(Debug)]
struct ActivityState {
    /// Requests that have begun and not ended.
    open: u32,
    /// Those of them on which the server works.
    serving: u32,
    /// Whether there ever was a request.
    is_greeted: bool,
    /// When the client was last heard or served. A refused request does not count.
    last: Instant,
}

impl Activity {
    /// Of a connection that was taken `now`.
    pub(crate) fn new(now: Instant) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(ActivityState {
                open: 0,
                serving: 0,
                is_greeted: false,
                last: now,
            }),
            ended: Notify::new(),
        })
    }

    /// Since when the server has waited for the client; `None` while it works for it.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.serving == 0).then_some(state.last)
    }

    /// Returns when the connection is to be closed: `first` after it was taken if there was no
    /// request yet, `between` after the last one otherwise; never during a request.
    pub(crate) async fn overdue(&self, first: Duration, between: Duration) {
        loop {
            match self.deadline(first, between) {
                None => self.ended.notified().await,
                Some(deadline) if deadline <= Instant::now() => return,
                // The end of the first request brings another deadline, which may be sooner.
                Some(deadline) => tokio::select! {
                    () = tokio::time::sleep_until(deadline) => {}
                    () = self.ended.notified() => {}
                },
            }
        }
    }

    fn deadline(&self, first: Duration, between: Duration) -> Option<Instant> {
        let state = self.state();
        let limit = if state.is_greeted { between } else { first };
        (state.open == 0).then(|| state.last + limit)
    }

    /// A request begins.
    pub(crate) fn begin(self: &Arc<Self>) -> Arc<ActiveRequest> {
        let mut state = self.state();
        state.open += 1;
        state.serving += 1;
        state.is_greeted = true;
        Arc::new(ActiveRequest {
            activity: Arc::clone(self),
            is_ours: AtomicBool::new(true),
            counts: AtomicBool::new(true),
        })
    }

    fn state(&self) -> MutexGuard<'_, ActivityState> {
        // Plain numbers: a panic elsewhere cannot have left half of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request under way. It ends when the last clone is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    activity: Arc<Activity>,
    is_ours: AtomicBool,
    counts: AtomicBool,
}

impl ActiveRequest {
    /// The request was refused for its number: it does not keep the connection from being idle.
    pub(crate) fn refuse(&self) {
        self.counts.store(false, Ordering::Relaxed);
    }

    /// The server waits for the client.
    fn theirs(&self) {
        self.turn(false);
    }

    /// The server works.
    fn ours(&self) {
        self.turn(true);
    }

    /// The body of the request and that of its answer may turn at a time: whose turn it is changes together with
    /// the count of it.
    fn turn(&self, is_ours: bool) {
        if self.is_ours.load(Ordering::Relaxed) == is_ours {
            return;
        }
        let mut state = self.activity.state();
        if self.is_ours.swap(is_ours, Ordering::Relaxed) == is_ours {
            return;
        }
        if is_ours {
            state.serving += 1;
        } else {
            state.serving -= 1;
        }
        self.touch(&mut state);
    }

    fn touch(&self, state: &mut ActivityState) {
        if self.counts.load(Ordering::Relaxed) {
            state.last = Instant::now();
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let is_ours = *self.is_ours.get_mut();
        let mut state = self.activity.state();
        state.open -= 1;
        state.serving -= u32::from(is_ours);
        self.touch(&mut state);
        drop(state);
        self.activity.ended.notify_one();
    }
}

/// A request's body: while none of it comes, the server waits for the client.
pub(crate) struct Receiving<B> {
    pub(crate) body: B,
    pub(crate) turn: Arc<ActiveRequest>,
}

impl<B: Body + Unpin> Body for Receiving<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match polled {
            Poll::Pending => self.turn.theirs(),
            Poll::Ready(_) => self.turn.ours(),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body: from the time that a part of it is handed over until the next part is asked
/// for, the server waits for the client. It keeps the length too, or short answers would go out
/// in chunks.
pub(crate) struct TrackedBody<B> {
    body: B,
    turn: Arc<ActiveRequest>,
}

impl<B> TrackedBody<B> {
    pub(crate) fn new(body: B, turn: Arc<ActiveRequest>) -> Self {
        // A handler may answer without having read the whole body of the request.
        turn.ours();
        Self { body, turn }
    }
}

impl<B: Body + Unpin> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match polled {
            Poll::Pending => self.turn.ours(),
            Poll::Ready(_) => self.turn.theirs(),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(20);
    const BETWEEN: Duration = Duration::from_secs(60);

    /// Until the clock shows another time.
    fn tick() -> Instant {
        std::thread::sleep(Duration::from_millis(2));
        Instant::now()
    }

    #[test]
    fn turns_say_who_is_waited_for() {
        let began = Instant::now();
        let activity = Activity::new(began);
        let deadline = || activity.deadline(FIRST, BETWEEN);
        assert_eq!(activity.idle_since(), Some(began));
        assert_eq!(deadline(), Some(began + FIRST));

        let turn = activity.begin();
        assert_eq!((activity.idle_since(), deadline()), (None, None));
        let before = tick();
        turn.theirs();
        assert!(activity.idle_since() >= Some(before));
        assert_eq!(deadline(), None, "during a request");
        turn.ours();
        assert_eq!(activity.idle_since(), None);
        let before = tick();
        drop(turn);
        assert!(activity.idle_since() >= Some(before));
        assert!(deadline() >= Some(before + BETWEEN));
    }

    /// As while an image is imported: the archive comes in, and its progress goes out.
    #[test]
    fn both_bodies_of_a_request_may_turn_at_a_time() {
        let activity = Activity::new(Instant::now());
        let turn = activity.begin();
        let both = std::sync::Barrier::new(2);
        let often = |change: fn(&ActiveRequest)| {
            both.wait();
            (0..500_000).for_each(|_| change(&turn));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| often(ActiveRequest::theirs));
            scope.spawn(|| often(ActiveRequest::ours));
        });
        turn.ours();
        assert_eq!(activity.idle_since(), None);
        drop(turn);
        assert!(activity.idle_since().is_some());
    }

    #[test]
    fn a_refused_request_leaves_a_connection_as_idle_as_it_was() {
        let began = Instant::now();
        let activity = Activity::new(began);
        tick();
        let turn = activity.begin();
        turn.refuse();
        drop(turn);
        assert_eq!(activity.idle_since(), Some(began));
    }
}

//! Several requests under way at a time, and limits of waiting. All futures are polled in order each time that the
//! whole is polled: nothing here depends on which of them woke it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use super::port::CopiesPort;

/// Futures that are under way.
struct Asked<F>(Vec<Option<Pin<Box<F>>>>);

impl<F: Future> Asked<F> {
    fn new(futures: impl IntoIterator<Item = F>) -> Self {
        let futures = futures.into_iter();
        Self(futures.map(|future| Some(Box::pin(future))).collect())
    }

    /// The next output, with the place of its future; none once all have ended.
    async fn next(&mut self) -> Option<(usize, F::Output)> {
        poll_fn(|context| {
            let mut waits = false;
            for (place, slot) in self.0.iter_mut().enumerate() {
                let Some(future) = slot else { continue };
                if let Poll::Ready(output) = future.as_mut().poll(context) {
                    *slot = None;
                    return Poll::Ready(Some((place, output)));
                }
                waits = true;
            }
            match waits {
                true => Poll::Pending,
                false => Poll::Ready(None),
            }
        })
        .await
    }
}

/// What all of these come to, in their order.
pub async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut asked = Asked::new(futures);
    let mut outputs: Vec<Option<F::Output>> = asked.0.iter().map(|_| None).collect();
    while let Some((place, output)) = asked.next().await {
        outputs[place] = Some(output);
    }
    outputs.into_iter().flatten().collect()
}

/// Hands over what these come to, as it comes, until `enough` says so or all have ended. The others are let go.
pub async fn until<F: Future>(
    futures: impl IntoIterator<Item = F>,
    mut enough: impl FnMut(F::Output) -> bool,
) {
    let mut asked = Asked::new(futures);
    while let Some((_, output)) = asked.next().await {
        if enough(output) {
            return;
        }
    }
}

/// What it comes to, if it does within so many milliseconds.
pub async fn within<F: Future>(node: &impl CopiesPort, ms: u64, wanted: F) -> Option<F::Output> {
    let mut wanted = pin!(wanted);
    let mut late = pin!(node.pause(ms));
    poll_fn(|context| match wanted.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => late.as_mut().poll(context).map(|()| None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::ready;
    use std::rc::Rc;
    use std::task::{Context, Waker};

    use super::*;

    /// Ready once the number was let go.
    async fn gate(open: Rc<RefCell<Vec<u32>>>, number: u32) -> u32 {
        poll_fn(|_| match open.borrow().contains(&number) {
            true => Poll::Ready(number),
            false => Poll::Pending,
        })
        .await
    }

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn all_wait_for_the_last_and_keep_their_order() {
        let open = Rc::new(RefCell::new(vec![3]));
        let mut asked = pin!(all([1, 2, 3].map(|number| gate(open.clone(), number))));
        assert_eq!(poll(asked.as_mut()), Poll::Pending);
        open.borrow_mut().push(1);
        assert_eq!(poll(asked.as_mut()), Poll::Pending);
        open.borrow_mut().push(2);
        assert_eq!(poll(asked.as_mut()), Poll::Ready(vec![1, 2, 3]));
    }

    #[test]
    fn nobody_waits_for_more_than_is_enough() {
        let open = Rc::new(RefCell::new(vec![3]));
        let heard = RefCell::new(Vec::new());
        {
            let asked = [1, 2, 3].map(|number| gate(open.clone(), number));
            let mut asked = pin!(until(asked, |number| {
                heard.borrow_mut().push(number);
                heard.borrow().len() == 2
            }));
            assert_eq!(poll(asked.as_mut()), Poll::Pending);
            open.borrow_mut().push(2);
            assert_eq!(poll(asked.as_mut()), Poll::Ready(()));
        }
        assert_eq!(heard.into_inner(), [3, 2]);
        let mut none = pin!(until([ready(1)], |_| false));
        assert_eq!(poll(none.as_mut()), Poll::Ready(()), "all have ended");
    }
}

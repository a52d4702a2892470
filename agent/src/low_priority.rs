//! Long computations on threads that give way to all others.
//!
//! A check of a password takes a core for tens of milliseconds. On the threads of the runtime's pool, which have
//! the priority of those that answer requests, a few logins a second hold up everybody else's requests.

use std::thread;

use rustix::process::setpriority_process;
use tokio::sync::oneshot;

/// The thread's nice value: a tenth of the weight of the others.
const NICE: i32 = 10;

/// Runs `work` on a thread of its own, of low priority. None when the system has no thread to give, or `work`
/// panics.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    let work = move || {
        // On Linux this is the priority of the calling thread alone. Where it is refused, the work is done at
        // the usual one.
        let _ = setpriority_process(None, NICE);
        // A caller that was cancelled does not wait for it.
        let _ = reply.send(work());
    };
    thread::Builder::new()
        .name("low-priority".to_owned())
        .spawn(work)
        .ok()?;
    answer.await.ok()
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[tokio::test]
    async fn work_has_a_low_priority_and_what_asks_for_it_keeps_its_own() {
        let before = getpriority_process(None).unwrap();
        let there = run(|| getpriority_process(None).unwrap()).await;
        assert_eq!(there, Some(NICE));
        assert_eq!(getpriority_process(None).unwrap(), before);
        assert_eq!(run(|| panic!("on purpose")).await, None::<()>);
    }
}

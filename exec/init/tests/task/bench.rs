//! What a task costs beside its own work.

use std::time::{Duration, Instant};

use crate::agent::setup;
use crate::task::{Mode, Task};

/// Generous, for a busy machine: the figure printed is a tenth of it.
const BUDGET: Duration = Duration::from_millis(100);

#[test]
fn handshake_and_report_take_milliseconds() {
    let mut times: Vec<Duration> = (0..20)
        .map(|_| {
            let mut task = Task::start(Mode::Process);
            let begin = Instant::now();
            task.agent().launch(setup("true"));
            assert_eq!(task.agent().wait_exit().code, 0);
            begin.elapsed()
        })
        .collect();
    times.sort();
    println!(
        "hello to exit of `true`: p50 {:?}, p90 {:?}",
        times[10], times[18]
    );
    assert!(times[10] < BUDGET, "{times:?}");
}

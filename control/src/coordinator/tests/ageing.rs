//! Ended jobs are forgotten after their time.

use super::*;
use crate::vc::FINISHED_HOURS_MAX;

const HOUR_MS: u64 = 60 * 60 * 1_000;

impl Bench {
    /// An hour has passed. What the leader does then.
    fn hour(&mut self) -> String {
        self.now = self.now.plus_millis(HOUR_MS);
        self.input(CoordinatorInput::Tick);
        self.heard()
    }
}

#[test]
fn whoever_leads_counts_the_hours_where_anything_grows_older() {
    let mut bench = Bench::new();
    assert_eq!(bench.hour(), "", "nothing has ended");
    bench.ready();
    for name in ["n1", "n2"] {
        bench.stands(name, &ended(0));
    }
    assert_eq!(bench.state(), JobState::Succeeded);
    bench.heard();
    bench.now = bench.now.plus_millis(HOUR_MS - 1);
    bench.input(CoordinatorInput::Tick);
    assert_eq!(bench.heard(), "");
    let due = bench.coordinator.deadline().unwrap();
    assert!(due <= bench.now.plus_millis(1), "{due:?}");
    bench.now = bench.now.plus_millis(1);
    bench.input(CoordinatorInput::Tick);
    assert_eq!(bench.heard(), "HourPassed");
    // Another one, with a copy of the state, counts from the beginning of the hour.
    bench.state = VcState::restore(&bench.state.snapshot()).unwrap();
    bench.elect();
    bench.heard();
    bench.now = bench.now.plus_millis(HOUR_MS - 1);
    bench.input(CoordinatorInput::Tick);
    assert_eq!(bench.heard(), "");
    for _ in 1..FINISHED_HOURS_MAX {
        assert_eq!(bench.hour(), "HourPassed");
    }
    assert!(
        bench.state.job_id(&key("x")).is_some(),
        "as old as it may be"
    );
    assert_eq!(bench.hour(), "HourPassed");
    assert_eq!(bench.state.job_id(&key("x")), None, "its name is free");
    assert_eq!(bench.hour(), "", "nothing is left");
}

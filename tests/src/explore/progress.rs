//! Words to whoever waits for a long search.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use stateright::Model;
use stateright::report::{ReportData, ReportDiscovery, Reporter};

/// Between two words.
const PAUSE: Duration = Duration::from_secs(10);
/// Between two looks at whether the search is over.
const LOOK: Duration = Duration::from_millis(50);

/// When was said last how far the search of a case is.
#[derive(Debug)]
pub(super) struct SearchProgress {
    case: &'static str,
    said: Instant,
}

impl SearchProgress {
    /// A search that begins now.
    pub(super) fn new(case: &'static str) -> Self {
        Self {
            case,
            said: Instant::now(),
        }
    }
}

impl<M: Model> Reporter<M> for SearchProgress {
    fn report_checking(&mut self, data: ReportData) {
        if self.said.elapsed() >= PAUSE {
            self.said = Instant::now();
            let thousands = data.unique_states / 1_000;
            eprintln!(
                "{}: {} s, {thousands} thousand states, depth {}",
                self.case,
                data.duration.as_secs(),
                data.max_depth,
            );
        }
    }

    fn report_discoveries(&mut self, _: &M, _: BTreeMap<&'static str, ReportDiscovery<M>>) {}

    fn delay(&self) -> Duration {
        LOOK
    }
}

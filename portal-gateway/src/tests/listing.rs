//! Long lists, of which only the first rows are sent.

use muster_model::state::{JobState, SubState};
use muster_model::view::JobSummary;

use super::setup::summary;
use muster_model::job_order::JobOrder;
use muster_model::job_query::{First, JobFilter, JobQuery};

/// So many jobs, some submitted at the same time, a third of them completed.
fn jobs(count: u64) -> Vec<JobSummary> {
    let job = |nth: u64| JobSummary {
        submitted: nth * 7_919 % 100,
        retries: muster_model::view::Retries {
            total: u32::try_from(nth % 5).unwrap(),
            ..Default::default()
        },
        ..summary(
            &format!("alice~job{nth}"),
            match nth % 3 {
                0 => SubState::Completed,
                _ => SubState::AttemptCreationPending,
            },
        )
    };
    (0..count).map(job).collect()
}

#[test]
fn the_first_rows_are_those_of_the_whole_list() {
    let all = jobs(1_000);
    for text in ["submissionTime,DESC", "retries,ASC", "jobName,DESC"] {
        let order = JobOrder::parse(text).unwrap();
        let sorted = |mut jobs: Vec<JobSummary>| {
            jobs.sort_unstable_by(|a, b| order.compare(a, b));
            jobs
        };
        for states in [Vec::new(), vec![JobState::Waiting]] {
            let filter = JobFilter {
                states,
                ..JobFilter::default()
            };
            let whole = JobQuery {
                filter: filter.clone(),
                first: None,
                reasons: false,
            };
            let (whole, count_of_all) = whole.take(all.iter().cloned());
            let whole = sorted(whole);
            assert_eq!(whole.len(), count_of_all);
            for count in [0, 1, 50, 127, 128, 400, 5_000] {
                let first = Some(First { order, count });
                let query = JobQuery {
                    filter: filter.clone(),
                    first,
                    reasons: false,
                };
                let (found, total) = query.take(all.iter().cloned());
                assert_eq!(total, count_of_all);
                assert_eq!(
                    sorted(found),
                    whole[..count.min(whole.len())],
                    "{text} {count}"
                );
            }
        }
    }
}

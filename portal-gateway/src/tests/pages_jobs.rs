//! The list of jobs: what is done with several of them, and what the page says of it.

use muster_model::state::{ExecutionType, SubState};

use super::pages::{page, send};
use super::setup::*;

fn with_jobs() -> Setup {
    let setup = Setup::new();
    for name in ["ann~one", "ann~two", "admin~other"] {
        setup.fake.put(placed(name, SubState::AttemptRunning));
    }
    setup.fake.put(ended("ann~over", &failure(1)));
    setup
}

async fn execution(setup: &Setup, name: &str) -> ExecutionType {
    let job = setup
        .get(ADMIN, &format!("/api/muster/v1/jobs/{name}"))
        .await;
    serde_json::from_value(job.json()["summary"]["execution_type"].clone()).unwrap()
}

#[tokio::test]
async fn several_jobs_are_stopped_at_once_and_the_next_page_says_so() {
    let setup = with_jobs();
    let fields = "action=stop&job=ann~one&job=ann~two";
    let answer = send(&setup, "ann-token", "/jobs?user=ann&page=1", fields).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    assert_eq!(
        answer.header("location"),
        "/jobs?user=ann&page=1&stopping=2"
    );
    let text = page(&setup, "ann-token", answer.header("location")).await;
    assert!(text.contains("2 jobs are being stopped."), "{text}");
    // The next form goes back to the same filters, without the notice.
    assert!(
        text.contains("action=\"/jobs?user=ann&amp;page=1\""),
        "{text}"
    );
    assert_eq!(execution(&setup, "ann~two").await, ExecutionType::Stop);
    let tagged = send(
        &setup,
        "ann-token",
        "/jobs",
        "action=tag&tag=x&job=ann~over",
    )
    .await;
    assert_eq!(tagged.header("location"), "/jobs?tagged=1");
    let text = page(&setup, "ann-token", "/jobs?tagged=1").await;
    assert!(text.contains("1 job was tagged."), "{text}");
}

#[tokio::test]
async fn what_could_not_be_stopped_is_told_beside_what_is() {
    let setup = with_jobs();
    let fields = "action=stop&job=ann~one&job=admin~other&job=ann~over";
    let answer = send(&setup, "ann-token", "/jobs", fields).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    for part in [
        "1 job is being stopped.",
        "1 was not: admin~other: ",
        "1 had ended already: ann~over",
        "Mark all jobs",
    ] {
        assert!(answer.text().contains(part), "{part}: {}", answer.text());
    }
    assert!(!answer.text().contains("That did not work"));
    // It would be gone when the page is written anew.
    assert!(!answer.text().contains("data-refresh"));
    assert_eq!(execution(&setup, "ann~one").await, ExecutionType::Stop);
    assert_eq!(execution(&setup, "ann~over").await, ExecutionType::Start);
    let none = send(&setup, "ann-token", "/jobs", "action=stop&job=admin~other").await;
    assert_eq!(none.status, 400);
    assert!(
        none.text().contains("1 could not be changed: admin~other"),
        "{}",
        none.text()
    );
}

#[tokio::test]
async fn a_form_without_marked_jobs_leads_to_the_list_again() {
    let setup = with_jobs();
    let answer = send(&setup, "ann-token", "/jobs?user=ann", "action=stop").await;
    assert_eq!(answer.header("location"), "/jobs?user=ann&unmarked=1");
    let text = page(&setup, "ann-token", answer.header("location")).await;
    assert!(text.contains("No job was marked"), "{text}");
    // What an address says is a number or nothing.
    let forged = page(
        &setup,
        "ann-token",
        "/jobs/ann~one?notice=Send+me+your+password",
    )
    .await;
    assert!(!forged.contains("password"), "{forged}");
    let forged = super::pages::ask(&setup, "ann-token", "GET", "/jobs?stopping=all", "").await;
    assert_eq!(forged.status, 400);
}

#[tokio::test]
async fn only_jobs_that_the_user_may_change_can_be_marked() {
    let setup = with_jobs();
    let box_of = |name: &str| format!("name=\"job\" value=\"{name}\"");
    let text = page(&setup, "ann-token", "/jobs").await;
    assert!(
        text.contains(&box_of("ann~one")) && text.contains(&box_of("ann~over")),
        "{text}"
    );
    assert!(!text.contains(&box_of("admin~other")), "{text}");
    let text = page(&setup, "admin-token", "/jobs").await;
    assert!(text.contains(&box_of("ann~one")), "{text}");
}

#[tokio::test]
async fn one_job_that_is_stopped_or_tagged_says_so() {
    let setup = with_jobs();
    for (fields, code, told) in [
        ("action=stop", "stopping", "The job is being stopped."),
        ("action=tag&tag=x", "tagged", "The tag was set."),
        ("action=untag&tag=x", "untagged", "The tag was taken away."),
    ] {
        let answer = send(&setup, "ann-token", "/jobs/ann~one", fields).await;
        let place = format!("/jobs/ann%7Eone?notice={code}");
        assert_eq!(answer.header("location"), place);
        let text = page(&setup, "ann-token", &place).await;
        assert!(text.contains(told), "{text}");
    }
}

#[tokio::test]
async fn the_list_leads_to_ones_own_jobs_and_says_why_they_fail_or_wait() {
    let setup = with_jobs();
    let mut waits = waiting("ann~waits");
    waits.summary.waiting_for = Some("needs 1 device".to_owned());
    setup.fake.put(waits);
    let text = page(&setup, "ann-token", "/jobs").await;
    for part in [
        "<a href=\"/jobs?user=ann\">Show mine</a>",
        "<option value=\"default\">default</option>",
        "<div class=\"dim\">exit code 1</div>",
        "<div class=\"dim\">needs 1 device</div>",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = page(&setup, "ann-token", "/jobs?user=ann&vc=default").await;
    assert!(!text.contains("Show mine"), "{text}");
    assert!(
        text.contains("<option value=\"default\" selected>default</option>"),
        "{text}"
    );
    // One that is gone stays chosen.
    let text = page(&setup, "ann-token", "/jobs?vc=gone").await;
    assert!(
        text.contains("<option value=\"gone\" selected>gone</option>"),
        "{text}"
    );
}

//! Which users see which jobs, on every route.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use http::Method;
use muster_model::policy::{AccessPolicy, JobVisibility};
use muster_model::sight::JobSight;
use muster_model::state::SubState;
use muster_model::view::JobEvent;
use serde_json::{Value, json};

use super::setup::*;
use crate::log_link::LogLocation;
use crate::port::{Caller, JobReader, Jobs as _, LogRange, LogWish, Logs as _, UserView};
use crate::route::{ROUTES, Route};

const BOB: &str = "Bearer bob-token";
const CAT: &str = "Bearer cat-token";
const OWN: &str = "/api/muster/v1";

fn policy(text: &str) -> AccessPolicy {
    let policy = muster_model::policy::ClusterPolicy::read(&format!("access: {text}"));
    policy.unwrap().access
}

fn visible(jobs: JobVisibility) -> AccessPolicy {
    AccessPolicy {
        jobs,
        ..AccessPolicy::default()
    }
}

/// The job `bob~hush` runs in `lab`, of which bob and cat have a group. ann is a stranger.
fn lab() -> Setup {
    let setup = Setup::new();
    setup.fake.grant_vc("lab".parse().unwrap());
    for name in ["bob", "cat"] {
        let view = UserView {
            name: name.parse().unwrap(),
            email: String::new(),
            groups: ["default", "lab"].map(|it| it.parse().unwrap()).into(),
            extension: json!({}),
            admin: false,
            vcs: Vec::new(),
            storages: Vec::new(),
            revision: 1,
        };
        setup.fake.add_user("password", view);
        let caller = Caller {
            user: name.parse().unwrap(),
            admin: false,
            application: false,
        };
        setup.fake.add_token(&format!("{name}-token"), caller);
    }
    put(&setup, "bob~hush", "lab");
    let uid = "a-0".parse().unwrap();
    setup.fake.write_log(&uid, "stdout", "hush\n");
    setup
}

fn put(setup: &Setup, name: &str, vc: &str) {
    let mut job = placed(name, SubState::AttemptRunning);
    job.summary.vc = vc.parse().unwrap();
    setup.fake.put(job);
}

/// The path of a route with bob's job in it.
fn path_of(route: &Route) -> String {
    let words = route.pattern.split('/').map(|word| match word {
        ":job" => "bob~hush",
        ":user" => "bob",
        ":name" if is_of_job(route) => "hush",
        ":attempt" | ":index" | ":task" => "0",
        ":role" => "worker",
        ":file" => "stdout",
        ":node" | ":member" => "n1",
        ":vc" => "lab",
        ":document" => "failure-rules",
        "*" => "x",
        word => word
            .trim_start_matches(':')
            .rsplit('|')
            .next()
            .unwrap_or(word),
    });
    format!("/{}", words.collect::<Vec<_>>().join("/"))
}

fn method_of(route: &Route) -> Method {
    route.method.clone().unwrap_or(Method::GET)
}

/// Whether a route is about one job, or the jobs of one user.
fn is_of_job(route: &Route) -> bool {
    let of_user = route.pattern.contains(":user") && route.pattern.contains("/jobs");
    route.pattern.contains(":job") || of_user
}

/// Whether a route leads into a task.
fn is_entered(route: &Route) -> bool {
    route.pattern.ends_with("/exec") || route.pattern.ends_with("/ports/:port")
}

/// A body that every route takes which changes a job.
fn body_of(route: &Route) -> &'static str {
    match route.pattern {
        pattern if pattern.ends_with("executionType") => r#"{"value":"STOP"}"#,
        pattern if pattern.ends_with("tag") => r#"{"value":"mine"}"#,
        _ => "",
    }
}

/// What says the same of every job, whether there is one or not.
const SAYS_NOTHING: [&str; 1] = ["api/v2/jobs/:job/job-attempts/healthz"];

#[tokio::test]
async fn no_route_shows_or_changes_a_private_job_for_a_stranger() {
    let setup = lab();
    setup.fake.set_access(visible(JobVisibility::Private));
    let mut walked = BTreeSet::new();
    for route in ROUTES.iter().filter(|route| is_of_job(route)) {
        if SAYS_NOTHING.contains(&route.pattern) {
            continue;
        }
        let (method, path) = (method_of(route), path_of(route));
        for who in [ANN, PROGRAM, CAT] {
            let answer = setup
                .send(who, method.as_str(), &path, body_of(route))
                .await;
            let at = format!("{method} {path}: {}", answer.text());
            assert_eq!(answer.status, 403, "{at}");
            assert_eq!(answer.json()["code"], "ForbiddenUserError", "{at}");
        }
        let guest = setup.guest(method.as_str(), &path).await;
        assert_eq!(guest.status, 401, "{method} {path}");
        walked.insert(route.pattern);
    }
    assert!(walked.len() >= 20, "{walked:?}");
}

#[tokio::test]
async fn no_other_route_names_a_private_job_to_a_stranger() {
    let setup = lab();
    setup.fake.set_access(visible(JobVisibility::Private));
    let mut here = node();
    here.tasks[0].job = "bob~hush".to_owned();
    here.tasks[0].vc = "lab".parse().unwrap();
    here.problems = vec!["the port is taken by job bob~hush".to_owned()];
    setup.fake.set_node(here);
    setup.fake.run_on("n1", &[("bob~hush", "worker:0")]);
    let mut shown = 0;
    for route in ROUTES.iter().filter(|route| !is_of_job(route)) {
        if method_of(route) != Method::GET {
            continue;
        }
        let path = path_of(route);
        let answer = setup.get(ANN, &path).await;
        let headers = format!("{:?}", answer.headers);
        for text in [answer.text(), &headers] {
            assert!(!text.contains("hush"), "{path}: {text}");
        }
        shown += usize::from(answer.status == 200);
    }
    assert!(shown >= 15, "only {shown} routes answered");
    let page = setup.guest("GET", "/status").await;
    assert!(
        page.text().contains("a job of another user"),
        "{}",
        page.text()
    );
    let tasks = format!("{OWN}/cluster/members/n1/tasks");
    let hidden = json!([{"job": null, "task": null}]);
    assert_eq!(setup.get(ANN, &tasks).await.json(), hidden);
    for who in [BOB, ADMIN] {
        let named = json!([{"job": "bob~hush", "task": "worker:0"}]);
        assert_eq!(setup.get(who, &tasks).await.json(), named);
    }
    // Where the policy shows jobs to all, the page names them as before.
    setup.fake.set_access(visible(JobVisibility::Public));
    let page = setup.guest("GET", "/status.json").await;
    assert!(page.text().contains("bob~hush"), "{}", page.text());
}

#[tokio::test]
async fn each_sees_what_the_virtual_cluster_lets_them_and_owners_and_admins_alone_change() {
    use JobVisibility::{Group, Private, Public};
    let setup = lab();
    for (visibility, who, sees) in [
        (Public, ANN, true),
        (Public, CAT, true),
        (Group, ANN, false),
        (Group, PROGRAM, false),
        (Group, CAT, true),
        (Private, ANN, false),
        (Private, CAT, false),
        (Private, BOB, true),
        (Private, ADMIN, true),
        (Group, BOB, true),
        (Public, ADMIN, true),
    ] {
        let access = AccessPolicy {
            vcs: [("lab".parse().unwrap(), visibility)].into(),
            ..AccessPolicy::default()
        };
        setup.fake.set_access(access);
        for route in ROUTES.iter().filter(|route| is_of_job(route)) {
            let (method, path) = (method_of(route), path_of(route));
            if SAYS_NOTHING.contains(&route.pattern) || method == Method::POST {
                continue;
            }
            let may = match method {
                Method::GET if !is_entered(route) => sees,
                _ => who == BOB || who == ADMIN,
            };
            let path = match path.ends_with("/wait") {
                true => format!("{path}?timeout_ms=1"),
                false => path,
            };
            let answer = setup
                .send(who, method.as_str(), &path, body_of(route))
                .await;
            let is_refused = answer.status == 403;
            let at = format!("{visibility:?} {who} {method} {path}: {}", answer.text());
            assert_eq!(is_refused, !may, "{at}");
        }
    }
    let (all, hush) = (JobSight::All, key("bob~hush"));
    let job = setup.fake.job(&all, &hush, None);
    assert!(job.await.unwrap().value.summary.tags.is_empty());
}

#[tokio::test]
async fn a_job_that_is_not_there_is_not_found_by_anybody() {
    let setup = lab();
    setup.fake.set_access(visible(JobVisibility::Private));
    for path in ["bob~none", "bob~none/config", "none~none/events"] {
        let answer = setup.get(ANN, &format!("/api/v2/jobs/{path}")).await;
        assert_eq!(answer.json()["code"], "NoJobError", "{path}");
    }
}

fn names(list: &Value) -> Vec<&str> {
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn lists_count_what_is_seen_and_name_what_is_not() {
    let setup = lab();
    for nth in 0..4 {
        put(&setup, &format!("bob~more{nth}"), "lab");
        put(&setup, &format!("bob~open{nth}"), "default");
    }
    put(&setup, "ann~own", "lab");
    setup.fake.set_access(policy("{vcs: {lab: private}}"));
    let list =
        async |who: &str, query: &str| setup.get(who, &format!("/api/v2/jobs?{query}")).await;
    let page = list(
        ANN,
        "order=jobName,ASC&offset=1&limit=2&withTotalCount=true",
    )
    .await;
    assert_eq!(page.json()["totalCount"], 5);
    assert_eq!(names(&page.json()["data"]), ["open1", "open2"]);
    assert_eq!(page.header("x-muster-hidden"), "lab=private");
    let exposed = page.header("access-control-expose-headers");
    assert!(exposed.contains("X-Muster-Hidden"), "{exposed}");
    // The older paths, the own API, and admins.
    for path in ["/api/v1/jobs", "/api/muster/v1/jobs"] {
        let answer = setup.get(ANN, path).await;
        assert_eq!(answer.json().as_array().unwrap().len(), 5, "{path}");
        assert_eq!(answer.header("x-muster-hidden"), "lab=private", "{path}");
    }
    let all = list(ADMIN, "withTotalCount=true").await;
    assert_eq!(all.json()["totalCount"], 10);
    assert_eq!(all.header("x-muster-hidden"), "");
    // Of a group that has the virtual cluster nothing is hidden.
    setup.fake.set_access(policy("{vcs: {lab: group}}"));
    let mate = list(CAT, "withTotalCount=true").await;
    assert_eq!(
        (mate.header("x-muster-hidden"), &mate.json()["totalCount"]),
        ("", &json!(10))
    );
    let stranger = list(ANN, "").await;
    assert_eq!(stranger.header("x-muster-hidden"), "lab=group");
}

#[tokio::test]
async fn a_list_of_hidden_jobs_is_refused_and_never_empty() {
    let setup = lab();
    put(&setup, "ann~own", "lab");
    put(&setup, "ann~other", "default");
    setup.fake.set_access(policy("{vcs: {lab: group}}"));
    for path in [
        "/api/v2/jobs?vc=lab",
        "/api/v2/jobs?vc=default,lab",
        "/api/v1/jobs?vc=lab&username=ann,bob",
        "/api/v2/jobs?username=bob",
        "/api/v1/user/bob/jobs",
        "/api/muster/v1/jobs?username=bob&vc=lab",
    ] {
        let answer = setup.get(ANN, path).await;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        let message = answer.json()["message"].to_string();
        for part in ["lab", "muster user set ann --group +lab", "username=ann"] {
            assert!(message.contains(part), "{path}: {message}");
        }
    }
    for path in [
        "/api/v2/jobs?vc=lab&username=ann",
        "/api/v1/user/ann/jobs?vc=lab",
    ] {
        let answer = setup.get(ANN, path).await;
        assert_eq!(names(&answer.json()), ["own"], "{path}");
        assert_eq!(answer.header("x-muster-hidden"), "", "{path}");
    }
    // Of bob's jobs in other virtual clusters nothing is kept.
    put(&setup, "bob~open", "default");
    let answer = setup.get(ANN, "/api/v2/jobs?username=bob").await;
    assert_eq!(names(&answer.json()), ["open"]);
    assert_eq!(answer.header("x-muster-hidden"), "lab=group");
}

const LINKS: &str = "/api/v2/jobs/bob~hush/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs";

/// The link to a log that a user is given.
async fn link(setup: &Setup, who: &str) -> String {
    let list = setup.get(who, LINKS).await.json();
    list["locations"][0]["uri"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_link_opens_what_its_user_sees_when_it_is_used() {
    let setup = lab();
    let (stranger, mate) = (link(&setup, ANN).await, link(&setup, CAT).await);
    let (owner, admin) = (link(&setup, BOB).await, link(&setup, ADMIN).await);
    let open = async |uri: &str| setup.guest("GET", uri).await.status.as_u16();
    for uri in [&stranger, &mate, &owner, &admin] {
        assert_eq!(open(uri).await, 200);
    }
    setup.fake.set_access(visible(JobVisibility::Group));
    assert_eq!((open(&stranger).await, open(&mate).await), (403, 200));
    let files = stranger.replace("/logs/stdout?", "/logs?");
    assert_eq!(open(&files).await, 403);
    // Their right ends with the group, and with the user.
    let out = r#"{"groupname":"lab"}"#;
    let left = setup
        .send(ADMIN, "DELETE", "/api/v2/users/cat/group", out)
        .await;
    assert_eq!(left.status, 201, "{}", left.text());
    assert_eq!(open(&mate).await, 403);
    setup.fake.set_access(visible(JobVisibility::Private));
    assert_eq!((open(&owner).await, open(&admin).await), (200, 200));
    setup.send(ADMIN, "DELETE", "/api/v2/users/bob", "").await;
    assert_eq!((open(&owner).await, open(&admin).await), (403, 200));
}

#[tokio::test]
async fn the_user_of_a_link_cannot_be_changed() {
    let place = |reader: Option<&str>| LogLocation {
        uid: "a-0".parse().unwrap(),
        node: None,
        job: key("bob~hush"),
        vc: "lab".parse().unwrap(),
        reader: reader.map(|reader| reader.parse().unwrap()),
    };
    let config = config();
    let log_key = config.log_link_key.borrow().clone();
    let sign = |reader| crate::log_link::sign(&log_key, &place(reader), u64::MAX).unwrap();
    let (own, root) = (sign(Some("ann")), sign(None));
    let (_, signature) = own.rsplit_once('.').unwrap();
    let (claims, _) = root.rsplit_once('.').unwrap();
    let setup = lab();
    setup.fake.set_access(visible(JobVisibility::Private));
    for (token, status) in [
        (format!("{claims}.{signature}"), 403),
        (own, 403),
        (root, 200),
    ] {
        let path = format!("/log-manager/n1/api/v1/logs/stdout?token={token}");
        assert_eq!(setup.guest("GET", &path).await.status, status, "{token}");
    }
}

#[tokio::test]
async fn a_log_that_is_followed_breaks_off_when_the_policy_changes() {
    let setup = lab();
    let (vc, owner) = ("lab".parse().unwrap(), "bob".parse().unwrap());
    let reader = |name: &str| JobReader::User(name.parse().unwrap());
    let fake = &setup.fake;
    let until = |name: &str| fake.until_hidden(&reader(name), &vc, &owner);
    let wish = LogWish {
        range: LogRange::All,
        follow: true,
        whole: false,
    };
    let slice = fake
        .read(&"a-0".parse().unwrap(), "stdout", wish)
        .await
        .unwrap();
    let endless = Box::pin(slice.body.chain(futures::stream::pending()));
    let mut body = crate::handle::logs::while_seen(endless, until("ann"));
    assert!(body.next().await.unwrap().is_ok());
    assert!(body.next().await.unwrap().is_ok());
    fake.set_access(visible(JobVisibility::Private));
    let broken = body.next().await.unwrap().unwrap_err();
    assert!(broken.to_string().contains("may not see"), "{broken}");
    // What ends by itself ends well, and its owner reads on.
    let slice = fake
        .read(&"a-0".parse().unwrap(), "stdout", wish)
        .await
        .unwrap();
    let whole: Vec<_> = crate::handle::logs::while_seen(slice.body, until("bob"))
        .collect()
        .await;
    assert!(whole.len() == 2 && whole.iter().all(Result::is_ok));
}

#[tokio::test]
async fn who_waits_for_a_job_is_not_told_of_it_after_the_policy_changed() {
    let setup = lab();
    let path = format!("{OWN}/jobs/bob~hush/wait?timeout_ms=300");
    let (answer, ()) = tokio::join!(setup.get(ANN, &path), async {
        tokio::task::yield_now().await;
        setup.fake.set_access(visible(JobVisibility::Private));
    });
    assert_eq!(answer.status, 403, "{}", answer.text());
}

#[tokio::test]
async fn events_and_configurations_are_those_of_the_owner_again_at_once() {
    let setup = lab();
    let event = JobEvent {
        uid: "e".to_owned(),
        attempt_uid: None,
        task: None,
        warning: false,
        reason: "Placed".to_owned(),
        message: "hush".to_owned(),
        first: 1,
        last: 1,
        count: 1,
        node: None,
    };
    setup.fake.add_event(&key("bob~hush"), event);
    let get = async |part: &str| {
        let answer = setup
            .get(ANN, &format!("/api/v2/jobs/bob~hush/{part}"))
            .await;
        answer.status.as_u16()
    };
    for (text, status) in [
        ("{}", 200),
        ("{jobs: private}", 403),
        ("{jobs: public}", 200),
    ] {
        setup.fake.set_access(policy(text));
        assert_eq!((get("events").await, get("config").await), (status, status));
    }
}

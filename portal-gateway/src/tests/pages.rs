//! The portal's pages: sessions, forms, what is shown to whom, and that nothing a user writes is markup.

use http::Method;
use muster_model::alarm::{Alarm, AlarmKind, AlarmState, AlarmSubject};
use muster_model::policy::{AccessPolicy, JobVisibility};
use muster_model::state::{ExecutionType, SubState};
use muster_model::view::JobEvent;

use super::setup::*;
use crate::auth::RouteAccess;
use crate::port::Jobs as _;
use crate::route::{PAGES, Route};

const FORM: &str = "application/x-www-form-urlencoded";

/// Asks with the session of a token.
pub(super) async fn ask(
    setup: &Setup,
    token: &str,
    method: &str,
    path: &str,
    body: &str,
) -> WholeAnswer {
    let cookie = format!("other=1; muster_session={token}");
    let headers = [("cookie", cookie.as_str()), ("content-type", FORM)];
    let ask = TestRequest {
        method,
        path,
        headers: &headers,
        body,
    };
    setup.ask(ask).await
}

pub(super) async fn page(setup: &Setup, token: &str, path: &str) -> String {
    let answer = ask(setup, token, "GET", path, "").await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text().to_owned()
}

/// Sends a form of a session's page.
pub(super) async fn send(setup: &Setup, token: &str, path: &str, fields: &str) -> WholeAnswer {
    let body = format!("form_key={}&{fields}", form_key(token));
    ask(setup, token, "POST", path, &body).await
}

async fn log_in(setup: &Setup, body: &str) -> WholeAnswer {
    let ask = TestRequest {
        method: "POST",
        path: "/login",
        headers: &[("content-type", FORM)],
        body,
    };
    setup.ask(ask).await
}

fn pages() -> impl Iterator<Item = &'static Route> {
    PAGES.iter().filter(|route| route.access.is_page())
}

/// The path of a page with this job in it.
fn path_of(route: &Route, job: &str) -> String {
    let words = route.pattern.split('/').map(|word| match word {
        ":job" => job,
        ":attempt" | ":index" | ":task" => "0",
        ":role" => "worker",
        ":vc" => "default",
        ":node" => "n1",
        ":document" => "failure-rules",
        ":plugin" => "wiki",
        word => word,
    });
    format!("/{}", words.collect::<Vec<_>>().join("/"))
}

fn method_of(route: &Route) -> &'static str {
    match route.method {
        Some(Method::POST) => "POST",
        _ => "GET",
    }
}

#[tokio::test]
async fn a_login_begins_a_session_and_a_logout_ends_it() {
    let setup = Setup::new();
    let answer = setup.guest("GET", "/jobs?state=FAILED").await;
    assert_eq!(answer.status, 303);
    let login = "/login?next=%2Fjobs%3Fstate%3DFAILED";
    assert_eq!(answer.header("location"), login);
    let form = setup.guest("GET", login).await;
    assert!(form.text().contains("value=\"/jobs?state=FAILED\""));

    let wrong = log_in(&setup, "user=ann&password=guessed-it&next=/jobs").await;
    assert_eq!(wrong.status, 400);
    assert!(
        wrong
            .text()
            .contains("The user name or the password is wrong.")
    );
    assert!(wrong.header("set-cookie").is_empty());
    let unknown = log_in(&setup, "user=nobody&password=guessed-it&next=/jobs").await;
    let same = wrong.text().replace("value=\"ann\"", "value=\"nobody\"");
    let time = |text: &str| text.split("Written by").next().map(str::to_owned);
    assert_eq!(time(unknown.text()), time(&same), "who exists is told");

    let right = log_in(&setup, "user=ann&password=ann-password&next=/jobs").await;
    assert_eq!(right.status, 303, "{}", right.text());
    assert_eq!(right.header("location"), "/jobs");
    let cookie = right.header("set-cookie").to_owned();
    for part in ["Path=/", "HttpOnly", "SameSite=Lax", "Max-Age="] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let token = cookie.split(['=', ';']).nth(1).unwrap();
    let jobs = page(&setup, token, "/jobs").await;
    assert!(jobs.contains("<span class=\"dim\">ann</span>"), "{jobs}");

    let out = send(&setup, token, "/logout", "").await;
    assert_eq!(out.header("location"), "/login");
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    let after = ask(&setup, token, "GET", "/jobs", "").await;
    assert_eq!(after.status, 303, "the token is revoked");
}

#[tokio::test]
async fn pages_are_for_sessions_alone() {
    let setup = Setup::new();
    setup
        .fake
        .put(placed("admin~hush", SubState::AttemptRunning));
    assert!(pages().count() >= 14);
    for route in pages() {
        let (method, path) = (method_of(route), path_of(route, "admin~hush"));
        let guest = setup.guest(method, &path).await;
        assert_eq!(guest.status, 303, "{method} {path}");
        // A token that a script has is not one of a session.
        let by_header = setup.send(ADMIN, method, &path, "").await;
        assert_eq!(by_header.status, 303, "{method} {path}");
        let forged = ask(&setup, "x", method, &path, "").await;
        assert_eq!(forged.status, 303, "{method} {path}");
        let program = ask(&setup, "program-token", method, &path, "").await;
        assert_eq!(program.status, 403, "{method} {path}");
    }
}

#[tokio::test]
async fn every_page_says_what_it_may_load_and_is_not_kept() {
    let setup = Setup::new();
    setup
        .fake
        .put(placed("admin~hush", SubState::AttemptRunning));
    for route in pages().filter(super::pages_submit::is_shown) {
        let path = path_of(route, "admin~hush");
        let answer = ask(&setup, "admin-token", "GET", &path, "").await;
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), "", "{path}");
        let text = answer.text();
        assert!(
            text.contains("Written by node <strong>n1</strong>"),
            "{text}"
        );
        assert!(!text.contains("style=\"") && !text.contains(" onclick="));
    }
    let style = page(&setup, "admin-token", "/jobs").await;
    let style = style.split('"').find(|it| it.ends_with(".css")).unwrap();
    let style = setup.guest("GET", style).await;
    assert_eq!(style.status, 200);
    assert!(style.header("cache-control").contains("immutable"));
    let missing = setup.guest("GET", "/assets/portal.000000000000.css").await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn a_form_of_elsewhere_changes_nothing() {
    let setup = Setup::new();
    setup.fake.put(placed("ann~mine", SubState::AttemptRunning));
    for route in pages().filter(|route| method_of(route) == "POST") {
        let (token, other) = match route.access {
            RouteAccess::AdminPage => ("admin-token", "ann-token"),
            _ => ("ann-token", "admin-token"),
        };
        let own = form_key(token);
        let others = form_key(other);
        let forms = [
            "action=stop&job=ann~mine".to_owned(),
            "form_key=&action=stop&job=ann~mine".to_owned(),
            format!("form_key={others}&action=stop&job=ann~mine"),
            format!("form_key={own}x&action=stop&job=ann~mine"),
        ];
        let path = path_of(route, "ann~mine");
        for form in &forms {
            let answer = ask(&setup, token, "POST", &path, form).await;
            assert_eq!(answer.status, 403, "{path} {form}");
            assert!(answer.text().contains("was not sent by a page"), "{path}");
        }
        let cookie = &format!("muster_session={token}");
        let origins = ["https://elsewhere.example", "null", "http://n1:8080"];
        for origin in origins {
            let ask = TestRequest {
                method: "POST",
                path: &path,
                headers: &[
                    ("cookie", cookie),
                    ("origin", origin),
                    ("host", "n1:7741"),
                    ("content-type", FORM),
                ],
                body: &format!("form_key={own}&action=stop&job=ann~mine"),
            };
            assert_eq!(setup.ask(ask).await.status, 403, "{path} {origin}");
        }
    }
    let job = setup.get(ANN, "/api/muster/v1/jobs/ann~mine").await.json();
    assert_eq!(job["summary"]["execution_type"], "START");
    // The same fields with the session's own key.
    let answer = send(&setup, "ann-token", "/jobs", "action=stop&job=ann~mine").await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    let job = setup.get(ANN, "/api/muster/v1/jobs/ann~mine").await.json();
    assert_eq!(job["summary"]["execution_type"], "STOP");
}

#[tokio::test]
async fn pages_show_and_change_no_job_that_is_hidden() {
    let setup = Setup::new();
    setup
        .fake
        .put(placed("admin~hush", SubState::AttemptRunning));
    setup.fake.put(placed("ann~mine", SubState::AttemptRunning));
    setup.fake.set_access(AccessPolicy {
        jobs: JobVisibility::Private,
        ..AccessPolicy::default()
    });
    for route in pages() {
        let path = path_of(route, "admin~hush");
        let fields = "action=stop&job=admin~hush&job=ann~mine";
        let answer = match method_of(route) {
            "POST" if route.pattern != "logout" => send(&setup, "ann-token", &path, fields).await,
            "POST" => continue,
            _ => ask(&setup, "ann-token", "GET", &path, "").await,
        };
        if route.pattern.contains(":job") {
            assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        }
        if route.method == Some(Method::GET) && !route.pattern.contains(":job") {
            assert!(!answer.text().contains("hush"), "{path}");
        }
    }
    let sight = muster_model::sight::JobSight::All;
    let key = key("admin~hush");
    let job = setup.fake.job(&sight, &key, None).await.unwrap();
    assert_eq!(job.value.summary.execution_type, ExecutionType::Start);
    let jobs = page(&setup, "ann-token", "/jobs").await;
    assert!(jobs.contains("Not shown: jobs of others"), "{jobs}");
}

/// What would run a script, were it markup.
pub(super) const SCRIPT: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>";

#[tokio::test]
async fn nothing_that_a_user_writes_is_markup() {
    let setup = Setup::new();
    let mut verdict = failure(1);
    verdict.user_log = format!("line\n{SCRIPT}\n\u{1b}[31m{SCRIPT}");
    verdict.diagnostics = SCRIPT.to_owned();
    verdict.spec.phrase = SCRIPT.to_owned();
    verdict.spec.solution = vec![SCRIPT.to_owned()];
    let mut job = ended("ann~bad", &verdict);
    job.summary.tags = vec![SCRIPT.to_owned()];
    setup.fake.put(job);
    let mut waits = waiting("ann~waits");
    waits.summary.waiting_for = Some(SCRIPT.to_owned());
    setup.fake.put(waits);
    let event = JobEvent {
        uid: "e1".to_owned(),
        attempt_uid: None,
        task: None,
        warning: true,
        reason: SCRIPT.to_owned(),
        message: SCRIPT.to_owned(),
        first: 1,
        last: 1,
        count: 2,
        node: None,
    };
    setup.fake.add_event(&key("ann~bad"), event);
    let mut shown = 0;
    let searched = "/jobs?user=%3Cscript%3E&text=%22%27%3E%3Cimg+src%3Dx%3E";
    for path in [
        "/",
        "/jobs",
        "/jobs/ann~bad",
        "/jobs/ann~waits",
        "/nodes",
        "/virtual-clusters/default",
        "/cluster",
        searched,
    ] {
        let text = page(&setup, "admin-token", path).await;
        let scripts = text.matches("<script").count();
        assert_eq!(scripts, 1, "{path}: ours alone, {text}");
        assert!(
            !text.contains("<img") && !text.contains("onerror=alert(2)>"),
            "{path}: {text}"
        );
        shown += text.matches("&lt;script&gt;").count();
    }
    assert!(shown >= 8, "only {shown} were shown");
    let failed = setup
        .guest("GET", "/login?next=/%3Cscript%3E&user=%3Cscript%3E")
        .await;
    assert_eq!(failed.text().matches("<script").count(), 1);
}

#[tokio::test]
async fn jobs_are_filtered_counted_and_turned_over() {
    let setup = Setup::new();
    for number in 0..120 {
        let mut job = placed(&format!("ann~job{number:03}"), SubState::AttemptRunning);
        job.summary.submitted = 1000 * number;
        setup.fake.put(job);
    }
    setup.fake.put(ended("admin~broken", &failure(1)));
    let all = page(&setup, "ann-token", "/jobs").await;
    assert!(all.contains("121 jobs, page 1 of 3"), "{all}");
    assert!(all.contains("page=2"));
    let last = page(&setup, "ann-token", "/jobs?user=ann&page=3").await;
    assert!(last.contains("120 jobs, page 3 of 3"), "{last}");
    assert!(
        last.contains("job000") && !last.contains("job119") && last.contains("user=ann&amp;page=2")
    );
    let failed = page(&setup, "ann-token", "/jobs?state=FAILED").await;
    assert!(failed.contains("1 job, page 1 of 1") && failed.contains("broken"));
    let none = page(&setup, "ann-token", "/jobs?text=nothing-is-so").await;
    assert!(none.contains("No job is like this."));
    let wrong = ask(&setup, "ann-token", "GET", "/jobs?state=LATE", "").await;
    assert_eq!(wrong.status, 400);
    assert!(
        wrong.text().contains("state must be of"),
        "{}",
        wrong.text()
    );
}

#[tokio::test]
async fn a_job_is_shown_with_what_ended_it_and_changed_by_forms() {
    let setup = Setup::new();
    setup.fake.put(ended("ann~broken", &failure(1)));
    let text = page(&setup, "ann-token", "/jobs/ann~broken").await;
    let spec = failure(1).spec;
    for part in [
        "Why it ended",
        spec.phrase.as_str(),
        "Tasks of role worker",
        "Failed",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("Stop the job"), "it has ended");
    let path = "/jobs/ann~broken";
    let tagged = send(&setup, "ann-token", path, "action=tag&tag=later").await;
    assert_eq!(tagged.status, 303, "{}", tagged.text());
    assert!(page(&setup, "ann-token", path).await.contains("later ×"));
    let twice = send(&setup, "ann-token", path, "action=tag&tag=a%2Cb").await;
    assert_eq!(twice.status, 400);
    assert!(twice.text().contains("must not contain a comma"));
    send(&setup, "ann-token", path, "action=untag&tag=later").await;
    assert!(!page(&setup, "ann-token", path).await.contains("later ×"));
    let unknown = send(&setup, "ann-token", path, "action=erase").await;
    assert!(unknown.text().contains("action must be stop, tag or untag"));
    let foreign = ask(&setup, "ann-token", "GET", "/jobs/ann~missing", "").await;
    assert_eq!(foreign.status, 404);
    assert!(foreign.text().contains("Job ann~missing is not found."));
}

#[tokio::test]
async fn the_overview_says_what_is_wrong() {
    let setup = Setup::new();
    let alarm = Alarm {
        number: 1,
        boot: "b1".to_owned(),
        at_ms: 1,
        kind: AlarmKind::MemberLost,
        state: AlarmState::Raised,
        subject: AlarmSubject::Member("n9".to_owned()),
        text: "n9 cannot be reached: look at its power and its network".to_owned(),
    };
    setup.fake.alarm(alarm);
    setup.fake.put(waiting("ann~waits"));
    let text = page(&setup, "ann-token", "/").await;
    for part in ["n9 cannot be reached", "What waits", "waits", "1 node"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn a_browser_is_told_in_a_page_that_there_is_none() {
    let setup = Setup::new();
    let ask = |accept| TestRequest {
        method: "GET",
        path: "/nothing-here",
        headers: accept,
        body: "",
    };
    let page = setup.ask(ask(&[("accept", "text/html,*/*")])).await;
    assert_eq!(page.status, 404);
    assert!(page.text().contains("<h1>Not found</h1>"));
    let program = setup.ask(ask(&[("accept", "*/*")])).await;
    assert_eq!(program.json()["code"], "NoApiError");
}

#[tokio::test]
async fn a_job_is_submitted_checked_and_submitted_again() {
    let setup = Setup::new();
    let form = page(&setup, "ann-token", "/submit?template=many").await;
    assert!(form.contains("torchrun") && form.contains("The job is valid."));
    let checked = send(
        &setup,
        "ann-token",
        "/submit",
        "action=check&job=name%3A+x%0D%0A",
    )
    .await;
    assert_eq!(checked.status, 200);
    let text = checked.text();
    assert!(
        text.contains("<code>") && text.contains("protocolVersion"),
        "{text}"
    );
    assert!(!text.contains("The job is valid."));
    let sent = send(
        &setup,
        "ann-token",
        "/submit",
        "action=submit&job=name%3A+mine%0D%0A",
    )
    .await;
    assert_eq!(sent.status, 303, "{}", sent.text());
    assert_eq!(sent.header("location"), "/jobs/ann%7Emine");
    let twice = send(
        &setup,
        "ann-token",
        "/submit",
        "action=submit&job=name%3A+mine%0A",
    )
    .await;
    assert_eq!(twice.status, 409);
    assert!(twice.text().contains("already exists") && twice.text().contains("name: mine"));
    let clone = page(&setup, "ann-token", "/submit?clone=ann~mine").await;
    assert!(clone.contains("mine"), "{clone}");
    let missing = ask(&setup, "ann-token", "GET", "/submit?clone=ann~none", "").await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn users_manage_their_password_and_tokens() {
    let setup = Setup::new();
    let login = log_in(&setup, "user=ann&password=ann-password").await;
    let cookie = login.header("set-cookie").to_owned();
    let token = cookie.split(['=', ';']).nth(1).unwrap();
    let issued = send(
        &setup,
        token,
        "/account",
        "action=token&name=nightly&days=30",
    )
    .await;
    assert_eq!(issued.status, 200, "{}", issued.text());
    assert!(issued.text().contains("It is not shown again."));
    let list = page(&setup, token, "/account").await;
    assert!(
        list.contains("nightly") && list.contains("This login"),
        "{list}"
    );
    let days = send(&setup, token, "/account", "action=token&name=x&days=7").await;
    assert_eq!(days.status, 400);
    let fields = "action=password&old=ann-password&new=another-one&again=another-two";
    let differ = send(&setup, token, "/account", fields).await;
    assert!(differ.text().contains("write the same twice"));
    let fields = "action=password&old=wrong-one&new=another-one&again=another-one";
    let wrong = send(&setup, token, "/account", fields).await;
    assert_eq!(wrong.status, 403, "{}", wrong.text());
    let fields = "action=password&old=ann-password&new=another-one&again=another-one";
    let changed = send(&setup, token, "/account", fields).await;
    let next = changed.header("location");
    assert_eq!(next, "/login?next=/account&done=password");
    assert_eq!(
        log_in(&setup, "user=ann&password=another-one").await.status,
        303
    );
}

#[tokio::test]
async fn admins_manage_users_and_groups_and_nobody_else() {
    let setup = Setup::new();
    let refused = ask(&setup, "ann-token", "GET", "/people", "").await;
    assert_eq!(refused.status, 403);
    let refused = send(
        &setup,
        "ann-token",
        "/people",
        "action=remove-user&username=admin",
    )
    .await;
    assert_eq!(refused.status, 403);
    let mine = page(&setup, "ann-token", "/account").await;
    assert!(!mine.contains("href=\"/people\""));
    for fields in [
        "action=add-group&groupname=lab&description=The+lab&vcs=default",
        "action=add-user&username=zoe&password=zoes-password&email=zoe@example.org&groups=lab",
        "action=change-user&username=zoe&email=&groups=lab,+default&password=",
    ] {
        let made = send(&setup, "admin-token", "/people", fields).await;
        assert_eq!(made.status, 303, "{fields}: {}", made.text());
    }
    let list = page(&setup, "admin-token", "/people").await;
    for part in ["zoe", "The lab", "User added:"] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let zoe = setup.get(ADMIN, "/api/v2/users/zoe").await.json();
    assert_eq!(
        zoe["email"], "",
        "an address that is left empty is taken away"
    );
    assert_eq!(
        log_in(&setup, "user=zoe&password=zoes-password")
            .await
            .status,
        303
    );
    let short = "action=add-user&username=bad&password=x";
    let short = send(&setup, "admin-token", "/people", short).await;
    assert_eq!(short.status, 400);
    assert!(
        short.text().contains("at least 6 characters"),
        "{}",
        short.text()
    );
    let last = send(
        &setup,
        "admin-token",
        "/people",
        "action=remove-user&username=admin",
    )
    .await;
    assert_eq!(last.status, 403, "{}", last.text());
}

#[tokio::test]
async fn documents_are_edited_from_the_version_that_was_shown() {
    let setup = Setup::new();
    let list = page(&setup, "ann-token", "/documents").await;
    assert!(list.contains("/documents/failure-rules"), "{list}");
    let path = "/documents/failure-rules";
    let text = page(&setup, "ann-token", path).await;
    assert!(!text.contains("name=\"text\""), "users read");
    let refused = send(&setup, "ann-token", path, "action=save&base=0&text=rules").await;
    assert_eq!(refused.status, 403);
    let editor = page(&setup, "admin-token", path).await;
    assert!(editor.contains("name=\"base\" value=\"0\""), "{editor}");
    let saved = send(
        &setup,
        "admin-token",
        path,
        "action=save&base=0&text=one%0D%0Atwo",
    )
    .await;
    assert_eq!(saved.status, 303, "{}", saved.text());
    let after = page(&setup, "admin-token", path).await;
    assert!(
        after.contains("one\ntwo") && after.contains("Go back to version 0"),
        "{after}"
    );
    let late = send(&setup, "admin-token", path, "action=save&base=0&text=three").await;
    assert!(late.text().contains("Nothing was changed.") && late.text().contains("three"));
    let secret = ask(&setup, "ann-token", "GET", "/documents/storages", "").await;
    assert_eq!(secret.status, 403);
    let missing = ask(&setup, "ann-token", "GET", "/documents/recipes", "").await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn a_virtual_cluster_shows_its_queue_and_its_leader() {
    let setup = Setup::new();
    setup.fake.put(waiting("ann~waits"));
    setup.fake.put(placed("ann~runs", SubState::AttemptRunning));
    let text = page(&setup, "ann-token", "/virtual-clusters/default").await;
    for part in ["ann%7Ewaits", "ann%7Eruns", "Who decides", "What it has"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let missing = ask(&setup, "ann-token", "GET", "/virtual-clusters/none", "").await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn a_node_is_drained_with_a_reason_by_admins() {
    let setup = Setup::new();
    let mine = page(&setup, "ann-token", "/nodes/n1").await;
    assert!(
        mine.contains("Devices") && !mine.contains("Drain:"),
        "{mine}"
    );
    assert_eq!(
        send(&setup, "ann-token", "/nodes/n1", "mode=cordoned&reason=x")
            .await
            .status,
        403
    );
    let bare = send(&setup, "admin-token", "/nodes/n1", "mode=draining").await;
    assert_eq!(bare.status, 400);
    assert!(bare.text().contains("is required"), "{}", bare.text());
    let wrong = send(
        &setup,
        "admin-token",
        "/nodes/n1",
        "mode=draining&reason=x&after_min=soon",
    )
    .await;
    assert!(
        wrong.text().contains("after_min must be"),
        "{}",
        wrong.text()
    );
    let fields = "mode=draining&reason=new+fans&after_min=5&confirmed=yes";
    let made = send(&setup, "admin-token", "/nodes/n1", fields).await;
    assert_eq!(made.status, 303, "{}", made.text());
    let after = page(&setup, "admin-token", "/nodes/n1").await;
    assert!(
        after.contains("draining") && after.contains("new fans"),
        "{after}"
    );
    let open = send(&setup, "admin-token", "/nodes/n1", "mode=open").await;
    assert_eq!(open.status, 303, "{}", open.text());
    let missing = ask(&setup, "ann-token", "GET", "/nodes/n9", "").await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn a_password_cannot_be_guessed_on_the_account_page() {
    let setup = Setup {
        peer: crate::peer::RemoteEnd::Tcp([10, 0, 1, 1].into()),
        ..Setup::new()
    };
    let guess = "action=password&old=guessed-it&new=another-one&again=another-one";
    // What is refused for another reason says nothing of the old one.
    let late = format!("form_key={}&{guess}", form_key("ann-token"));
    let late = TestRequest {
        method: "POST",
        path: "/account",
        headers: &[
            ("cookie", "muster_session=ann-token"),
            ("content-type", FORM),
            ("if-match", "\"999\""),
        ],
        body: &late,
    };
    let mut statuses = Vec::new();
    for _ in 0..20 {
        let answer = send(&setup, "ann-token", "/account", guess).await;
        statuses.push(answer.status.as_u16());
        setup.ask(TestRequest { ..late }).await;
    }
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[tokio::test]
async fn the_cluster_page_names_members_and_leaders() {
    let setup = Setup::new();
    let text = page(&setup, "ann-token", "/cluster").await;
    for part in [
        "Who leads what",
        "The cluster",
        "default",
        "href=\"/nodes/n1\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

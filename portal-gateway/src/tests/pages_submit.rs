//! The page to submit a job: its form and its text in step, and what the job would take. The file of jobs.

use form_urlencoded::Serializer;
use http::Method;
use muster_model::forecast::{ForecastOutcome, JobForecast, NodeShare};
use muster_model::id::TaskId;
use muster_model::image::ImageView;
use muster_model::protocol::JobForm;
use muster_model::state::SubState;
use muster_model::vc::Amount;
use muster_model::vc_cells::{CellUser, UsedDevices, VcCells};
use muster_model::view::Age;

use super::pages::{ask, page, send};
use super::setup::*;
use crate::route::Route;

const TEXT: &str = "\
# Mine.
protocolVersion: 2
name: train
type: job
prerequisites:
- {type: dockerimage, name: image, uri: busybox}
taskRoles:
  worker:
    instances: 2 # both
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands: ['true']
";

/// Whether a route shows a page. A file to keep is none, nor is a stream.
pub(super) fn is_shown(route: &&Route) -> bool {
    let is_file = route.pattern == "jobs/export" || route.pattern.contains("/log/");
    let is_file = is_file || route.pattern.ends_with("/connect");
    route.method == Some(Method::GET) && !is_file
}

/// The fields of the page's form, as it is shown with a text; some of them changed.
fn form(text: &str, shown: &str, changed: &[(&str, &str)]) -> String {
    let shown = JobForm::read(shown).unwrap();
    let role = &shown.roles[0];
    let json = serde_json::to_string(&shown).unwrap();
    let mut fields = vec![
        ("job", text),
        ("form_shown", json.as_str()),
        ("form_name", &shown.name),
        ("form_vc", &shown.vc),
        ("form_retries", &shown.retries),
        ("role0_instances", &role.instances),
        ("role0_image", &role.image),
        ("role0_command", &role.command),
    ];
    for (name, value) in changed {
        match fields.iter_mut().find(|(known, _)| known == name) {
            Some(field) => field.1 = value,
            None => fields.push((name, value)),
        }
    }
    let mut form = Serializer::new(String::new());
    form.extend_pairs(fields);
    form.finish()
}

async fn answered(setup: &Setup, fields: &str) -> String {
    let answer = send(setup, "ann-token", "/submit", fields).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text().to_owned()
}

#[tokio::test]
async fn what_is_changed_in_the_form_is_changed_in_the_text() {
    let setup = Setup::new();
    let changed = [
        ("action", "check"),
        ("form_name", "other"),
        ("role0_instances", "3"),
        ("role0_command", "echo a\r\necho b"),
    ];
    let text = answered(&setup, &form(TEXT, TEXT, &changed)).await;
    for part in [
        "# Mine.",
        "name: other",
        "    instances: 3 # both\n",
        "- |-\n        echo a\n        echo b\n",
        "The job is valid.",
        "value=\"other\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("could not be kept"), "{text}");
}

#[tokio::test]
async fn what_is_changed_in_the_text_is_changed_in_the_form() {
    let setup = Setup::new();
    let text = TEXT.replace("instances: 2", "instances: 7");
    let text = answered(&setup, &form(&text, TEXT, &[("action", "check")])).await;
    let field = "id=\"role0_instances\" name=\"role0_instances\" value=\"7\"";
    assert!(text.contains(field), "{text}");
}

#[tokio::test]
async fn whatever_the_button_the_form_goes_into_the_text_before() {
    let setup = Setup::new();
    let changed = [("action", "submit"), ("form_name", "by_form")];
    let answer = send(&setup, "ann-token", "/submit", &form(TEXT, TEXT, &changed)).await;
    assert_eq!(answer.header("location"), "/jobs/ann%7Eby%5Fform");
}

#[tokio::test]
async fn a_form_beside_broken_text_waits_with_what_it_holds() {
    let setup = Setup::new();
    let broken = format!("{TEXT}x: [\n");
    let changed = [("action", "check"), ("form_name", "kept_so_long")];
    let text = answered(&setup, &form(&broken, TEXT, &changed)).await;
    assert!(text.contains("The form waits"), "{text}");
    assert!(text.contains("value=\"kept_so_long\"") && text.contains("name: train"));
    let text = answered(&setup, &form(&broken, TEXT, &[("action", "check")])).await;
    assert!(text.contains("is here again when the YAML can be read"));
}

#[tokio::test]
async fn task_roles_are_added_and_removed() {
    let setup = Setup::new();
    let changed = [("action", "add-role"), ("new_role", "ps")];
    let text = answered(&setup, &form(TEXT, TEXT, &changed)).await;
    assert!(text.contains("remove-role:ps") && text.contains("The job is valid."));
    let changed = [("action", "remove-role:worker")];
    let text = answered(&setup, &form(TEXT, TEXT, &changed)).await;
    assert!(!text.contains("remove-role:worker"), "{text}");
    let nameless = answered(&setup, &form(TEXT, TEXT, &[("action", "add-role")])).await;
    assert!(nameless.contains("Name the task role"), "{nameless}");
    let twice = [("action", "add-role"), ("new_role", "worker")];
    let twice = answered(&setup, &form(TEXT, TEXT, &twice)).await;
    assert!(twice.contains("There is a task role worker already."));
}

#[tokio::test]
async fn the_form_has_the_virtual_clusters_that_the_user_may_use() {
    let setup = Setup::new();
    let own = page(&setup, "ann-token", "/submit").await;
    let choice = "<option value=\"\" selected>default</option>";
    assert!(own.contains(choice), "{own}");
    assert_eq!(own.matches(">default</option>").count(), 1, "{own}");
    assert_eq!(own.matches(">test</option>").count(), 1, "{own}");
    let set = TEXT.replace(
        "type: job",
        "type: job\ndefaults: {virtualCluster: default}",
    );
    let text = answered(&setup, &form(&set, &set, &[("action", "check")])).await;
    let choice = "<option value=\"default\" selected>default</option>";
    assert!(text.contains(choice), "{text}");
    assert_eq!(text.matches(">default</option>").count(), 1, "{text}");
    let other = TEXT.replace("type: job", "type: job\ndefaults: {virtualCluster: lab}");
    let text = answered(&setup, &form(&other, &other, &[("action", "check")])).await;
    assert!(text.contains("lab, which is not yours"), "{text}");
}

#[tokio::test]
async fn what_a_job_would_take_is_shown_and_nothing_is_submitted() {
    let setup = Setup::new();
    let fields = form(TEXT, TEXT, &[("action", "forecast")]);
    let text = answered(&setup, &fields).await;
    assert!(text.contains("It would start now."), "{text}");
    let task = TaskId {
        role: "worker".parse().unwrap(),
        index: 1,
    };
    setup.fake.set_forecast(JobForecast {
        key: key("ann~train"),
        vc: "default".parse().unwrap(),
        outcome: ForecastOutcome::StartsInPart,
        reason: Some("needs <2> devices; 1 is free".to_owned()),
        takes: Amount {
            gpu: 16,
            ..Amount::default()
        },
        tasks: 2,
        placed: 1,
        places: vec![NodeShare {
            node: "n7".parse().unwrap(),
            tasks: vec![task],
            devices: vec![3, 5],
        }],
        nodes: 2,
        victims: vec![Some(key("bob~victim")), None],
        ahead: 4,
        gangs: Vec::new(),
        waiting: 1,
        warnings: Vec::new(),
    });
    let text = answered(&setup, &fields).await;
    for part in [
        "1 of 2 tasks would start now. The rest would wait: it needs &lt;2&gt; devices; 1 is free.",
        "4 waiting jobs come before it.",
        "n7",
        "worker:1",
        "3, 5",
        "and 1 more node",
        "/jobs/bob%7Evictim",
        "a job that you do not see",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let jobs = page(&setup, "ann-token", "/jobs").await;
    assert!(jobs.contains("No job is like this."), "{jobs}");
    let wrong = send(&setup, "ann-token", "/submit", "action=forecast&job=x").await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("The job is not accepted."));
}

#[tokio::test]
async fn the_jobs_are_a_file_with_the_filters_of_the_page() {
    let setup = Setup::new();
    setup.fake.put(ended("ann~broken", &failure(1)));
    let mut waits = waiting("ann~waits");
    waits.summary.tags = vec!["=cmd|' /C calc'!A0".to_owned(), "two".to_owned()];
    setup.fake.put(waits);
    setup
        .fake
        .put(placed("admin~runs", SubState::AttemptRunning));
    let path = "/jobs?user=ann";
    let list = page(&setup, "ann-token", path).await;
    let link = "/jobs/export?user=ann&amp;format=csv";
    assert!(list.contains(link), "{list}");

    let file = ask(
        &setup,
        "ann-token",
        "GET",
        "/jobs/export?user=ann&format=csv",
        "",
    )
    .await;
    assert_eq!(file.status, 200, "{}", file.text());
    assert_eq!(file.header("content-type"), "text/csv; charset=utf-8");
    let name = "attachment; filename=\"jobs.csv\"";
    assert_eq!(file.header("content-disposition"), name);
    let lines: Vec<&str> = file.text().split("\r\n").collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].starts_with("name,user,virtual_cluster,state,gpus"));
    assert!(!file.text().contains("runs"));
    let tagged = "\"'=cmd|' /C calc'!A0 two\"";
    assert!(file.text().contains(tagged), "{}", file.text());

    let path = "/jobs/export?state=FAILED&format=jsonl";
    let file = ask(&setup, "ann-token", "GET", path, "").await;
    let job: serde_json::Value = serde_json::from_str(file.text().trim_end()).unwrap();
    assert_eq!(
        (&job["key"]["name"], &job["state"]),
        (&"broken".into(), &"FAILED".into())
    );
    let wrong = ask(&setup, "ann-token", "GET", "/jobs/export?format=xls", "").await;
    assert_eq!(wrong.status, 400);
    setup.fake.age(Age {
        vc: "default".parse().unwrap(),
        seconds: Some(5),
    });
    setup.fake.silence("lab".parse().unwrap());
    let part = ask(&setup, "ann-token", "GET", "/jobs/export", "").await;
    assert!(
        part.header("content-disposition")
            .contains("jobs-incomplete.csv")
    );
}

#[tokio::test]
async fn the_overview_tells_devices_by_kind() {
    let setup = Setup::new();
    let text = page(&setup, "ann-token", "/").await;
    let card = text.split("Devices by kind</h2>").nth(1).unwrap();
    let row = "<td class=\"name\">Tesla &lt;V100&gt;</td><td class=\"n\">1</td><td class=\"n\">2</td>\
               <td class=\"n\"><span class=\"bad\">1</span></td>";
    assert!(card.contains(row), "{card}");
}

#[tokio::test]
async fn the_overview_leads_to_ones_jobs_and_says_what_is_not_promised() {
    let setup = Setup::new();
    let text = page(&setup, "ann-token", "/").await;
    assert!(
        text.contains("<a href=\"/submit\">Submit one</a>"),
        "{text}"
    );
    setup.fake.put(placed("ann~mine", SubState::AttemptRunning));
    let mut view = node();
    (view.capacity.cpu, view.free.cpu) = (0, 0);
    setup.fake.set_node(view);
    let text = page(&setup, "ann-token", "/").await;
    assert!(
        text.contains("<h2><a href=\"/jobs?user=ann\">My jobs (1)</a></h2>"),
        "{text}"
    );
    assert!(
        text.contains("no cores promised, uses the shared ones"),
        "{text}"
    );
    assert!(!text.contains(" of 0<"), "{text}");
    let vc = page(&setup, "ann-token", "/virtual-clusters/default").await;
    assert!(vc.contains("No cores are promised to it"), "{vc}");
}

#[tokio::test]
async fn templates_come_first_and_the_job_is_submitted_from_the_form_too() {
    let setup = Setup::new();
    let text = page(&setup, "ann-token", "/submit").await;
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(at("Start from") < at("id=\"fields\""));
    let submit = "<button class=\"main\" name=\"action\" value=\"submit\">Submit</button>";
    assert_eq!(text.matches(submit).count(), 2, "{text}");
    assert!(at("id=\"fields\"") < at(submit) && at(submit) < at("The job in YAML"));
    assert!(
        !text.contains("with one GPU"),
        "a comment that a change makes wrong"
    );
}

#[tokio::test]
async fn images_on_the_nodes_of_ones_virtual_clusters_are_suggested() {
    let setup = Setup::new();
    setup.fake.add_image(ImageView {
        name: "docker.io/muster/<b>:latest".to_owned(),
        digest: "sha256:0".to_owned(),
        size_bytes: 1,
    });
    // As long as the virtual cluster uses no node, none is asked.
    let text = page(&setup, "ann-token", "/submit").await;
    assert!(
        text.contains("list=\"images\"") && !text.contains("muster/&lt;b&gt;"),
        "{text}"
    );
    let place = UsedDevices {
        node: "n1".to_owned(),
        leaf_type: "V100".to_owned(),
        indices: [0].into(),
    };
    setup.fake.set_cells(VcCells {
        users: vec![CellUser {
            job: None,
            places: vec![place],
            borrowed: 0,
        }],
        ..VcCells::default()
    });
    let text = page(&setup, "ann-token", "/submit").await;
    let choice = "<datalist id=\"images\"><option value=\"docker.io/muster/&lt;b&gt;:latest\"></option></datalist>";
    assert!(text.contains(choice), "{text}");
}

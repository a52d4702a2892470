//! Pages of the cluster: cells of a virtual cluster, documents and their versions, nodes, and plugins.

use muster_model::exit::Behavior;
use muster_model::image::ImageView;
use muster_model::known_node::{Has, KnownNode};
use muster_model::mesh::MemberReach;
use muster_model::node::DeviceLevel;
use muster_model::policy::{AccessPolicy, JobVisibility, PluginPlace, PortalPlugin};
use muster_model::rule_test::{JudgedAs, RuleTest, UnheardNode, VerdictChange};
use muster_model::state::SubState;
use muster_model::usage::{UsageSubject, UsageView, UseOf};
use muster_model::vc_cells::{
    CellLeaf, CellLevel, CellPool, CellUser, LeafState, PromisedCell, UsedDevices, VcCells,
};

use super::pages::{ask, page, send};
use super::setup::*;
use crate::fake::member;

/// What would run a script, were it markup.
const SCRIPT: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>";

/// Checks that nothing of [`SCRIPT`] is markup, and that it is shown.
fn inert(text: &str) {
    assert_eq!(text.matches("<script").count(), 1, "ours alone: {text}");
    assert!(!text.contains("<img"), "{text}");
    assert!(text.contains("&lt;script&gt;"), "it is not shown: {text}");
}

fn leaf(index: u32, state: LeafState) -> CellLeaf {
    CellLeaf { index, state }
}

/// A machine of four devices, one of each state, two of which ann's job has, one of them borrowed.
fn cells(node: &str) -> VcCells {
    let states = [
        LeafState::Used,
        LeafState::Free,
        LeafState::Bad,
        LeafState::Lent,
    ];
    let leaves = (0..).zip(states).map(|(index, state)| leaf(index, state));
    let machine = PromisedCell {
        cell_type: "V100-NODE".to_owned(),
        node: Some(node.to_owned()),
        parts: Vec::new(),
        leaves: leaves.collect(),
    };
    let level = |cell_type: &str, total| CellLevel {
        cell_type: cell_type.to_owned(),
        total,
        used: 1,
        free: u32::from(total > 1),
        bad: 1,
        lent: 1,
    };
    VcCells {
        pools: vec![CellPool {
            chain: "V100-NODE".to_owned(),
            pinned: None,
            levels: vec![level("V100-NODE", 1), level("V100", 4)],
            cells: vec![machine],
            unlisted: 3,
        }],
        users: vec![CellUser {
            job: Some(key("ann~train")),
            places: vec![UsedDevices {
                node: node.to_owned(),
                leaf_type: "V100".to_owned(),
                indices: [0, 1].into(),
            }],
            borrowed: 1,
        }],
    }
}

#[tokio::test]
async fn a_virtual_cluster_shows_its_cells_and_who_has_them() {
    let setup = Setup::new();
    setup.fake.set_cells(cells("n1"));
    setup.fake.set_usage(vec![UsageView {
        vc: "default".parse().unwrap(),
        subject: UsageSubject::User("ann".parse().unwrap()),
        gpus: Some(UseOf { used: 2, most: 8 }),
        jobs: None,
        gpu_hours: None,
    }]);
    let text = page(&setup, "ann-token", "/virtual-clusters/default").await;
    for part in [
        "Cells of V100-NODE",
        "1 used, 1 free, 1 bad, 1 lent",
        "<li class=\"bad\">2 bad</li>",
        "And 3 more",
        "<strong>ann</strong> 2 devices in 1 job, 1 of them borrowed",
        "Quota left: 6 of 8 GPUs",
        "V100 0-1",
        "href=\"/nodes/n1\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let path = "/api/muster/v1/virtual-clusters/default/cells";
    let told = setup.get(ANN, path).await.json();
    assert_eq!(told["pools"][0]["cells"][0]["leaves"][3]["state"], "lent");
    assert_eq!(told["users"][0]["borrowed"], 1);
    let missing = setup
        .get(ANN, "/api/muster/v1/virtual-clusters/none/cells")
        .await;
    assert_eq!(missing.status, 404);

    setup.fake.set_access(AccessPolicy {
        jobs: JobVisibility::Private,
        ..AccessPolicy::default()
    });
    let mut hidden = cells("n1");
    hidden.users[0].job = Some(key("admin~hush"));
    setup.fake.set_cells(hidden);
    let told = setup.get(ANN, path).await.json();
    assert_eq!(told["users"][0]["job"], serde_json::Value::Null);
    let text = page(&setup, "ann-token", "/virtual-clusters/default").await;
    assert!(text.contains("Users whose jobs you do not see"), "{text}");
    assert!(!text.contains("hush"), "{text}");
}

#[tokio::test]
async fn a_virtual_cluster_says_where_it_has_no_cells_and_where_they_are_not_known() {
    let setup = Setup::new();
    let path = "/virtual-clusters/default";
    let text = page(&setup, "ann-token", path).await;
    assert!(text.contains("It is promised no devices"), "{text}");
    assert!(text.contains("No job has anything here."), "{text}");
    setup.fake.silence("default".parse().unwrap());
    let text = page(&setup, "ann-token", path).await;
    assert!(
        text.contains("Its cells are not known now: no leader answers"),
        "{text}"
    );
}

/// Gives the rules a text.
async fn save(setup: &Setup, base: u32, text: &str) {
    let path = format!("/api/muster/v1/documents/failure-rules?base={base}");
    let saved = setup.send(ADMIN, "PUT", &path, text).await;
    assert_eq!(saved.status, 200, "{}", saved.text());
}

#[tokio::test]
async fn two_versions_of_a_document_are_compared_line_by_line() {
    let setup = Setup::new();
    save(&setup, 0, "one\ntwo\nthree\n").await;
    save(&setup, 1, &format!("one\n{SCRIPT}\nthree\n")).await;
    let path = "/documents/failure-rules";
    let shown = page(&setup, "ann-token", path).await;
    assert!(shown.contains("?compare=1..2"), "{shown}");
    let text = page(&setup, "ann-token", &format!("{path}?compare=1..2")).await;
    inert(&text);
    for part in [
        "<del>- two\n</del>",
        "<ins>+ &lt;script",
        "Lines added: 1, removed: 1.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let same = page(&setup, "ann-token", &format!("{path}?compare=2..2")).await;
    assert!(same.contains("Nothing differs."), "{same}");
    for (compared, status) in [("1", 400), ("a..b", 400), ("1..9", 404)] {
        let answer = ask(
            &setup,
            "ann-token",
            "GET",
            &format!("{path}?compare={compared}"),
            "",
        )
        .await;
        assert_eq!(answer.status, status, "{compared}");
    }
    // Before it is saved.
    let fields = "action=compare&base=2&text=one%0Atwo%0Athree%0A";
    let told = send(&setup, "admin-token", path, fields).await;
    assert_eq!(told.status, 200, "{}", told.text());
    assert!(
        told.text().contains("What would change from version 2"),
        "{}",
        told.text()
    );
    assert!(told.text().contains("<ins>+ two"), "{}", told.text());
    inert(told.text());
}

#[tokio::test]
async fn the_roll_out_names_each_node() {
    let setup = Setup::new();
    let away = member(1, "n2", MemberReach::Unreachable);
    setup.fake.change_mesh(|mesh| mesh.members.push(away));
    save(&setup, 0, "one\n").await;
    let text = page(&setup, "ann-token", "/documents/failure-rules").await;
    for part in [
        "Which node goes by which version",
        "href=\"/nodes/n2\"",
        "it cannot be reached",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn failure_rules_are_tried_on_a_pasted_log() {
    let setup = Setup::new();
    let path = "/documents/failure-rules";
    let fields = "exit_code=1&user_log=fine%0Aan+error+%3Cscript%3E&platform_log=";
    // Those in force, by everybody.
    let told = send(&setup, "ann-token", &format!("{path}/try"), fields).await;
    assert_eq!(told.status, 200, "{}", told.text());
    for part in [
        "AnErrorLine",
        "The lines that show it",
        "an error &lt;script&gt;",
    ] {
        assert!(told.text().contains(part), "{part}: {}", told.text());
    }
    assert_eq!(told.text().matches("<script").count(), 1);
    // The edited ones, by admins.
    let edited = format!("action=try&base=0&text=new&{fields}");
    let told = send(&setup, "admin-token", path, &edited).await;
    assert!(told.text().contains("AnErrorLine"), "{}", told.text());
    assert!(
        told.text().contains(">\nnew</textarea>"),
        "the edit is kept: {}",
        told.text()
    );
    let bad = format!("action=try&base=0&text=+&{fields}");
    let told = send(&setup, "admin-token", path, &bad).await;
    assert_eq!(told.status, 400);
    assert!(told.text().contains("it is empty"), "{}", told.text());
    let plain = send(
        &setup,
        "ann-token",
        &format!("{path}/try"),
        "exit_code=2&user_log=x",
    )
    .await;
    assert!(
        plain.text().contains("of the exit code alone"),
        "{}",
        plain.text()
    );
    let none = send(&setup, "ann-token", &format!("{path}/try"), "user_log=x").await;
    assert_eq!(none.status, 400);
    assert!(none.text().contains("exit_code must be"), "{}", none.text());
    let other = send(&setup, "ann-token", "/documents/policy/try", fields).await;
    assert_eq!(other.status, 404);
}

#[tokio::test]
async fn rules_are_tried_over_rest_too() {
    let setup = Setup::new();
    let ask = async |who: &str, body: &str| {
        setup
            .send(who, "POST", "/api/muster/v1/failure-rules/try", body)
            .await
    };
    let told = ask(ANN, r#"{"exit_code": 3, "user_log": "an error"}"#)
        .await
        .json();
    assert_eq!(told["spec"]["code"], 3);
    assert_eq!(told["matched_user_log"], "an error");
    let own = r#"{"exit_code": 3, "rules": "x"}"#;
    assert_eq!(ask(ANN, own).await.status, 403);
    assert_eq!(ask(ADMIN, own).await.status, 200);
    for (body, field) in [
        ("{}", "exit_code"),
        (r#"{"exit_code": "x"}"#, "exit_code"),
        (r#"{"exit_code": 3, "log": "x"}"#, "log"),
    ] {
        let answer = ask(ADMIN, body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.text().contains(field), "{body}: {}", answer.text());
    }
    let bad = ask(ADMIN, r#"{"exit_code": 3, "rules": " "}"#).await;
    assert_eq!(bad.status, 400, "{}", bad.text());
}

#[tokio::test]
async fn rules_are_tested_on_failures_by_admins_alone() {
    let setup = Setup::new();
    setup.fake.set_rule_test(RuleTest {
        tried: 7,
        changed: 1,
        changes: vec![VerdictChange {
            before: JudgedAs {
                code: 255,
                phrase: "Unknown".to_owned(),
                behavior: Behavior::Unknown,
            },
            after: JudgedAs {
                code: 7,
                phrase: "OutOfLuck".to_owned(),
                behavior: Behavior::Permanent,
            },
            count: 1,
            examples: Vec::new(),
        }],
        unheard: vec![UnheardNode {
            node: "n2".to_owned(),
            why: "it cannot be reached".to_owned(),
        }],
        ..RuleTest::default()
    });
    let ask = async |who: &str, body: &str| {
        setup
            .send(who, "POST", "/api/muster/v1/failure-rules/test", body)
            .await
    };
    assert_eq!(ask(ANN, "spec: []").await.status, 403);
    let told = ask(ADMIN, "spec: []").await;
    assert_eq!(told.status, 200, "{}", told.text());
    let told = told.json();
    assert_eq!(told["changes"][0]["after"]["code"], 7);
    assert_eq!(told["unheard"][0]["node"], "n2");
    let bad = ask(ADMIN, " ").await;
    assert_eq!(bad.status, 400, "{}", bad.text());
    assert!(bad.text().contains("it is empty"), "{}", bad.text());
}

#[tokio::test]
async fn a_node_shows_its_links_its_images_and_what_is_wrong() {
    let setup = Setup::new();
    let mut view = node();
    view.capacity.levels = vec![DeviceLevel {
        level: muster_model::cluster_spec::Level::Nvlink,
        groups: vec![vec![0, 1], vec![2, 3]],
    }];
    setup.fake.set_node(view);
    setup.fake.add_image(ImageView {
        name: format!("lab/{SCRIPT}:1"),
        digest: "sha256:0".to_owned(),
        size_bytes: 3 << 30,
    });
    let text = page(&setup, "admin-token", "/nodes/n1").await;
    inert(&text);
    for part in [
        "NVLink 0",
        "NVLink 1",
        "group 1, with 2",
        "3 faulty",
        "0 used",
        "3.0 GiB",
        "Xid 79: fell off the bus",
        "What its agent checks all the time",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("style="), "{text}");
    // Images are for admins, as over REST.
    let text = page(&setup, "ann-token", "/nodes/n1").await;
    assert!(
        text.contains("NVLink 0") && !text.contains("3.0 GiB"),
        "{text}"
    );
    let path = "/api/muster/v1/cluster/members/n1/images";
    assert_eq!(setup.get(ANN, path).await.status, 403);
    assert_eq!(
        setup.get(ADMIN, path).await.json()[0]["size_bytes"],
        3_u64 << 30
    );
    let missing = setup
        .get(ADMIN, "/api/muster/v1/cluster/members/n9/images")
        .await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn names_and_faults_of_a_node_are_no_markup() {
    let setup = Setup::new();
    let mut view = node();
    view.capacity.devices[0].fault = Some(SCRIPT.to_owned());
    view.capacity.devices[1].model = SCRIPT.to_owned();
    let has = Has::of(&view.capacity, &view.free, 0);
    setup.fake.add_node(KnownNode {
        id: "n2".parse().unwrap(),
        has: Some(has),
        closed: vec![SCRIPT.to_owned()],
    });
    let mut n2 = member(1, "n2", MemberReach::Alive);
    n2.problems = vec![SCRIPT.to_owned()];
    setup.fake.change_mesh(|mesh| mesh.members.push(n2));
    inert(&page(&setup, "admin-token", "/nodes/n2").await);
    setup.fake.set_cells(cells(SCRIPT));
    inert(&page(&setup, "admin-token", "/virtual-clusters/default").await);
}

#[tokio::test]
async fn what_a_drain_would_move_is_shown_before_it_is_done() {
    let setup = Setup::new();
    setup.fake.run_on(
        "n1",
        &[
            ("ann~train", "w:0"),
            ("ann~train", "w:1"),
            ("admin~other", "w:0"),
        ],
    );
    let fields = "mode=draining&reason=%3Cscript%3E&after_min=5";
    let asked = send(&setup, "admin-token", "/nodes/n1", fields).await;
    assert_eq!(asked.status, 200, "{}", asked.text());
    for part in [
        "Drain n1?",
        "ann%7Etrain",
        "w:0, w:1",
        "admin%7Eother",
        "5 minutes from now",
        "name=\"confirmed\"",
        "Why: &lt;script&gt;",
    ] {
        assert!(asked.text().contains(part), "{part}: {}", asked.text());
    }
    let node = page(&setup, "admin-token", "/nodes/n1").await;
    assert!(!node.contains("draining:"), "nothing was done yet: {node}");
    let cordon = send(&setup, "admin-token", "/nodes/n1", "mode=cordoned&reason=x").await;
    assert!(
        cordon.text().contains("What goes on here"),
        "{}",
        cordon.text()
    );
    let done = send(
        &setup,
        "admin-token",
        "/nodes/n1",
        &format!("{fields}&confirmed=yes"),
    )
    .await;
    assert_eq!(done.status, 303, "{}", done.text());
}

fn plugin(id: &str, uri: &str, opens: PluginPlace) -> PortalPlugin {
    PortalPlugin {
        id: id.to_owned(),
        title: format!("{id} {SCRIPT}"),
        uri: uri.to_owned(),
        opens,
    }
}

#[tokio::test]
async fn a_plugin_is_framed_without_the_session() {
    let setup = Setup::new();
    setup.fake.set_plugins(vec![
        plugin(
            "wiki",
            "https://wiki.example:8443/a?b=1",
            PluginPlace::Frame,
        ),
        plugin("shop", "https://shop.example/", PluginPlace::Link),
    ]);
    let jobs = page(&setup, "ann-token", "/jobs").await;
    inert(&jobs);
    assert!(jobs.contains("href=\"/plugins/wiki\""), "{jobs}");
    assert!(jobs.contains("href=\"https://shop.example/\""), "{jobs}");
    assert!(!setup.guest("GET", "/login").await.text().contains("wiki"));

    let answer = ask(&setup, "ann-token", "GET", "/plugins/wiki", "").await;
    let policy = answer.header("content-security-policy");
    assert!(
        policy.ends_with("; frame-src https://wiki.example:8443"),
        "{policy}"
    );
    let text = answer.text();
    inert(text);
    for part in [
        "sandbox=\"allow-scripts",
        "referrerpolicy=\"no-referrer\"",
        "aria-current=\"page\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let frame = text
        .split("<iframe")
        .nth(1)
        .unwrap()
        .split('>')
        .next()
        .unwrap();
    assert!(!frame.contains("ann"), "nothing of the login: {frame}");
    assert!(!frame.contains("allow-top-navigation"), "{frame}");
    // No other page may have a frame.
    for path in ["/jobs", "/plugins/shop"] {
        let other = ask(&setup, "ann-token", "GET", path, "").await;
        assert!(
            !other
                .header("content-security-policy")
                .contains("frame-src"),
            "{path}"
        );
        assert!(!other.text().contains("<iframe"), "{path}");
    }
    let missing = ask(&setup, "ann-token", "GET", "/plugins/none", "").await;
    assert_eq!(missing.status, 404);
    assert!(
        missing.text().contains("portal.plugins"),
        "{}",
        missing.text()
    );
}

#[tokio::test]
async fn a_plugin_at_the_host_name_of_the_portal_is_not_opened() {
    let setup = Setup::new();
    setup.fake.set_plugins(vec![
        plugin("near", "http://10.0.0.9:9000/", PluginPlace::Frame),
        plugin("link", "http://10.0.0.9/", PluginPlace::Link),
    ]);
    for path in ["/plugins/near", "/plugins/link"] {
        let request = TestRequest {
            method: "GET",
            path,
            headers: &[
                ("cookie", "muster_session=ann-token"),
                ("host", "10.0.0.9:7741"),
            ],
            body: "",
        };
        let answer = setup.ask(request).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let text = answer.text();
        assert!(
            text.contains("your browser would send it your login"),
            "{path}: {text}"
        );
        assert!(
            !text.contains("<iframe") && !text.contains("//10.0.0.9"),
            "{path}: {text}"
        );
        assert!(
            !answer
                .header("content-security-policy")
                .contains("frame-src")
        );
    }
}

#[tokio::test]
async fn a_node_that_is_kept_free_says_by_whom_and_why_in_one_line() {
    let setup = Setup::new();
    let fields = "mode=cordoned&reason=fan+%3Cswap%3E&confirmed=yes";
    let done = send(&setup, "admin-token", "/nodes/n1", fields).await;
    assert_eq!(done.status, 303, "{}", done.text());
    for path in ["/nodes/n1", "/nodes", "/"] {
        let text = page(&setup, "ann-token", path).await;
        assert!(text.contains("Cordoned by admin, "), "{path}: {text}");
        assert_eq!(
            text.matches("ago: fan &lt;swap&gt;").count(),
            1,
            "{path}: {text}"
        );
    }
    let text = page(&setup, "ann-token", "/nodes/n1").await;
    assert!(
        text.contains("<span class=\"chip warn\">Cordoned</span>"),
        "{text}"
    );
    assert!(!text.contains(">alive<"), "{text}");
    // A job that waits for its cells says so.
    let mut waits = waiting("ann~waits");
    waits.summary.waiting_for = Some("needs 2 devices; 2 cells are cordoned (n1)".to_owned());
    setup.fake.put(waits);
    let mut other = waiting("ann~other");
    other.summary.waiting_for = Some("needs 2 devices; 1 is free".to_owned());
    setup.fake.put(other);
    let text = page(&setup, "ann-token", "/jobs/ann~waits").await;
    assert!(text.contains("</a>: Cordoned by admin, "), "{text}");
    let text = page(&setup, "ann-token", "/jobs/ann~other").await;
    assert!(!text.contains("Cordoned"), "{text}");
}

#[tokio::test]
async fn a_node_names_the_job_that_has_a_device_to_those_who_may_see_it() {
    let setup = Setup::new();
    setup
        .fake
        .put(placed("admin~hush", SubState::AttemptRunning));
    setup.fake.run_on("n1", &[("admin~hush", "worker:0")]);
    let row = "<td><a href=\"/jobs/admin%7Ehush\">hush</a> <span class=\"dim\">admin</span></td>";
    let text = page(&setup, "ann-token", "/nodes/n1").await;
    assert_eq!(text.matches(row).count(), 1, "{text}");
    setup.fake.set_access(AccessPolicy {
        jobs: JobVisibility::Private,
        ..AccessPolicy::default()
    });
    let text = page(&setup, "ann-token", "/nodes/n1").await;
    assert!(!text.contains("hush"), "{text}");
}

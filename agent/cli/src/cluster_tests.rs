//! `muster cluster` and `muster doctor` against the real gateway over a cluster in
//! memory.

use muster_model::alarm::{Alarm, AlarmKind, AlarmState, AlarmSubject, Alarms};
use muster_model::finding::{Finding, Grade};
use muster_model::mesh::{
    ActivationStage, CoverageView, DocumentVersion, DocumentView, Leadership, LocalDocument,
    MemberReach, MeshView, OneWay,
};
use muster_model::state::SubState;
use muster_portal_gateway::fake::member;
use serde_json::json;

use super::gateway_tests::ServedGateway;
use super::status::CliStatus;
use super::stub::{AgentStub, StubAnswer};
use super::tests::detail;

#[tokio::test]
async fn a_cluster_is_made_and_lets_others_in() {
    let served = ServedGateway::start();
    let (status, out, _) = served.muster(&["cluster", "status"]).await;
    assert!(
        status == CliStatus::Ok && out.contains("this machine is alone"),
        "{out}"
    );
    assert!(
        out.contains("  TLS            this node's certificate sha256:00ff\n"),
        "{out}"
    );
    let (status, _, err) = served.muster(&["cluster", "token", "create"]).await;
    assert_eq!(status, CliStatus::Refused, "{err}");
    let init = ["cluster", "init", "--name", "lab"];
    let (status, out, err) = served.muster(&init).await;
    assert_eq!((status, out.len()), (CliStatus::Ok, 33), "{err}");
    assert!(err.contains("muster cluster token create"), "{err}");
    let (_, out, _) = served.muster(&["cluster", "status"]).await;
    assert!(out.contains("  cluster state  n1 leads; "), "{out}");
    let (status, _, err) = served.muster(&init).await;
    assert!(
        status == CliStatus::Refused && err.contains("already"),
        "{err}"
    );

    let create = ["cluster", "token", "create", "--uses", "3", "--no-vote"];
    let (_, out, err) = served.muster(&create).await;
    assert!(out.starts_with("t0.secret."), "{out}");
    assert!(err.contains("3 machines"), "{err}");
    assert!(
        err.contains("muster cluster join 10.0.0.1:7740 TOKEN"),
        "{err}"
    );
    // All of a token's text names it as well as its id does.
    let (status, _, err) = served
        .muster(&["cluster", "token", "revoke", out.trim()])
        .await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let (_, out, _) = served.muster(&["cluster", "token", "list"]).await;
    assert!(out.contains("t0     revoked  3"), "{out}");
    assert!(!out.contains("secret"), "{out}");
    let (status, _, err) = served.muster(&["cluster", "token", "revoke", "t9"]).await;
    assert_eq!(status, CliStatus::Refused);
    assert!(err.contains("muster cluster token list"), "{err}");
    let (status, _, err) = served
        .muster(&["cluster", "token", "create", "--expires", "0s"])
        .await;
    assert!(status != CliStatus::Ok && err.contains("expires"), "{err}");
}

#[tokio::test]
async fn joining_waits_for_jobs() {
    let served = ServedGateway::start();
    served.cluster.offer("good", "lab");
    let join = ["cluster", "join", "n2", "good"];
    served.put(detail("ada~runs", SubState::AttemptRunning, None, 0, 1));
    let (status, _, err) = served.muster(&join).await;
    assert_eq!(status, CliStatus::Refused);
    assert!(err.contains("ada~runs. Wait for them"), "{err}");

    served.put(detail("ada~runs", SubState::Completed, Some(0), 0, 1));
    let bad = ["cluster", "join", "n2", "bad"];
    let (status, _, err) = served.muster(&bad).await;
    assert!(
        status == CliStatus::Refused && err.contains("unknown there"),
        "{err}"
    );
    let (status, out, err) = served.muster(&join).await;
    assert_eq!(
        (status, out.as_str()),
        (CliStatus::Ok, "n1 is member 1 of lab (5f5f5f5f5f5f)\n"),
        "{err}"
    );
    assert!(err.contains("are there again when it leaves"), "{err}");
}

/// Where a join is asked for.
const JOIN: &str = "POST /api/muster/v1/cluster/join";

/// Joins at an agent that answers so, one after the other. Also how often it was asked.
async fn joining<const N: usize>(answers: [StubAnswer; N]) -> (CliStatus, String, String, usize) {
    let stub = AgentStub::start();
    let plan = json!({ "jobs": [] });
    stub.answer("GET /api/muster/v1/cluster/join", [StubAnswer::json(plan)]);
    stub.answer(JOIN, answers);
    let (status, out, err) = stub.muster(&["cluster", "join", "n2", "t"]).await;
    let asked = stub.asked();
    let joins = asked.iter().filter(|asked| asked.line == JOIN);
    (status, out, err, joins.count())
}

#[tokio::test]
async fn a_join_comes_again_while_the_cluster_is_busy() {
    let busy = StubAnswer::refusal(503, "JoinBusyError", "n2 is busy");
    let view = json!({
        "cluster": {
            "id": "5f".repeat(16), "name": "lab", "root_hash": "", "generation": 1,
            "feature_level": 1,
        },
        "member": 1, "name": "n1",
    });
    let (status, out, err, joins) = joining([busy.clone(), busy, StubAnswer::json(view)]).await;
    assert_eq!((status, joins), (CliStatus::Ok, 3), "{err}");
    assert!(out.contains("member 1 of lab"), "{out}");
    // Said once: who waits sees the rest as it goes.
    assert_eq!(err.matches("n2 is busy; trying for").count(), 1, "{err}");
    // What does not pass is not tried again.
    let refused = StubAnswer::refusal(409, "JoinRefusedError", "the token is used up");
    let (status, _, err, joins) = joining([refused]).await;
    assert_eq!((status, joins), (CliStatus::Refused, 1), "{err}");
    assert!(err.contains("used up"), "{err}");
}

#[tokio::test]
async fn members_in_trouble_say_why_and_islands_are_shown() {
    let served = ServedGateway::start();
    served.cluster.change_mesh(|mesh| {
        let mut n2 = member(1, "n2", MemberReach::Suspect);
        n2.why = vec!["n1 has not heard it for 12 s".to_owned()];
        n2.age_s = Some(12);
        n2.reach_s = Some(75);
        mesh.members.push(n2);
        mesh.members.push(member(2, "n3", MemberReach::Unreachable));
    });
    let (_, out, _) = served.muster(&["cluster", "members"]).await;
    assert_eq!(
        out,
        "\
MEMBER  STATE               ADDRESS        AGENT  SAID
n1      alive               10.0.0.1:7740  0.1.0  1s
n2      suspect for 1m 15s  10.0.0.1:7740  0.1.0  12s   n1 has not heard it for 12 s
n3      unreachable         10.0.0.1:7740  0.1.0  1s
"
    );
    let (status, out, _) = served.muster(&["cluster", "status"]).await;
    assert_eq!(status, CliStatus::Negative);
    assert!(
        out.contains("  members        3: 1 alive, 1 suspect (n2), 1 unreachable (n3)\n"),
        "{out}"
    );
    served.cluster.change_mesh(|mesh| {
        mesh.islands.push(vec!["n2".to_owned()]);
        mesh.one_way.push(OneWay {
            from: "n2".to_owned(),
            to: "n1".to_owned(),
        });
    });
    let (_, out, _) = served.muster(&["cluster", "members"]).await;
    let tail = "\nIslands that do not hear each other\n  n1\n  n2\n\n\
                Links that work one way only\n  n2 reaches n1, n1 does not reach n2\n";
    assert!(out.ends_with(tail), "{out}");

    // One that can be reached is asked for first.
    let (status, _, err) = served.muster(&["cluster", "expel", "n2"]).await;
    assert_eq!(status, CliStatus::Usage, "{err}");
    assert!(err.contains("--yes") && err.contains("muster cluster leave"));

    served.cluster.run_on("n3", &[("ada~a", "w:0")]);
    let (status, _, err) = served.muster(&["cluster", "expel", "n3"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    // What is left there is told, and can be given up although it is no member any more.
    assert!(err.contains("tasks of ada~a"), "{err}");
    let off = ["cluster", "off", "n3", "--yes"];
    let (status, _, err) = served.muster(&off).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert!(err.contains("1 task on n3 is given up, of ada~a"), "{err}");
    let (_, out, _) = served.muster(&["cluster", "members"]).await;
    assert!(!out.contains("n3"), "{out}");
    let (_, out, _) = served.muster(&["cluster", "members", "--all"]).await;
    assert!(out.contains("n3      expelled"), "{out}");
    let (status, _, err) = served.muster(&["cluster", "expel", "n3"]).await;
    assert!(status == CliStatus::Refused && err.contains("muster cluster members"));
}

#[tokio::test]
async fn a_machine_is_cordoned_drained_and_opened() {
    let served = ServedGateway::start();
    let n2 = member(1, "n2", MemberReach::Alive);
    served.cluster.change_mesh(|mesh| mesh.members.push(n2));
    let (status, _, err) = served.muster(&["cordon", "n2", "--reason", "fans"]).await;
    assert!(
        status == CliStatus::Ok && err.contains("muster uncordon n2"),
        "{err}"
    );
    let (_, out, _) = served.muster(&["cluster", "members"]).await;
    assert!(out.contains("cordoned by admin: fans"), "{out}");

    served
        .cluster
        .run_on("n2", &[("ada~a", "w:0"), ("ada~a", "w:1")]);
    let drain = [
        "drain",
        "n2",
        "--reason",
        "disks",
        "--after",
        "1h",
        "--no-wait",
    ];
    let (status, _, err) = served.muster(&drain).await;
    assert!(
        status == CliStatus::Ok && err.contains("is being drained"),
        "{err}"
    );
    let (status, _, err) = served.muster(&drain[..4]).await;
    assert!(
        status == CliStatus::Ok && err.contains("n2 is empty"),
        "{err}"
    );
    assert!(!err.contains("votes"), "{err}");
    // A machine that is silent cannot be asked to stop anything: what to do is said, and once.
    let reach = |served: &ServedGateway, reach| {
        let change = |mesh: &mut MeshView| {
            let mut members = mesh.members.iter_mut();
            members.find(|it| it.name == "n2").unwrap().reach = reach;
        };
        served.cluster.change_mesh(change);
    };
    reach(&served, MemberReach::Unreachable);
    served
        .cluster
        .run_on("n2", &[("ada~a", "w:0"), ("ada~a", "w:1")]);
    let (status, _, err) = served.muster(&drain[..4]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert_eq!(err.matches("muster cluster off n2").count(), 1, "{err}");
    reach(&served, MemberReach::Alive);
    // Where nobody else can have its vote, that is said at once.
    served
        .cluster
        .change_mesh(|mesh| mesh.leadership.voters = vec!["n1".to_owned(), "n2".to_owned()]);
    let (status, _, err) = served.muster(&drain[..4]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert!(err.contains("n2 still votes on the cluster state"), "{err}");
    let (_, out, _) = served.muster(&["cluster", "members"]).await;
    assert!(out.contains("draining by admin: disks"), "{out}");
    let (status, _, err) = served.muster(&["undrain", "n2"]).await;
    assert!(
        status == CliStatus::Ok && err.contains("takes tasks again"),
        "{err}"
    );
    let (_, out, _) = served.muster(&["cluster", "members"]).await;
    assert!(!out.contains("admin"), "{out}");
    let (status, _, err) = served.muster(&["uncordon", "n9"]).await;
    assert!(
        status == CliStatus::Refused && err.contains("muster cluster members"),
        "{err}"
    );
}

#[tokio::test]
async fn a_member_is_taken_for_off_only_by_who_has_looked() {
    let served = ServedGateway::start();
    let n2 = member(1, "n2", MemberReach::Unreachable);
    served.cluster.change_mesh(|mesh| mesh.members.push(n2));
    served
        .cluster
        .run_on("n2", &[("ada~a", "w:0"), ("bob~b", "w:0")]);
    let (status, _, err) = served.muster(&["cluster", "off", "n2"]).await;
    assert!(status == CliStatus::Usage && err.contains("--yes"), "{err}");
    let (status, _, err) = served.muster(&["cluster", "off", "n2", "--yes"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert!(
        err.contains("2 tasks on n2 are given up, of ada~a, bob~b"),
        "{err}"
    );
    let (status, _, err) = served.muster(&["cluster", "off", "n1", "--yes"]).await;
    assert!(
        status == CliStatus::Refused && err.contains("is not off"),
        "{err}"
    );
}

#[tokio::test]
async fn a_virtual_cluster_is_recovered_by_who_names_what_is_lost() {
    let served = ServedGateway::start();
    served.cluster.change_mesh(|mesh| {
        let led = Leadership {
            leader: None,
            voters: ["n1", "n2", "n3"].map(str::to_owned).to_vec(),
            away: Vec::new(),
            learners: Vec::new(),
        };
        mesh.vcs = [("prod".parse().unwrap(), led)].into();
    });
    let recover = ["cluster", "recover", "--vc", "prod"];
    let (status, out, err) = served.muster(&recover).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    for told in [
        "what these know: n1, n2.",
        "from what n3 knows, as generation 2",
        "muster cluster recover --vc prod --lost n1,n2",
    ] {
        assert!(out.contains(told), "{told} in {out}");
    }
    let (status, out, _) = served
        .muster(&[&recover[..], &["-o", "json"]].concat())
        .await;
    let plan: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(
        status == CliStatus::Ok && plan["missing"][1] == "n2",
        "{out}"
    );
    let (status, _, err) = served
        .muster(&[&recover[..], &["--lost", "n1"]].concat())
        .await;
    assert!(
        status == CliStatus::Refused && err.contains("lost"),
        "{err}"
    );
    let (status, _, err) = served
        .muster(&[&recover[..], &["--lost", "n2,n1"]].concat())
        .await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert!(err.contains("goes on from what n3 knows"), "{err}");
    let (status, _, err) = served.muster(&recover).await;
    assert!(
        status == CliStatus::Refused && err.contains("nothing to recover"),
        "{err}"
    );
}

#[tokio::test]
async fn the_cluster_itself_is_recovered_where_no_virtual_cluster_is_named() {
    let served = ServedGateway::start();
    served.cluster.change_mesh(|mesh| {
        mesh.leadership.leader = None;
        mesh.leadership.voters = ["n1", "n2", "n3"].map(str::to_owned).to_vec();
    });
    let (status, out, err) = served.muster(&["cluster", "recover"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    for told in [
        "The cluster has no leader",
        "Members, tokens and edits that only the others knew of would be lost",
        "muster cluster recover --lost n1,n2",
    ] {
        assert!(out.contains(told), "{told} in {out}");
    }
    let recover = ["cluster", "recover", "--lost", "n1,n2"];
    let (status, out, err) = served.muster(&recover).await;
    assert_eq!((status, out.trim()), (CliStatus::Ok, "n3"), "{err}");
    assert!(
        err.contains("the cluster goes on from what n3 knows"),
        "{err}"
    );
    assert!(err.contains("muster cluster recover --vc NAME"), "{err}");
}

#[test]
fn what_is_known_of_those_that_cannot_be_reached_has_an_age() {
    let mut away = member(1, "n2", MemberReach::Unreachable);
    away.reach_s = Some(65);
    let members = [member(0, "n1", MemberReach::Alive), away];
    let shown = |unreachable: &[&str]| {
        let coverage = CoverageView {
            members: 2,
            active: 2,
            unreachable: unreachable.iter().map(ToString::to_string).collect(),
            ..CoverageView::default()
        };
        DocumentView {
            name: "failure-rules".to_owned(),
            newest: DocumentVersion {
                version: 3,
                stage: ActivationStage::Active,
                hash: String::new(),
                bytes: 0,
                author: String::new(),
                at_ms: 0,
                forced: false,
            },
            active: 3,
            coverage,
            here: LocalDocument::default(),
        }
    };
    let told = super::document::old_news(&shown(&[]), &members).unwrap();
    assert_eq!(
        told,
        "this machine does not reach n2: what it shows of them is 1m 5s old"
    );
    assert_eq!(super::document::old_news(&shown(&["n2"]), &members), None);
}

#[tokio::test]
async fn the_doctor_answers_no_when_something_is_wrong() {
    let served = ServedGateway::start();
    let (status, out, err) = served.muster(&["doctor"]).await;
    assert!(
        status == CliStatus::Ok && out.contains("All is well"),
        "{err}"
    );
    let slow = Finding::ok("fsync", "/state", "p99 45 ms").but(Grade::Warn, "an SSD");
    served.cluster.set_findings(vec![slow]);
    let (status, out, _) = served.muster(&["doctor"]).await;
    assert!(out.contains("an SSD"), "{out}");
    assert_eq!(status, CliStatus::Negative);
    let (status, out, _) = served.muster(&["doctor", "-o", "json"]).await;
    assert_eq!(status, CliStatus::Negative);
    assert!(out.contains("\"grade\": \"warn\""), "{out}");
}

fn alarm(kind: AlarmKind, state: AlarmState, subject: AlarmSubject, text: &str) -> Alarm {
    Alarm {
        number: 0,
        boot: String::new(),
        at_ms: 1_795_173_687_000,
        kind,
        state,
        subject,
        text: text.to_owned(),
    }
}

#[tokio::test]
async fn alarms_that_stand_come_first() {
    let served = ServedGateway::start();
    let (_, out, _) = served.muster(&["cluster", "alarms"]).await;
    assert_eq!(out, "nothing is wrong, as far as this machine sees\n");
    let lost = |name: &str, state| {
        let subject = AlarmSubject::Member(name.to_owned());
        alarm(AlarmKind::MemberLost, state, subject, "see to it")
    };
    served.cluster.alarm(lost("n2", AlarmState::Raised));
    served.cluster.alarm(lost("n3", AlarmState::Raised));
    served.cluster.alarm(lost("n2", AlarmState::Cleared));
    let leads = AlarmKind::LeaderChanged;
    let vc = AlarmSubject::VirtualCluster("prod".parse().unwrap());
    let event = alarm(leads, AlarmState::Event, vc, "n3 leads");
    served.cluster.alarm(event);
    let (status, out, _) = served.muster(&["cluster", "alarms"]).await;
    assert_eq!(status, CliStatus::Ok);
    assert_eq!(
        out,
        "\
Standing
NUMBER  WHEN                     STATE   ALARM        SUBJECT  WHAT TO KNOW
2       2026-11-20 11:21:27 UTC  raised  member_lost  n3       see to it

Last
NUMBER  WHEN                     STATE    ALARM           SUBJECT  WHAT TO KNOW
1       2026-11-20 11:21:27 UTC  raised   member_lost     n2       see to it
2       2026-11-20 11:21:27 UTC  raised   member_lost     n3       see to it
3       2026-11-20 11:21:27 UTC  cleared  member_lost     n2       see to it
4       2026-11-20 11:21:27 UTC  event    leader_changed  vc prod  n3 leads
"
    );
    let (_, out, _) = served.muster(&["cluster", "alarms", "--after", "3"]).await;
    assert!(
        out.lines().count() == 2 && out.contains("n3 leads"),
        "{out}"
    );
    let after = ["cluster", "alarms", "--after", "4"];
    let (_, out, _) = served.muster(&after).await;
    assert_eq!(out, "no alarms after that one\n");
    // The agent has started anew since.
    let other = [&after[..], &["--boot", "b0", "-o", "json"]].concat();
    let (_, out, err) = served.muster(&other).await;
    let all: Alarms = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!(
        (all.alarms.len(), all.boot.as_str(), all.last),
        (4, "b1", 4)
    );
}

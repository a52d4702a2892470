//! `muster rules` against the real gateway over a cluster in memory.

use muster_model::exit::Behavior;
use muster_model::mesh::MemberReach;
use muster_model::rule_test::{JudgedAs, RuleTest, UnheardNode, VerdictChange};
use muster_portal_gateway::fake::member;

use crate::gateway_tests::ServedGateway;
use crate::status::CliStatus;
use crate::stub::TextFile;

/// A rule file that can be used.
const RULES: &str = "\
spec:
- code: 7
  phrase: OutOfLuck
  issuer: USER_CONTAINER
  causer: USER_CONTAINER
  type: USER_FAILURE
  stage: RUNNING
  behavior: PERMANENT
  reaction: NEVER_RETRY
  reason: It was not lucky
";

#[tokio::test]
async fn rules_are_shown_edited_and_applied() {
    let served = ServedGateway::start();
    let (_, out, _) = served.muster(&["rules", "status"]).await;
    assert!(out.contains("never edited"), "{out}");
    let file = TextFile::of(RULES);
    let apply = ["rules", "apply", file.path()];
    let (status, out, err) = served.muster(&apply).await;
    assert_eq!(
        (status, out.as_str()),
        (CliStatus::Ok, "version 1\n"),
        "{err}"
    );
    // From here on an edit must say what it was made from.
    let (status, _, err) = served.muster(&apply).await;
    assert_eq!(status, CliStatus::Usage);
    assert!(err.contains("--base 1"), "{err}");

    let (_, shown, _) = served.muster(&["rules", "show"]).await;
    assert_eq!(shown, format!("# muster failure-rules version 1\n{RULES}"));
    let edited = TextFile::of(&shown.replace("OutOfLuck", "BadLuck"));
    let apply = ["rules", "apply", edited.path()];
    let (_, out, err) = served.muster(&apply).await;
    assert_eq!(out, "version 2\n", "{err}");
    // Applied again it is an edit of a version that is not the newest any more.
    let (status, _, err) = served.muster(&apply).await;
    assert_eq!(status, CliStatus::Refused);
    assert!(err.contains("version 2 by now"), "{err}");
    // Not the version in force, which may be an older one.
    assert!(err.contains("`muster rules show 2`"), "{err}");
    let (_, out, _) = served.muster(&["rules", "show"]).await;
    assert!(
        out.starts_with("# muster failure-rules version 2\nspec:"),
        "{out}"
    );

    let forced = ["rules", "apply", edited.path(), "--now", "--base", "2"];
    assert_eq!(served.muster(&forced).await.1, "version 3\n");
    let (_, out, _) = served.muster(&["rules", "rollback", "1"]).await;
    assert_eq!(out, "version 4\n");
    let (_, out, _) = served.muster(&["rules", "history"]).await;
    assert!(out.contains("repeats version 1"), "{out}");
    assert!(out.contains("steps skipped"), "{out}");
    let (_, out, err) = served.muster(&["rules", "rollback", "1", "--now"]).await;
    assert_eq!(out, "version 5\n", "{err}");
    let (_, out, _) = served.muster(&["rules", "show", "5"]).await;
    assert!(out.contains("OutOfLuck"), "{out}");
    let (status, _, err) = served.muster(&["rules", "rollback", "9"]).await;
    assert!(
        status == CliStatus::Refused && err.contains("shows every version"),
        "{err}"
    );
    let (_, out, _) = served.muster(&["rules", "show", "1"]).await;
    assert!(out.contains("OutOfLuck"), "{out}");
}

#[tokio::test]
async fn rules_are_listed_compared_and_changed_in_an_editor() {
    let served = ServedGateway::start();
    let file = TextFile::of(RULES);
    served.muster(&["rules", "apply", file.path()]).await;
    let (_, out, err) = served.muster(&["rules", "list"]).await;
    assert!(
        out.contains("7     OutOfLuck  never    It was not lucky"),
        "{out}{err}"
    );
    let (_, out, _) = served.muster(&["rules", "list", "-o", "json"]).await;
    assert!(out.contains("\"phrase\": \"OutOfLuck\""), "{out}");

    let editor = |command| ["rules", "edit", "--now", "--editor", command];
    let (status, out, err) = served.muster(&editor("sed -i s/OutOfLuck/BadLuck/")).await;
    assert_eq!(
        (status, out.as_str()),
        (CliStatus::Ok, "version 2\n"),
        "{err}"
    );
    let (status, out, err) = served.muster(&editor("true")).await;
    assert_eq!((status, out.as_str()), (CliStatus::Ok, ""), "{err}");
    assert!(err.contains("nothing was changed"), "{err}");
    // What cannot be used is not lost.
    let (status, _, err) = served.muster(&editor("sed -i s/PERMANENT/FOREVER/")).await;
    assert_eq!(status, CliStatus::Usage, "{err}");
    assert!(err.contains("line 8: spec[0].behavior"), "{err}");
    let path = err
        .split("your text is in ")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    let path = path.expect("the path is told");
    assert!(std::fs::read_to_string(path).unwrap().contains("FOREVER"));
    std::fs::remove_file(path).unwrap();
    let (status, _, err) = served.muster(&editor("/no/such/editor")).await;
    assert!(
        status == CliStatus::Usage && err.contains("--editor"),
        "{err}"
    );

    let (status, out, err) = served.muster(&["rules", "diff", "1", "2"]).await;
    assert_eq!(status, CliStatus::of(false), "{err}");
    assert!(
        out.contains("-  phrase: OutOfLuck\n+  phrase: BadLuck\n"),
        "{out}"
    );
    let (status, out, _) = served
        .muster(&["rules", "diff", "1", "--file", file.path()])
        .await;
    assert!(
        status == CliStatus::Ok && out.contains("are the same"),
        "{out}"
    );
    let (status, _, err) = served.muster(&["rules", "diff"]).await;
    assert!(
        status == CliStatus::Usage && err.contains("--file"),
        "{err}"
    );
}

#[tokio::test]
async fn rules_that_cannot_be_are_not_sent() {
    let served = ServedGateway::start();
    let file = TextFile::of("- code: seven\n");
    let (status, _, err) = served.muster(&["rules", "apply", file.path()]).await;
    assert!(status == CliStatus::Usage && err.contains("code"), "{err}");
}

#[tokio::test]
async fn a_test_of_rules_says_by_its_exit_status_whether_verdicts_would_change() {
    let served = ServedGateway::start();
    let file = TextFile::of(&format!("# muster failure-rules version 1\n{RULES}"));
    let test = ["rules", "test", file.path()];
    let (status, out, err) = served.muster(&test).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert!(out.contains("nothing was tried"), "{out}");

    let judged = |code: i32, behavior: Behavior| JudgedAs {
        code,
        phrase: format!("Code{code}"),
        behavior,
    };
    served.cluster.set_rule_test(RuleTest {
        tried: 5,
        changed: 2,
        changes: vec![VerdictChange {
            before: judged(255, Behavior::Unknown),
            after: judged(7, Behavior::Permanent),
            count: 2,
            examples: Vec::new(),
        }],
        nodes: vec!["n1".to_owned()],
        unheard: vec![UnheardNode {
            node: "n2".to_owned(),
            why: "it cannot be reached".to_owned(),
        }],
        ..RuleTest::default()
    });
    let (status, out, err) = served.muster(&test).await;
    assert_eq!(status, CliStatus::Negative, "{err}");
    assert!(out.contains("255 Code255  7 Code7"), "{out}");
    assert!(err.contains("failures of n2 were not tried"), "{err}");
    let (_, out, _) = served
        .muster(&["rules", "test", file.path(), "-o", "json"])
        .await;
    let told: RuleTest = serde_json::from_str(&out).unwrap();
    assert_eq!(told.changes[0].count, 2);

    let broken = TextFile::of("- code: seven\n");
    let (status, _, err) = served.muster(&["rules", "test", broken.path()]).await;
    assert!(status == CliStatus::Usage && err.contains("code"), "{err}");
}

#[tokio::test]
async fn history_says_which_rules_were_replaced_before_they_were_in_force() {
    let served = ServedGateway::start();
    served
        .cluster
        .change_mesh(|mesh| mesh.members.push(member(1, "n2", MemberReach::Alive)));
    let file = TextFile::of(RULES);
    served.muster(&["rules", "apply", file.path()]).await;
    let again = ["rules", "apply", file.path(), "--base", "1"];
    let (_, out, err) = served.muster(&again).await;
    assert_eq!(out, "version 2\n", "{err}");
    let (_, out, _) = served.muster(&["rules", "history"]).await;
    let stage = |version: &str| {
        let mut lines = out.lines().map(str::split_whitespace);
        lines.find_map(|mut words| (words.next() == Some(version)).then(|| words.next())?)
    };
    assert_eq!(stage("2"), Some("distribute"), "{out}");
    assert_eq!(stage("1"), Some("replaced"), "{out}");
}

#[tokio::test]
async fn rules_status_says_who_is_missing() {
    let served = ServedGateway::start();
    served.cluster.change_mesh(|mesh| {
        mesh.members.push(member(1, "n2", MemberReach::Alive));
        mesh.members.push(member(2, "n3", MemberReach::Unreachable));
    });
    let file = TextFile::of(RULES);
    served.muster(&["rules", "apply", file.path()]).await;
    let (status, out, _) = served.muster(&["rules", "status"]).await;
    assert_eq!(status, CliStatus::Ok);
    let expect = "\
version 1: 2 of 3, unreachable: n3, rejected: 0
  stage     distribute: nodes fetch and check it, none uses it yet
  edited    by admin, ";
    assert!(out.starts_with(expect), "{out}");
    assert!(out.contains("in force  what it was started with"), "{out}");
    assert!(!out.contains("as of"), "it is named already: {out}");
}

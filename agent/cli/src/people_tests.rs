//! `muster user`, `muster group` and `muster audit` against an agent of canned answers.

use clap::Parser as _;
use serde_json::{Value, json};

use super::Cli;
use super::status::CliStatus;
use super::stub::{AgentStub, StubAnswer, TextFile};

const USERS: &str = "/api/v2/users";
const GROUPS: &str = "/api/v2/groups";

fn done() -> StubAnswer {
    StubAnswer {
        status: 201,
        ..StubAnswer::json(json!({ "message": "done" }))
    }
}

fn ada() -> Value {
    json!({
        "username": "ada", "email": "ada@example.org", "grouplist": ["default", "research"],
        "extension": { "sshKeys": [] }, "admin": false, "virtualCluster": ["default", "vision"],
        "storageConfig": [],
    })
}

fn research() -> Value {
    json!({
        "groupname": "research", "description": "Both floors", "externalName": "",
        "extension": {
            "acls": { "admin": false, "virtualClusters": ["vision", "speech"], "storageConfigs": ["a"] },
            "color": "blue",
        },
    })
}

/// What was sent: the lines, and the bodies as JSON.
fn sent(stub: &AgentStub) -> Vec<(String, Value)> {
    let asked = stub.asked().into_iter();
    let sent = asked.map(|asked| {
        (
            asked.line,
            serde_json::from_str(&asked.body).unwrap_or_default(),
        )
    });
    sent.collect()
}

#[tokio::test]
async fn users_are_listed_and_shown() {
    let stub = AgentStub::start();
    let admin = json!({ "username": "root", "admin": true, "grouplist": ["admingroup"] });
    stub.answer(&format!("GET {USERS}"), [StubAnswer::json([ada(), admin])]);
    stub.answer(&format!("GET {USERS}/ada"), [StubAnswer::json(ada())]);
    let nobody = StubAnswer::refusal(400, "NoUserError", "User bob is not found.");
    stub.answer(&format!("GET {USERS}/bob"), [nobody]);
    let (status, out, err) = stub.muster(&["user", "list"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert_eq!(
        out,
        "\
USER  EMAIL            ADMIN  VCS             GROUPS
ada   ada@example.org         default,vision  default,research
root                   yes                    admingroup
"
    );
    let (_, out, _) = stub.muster(&["user", "ls", "-o", "json"]).await;
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(listed[0], ada());
    let (_, out, _) = stub.muster(&["user", "show", "ada"]).await;
    assert_eq!(
        out,
        "\
ada
  email             ada@example.org
  admin             no
  groups            default, research
  virtual clusters  default, vision
  storages          -
  extension         sshKeys
"
    );
    let (status, _, err) = stub.muster(&["user", "show", "bob"]).await;
    assert_eq!(status, CliStatus::Refused);
    assert!(err.contains("muster user list"), "{err}");
}

#[tokio::test]
async fn a_user_is_added_with_a_password_from_a_file() {
    let stub = AgentStub::start();
    stub.answer(&format!("POST {USERS}"), [done()]);
    stub.answer(&format!("PUT {USERS}/ada/group"), [done()]);
    let file = TextFile::of("correct horse\n");
    let add = [
        "user",
        "add",
        "ada",
        "--email",
        "a@b.c",
        "--vc",
        "vision,speech",
        "--group",
        "research",
        "--password-file",
        file.path(),
    ];
    let (status, out, err) = stub.muster(&add).await;
    assert_eq!((status, out.as_str()), (CliStatus::Ok, ""), "{err}");
    assert_eq!(err, "muster: ada was added\n");
    let user = json!({
        "username": "ada", "email": "a@b.c", "password": "correct horse", "admin": false,
        "virtualCluster": ["vision", "speech"], "extension": {},
    });
    let group = json!({ "groupname": "research" });
    let expect = [
        (format!("POST {USERS}"), user),
        (format!("PUT {USERS}/ada/group"), group),
    ];
    assert_eq!(sent(&stub), expect);
}

#[tokio::test]
async fn a_random_password_is_printed_once() {
    let stub = AgentStub::start();
    stub.answer(&format!("POST {USERS}"), [done()]);
    let (status, out, err) = stub
        .muster(&["user", "add", "ada", "--admin", "--generate"])
        .await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let (_, body) = &sent(&stub)[0];
    assert_eq!(
        (body["password"].as_str(), &body["admin"]),
        (Some(out.trim()), &json!(true))
    );
    assert!(
        err.contains("printed once") && !err.contains(out.trim()),
        "{err}"
    );
    // Nobody has it where the user was not added.
    let taken = StubAnswer::refusal(409, "ConflictUserError", "User name ada already exists.");
    let stub = AgentStub::start();
    stub.answer(&format!("POST {USERS}"), [taken]);
    let (status, out, err) = stub.muster(&["user", "add", "ada", "--generate"]).await;
    assert_eq!((status, out.as_str()), (CliStatus::Refused, ""));
    assert!(err.contains("muster user set"), "{err}");
}

#[tokio::test]
async fn what_of_a_change_was_made_is_told_where_the_rest_fails() {
    let stub = AgentStub::start();
    stub.answer(&format!("PUT {USERS}"), [done()]);
    let no_group = StubAnswer::refusal(404, "NoGroupError", "Group b is not found.");
    stub.answer(&format!("PUT {USERS}/ada/group"), [done(), no_group]);
    let set = [
        "user", "set", "ada", "--admin", "true", "--email", "", "--group", "+a,+b,-c",
    ];
    let (status, _, err) = stub.muster(&set).await;
    assert_eq!(status, CliStatus::Refused, "{err}");
    let told = "muster: ada: changed: email, admin, group +a; not changed: group +b, group -c\n";
    assert!(
        err.starts_with(told) && err.contains("muster group list"),
        "{err}"
    );
    let (_, body) = &sent(&stub)[0];
    let data = json!({ "email": "", "admin": true, "username": "ada" });
    assert_eq!(body, &json!({ "patch": true, "data": data }));
    // Those that were not tried are named where nothing was changed, too.
    let set = ["user", "set", "ada", "--group", "+b,+d"];
    let (_, _, err) = stub.muster(&set).await;
    assert!(
        err.starts_with("muster: ada: not changed: group +b, group +d\n"),
        "{err}"
    );
    // One alone is named by the error.
    let (status, _, err) = stub.muster(&["user", "set", "ada", "--group", "+b"]).await;
    assert!(
        status == CliStatus::Refused && !err.contains("changed:"),
        "{err}"
    );
}

#[tokio::test]
async fn groups_of_a_user_are_replaced_or_changed() {
    let stub = AgentStub::start();
    stub.answer(&format!("PUT {USERS}/ada/grouplist"), [done()]);
    stub.answer(&format!("DELETE {USERS}/ada/group"), [done()]);
    for group in ["a,b", "-b"] {
        let (status, _, err) = stub.muster(&["user", "set", "ada", "--group", group]).await;
        assert_eq!(status, CliStatus::Ok, "{err}");
    }
    let expect = [
        (
            format!("PUT {USERS}/ada/grouplist"),
            json!({ "grouplist": ["a", "b"] }),
        ),
        (
            format!("DELETE {USERS}/ada/group"),
            json!({ "groupname": "b" }),
        ),
    ];
    assert_eq!(sent(&stub), expect);
}

#[tokio::test]
async fn an_extension_is_a_json_object() {
    let stub = AgentStub::start();
    stub.answer(&format!("PUT {USERS}"), [done()]);
    let good = TextFile::of("{\"team\": \"vision\"}");
    let set = [
        "user",
        "set",
        "ada",
        "--vc",
        "vision",
        "--extension",
        good.path(),
    ];
    let (status, _, err) = stub.muster(&set).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let data = &sent(&stub)[0].1["data"];
    assert_eq!(data["extension"], json!({ "team": "vision" }));
    assert_eq!(data["virtualCluster"], json!(["vision"]));
    let bad = TextFile::of("[1]");
    let (status, _, err) = stub
        .muster(&["user", "set", "ada", "--extension", bad.path()])
        .await;
    assert!(
        status == CliStatus::Usage && err.contains("JSON object"),
        "{err}"
    );
}

#[tokio::test]
async fn a_password_is_changed_on_the_socket_without_the_old_one() {
    let stub = AgentStub::start();
    stub.answer(&format!("PUT {USERS}/ada/password"), [done()]);
    stub.answer(&format!("PUT {USERS}/admin/password"), [done()]);
    let (old, new) = (TextFile::of("old one"), TextFile::of("new one\r\n"));
    let change = ["user", "password", "ada", "--password-file", new.path()];
    let (status, out, err) = stub.muster(&change).await;
    assert_eq!((status, out.as_str()), (CliStatus::Ok, ""), "{err}");
    let own = [
        "user",
        "password",
        "--password-file",
        new.path(),
        "--old-password-file",
        old.path(),
    ];
    let (status, _, err) = stub.muster(&own).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let expect = [
        (
            format!("PUT {USERS}/ada/password"),
            json!({ "newPassword": "new one" }),
        ),
        (
            format!("PUT {USERS}/admin/password"),
            json!({ "newPassword": "new one", "oldPassword": "old one" }),
        ),
    ];
    assert_eq!(sent(&stub), expect);
    let wrong = StubAnswer::refusal(403, "ForbiddenUserError", "Pls input the correct password.");
    let stub = AgentStub::start();
    stub.answer(&format!("PUT {USERS}/admin/password"), [wrong]);
    let (status, _, err) = stub.muster(&own).await;
    assert!(
        status == CliStatus::Refused && err.contains("hint: give the password until now"),
        "{err}"
    );
}

#[tokio::test]
async fn nobody_is_removed_unasked() {
    let stub = AgentStub::start();
    let last = StubAnswer::refusal(
        403,
        "RemoveAdminError",
        "User ada is an admin and can't be removed; take the admin right away first.",
    );
    stub.answer(&format!("DELETE {USERS}/ada"), [done(), last]);
    stub.answer(&format!("DELETE {GROUPS}/research"), [done()]);
    for what in [["user", "remove", "ada"], ["group", "rm", "research"]] {
        let (status, _, err) = stub.muster(&what).await;
        assert!(
            status == CliStatus::Usage && err.contains("give --yes"),
            "{err}"
        );
        assert!(stub.asked().is_empty());
    }
    let (status, _, err) = stub.muster(&["user", "rm", "ada", "--yes"]).await;
    assert!(
        status == CliStatus::Ok && err.contains("jobs stay"),
        "{err}"
    );
    let (status, _, err) = stub.muster(&["user", "rm", "ada", "--yes"]).await;
    assert!(
        status == CliStatus::Refused && err.contains("--admin false"),
        "{err}"
    );
    let (status, _, err) = stub.muster(&["group", "remove", "research", "-y"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
}

#[tokio::test]
async fn groups_are_listed_shown_and_added() {
    let stub = AgentStub::start();
    let admins = json!({ "groupname": "admingroup", "extension": { "acls": { "admin": true } } });
    stub.answer(
        &format!("GET {GROUPS}"),
        [StubAnswer::json([admins, research()])],
    );
    let line = format!("GET {GROUPS}/research");
    stub.answer(&line, [StubAnswer::json(research()).with("etag", "\"7\"")]);
    let members = json!([{ "username": "ada", "clusterAdmin": false }, { "username": "eve", "clusterAdmin": true }]);
    let forbidden = StubAnswer::refusal(403, "ForbiddenUserError", "Non-admin is not allowed.");
    stub.answer(
        &format!("{line}/userlist"),
        [StubAnswer::json(members), forbidden],
    );
    stub.answer(&format!("POST {GROUPS}"), [done()]);
    let (_, out, err) = stub.muster(&["group", "list"]).await;
    assert_eq!(
        out,
        "\
GROUP       ADMIN  VCS            STORAGES  DESCRIPTION
admingroup  yes
research           vision,speech  a         Both floors
",
        "{err}"
    );
    let (_, out, _) = stub.muster(&["group", "show", "research"]).await;
    assert_eq!(
        out,
        "\
research
  description       Both floors
  external name     -
  admin             no
  virtual clusters  vision, speech
  storages          a

Members
  USER  ADMIN
  ada
  eve   yes
"
    );
    // Users without the admin right see the rest.
    let show = ["group", "show", "research", "-o", "json"];
    let (status, out, err) = stub.muster(&show).await;
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (status, &shown["members"]),
        (CliStatus::Ok, &json!(null)),
        "{err}"
    );
    assert_eq!(shown["extension"]["color"], "blue");
    let add = [
        "group",
        "add",
        "ops",
        "--admin",
        "--storage",
        "s,t",
        "--description",
        "d",
    ];
    let (status, _, err) = stub.muster(&add).await;
    assert!(
        status == CliStatus::Ok && err.contains("--group +ops"),
        "{err}"
    );
    let (_, body) = sent(&stub).pop().unwrap();
    let acls = json!({ "admin": true, "virtualClusters": [], "storageConfigs": ["s", "t"] });
    let group = json!({
        "groupname": "ops", "description": "d", "externalName": "", "extension": { "acls": acls },
    });
    assert_eq!(body, group);
}

#[tokio::test]
async fn a_group_is_changed_at_the_revision_that_was_read() {
    let stub = AgentStub::start();
    let line = format!("GET {GROUPS}/research");
    let read = |revision: &str| StubAnswer::json(research()).with("etag", revision);
    stub.answer(&line, [read("\"7\""), read("\"8\"")]);
    let changed = || StubAnswer::refusal(412, "ChangedError", "it is at revision 8");
    stub.answer(&format!("PUT {GROUPS}"), [changed(), done()]);
    let set = [
        "group",
        "set",
        "research",
        "--vc",
        "-speech,+robots",
        "--admin",
        "true",
    ];
    let (status, _, err) = stub.muster(&set).await;
    assert_eq!(
        (status, err.as_str()),
        (CliStatus::Ok, "muster: research was changed\n")
    );
    let asked = stub.asked();
    let matched = asked
        .iter()
        .filter_map(|asked| asked.headers.get("if-match"));
    assert!(matched.eq(["\"7\"", "\"8\""]), "{asked:?}");
    let (_, body) = sent(&stub).pop().unwrap();
    let acls =
        json!({ "admin": true, "virtualClusters": ["vision", "robots"], "storageConfigs": ["a"] });
    assert_eq!(
        body["data"]["extension"],
        json!({ "acls": acls, "color": "blue" })
    );
    assert_eq!(
        (&body["patch"], &body["data"]["groupname"]),
        (&json!(true), &json!("research"))
    );
}

#[tokio::test]
async fn a_group_that_changes_all_the_time_is_given_up() {
    let stub = AgentStub::start();
    let line = format!("GET {GROUPS}/research");
    stub.answer(&line, [StubAnswer::json(research()).with("etag", "\"7\"")]);
    let changed = StubAnswer::refusal(412, "ChangedError", "it is at revision 8");
    stub.answer(&format!("PUT {GROUPS}"), [changed]);
    let (status, _, err) = stub
        .muster(&["group", "set", "research", "--storage", "b"])
        .await;
    assert_eq!(status, CliStatus::Refused);
    assert!(err.contains("somebody else changed it"), "{err}");
    assert_eq!(stub.asked().len(), 6);
    // What is no list needs no look at the group.
    let stub = AgentStub::start();
    stub.answer(&format!("PUT {GROUPS}"), [done()]);
    let (status, _, err) = stub
        .muster(&["group", "set", "research", "--description", "new"])
        .await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let data = json!({ "description": "new", "groupname": "research" });
    assert_eq!(sent(&stub)[0].1["data"], data);
}

#[tokio::test]
async fn the_audit_log_reads_from_old_to_new() {
    let record = |number: u64, action: &str, before: &str, after: &str| {
        json!({
            "number": number, "atMs": 1_795_173_687_000_u64 + number, "action": action, "subject": "ada",
            "by": { "user": "admin", "address": "socket", "node": "n1" },
            "before": before, "after": after,
        })
    };
    let records = json!([
        record(
            9,
            "user.change",
            r#"{"email":"a@b","groups":["default"]}"#,
            r#"{"email":"a@c","groups":["default","x"]}"#
        ),
        record(8, "user.add", "", r#"{"email":"a@b","groups":["default"]}"#),
    ]);
    let stub = AgentStub::start();
    let log = json!({ "records": records, "dropped": 7 });
    stub.answer(
        "GET /api/muster/v1/audit?limit=100",
        [StubAnswer::json(&log)],
    );
    stub.answer(
        "GET /api/muster/v1/audit?limit=2&subject=ada",
        [StubAnswer::json(&log)],
    );
    let (status, out, err) = stub.muster(&["audit"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert_eq!(
        out,
        "\
WHEN                     WHO    FROM    NODE  ACTION       SUBJECT  CHANGE
2026-11-20 11:21:27 UTC  admin  socket  n1    user.add     ada      email: none -> a@b; groups: +default
2026-11-20 11:21:27 UTC  admin  socket  n1    user.change  ada      email: a@b -> a@c; groups: +x
"
    );
    assert_eq!(err, "muster: 7 older records were dropped\n");
    let some = ["audit", "--subject", "ada", "--limit", "2", "-o", "json"];
    let (_, out, _) = stub.muster(&some).await;
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&shown["records"][0]["number"], &shown["dropped"]),
        (&json!(8), &json!(7))
    );
}

#[tokio::test]
async fn arguments_that_cannot_be_say_what_to_give() {
    let stub = AgentStub::start();
    let short = TextFile::of("short\n");
    let long = TextFile::of(&"x".repeat(2_000));
    for (arguments, told) in [
        (
            vec!["user", "set", "ada"],
            "give --email, --admin, --vc, --group or --extension",
        ),
        (
            vec!["group", "set", "research"],
            "give --description, --external-name",
        ),
        (
            vec!["user", "add", "ada"],
            "--password-stdin, --password-file FILE or --generate",
        ),
        (
            vec!["user", "password", "ada"],
            "--password-stdin, --password-file FILE or --generate",
        ),
        (
            vec!["user", "add", "ada", "--password-file", short.path()],
            "--password-file: a password has at least 6",
        ),
        (
            vec!["user", "add", "ada", "--password-file", long.path()],
            "larger than",
        ),
        (
            vec!["user", "add", "ada", "--password-file", "/no/such"],
            "cannot read /no/such",
        ),
    ] {
        let (status, _, err) = stub.muster(&arguments).await;
        assert!(
            status == CliStatus::Usage && err.contains(told),
            "{arguments:?}: {err}"
        );
    }
    assert!(stub.asked().is_empty());
}

#[test]
fn the_command_line_refuses_what_it_cannot_read() {
    for (arguments, told) in [
        ("user add a/b --generate", "use letters"),
        ("user add ada --password secret", "--password"),
        (
            "user add ada --generate --password-stdin",
            "cannot be used with",
        ),
        ("user add ada --vc a.b --generate", "virtual cluster name"),
        ("user set ada --group +a,b", "+A,-B"),
        ("user set ada --group --email", "no name with a sign"),
        ("user set ada --admin maybe", "true, false"),
        ("group set g --vc +a-b", "use letters"),
        ("audit --limit 0", "1..=10000"),
        ("user import", "<FILE>"),
    ] {
        let words = std::iter::once("muster").chain(arguments.split(' '));
        let error = Cli::try_parse_from(words).unwrap_err().to_string();
        assert!(error.contains(told), "{arguments}: {error}");
    }
}

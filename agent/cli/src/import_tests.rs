//! `muster user import` against an agent of canned answers.

use serde_json::{Value, json};

use super::status::CliStatus;
use super::stub::{AgentStub, StubAnswer, TextFile};

const FILE: &str = "\
username,email,password,virtualCluster,group
ada,ada@example.org,correct horse,vision,research
bob,,battery staple,,
";

/// An agent with the user `bob`, the group `research` and the virtual cluster `vision`.
fn agent(add: impl IntoIterator<Item = StubAnswer>) -> AgentStub {
    let stub = AgentStub::start();
    let users = StubAnswer::json([json!({ "username": "bob" })]);
    stub.answer("GET /api/v2/users", [users]);
    let groups = StubAnswer::json([json!({ "groupname": "research" })]);
    stub.answer("GET /api/v2/groups", [groups]);
    let amount = json!({ "gpu": 1, "cpu": 1, "memory_mb": 1 });
    let vcs = StubAnswer::json([json!({
        "name": "vision", "used": amount, "guaranteed": amount, "total": amount, "skus": {},
        "problems": [],
    })]);
    stub.answer("GET /api/muster/v1/virtual-clusters", [vcs]);
    stub.answer("POST /api/v2/users", add);
    stub.answer("PUT /api/v2/users", [done()]);
    stub.answer("PUT /api/v2/users/ada/group", [done()]);
    stub
}

fn done() -> StubAnswer {
    StubAnswer::json(json!({ "message": "done" }))
}

/// What was changed: the lines, and the bodies as JSON.
fn changes(stub: &AgentStub) -> Vec<(String, Value)> {
    let asked = stub.asked().into_iter();
    let changes = asked.filter(|asked| !asked.line.starts_with("GET"));
    changes
        .map(|asked| (asked.line, serde_json::from_str(&asked.body).unwrap()))
        .collect()
}

#[tokio::test]
async fn users_are_added_and_those_that_exist_are_skipped() {
    let stub = agent([done()]);
    let file = TextFile::of(FILE);
    let (status, out, err) = stub.muster(&["user", "import", file.path()]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert_eq!(out, "added 1, updated 0, skipped 1, failed 0\n");
    assert!(
        err.contains("line 3: bob exists, and was skipped; --update"),
        "{err}"
    );
    let user = json!({
        "username": "ada", "email": "ada@example.org", "admin": false, "virtualCluster": ["vision"],
        "extension": {}, "password": "correct horse",
    });
    let expect = [
        ("POST /api/v2/users".to_owned(), user),
        (
            "PUT /api/v2/users/ada/group".to_owned(),
            json!({ "groupname": "research" }),
        ),
    ];
    assert_eq!(changes(&stub), expect);
}

#[tokio::test]
async fn users_that_exist_are_updated_where_that_is_wanted() {
    let stub = agent([done()]);
    let file = TextFile::of(FILE);
    let import = ["user", "import", file.path(), "--update", "-o", "json"];
    let (status, out, err) = stub.muster(&import).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&summary["added"], &summary["updated"]),
        (&json!(["ada"]), &json!(["bob"]))
    );
    // Only what the file names.
    let data = json!({ "password": "battery staple", "username": "bob" });
    let (line, body) = changes(&stub).pop().unwrap();
    assert_eq!((line.as_str(), &body["data"]), ("PUT /api/v2/users", &data));
}

#[tokio::test]
async fn a_user_with_nothing_to_update_is_no_request() {
    let stub = agent([done()]);
    let file = TextFile::of(&format!("username,passwordHash\nbob,{}\n", "0".repeat(128)));
    let (status, out, err) = stub
        .muster(&["user", "import", file.path(), "--update"])
        .await;
    assert_eq!(
        (status, out.as_str()),
        (CliStatus::Ok, "added 0, updated 0, skipped 1, failed 0\n"),
        "{err}"
    );
    assert!(
        err.contains("line 2: bob exists, and the file changes nothing of them"),
        "{err}"
    );
    assert!(changes(&stub).is_empty());
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let stub = agent([done()]);
    let file = TextFile::of(FILE);
    let (status, out, err) = stub
        .muster(&["user", "import", file.path(), "--dry-run"])
        .await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert_eq!(
        out,
        "nothing was changed; to add 1, to update 0, to skip 1\n"
    );
    assert!(changes(&stub).is_empty());
}

#[tokio::test]
async fn the_whole_file_is_checked_first() {
    let stub = agent([done()]);
    let bad = TextFile::of("username,admin\na b,perhaps\n");
    let (status, _, err) = stub.muster(&["user", "import", bad.path()]).await;
    assert_eq!(status, CliStatus::Usage);
    for told in [
        "cannot be used:\n",
        "line 2, column username: ",
        "line 2, column admin: ",
    ] {
        assert!(err.contains(told), "{told} in {err}");
    }
    assert!(stub.asked().is_empty(), "the file alone is bad enough");
    let text = "username,password,virtualCluster,group\nada,secret,vision;speech,interns\neve,,,\n";
    let unknown = TextFile::of(text);
    let (status, _, err) = stub.muster(&["user", "import", unknown.path()]).await;
    assert_eq!(status, CliStatus::Usage);
    for told in [
        "line 2, column virtualCluster: there is no virtual cluster speech",
        "line 2, column group: there is no group interns; add it first: muster group add interns",
        "line 3, column password: eve is a new user and has none",
    ] {
        assert!(err.contains(told), "{told} in {err}");
    }
    assert!(changes(&stub).is_empty());
    let latin = TextFile::of("");
    std::fs::write(latin.path(), b"username,password\nj\xfcrg,secret\n").unwrap();
    let (status, _, err) = stub.muster(&["user", "import", latin.path()]).await;
    assert!(
        status == CliStatus::Usage && err.contains("CSV UTF-8"),
        "{err}"
    );
}

#[tokio::test]
async fn one_that_fails_does_not_keep_the_others_out() {
    let refused = StubAnswer::refusal(400, "InvalidParametersError", "email: no such host");
    let taken = StubAnswer::refusal(409, "ConflictUserError", "User name eve already exists.");
    let busy = StubAnswer::refusal(503, "UnknownError", "too many passwords are being checked");
    let stub = agent([refused, taken, busy, done()]);
    let file = TextFile::of("username,password\nada,secret\neve,secret\njoe,secret\n");
    let (status, out, err) = stub.muster(&["user", "import", file.path()]).await;
    assert_eq!(status, CliStatus::Negative, "{err}");
    assert_eq!(out, "added 1, updated 0, skipped 1, failed 1\n");
    assert!(
        err.contains("line 2: cannot add ada: email: no such host"),
        "{err}"
    );
    assert!(err.contains("line 3: eve exists"), "{err}");
    assert!(!err.contains("secret"), "{err}");
}

#[tokio::test]
async fn what_would_fail_for_all_ends_the_import() {
    let forbidden = StubAnswer::refusal(403, "ForbiddenUserError", "Non-admin is not allowed.");
    let stub = agent([done(), forbidden]);
    let file = TextFile::of("username,password\nada,secret\neve,secret\njoe,secret\n");
    let (status, out, err) = stub.muster(&["user", "import", file.path()]).await;
    assert_eq!(status, CliStatus::Refused, "{err}");
    assert_eq!(
        out,
        "added 1, updated 0, skipped 0, failed 0, not tried 2\n"
    );
    assert_eq!(changes(&stub).len(), 2);
    assert!(
        err.contains("hint: use a token that has the right"),
        "{err}"
    );
}

#[tokio::test]
async fn a_group_that_fails_is_told_of_a_user_who_was_added() {
    let stub = agent([done()]);
    let gone = StubAnswer::refusal(404, "NoGroupError", "Group ops is not found.");
    stub.answer("PUT /api/v2/users/eve/group", [gone]);
    let file = TextFile::of("username,password,group\neve,secret,research\n");
    let (status, out, err) = stub.muster(&["user", "import", file.path()]).await;
    assert_eq!(
        (status, out.as_str()),
        (
            CliStatus::Negative,
            "added 0, updated 0, skipped 0, failed 1\n"
        ),
        "{err}"
    );
    assert!(
        err.contains("eve was added, but not to all groups of the file; --update"),
        "{err}"
    );
}

#[tokio::test]
async fn an_update_waits_for_an_agent_without_time_and_adds_groups() {
    let stub = AgentStub::start();
    let users = StubAnswer::json([json!({ "username": "ada" })]);
    stub.answer("GET /api/v2/users", [users]);
    let groups = StubAnswer::json([json!({ "groupname": "research" })]);
    stub.answer("GET /api/v2/groups", [groups]);
    let busy = StubAnswer::refusal(503, "UnknownError", "too many passwords are being checked");
    stub.answer("PUT /api/v2/users", [busy, done()]);
    stub.answer("PUT /api/v2/users/ada/group", [done()]);
    let file = TextFile::of("username,admin,group\nada,true,research\n");
    let (status, out, err) = stub
        .muster(&["user", "import", file.path(), "--update"])
        .await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert_eq!(out, "added 0, updated 1, skipped 0, failed 0\n");
    let lines: Vec<String> = changes(&stub).into_iter().map(|(line, _)| line).collect();
    let put = "PUT /api/v2/users";
    assert_eq!(lines, [put, put, "PUT /api/v2/users/ada/group"]);
}

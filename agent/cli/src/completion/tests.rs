//! Tab against an agent of canned answers.

use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::stub::{AgentStub, StubAnswer};

const GROUPS: &str = "GET /api/v2/groups";

async fn found(stub: &AgentStub, shell: &str, words: &[&str]) -> Vec<String> {
    let mut all = vec!["__complete", shell, "--"];
    all.extend(words);
    let (status, out, err) = stub.muster(&all).await;
    assert_eq!((status, err.as_str()), (CliStatus::Ok, ""));
    out.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn live_names_complete_a_word_and_the_last_part_of_a_list() {
    let stub = AgentStub::start();
    let vcs = ["default", "vision", "voice"]
        .map(|name| muster_model::vc::VcView::new(name.parse().unwrap()));
    stub.answer(
        "GET /api/muster/v1/virtual-clusters",
        [StubAnswer::json(vcs)],
    );
    let line = |line: &'static str| [line];
    assert_eq!(
        found(&stub, "bash", &line("muster job list --vc v")).await,
        ["vision", "voice"]
    );
    assert_eq!(
        found(&stub, "bash", &line("muster job list --vc voice,d")).await,
        ["voice,default"]
    );
    // bash completes what is behind `=`, other shells the word.
    assert_eq!(
        found(&stub, "bash", &line("muster job list --vc=vo")).await,
        ["voice"]
    );
    assert_eq!(
        found(&stub, "zsh", &["job", "list", "--vc=vo"]).await,
        ["--vc=voice"]
    );
    assert_eq!(
        found(&stub, "fish", &["job", "list", "--vc", ""]).await,
        ["default", "vision", "voice"]
    );
}

#[tokio::test]
async fn whatever_fails_is_no_answer() {
    let stub = AgentStub::start();
    stub.answer(
        GROUPS,
        [StubAnswer::refusal(403, "ForbiddenUserError", "no")],
    );
    assert_eq!(found(&stub, "zsh", &["group", "show", ""]).await, [""; 0]);
    stub.answer(
        "GET /api/muster/v1/nodes",
        [StubAnswer::json(json!({"other": 1}))],
    );
    assert_eq!(found(&stub, "zsh", &["drain", ""]).await, [""; 0]);
    // Options of the line say where the agent is: nobody is there.
    let words = ["--socket=/no/such", "group", "show", ""];
    assert_eq!(found(&stub, "zsh", &words).await, [""; 0]);
    // A quote that is still open.
    let words = split("muster job 'open");
    assert_eq!(words, ["job", "'open"]);
}

#[tokio::test]
async fn a_tab_never_waits_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    // It takes connections, and says nothing.
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let start = Instant::now();
    let words = ["drain".to_owned(), String::new()];
    let found = complete(words.to_vec(), &EndpointArguments::at_socket(path)).await;
    assert!(found.is_empty());
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn shells_can_read_their_scripts() {
    for (shell, program) in [
        (CompletionShell::Bash, "bash"),
        (CompletionShell::Zsh, "zsh"),
        (CompletionShell::Fish, "fish"),
    ] {
        let checked = std::process::Command::new(program)
            .args(["-n", "-c", script(shell)])
            .output();
        // A shell that is not installed cannot be asked.
        if let Ok(output) = checked {
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program}: {err}");
        }
    }
}

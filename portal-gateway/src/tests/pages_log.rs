//! The page of a log: its parts, what a search finds, its stream and its download.

use muster_model::state::SubState;

use super::pages::{SCRIPT, ask, page};
use super::setup::*;

const LOG: &str = "/jobs/ann~job/attempts/0/tasks/worker/0/0/log";
const OWN: &str = "/api/muster/v1/jobs/ann~job/attempts/0/tasks/worker/0/0/logs";

fn with_log(name: &str, text: &'static str) -> Setup {
    let setup = Setup::new();
    setup.fake.put(placed("ann~job", SubState::AttemptRunning));
    setup.fake.write_log(&"a-0".parse().unwrap(), name, text);
    setup
}

/// Lines of 16 bytes, numbered from 1.
fn numbered(lines: usize) -> &'static str {
    let text: String = (1..=lines).map(|n| format!("line {n:010}\n")).collect();
    Box::leak(text.into_boxed_str())
}

#[tokio::test]
async fn a_log_is_turned_over_by_links_alone_and_no_line_is_cut() {
    let setup = with_log("all", numbered(20_000));
    let end = page(&setup, "ann-token", LOG).await;
    assert!(end.contains("line 0000020000") && !end.contains("line 0000000001"));
    assert!(end.contains("Earlier") && end.contains("data-stream=\"log/stream?file=all\""));
    assert!(end.contains("data-from=\"320000.\""), "{end}");
    assert!(
        end.contains("<span class=\"chip busy\">Running</span>"),
        "{end}"
    );
    // It grows while it is open.
    assert!(!end.contains("Bytes "), "{end}");
    let first = page(&setup, "ann-token", &format!("{LOG}?from=0")).await;
    assert!(first.contains("line 0000000001\n") && first.contains("Later"));
    assert!(first.contains("Bytes 0 to "), "{first}");
    assert!(!first.contains("data-stream") && !first.contains("Earlier"));
    // A part that is asked for in the middle of a line begins with the next one.
    let inside = page(&setup, "ann-token", &format!("{LOG}?from=17")).await;
    let log = inside.split("<pre class=\"log\"").nth(1).unwrap();
    assert!(log.contains(">line 0000000003\n"), "{}", &log[..200]);
    let at_line = page(&setup, "ann-token", &format!("{LOG}?from=16")).await;
    let log = at_line.split("<pre class=\"log\"").nth(1).unwrap();
    assert!(log.contains(">line 0000000002\n"), "{}", &log[..200]);
    let behind = page(&setup, "ann-token", &format!("{LOG}?from=999999999")).await;
    assert!(behind.contains("The log has nothing here."), "{behind}");
    let marked = page(&setup, "ann-token", &format!("{LOG}?mark=16000")).await;
    assert!(marked.contains("<mark id=\"here\">line 0000001001</mark>"));
}

#[tokio::test]
async fn a_search_leads_to_the_lines_it_finds() {
    let setup = with_log("all", numbered(3000));
    let found = page(&setup, "ann-token", &format!("{LOG}?find=LINE+0000002500")).await;
    assert!(found.contains("?file=all&amp;mark=39984#here"), "{found}");
    assert!(found.contains("<td class=\"n\">2500</td>"), "{found}");
    let none = page(&setup, "ann-token", &format!("{LOG}?find=nowhere")).await;
    assert!(none.contains("No line has this text."));
    let json = setup
        .get(ANN, &format!("{OWN}/all/places?find=2500"))
        .await
        .json();
    assert_eq!(json["places"][0]["line"], 2500);
    let then = page(&setup, "ann-token", &format!("{LOG}?at=2026-11-29T17:04")).await;
    assert!(
        then.contains("written at about 2026-11-29 17:04:00 UTC"),
        "{then}"
    );
    for wrong in [
        "at=yesterday",
        "find=x&from=y",
        &format!("find={}", "x".repeat(1025)),
    ] {
        let answer = ask(&setup, "ann-token", "GET", &format!("{LOG}?{wrong}"), "").await;
        assert_eq!(answer.status, 400, "{wrong}");
    }
    for wrong in ["", "?find=", "?find=x&at=1", "?at=never"] {
        let answer = setup.get(ANN, &format!("{OWN}/all/places{wrong}")).await;
        assert_eq!(answer.status, 400, "{wrong}");
    }
    let missing = setup.get(ANN, &format!("{OWN}/none/places?find=x")).await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was_left() {
    let setup = with_log("all", "one\n\u{1b}[31mtwo\nthree\n");
    let events = ask(
        &setup,
        "ann-token",
        "GET",
        &format!("{LOG}/stream?from=4."),
        "",
    )
    .await;
    assert_eq!(events.status, 200);
    assert_eq!(events.header("content-type"), "text/event-stream");
    let text = events.text();
    assert!(text.starts_with("retry: "), "{text}");
    let data = "data: <span class=\"f1\">two\ndata: three\ndata: </span>\n\n";
    assert!(text.contains(&format!("id: 19.f1\n{data}")), "{text}");
    // What the fake adds to a log that is followed keeps the colour.
    assert!(
        text.contains("id: 24.f1\ndata: <span class=\"f1\">more\n"),
        "{text}"
    );
    assert!(text.ends_with("event: end\ndata:\n\n"), "{text}");
    let again = TestRequest {
        method: "GET",
        path: &format!("{LOG}/stream?from=0"),
        headers: &[
            ("cookie", "muster_session=ann-token"),
            ("last-event-id", "19.f1"),
        ],
        body: "",
    };
    let again = setup.ask(again).await;
    assert!(!again.text().contains("three"), "{}", again.text());
    assert!(
        again.text().contains("<span class=\"f1\">more\n"),
        "{}",
        again.text()
    );
    let wrong = ask(
        &setup,
        "ann-token",
        "GET",
        &format!("{LOG}/stream?from=x"),
        "",
    )
    .await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test]
async fn a_log_is_downloaded_whole_or_in_part() {
    let setup = with_log("stdout", "0123456789");
    let path = format!("{LOG}/download?file=stdout");
    let whole = ask(&setup, "ann-token", "GET", &path, "").await;
    assert_eq!(whole.text(), "0123456789");
    let disposition = "attachment; filename=\"job-worker-0-0-stdout.log\"";
    assert_eq!(whole.header("content-disposition"), disposition);
    assert_eq!(whole.header("x-content-type-options"), "nosniff");
    let part = ask(
        &setup,
        "ann-token",
        "GET",
        &format!("{path}&from=3&to=5"),
        "",
    )
    .await;
    assert_eq!(part.text(), "345");
    let none = ask(
        &setup,
        "ann-token",
        "GET",
        &format!("{LOG}/download?file=..%2Fx"),
        "",
    )
    .await;
    assert_eq!(none.status, 404);
}

#[tokio::test]
async fn nothing_in_a_log_is_markup_and_no_control_code_is_left() {
    let text = Box::leak(
        format!("{SCRIPT}\n\u{1b}[31m{SCRIPT}\u{1b}[2J\u{1b}]0;{SCRIPT}\u{7}\u{8}\nend\n")
            .into_boxed_str(),
    );
    let setup = with_log("all", text);
    for query in [
        "",
        "?from=0",
        "?mark=0",
        "?find=script",
        "?find=%3Cscript%3E",
        "?at=1",
        "/stream?from=0",
    ] {
        let text = page(&setup, "ann-token", &format!("{LOG}{query}")).await;
        let own = usize::from(!query.starts_with("/stream"));
        assert_eq!(text.matches("<script").count(), own, "{query}: {text}");
        assert!(!text.contains("<img"), "{query}: {text}");
        assert!(text.contains("&lt;script&gt;"), "{query}: {text}");
        let is_control = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(is_control), "{query}: {text:?}");
    }
}

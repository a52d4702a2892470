//! Agreement with OpenPAI, on its own files and on recorded verdicts of its own programs, where
//! these are at hand.

use std::path::PathBuf;

use muster_failure_rules::{RuleSet, classify_cases};
use muster_model::exit::{Evidence, ExitPhase, RawExit};
use muster_model::health::{DeviceEvent, EventClass, HealthSubject};
use serde_json::Value;

fn recorded() -> Option<PathBuf> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    data.join("failure-cases.json").exists().then_some(data)
}

#[test]
fn agrees_with_every_recorded_case() {
    let Some(data) = recorded() else {
        eprintln!("not run: no recorded cases here");
        return;
    };
    let table = std::fs::read_to_string(data.join("failure-cases.json")).expect("cases");
    let table: Value = serde_json::from_str(&table).expect("json");
    let mut wrong = Vec::new();
    for (name, file) in [
        ("job-exit-spec", "job-exit-spec.yaml"),
        (
            "runtime-tests/failurePatterns.yml",
            "runtime-tests/failurePatterns.yml",
        ),
    ] {
        let rules = RuleSet::parse(&std::fs::read_to_string(data.join(file)).expect("rules"))
            .expect("valid");
        let cases: Vec<&Value> = table["cases"]
            .as_array()
            .expect("list")
            .iter()
            .filter(|case| case["rules"] == name)
            .collect();
        let request = serde_json::json!({ "cases": cases }).to_string();
        let verdicts = classify_cases(&rules, &request).expect("readable");
        assert_eq!(verdicts.len(), cases.len());
        for (case, verdict) in cases.iter().zip(&verdicts) {
            let got = serde_json::to_value(verdict).expect("json");
            let want = &case["expected"];
            let same = ["code", "containerExitCode", "phrase", "type"]
                .iter()
                .all(|f| got[f] == want[f])
                && got["matchedUserLog"] == want["matched"]["userLog"];
            let logs_same = !case["ranUserCommand"].as_bool().unwrap_or_default()
                || case["exitCode"] == 0
                || same_logs(&rules, case);
            if !same || !logs_same {
                wrong.push(format!("{got}\n  not {want}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Upstream counts NVIDIA's memory errors; here each is an event.
fn double_ecc(case: &Value) -> Vec<DeviceEvent> {
    let count = case["gpuDoubleBitEcc"].as_i64().unwrap_or_default();
    let events = (0..count).map(|_| DeviceEvent {
        subject: HealthSubject::Machine,
        at_ms: 0,
        code: "xid 48".to_owned(),
        class: EventClass::Hardware,
        pid: None,
        text: String::new(),
    });
    events.collect()
}

/// The excerpts of the logs too are upstream's.
fn same_logs(rules: &RuleSet, case: &Value) -> bool {
    let text = |field: &str| case[field].as_str().unwrap_or_default().as_bytes().to_vec();
    let verdict = rules.classify(&Evidence {
        exit: RawExit {
            code: i32::try_from(case["exitCode"].as_i64().expect("a number")).expect("small"),
            signal: None,
            oom_killed: case["oomKilled"].as_bool().unwrap_or_default(),
            own_doing: false,
            phase: ExitPhase::UserCommands,
            cause: None,
            message: String::new(),
            ended_ms: 0,
        },
        user_log: text("userLogTail"),
        user_log_from: 0,
        platform_log: text("runtimeLogTail"),
        device_events: double_ecc(case),
    });
    let want = &case["expected"];
    verdict.code() == want["code"]
        && verdict.user_log == want["errorLogs"]["user"]
        && verdict.platform_log == want["errorLogs"]["platform"]
}

#[test]
fn reads_the_runtimes_own_list() {
    let Some(data) = recorded() else { return };
    let text = std::fs::read_to_string(data.join("runtime-tests/runtime-exit-spec.rendered.yaml"))
        .expect("rules");
    let rules = RuleSet::parse(&text).expect("valid");
    let request = r#"{"cases":[{"name":"a","exitCode":1,"ranUserCommand":true,"userLogTail":"Core dumped"}]}"#;
    let verdicts = classify_cases(&rules, request).expect("readable");
    assert_eq!(
        (verdicts[0].code, verdicts[0].phrase.as_deref()),
        (235, None)
    );
}

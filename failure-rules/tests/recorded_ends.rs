//! Ends of real tools, recorded with what is true of each, where the recordings are at hand.

use std::path::PathBuf;

use muster_failure_rules::{RuleSet, classify_cases};
use muster_model::exit::Behavior;
use serde_json::{Value, json};

/// Of the codes that are right.
const SHARE_MIN: f64 = 0.97;

fn recorded() -> Option<Vec<Value>> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/ml-failures/cases.json");
    let text = std::fs::read_to_string(path).ok()?;
    let file: Value = serde_json::from_str(&text).expect("json");
    Some(file["cases"].as_array().expect("a list").clone())
}

#[test]
fn codes_and_charges_are_right() {
    let Some(ends) = recorded() else {
        eprintln!("not run: no recorded ends here");
        return;
    };
    let rules = RuleSet::shipped();
    let cases = ends.iter().map(|end| {
        json!({
            "name": end["name"], "exitCode": end["exitCode"], "userLogTail": end["log"],
            "ranUserCommand": true, "oomKilled": false,
        })
    });
    let request = json!({ "cases": cases.collect::<Vec<_>>() }).to_string();
    let verdicts = classify_cases(rules, &request).expect("readable");
    let (mut wrong, mut charges) = (Vec::new(), Vec::new());
    for (end, verdict) in ends.iter().zip(&verdicts) {
        let truth = &end["truth"];
        let codes = truth["codes"].as_array().expect("codes");
        let told = format!(
            "{}: {} of {:?}, not {codes:?}: {}",
            verdict.name, verdict.code, verdict.matched_user_log, truth["because"]
        );
        let is_free = verdict.code == 0
            || rules.spec(verdict.code).is_some_and(|spec| {
                matches!(
                    spec.behavior,
                    Behavior::Transient | Behavior::TransientConflict
                )
            });
        if truth["charged"].as_bool() == Some(is_free) {
            charges.push(told.clone());
        }
        if !codes
            .iter()
            .any(|code| code.as_i64() == Some(verdict.code.into()))
        {
            wrong.push(told);
        }
    }
    let share = 1.0 - wrong.len() as f64 / ends.len() as f64;
    println!(
        "{share:.3} of {} codes, {} wrong charges\n{}",
        ends.len(),
        charges.len(),
        wrong.join("\n")
    );
    assert!(share >= SHARE_MIN, "{share}\n{}", wrong.join("\n"));
    assert!(charges.is_empty(), "charges\n{}", charges.join("\n"));
}

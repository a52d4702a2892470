//! The samples of the manual's page on failure classes get the codes that it says.

use muster_failure_rules::{RuleSet, classify_cases};
use serde_json::json;

const PAGE: &str = include_str!("../../docs/failure-classes.md");

#[test]
fn each_class_of_the_manual_has_its_code() {
    let mut rows = 0;
    let mut wrong = Vec::new();
    for row in PAGE.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row
            .split(" | ")
            .map(|cell| cell.trim_matches(['|', ' ']))
            .collect();
        let [class, code, sample] = cells[..] else {
            panic!("three cells: {row}");
        };
        let Ok(code) = code.parse::<i32>() else {
            continue;
        };
        rows += 1;
        let spec = RuleSet::shipped().spec(code);
        assert!(spec.is_some(), "{class}: {code} is no rule");
        let Some(log) = sample
            .strip_prefix('`')
            .and_then(|text| text.strip_suffix('`'))
        else {
            continue;
        };
        let request = json!({ "cases": [{
            "exitCode": 1, "ranUserCommand": true, "userLogTail": format!("epoch 1\n{log}\n"),
        }]});
        let verdicts = classify_cases(RuleSet::shipped(), &request.to_string()).unwrap();
        if verdicts[0].code != code {
            wrong.push(format!(
                "{class}: {} instead of {code} for {log}",
                verdicts[0].code
            ));
        }
    }
    assert!(rows > 40, "{rows}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! The lines that each shipped rule must and must not match.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::case::Case;
use crate::inside::Inside;
use crate::outside::Outside;
use crate::rule::Rule;
use crate::ruleset::RuleSet;

const FILES: [&str; 3] = [
    include_str!("../corpus/devices.yaml"),
    include_str!("../corpus/platform.yaml"),
    include_str!("../corpus/program.yaml"),
];

/// The samples of one rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSamples {
    matches: Vec<CorpusSample>,
    /// Looks like it, but is not.
    misses: Vec<CorpusSample>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum CorpusSample {
    /// The end of the user log of a command that exited with 1.
    UserLog(String),
    Case(Box<Case>),
}

impl CorpusSample {
    fn case(&self) -> Case {
        match self {
            Self::Case(case) => (**case).clone(),
            Self::UserLog(log) => Case {
                exit_code: Some(1),
                ran_user_command: true,
                user_log_tail: log.clone(),
                ..Case::default()
            },
        }
    }
}

fn corpus() -> BTreeMap<i32, RuleSamples> {
    let mut all = BTreeMap::new();
    for file in FILES {
        let samples: BTreeMap<i32, RuleSamples> =
            serde_saphyr::from_str(file).expect("a corpus file");
        for (code, samples) in samples {
            assert!(
                all.insert(code, samples).is_none(),
                "{code} is in two files"
            );
        }
    }
    all
}

/// Raised by the platform itself, or standing for other codes: nothing is matched.
fn is_only_a_meaning(rule: &Rule) -> bool {
    let code = rule.spec.code;
    (-999..=0).contains(&code) || [-8000, -1100, 255, 256].contains(&code)
}

/// Which pattern of `rule` the case meets first; runtime patterns before those outside.
fn pattern_met(rules: &RuleSet, rule: &Rule, case: &Case) -> Option<usize> {
    let inside = Inside {
        exit_code: case.exit_code.unwrap_or_default(),
        user_log: rules
            .contents()
            .user_log
            .scan(case.user_log_tail.as_bytes()),
        platform_log: rules
            .contents()
            .platform_log
            .scan(case.runtime_log_tail.as_bytes()),
        end: rules.contents().log_end(),
        double_ecc_error: case.gpu_double_bit_ecc > 0,
        device_events: &case.device_events,
    };
    let outside: Outside<'_> = case.outside(case.exit_code);
    rule.runtime
        .iter()
        .position(|pattern| inside.matches(rule.spec.code, pattern).is_some())
        .or_else(|| {
            rule.pod
                .iter()
                .position(|p| outside.matches_pod(p))
                .map(|at| rule.runtime.len() + at)
        })
}

#[test]
fn each_rule_matches_its_lines_and_not_the_near_ones() {
    let rules = RuleSet::shipped();
    let corpus = corpus();
    let mut wrong = Vec::new();
    for rule in &rules.contents().rules {
        let code = rule.spec.code;
        if is_only_a_meaning(rule) {
            continue;
        }
        let Some(samples) = corpus.get(&code) else {
            wrong.push(format!("{code}: no samples"));
            continue;
        };
        if samples.misses.is_empty() {
            wrong.push(format!("{code}: no near miss"));
        }
        let mut unmet: Vec<usize> = (0..rule.runtime.len() + rule.pod.len()).collect();
        for sample in &samples.matches {
            let case = sample.case();
            let got = rules.classify_case(&case).code;
            if got != code {
                wrong.push(format!("{code}: got {got} for {sample:?}"));
            }
            let met = pattern_met(rules, rule, &case);
            unmet.retain(|pattern| Some(*pattern) != met);
        }
        for pattern in unmet {
            wrong.push(format!("{code}: no sample meets pattern {pattern} first"));
        }
        for sample in &samples.misses {
            if rules.classify_case(&sample.case()).code == code {
                wrong.push(format!("{code}: matches the near miss {sample:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn each_sample_belongs_to_a_rule() {
    for code in corpus().keys() {
        assert!(
            RuleSet::shipped().spec(*code).is_some(),
            "{code} is no shipped rule"
        );
    }
}

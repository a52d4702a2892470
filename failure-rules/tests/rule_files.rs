//! What is wrong with a rule file is said where it is wrong.

use muster_failure_rules::{RULES_BYTES_MAX, RULES_MAX, RuleProblem, RuleSet};

fn rule(fields: &str) -> String {
    format!("spec:\n- {{code: 230, phrase: A, {fields}}}\n")
}

fn runtime(fields: &str) -> String {
    rule(&format!(
        "pattern: {{runtimeContainerPatterns: [{{{fields}}}]}}"
    ))
}

#[test]
fn names_the_place_and_the_remedy() {
    let at = "spec[0].pattern.runtimeContainerPatterns[0]";
    for (text, path, says) in [
        ("spec: [".to_owned(), String::new(), "not readable as YAML"),
        ("just text".to_owned(), String::new(), "expected a mapping"),
        (
            "rules: []".to_owned(),
            "rules".to_owned(),
            "unknown field; known here: service_type",
        ),
        (
            "service_type: k8s".to_owned(),
            "spec".to_owned(),
            "is missing",
        ),
        (
            rule("reasons: x"),
            "spec[0].reasons".to_owned(),
            "unknown field; known here: code, phrase",
        ),
        (
            rule("behavior: FOREVER"),
            "spec[0].behavior".to_owned(),
            "is not one of TRANSIENT, ",
        ),
        (
            rule("reason: 3"),
            "spec[0].reason".to_owned(),
            "put it in quotes",
        ),
        (
            "spec:\n- {code: 257, phrase: A}".to_owned(),
            "spec[0].code".to_owned(),
            "from -8000 to 256, not 257",
        ),
        (
            "spec:\n- {code: 201, phrase: A}".to_owned(),
            "spec[0].code".to_owned(),
            "predefined; free are 1 to 127, 202 to 209, 211 to 255",
        ),
        (
            rule("behavior: TRANSIENT, reaction: NEVER_RETRY"),
            "spec[0].reaction".to_owned(),
            "NEVER_RETRY contradicts the behavior, which alone decides: the job is retried",
        ),
        (
            rule("behavior: TRANSIENT_CONFLICT, reaction: NEVER_RETRY"),
            "spec[0].reaction".to_owned(),
            "the job is retried",
        ),
        (
            rule("behavior: PERMANENT, reaction: ALWAYS_RETRY"),
            "spec[0].reaction".to_owned(),
            "the job is not retried",
        ),
        (
            "spec:\n- {phrase: A}".to_owned(),
            "spec[0].code".to_owned(),
            "is missing",
        ),
        (
            "spec:\n- {code: 1}".to_owned(),
            "spec[0].phrase".to_owned(),
            "is missing",
        ),
        (
            "spec:\n- {code: 1, phrase: A}\n- {code: 1, phrase: B}".to_owned(),
            "spec[1].code".to_owned(),
            "already the code of spec[0]; free are 2 to 127, 202 to 209, 211 to 255",
        ),
        (
            "spec:\n- {code: 1, phrase: A}\n- {code: 2, phrase: A}".to_owned(),
            "spec[1].phrase".to_owned(),
            "already the phrase of spec[0]",
        ),
        (
            "- {containerExitCode: 0, patterns: []}".to_owned(),
            "[0].containerExitCode".to_owned(),
            "from 1 to 255",
        ),
        (
            runtime("exitCode: 0"),
            format!("{at}.exitCode"),
            "from 1 to 255",
        ),
        (
            runtime("userLogLastLines: 3"),
            format!("{at}.userLogLastLines"),
            "needs a userLogRegex",
        ),
        (
            runtime("dockerError: x"),
            format!("{at}.dockerError"),
            "unknown field",
        ),
        (
            runtime("userLogRegex: 'a(?=b)'"),
            format!("{at}.userLogRegex"),
            "look-around",
        ),
        (
            runtime("userLogRegex: '(?<!a)b'"),
            format!("{at}.userLogRegex"),
            "look-around",
        ),
        (
            runtime("userLogRegex: '(a)\\1'"),
            format!("{at}.userLogRegex"),
            "backreferences",
        ),
        (
            runtime("userLogRegex: 'a('"),
            format!("{at}.userLogRegex"),
            "at character 2: unclosed group",
        ),
        (
            runtime("userLogRegex: '\\pL{1000}{1000}'"),
            format!("{at}.userLogRegex"),
            "use smaller counts",
        ),
        (
            runtime(&format!("userLogRegex: '{}'", "x".repeat(5000))),
            format!("{at}.userLogRegex"),
            "split it",
        ),
        (
            runtime("gpuInfo: {nvidiaDoubleEccError: 2}"),
            format!("{at}.gpuInfo.nvidiaDoubleEccError"),
            "true or false",
        ),
        ("#".repeat(RULES_BYTES_MAX + 1), String::new(), "at most"),
        (
            format!("spec: [{}]", "{},".repeat(RULES_MAX + 1)),
            "spec".to_owned(),
            "at most 1000",
        ),
    ] {
        let problems = RuleSet::parse(&text).expect_err(&path);
        let shown: String = text.chars().take(200).collect();
        let first = &problems[0];
        assert!(
            first.path == path && first.message.contains(says),
            "{first} for {shown:?}"
        );
    }
}

#[test]
fn a_rule_that_misses_its_own_sample_is_refused() {
    let file = |samples: &str| {
        format!(
            "spec:\n- {{code: 230, phrase: A, samples: {samples}, pattern: {{runtimeContainerPatterns: \
             [{{userLogRegex: 'bad path', userLogIn: error}}]}}}}\n- {{code: 231, phrase: B, pattern: \
             {{runtimeContainerPatterns: [{{exitCode: 3}}]}}}}\n"
        )
    };
    for good in [
        "{matches: ['a bad path', {exitCode: 3, userLog: 'bad path'}], misses: ['a good path']}",
        "{misses: [{exitCode: 3}]}",
    ] {
        assert!(RuleSet::parse(&file(good)).is_ok(), "{good}");
    }
    for (bad, path, says) in [
        (
            "{matches: ['ok', 'bad path'], misses: []}",
            "spec[0].samples.matches[0]",
            "the rules find 255 for it",
        ),
        (
            "{matches: [{exitCode: 3, userLog: 'odd'}]}",
            "spec[0].samples.matches[0]",
            "put 230 above 231",
        ),
        (
            "{misses: ['bad path']}",
            "spec[0].samples.misses[0]",
            "must not be found for",
        ),
        ("{matches: [3]}", "spec[0].samples.matches[0]", "a mapping"),
        ("{near: []}", "spec[0].samples.near", "known here: matches"),
    ] {
        let problems = RuleSet::parse(&file(bad)).expect_err(bad);
        let first = &problems[0];
        assert!(
            first.path == path && first.message.contains(says),
            "{first} for {bad}"
        );
    }
}

#[test]
fn fields_of_what_follows_are_checked() {
    let file = |field: &str| format!("spec: [{{code: 230, phrase: A, {field}}}]");
    for good in ["shadow: true", "action: elsewhere", "limits: {inARow: 3}"] {
        RuleSet::parse(&file(good)).expect(good);
    }
    for (field, path, says) in [
        ("shadow: often", "shadow", "must be true or false"),
        ("action: reboot", "action", "is not one of elsewhere"),
        ("limits: 3", "limits", "mapping"),
        ("limits: {}", "limits", "needs inARow"),
        ("limits: {inARow: 0}", "limits.inARow", "1"),
        ("limits: {inADay: 3}", "limits.inADay", "known here: inARow"),
    ] {
        let problems = RuleSet::parse(&file(field)).expect_err(field);
        let path = format!("spec[0].{path}");
        let is_told = |it: &RuleProblem| it.path == path && it.message.contains(says);
        assert!(problems.iter().any(is_told), "{problems:?} for {field}");
    }
}

#[test]
fn fields_for_the_end_of_a_log_are_checked() {
    let at = "spec[0].pattern.runtimeContainerPatterns[0]";
    for (fields, field, says) in [
        ("userLogIn: error", "userLogIn", "needs a userLogRegex"),
        (
            "userLogRegex: a, userLogIn: tail",
            "userLogIn",
            "is not one of error, message, messages, chain",
        ),
        (
            "userLogRegex: a, userLogNot: b",
            "userLogNot",
            "needs a userLogIn",
        ),
        (
            "userLogRegex: a, userLogIn: end, userLogLastLines: 3",
            "userLogLastLines",
            "does not go with userLogIn",
        ),
        (
            "role: leaf",
            "role",
            "is not one of root, cascade, confirmation",
        ),
        (
            "reported: {launchers: [torchrun]}",
            "reported",
            "needs signals, exitCodes or both",
        ),
        (
            "reported: {signals: [KILL]}",
            "reported.signals",
            "is not one of SIGHUP",
        ),
        (
            "reported: {exitCodes: [0]}",
            "reported.exitCodes",
            "from 1 to 255",
        ),
    ] {
        let problems = RuleSet::parse(&runtime(fields)).expect_err(fields);
        let first = &problems[0];
        assert!(
            first.path == format!("{at}.{field}") && first.message.contains(says),
            "{first} for {fields}"
        );
    }
    let problems = RuleSet::parse("harmlessLines: ['(']\nspec: []").expect_err("an expression");
    assert_eq!(problems[0].path, "harmlessLines[0]");
}

#[test]
fn lists_all_problems_at_once() {
    let text = "extra: 1\nspec:\n- {code: x, phrase: A, type: B}\n- 3\n";
    let paths: Vec<String> = RuleSet::parse(text)
        .expect_err("bad")
        .into_iter()
        .map(|problem| problem.path)
        .collect();
    assert_eq!(paths, ["extra", "spec[0].code", "spec[0].type", "spec[1]"]);
}

#[test]
fn the_codes_of_openpai_are_all_shipped() {
    let shipped: Vec<i32> = RuleSet::shipped().specs().map(|spec| spec.code).collect();
    for code in (220..=255)
        .chain(-1006..=-1000)
        .chain(-1205..=-1200)
        .chain([0, 128, -100, -101, -110, -111])
    {
        assert!(shipped.contains(&code), "{code}");
    }
}

#[test]
fn a_code_that_cannot_be_is_not_told_to_be_another_rules() {
    let text = "spec:\n- {code: 0, phrase: A}\n- {code: 300, phrase: B}";
    let problems = RuleSet::parse(text).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].path, "spec[1].code");
}

#[test]
fn the_codes_that_the_manual_calls_free_are_free_in_the_shipped_rules() {
    let shipped = include_str!("../rules/default.yaml");
    let text = format!("{shipped}\n- {{code: 220, phrase: TwiceTheSame}}\n");
    let problems = RuleSet::parse(&text).unwrap_err();
    let says = "free are 1 to 127, 202 to 208, 215 to 218";
    assert!(problems[0].message.ends_with(says), "{problems:?}");
}

#[test]
fn a_problem_is_told_with_its_line() {
    let text = "# rules\nspec:\n- code: 230\n  phrase: A\n  pattern:\n    runtimeContainerPatterns:\n    - exitCode: 1\n    - userLogRegex: 'a('\n- code: 231\n  samples:\n    matches: [3]\n";
    let problems = RuleSet::parse(text).unwrap_err();
    let lines: Vec<(&str, Option<u64>)> = problems
        .iter()
        .map(|it| (it.path.as_str(), it.line))
        .collect();
    assert_eq!(
        lines,
        [
            (
                "spec[0].pattern.runtimeContainerPatterns[1].userLogRegex",
                Some(8)
            ),
            // What is missing is told of where it should be.
            ("spec[1].phrase", Some(9)),
            ("spec[1].samples.matches[0]", Some(11)),
        ]
    );
    assert!(
        problems[0].to_string().starts_with("line 8: spec[0]"),
        "{}",
        problems[0]
    );
    let text = "spec:\n- {code: 230, phrase: A, samples: {matches: [odd]}}\n";
    assert_eq!(RuleSet::parse(text).unwrap_err()[0].line, Some(2));
}

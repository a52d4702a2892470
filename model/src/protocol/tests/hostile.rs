//! Text that is broken or meant to hurt.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::{RENDERED_BYTES_MAX, TEXT_BYTES_MAX, parse, text_of, verdict};
use super::{SMALLEST, changed, invalid};

#[track_caller]
fn one_message(text: &str) -> String {
    let mut problems = invalid(text);
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.remove(0).message
}

#[test]
fn broken_yaml_is_told_with_line_and_column() {
    let rows = [
        ("name: job\n  type: job\n", 2, None),
        ("name: [1\n", 1, Some(7)),
        ("name: a\nname: b\n", 2, Some(1)),
        ("name: !custom a\n", 1, None),
        ("a: 1\n---\nb: 2\n", 3, Some(1)),
        ("name: \"a\n", 2, Some(1)),
        (
            "parameters:\n  # ok\n  text without colon\n  b: >-\n    x\n",
            4,
            None,
        ),
    ];
    for (text, line, column) in rows {
        let message = one_message(text);
        assert!(
            message.contains(&format!("line {line}, column ")),
            "{text:?}: {message}"
        );
        if let Some(column) = column {
            assert!(
                message.ends_with(&format!("column {column}")),
                "{text:?}: {message}"
            );
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_told_with_their_line() {
    assert_eq!(text_of(b"name: \xc3\xa9\n"), Ok("name: \u{e9}\n"));
    let rows: [(&[u8], u32); 4] = [
        (b"\xff\xfen\0a\0m\0e\0", 1),
        (b"name: a\ntype: \xc3\x28\n", 2),
        (b"name: a\r\n\r\ntype: \xe2\x82", 3),
        (b"\n\xff\n\xff", 2),
    ];
    for (body, line) in rows {
        let message = text_of(body).unwrap_err().message;
        let told = format!("not UTF-8 text: line {line} has");
        assert!(message.contains(&told), "{body:?}: {message}");
    }
}

#[test]
fn aliases_and_merge_keys_work_within_bounds() {
    let text = format!("{SMALLEST}parameters: {{a: &a {{x: 1, y: 2}}, b: {{<<: *a, y: 3}}}}\n")
        .replace(
            "echo hello",
            "echo <% $parameters.b.x %><% $parameters.b.y %>",
        );
    let protocol = super::valid(&text);
    assert_eq!(protocol.entrypoints()[0].1, "echo 13");
}

#[test]
fn alias_bombs_are_refused() {
    let mut lists = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        let again = vec![before; 10].join(", ");
        writeln!(lists, "a{level}: &a{level} [{again}]").unwrap();
    }
    let long = "x".repeat(60 * 1024);
    let texts = format!("a: &a {long}\nb: [{}]\n", vec!["*a"; 900].join(", "));
    for (text, limit) in [(lists, "replayed_events=20001"), (texts, "ScalarBytes")] {
        let message = one_message(&text);
        assert!(message.contains(limit), "{message}");
    }
}

/// What is stored could be submitted again.
#[test]
fn a_job_that_aliases_make_too_long_is_refused() {
    let long = "x".repeat(20 * 1024);
    let job = |times: usize| {
        let again = vec!["*a"; times].join(", ");
        format!("{SMALLEST}parameters:\n  a: &a {long}\n  b: [{again}]\n")
    };
    let message = one_message(&job(60));
    assert!(
        message.contains("with its aliases written out"),
        "{message}"
    );
    let (config, _) = super::valid(&job(45)).split_secrets();
    super::valid(&config.to_string());
}

#[test]
fn many_roles_may_share_one_anchor() {
    let roles: String = (0..300).map(|nth| format!("  r{nth}: *worker\n")).collect();
    let text = SMALLEST.replace("worker:", "worker: &worker");
    assert_eq!(
        super::valid(&format!("{text}{roles}")).entrypoints().len(),
        301
    );
}

#[test]
fn deep_and_long_texts_are_refused() {
    let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    let block: String = (0..1000)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    let long = "a".repeat(TEXT_BYTES_MAX + 1);
    for text in [deep, block, long] {
        one_message(&text);
    }
}

#[test]
fn a_document_of_another_kind_is_told_to_be_none() {
    for (text, kind) in [
        ("[a]", "a list"),
        ("'x'", "the text"),
        ("", "nothing"),
        ("1", "1"),
    ] {
        let errors = verdict(text).errors;
        let told = format!("The job should be a mapping, not {kind}");
        assert!(errors[0].message.starts_with(&told), "{text:?}: {errors:?}");
        assert_eq!(errors[0].path, "");
    }
}

#[test]
fn templates_cannot_blow_up() {
    let parameter = "x".repeat(RENDERED_BYTES_MAX / 64);
    let commands = "<% $parameters.a %>".repeat(65);
    let text =
        format!("{SMALLEST}parameters: {{a: {parameter}}}\n").replace("echo hello", &commands);
    assert!(one_message(&text).contains("exceed"));
    let secret = text.replace("parameters", "secrets");
    assert!(one_message(&secret).contains("exceed"));
}

#[test]
fn many_problems_are_cut_off() {
    let commands = format!("[{}]", vec!["1"; 500].join(","));
    let problems = invalid(&changed("taskRoles/worker/commands", &commands));
    assert_eq!(problems.len(), 101);
    assert_eq!(problems[100].message, "There are 400 more problems.");
}

/// A scalar is what upstream's YAML reader takes it for, but goes into commands as it is written.
#[test]
fn scalars_are_rendered_as_they_are_written() {
    let rows = [
        ("yes", "yes"),
        ("on", "on"),
        ("'1.50'", "1.50"),
        ("1.50", "1.50"),
        ("1.0", "1.0"),
        ("1e3", "1e3"),
        ("1e-4", "1e-4"),
        ("0x1F", "0x1F"),
        ("0b11", "0b11"),
        ("017", "017"),
        ("True", "True"),
        ("1_000", "1_000"),
        ("2024-01-31", "2024-01-31"),
        ("1:30", "1:30"),
        ("12345678901234567890", "12345678901234567890"),
        ("84820935288cab69", "84820935288cab69"),
        ("[1, [2, a]]", "1,2,a"),
        ("&anchor text", "text"),
        ("!!str 12", "12"),
    ];
    for (written, rendered) in rows {
        let text = format!("{SMALLEST}parameters: {{v: {written}}}\n")
            .replace("echo hello", "<% $parameters.v %>");
        assert_eq!(
            super::valid(&text).entrypoints()[0].1,
            rendered,
            "{written}"
        );
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*|[ \\n:\\-{}\\[\\]&*<%$.a-c\"'|>#!0-9~]{0,200}") {
        let _ = parse(&text);
    }

    /// Breaks a valid job at one place, which gets further than plain noise.
    #[test]
    fn no_damaged_job_panics(at in 0..SMALLEST.len(), damage in "[ \\n:\\-{}\\[\\]&*<%$a0~]{0,6}") {
        let mut text = SMALLEST.to_owned();
        text.insert_str(at, &damage);
        let verdict = verdict(&text);
        prop_assert_eq!(verdict.valid, verdict.errors.is_empty());
    }

    #[test]
    fn no_template_panics(command in "([<%$\\[\\]#/!=&{}.a]| |\\$parameters|\\n){0,40}") {
        let list = serde_json::json!([command]).to_string();
        let _ = parse(&changed("taskRoles/worker/commands", &list));
    }
}

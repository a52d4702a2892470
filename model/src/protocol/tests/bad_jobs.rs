//! Bad jobs by the dozen: what is told of each names the place, and says what would be right.

use super::super::{JobProblem, remarks, verdict};
use super::{changed, invalid};

/// Values that are wrong nearly everywhere.
const STRANGE: [&str; 22] = [
    "null",
    "true",
    "[]",
    "{}",
    "[[1]]",
    "{a: b}",
    "''",
    "' '",
    "-1",
    "0",
    "1.5",
    "1e300",
    "-0.0",
    "'5'",
    "'<% $parameters.n %>'",
    "'<% $nosuch'",
    "2147483648",
    "18446744073709551615",
    "'a b'",
    "'é'",
    "'a\\u0000b'",
    "9223372036854775807",
];

/// Every place of the protocol that a job may hold.
const PLACES: [&str; 28] = [
    "protocolVersion",
    "name",
    "type",
    "version",
    "contributor",
    "description",
    "prerequisites",
    "parameters",
    "secrets",
    "jobRetryCount",
    "taskRoles",
    "deployments",
    "defaults",
    "extras",
    "surplus",
    "taskRoles/worker",
    "taskRoles/bad-name",
    "taskRoles/worker/instances",
    "taskRoles/worker/completion",
    "taskRoles/worker/taskRetryCount",
    "taskRoles/worker/prerequisites",
    "taskRoles/worker/dockerImage",
    "taskRoles/worker/data",
    "taskRoles/worker/extraContainerOptions",
    "taskRoles/worker/resourcePerInstance",
    "taskRoles/worker/resourcePerInstance/gpu",
    "taskRoles/worker/resourcePerInstance/ports",
    "taskRoles/worker/commands",
];

/// Whether what is told of `place` is of use: it names the place, or what lies below or above, and
/// says more than that something is wrong.
fn is_told(place: &str, problems: &[JobProblem]) -> bool {
    let told = remarks(problems);
    let first = format!(".{}", place.split('/').next().unwrap());
    let is_good = |remark: &crate::remark::Remark| {
        let vague = [
            "additional properties",
            "one of the allowed values",
            "oneOf",
            "$merge",
            "should be object",
            "should be array",
            "should be string",
            "should match pattern",
        ];
        remark.path.starts_with(&first)
            && remark.message.len() > 8
            && remark.to_string().len() < 600
            && !vague.iter().any(|words| remark.message.contains(words))
    };
    !told.is_empty() && told.len() <= 8 && told.iter().all(is_good)
}

#[test]
fn whatever_stands_in_a_place_is_accepted_or_told_with_its_place() {
    for place in PLACES {
        for value in STRANGE {
            let job = changed(place, value);
            let verdict = verdict(&job);
            assert_eq!(
                verdict.valid,
                verdict.errors.is_empty(),
                "{place} = {value}"
            );
            if !verdict.valid && super::super::parse(&job).is_err() {
                let problems = invalid(&job);
                assert!(
                    is_told(place, &problems),
                    "{place} = {value}: {:#?}",
                    remarks(&problems)
                );
            }
        }
    }
}

#[test]
fn image_names_that_cannot_be_are_refused_with_the_rule() {
    for (uri, holds) in [
        ("UPPER/Case:!!", "lower case"),
        ("Ubuntu", "lower case"),
        ("ubuntu:", "a tag has"),
        ("ubuntu:24.04:1", "between slashes"),
        ("https://ghcr.io/a", "://"),
        ("ubuntu 24.04", "between slashes"),
        ("a@sha256:12", "after `@`"),
        (
            "ubuntu:<% $parameters.tag %>",
            "parameters count in commands only",
        ),
    ] {
        let job = changed(
            "prerequisites",
            &format!("[{{type: dockerimage, name: image, uri: '{uri}'}}]"),
        );
        let found = remarks(&invalid(&job));
        assert_eq!(found[0].path, ".prerequisites[0].uri");
        let shown = format!("\"{uri}\" is no image name: ");
        assert!(found[0].message.starts_with(&shown), "{uri}: {found:?}");
        assert!(found[0].message.contains(holds), "{uri}: {found:?}");
    }
}

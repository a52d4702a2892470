//! Paths, operation ids and tags, from the patterns of the routes.

use crate::route::{ROUTES, Route};

/// What `*` at the end of a pattern is called.
const REST: &str = "path";

/// The path that a pattern is described under: of several words for the same place the last, which is the one
/// of OpenPAI's version 2.
pub(super) fn path(pattern: &str) -> String {
    let words = pattern.split('/').map(|part| match part.strip_prefix(':') {
        Some(name) => format!("{{{name}}}"),
        None if part == "*" => format!("{{{REST}}}"),
        None => part.rsplit('|').next().unwrap_or(part).to_owned(),
    });
    format!("/{}", words.collect::<Vec<_>>().join("/"))
}

/// The other paths that lead to the same route.
pub(super) fn aliases(pattern: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for part in pattern.split('/') {
        all = all
            .iter()
            .flat_map(|start| part.split('|').map(move |word| format!("{start}/{word}")))
            .collect();
    }
    let described = path(pattern);
    let paths = all.iter().map(|one| path(&one[1..]));
    paths.filter(|one| *one != described).collect()
}

/// The parameters of a path, in their order.
pub(super) fn parameters(pattern: &str) -> Vec<&str> {
    let parts = pattern.split('/');
    parts
        .filter_map(|part| match part {
            "*" => Some(REST),
            part => part.strip_prefix(':'),
        })
        .collect()
}

/// What a parameter of a path is, and whether it is a number.
pub(super) fn parameter(name: &str) -> (&'static str, bool) {
    match name {
        "job" => ("The job, as `USER~NAME`.", false),
        "name" => ("Its name.", false),
        "user" => ("The user's name.", false),
        "group" => ("The group's name.", false),
        "vc" => ("The virtual cluster's name.", false),
        "storage" => ("The storage's name.", false),
        "document" => ("The document's name, as `failure-rules`.", false),
        "member" => ("The member's name.", false),
        "token" => ("The token, or its id.", false),
        "node" => ("The node's address and port.", false),
        "role" => ("The task role.", false),
        "file" => ("The log's file, as `all`, `stdout`, `stderr`.", false),
        "attempt" => ("The job attempt, counted from 0.", true),
        "port" => (
            "A TCP port on which the task listens: its number, or the label of one that the task was given.",
            true,
        ),
        "index" => ("The task's index in its role, from 0.", true),
        "task" => ("The task attempt, counted from 0.", true),
        REST => (
            "Where in the extension: one name, or several with a slash between them.",
            false,
        ),
        _ => ("", false),
    }
}

/// Names a route's operation in clients: its handler, and where several rows of the table have the same
/// handler, what tells the later ones from the first.
pub(super) fn operation_id(route: &Route) -> String {
    let id = camel(&route.name.replace("::", "_"));
    let first = ROUTES.iter().find(|one| one.name == route.name);
    if first.is_none_or(|first| first.pattern == route.pattern) {
        return id;
    }
    let last = |text: &str| text.rsplit(['/', '|', ':']).next().map(pascal);
    if route.pattern.starts_with("api/v1/") {
        return format!("{id}V1");
    }
    match parameters(route.pattern).last() {
        Some(name) => format!("{id}Of{}", pascal(name)),
        None => format!("{id}At{}", last(route.pattern).unwrap_or_default()),
    }
}

/// What an operation is listed under: the resource.
pub(super) fn tag(pattern: &str) -> String {
    let path = path(pattern);
    let words = path.split('/').skip(1);
    let mut words = words.skip_while(|word| ["api", "v1", "v2", "muster"].contains(word));
    let first = words.clone().next().unwrap_or_default();
    if words.any(|word| word == "jobs") {
        return "jobs".to_owned();
    }
    match first {
        "" | "healthz" | "info" | "openapi.json" => "server",
        "status.json" | "status.txt" => "status",
        "storage" => "storages",
        first => first,
    }
    .to_owned()
}

/// `set_vcs` as `setVcs`
fn camel(text: &str) -> String {
    let whole = pascal(text);
    let mut chars = whole.chars();
    let first = chars.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

/// `set_vcs` as `SetVcs`
fn pascal(text: &str) -> String {
    let words = text.split(['_', '-', '.']);
    words
        .flat_map(|word| {
            let mut chars = word.chars();
            let first = chars.next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(chars)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_one_path_and_its_aliases() {
        let pattern = "api/v1|v2/token|tokens/:token";
        assert_eq!(path(pattern), "/api/v2/tokens/{token}");
        assert_eq!(
            aliases(pattern),
            [
                "/api/v1/token/{token}",
                "/api/v1/tokens/{token}",
                "/api/v2/token/{token}"
            ]
        );
        assert_eq!(parameters("a/:b/*"), ["b", "path"]);
        assert_eq!((path(""), path("a/*")), ("/".into(), "/a/{path}".into()));
        assert!(aliases("a/:b").is_empty());
        assert_eq!(tag("api/v1/user/:user/jobs"), "jobs");
        assert_eq!(tag("api/muster/v1/cluster/tokens"), "cluster");
    }
}

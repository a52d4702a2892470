//! What differs between two texts, line by line, and between two versions of a document.

use std::time::Duration;

use maud::{Markup, html};
use muster_model::mesh::VersionView;
use similar::{ChangeTag, TextDiff};

use super::frame::{PortalPage, Section};
use crate::call::Call;
use crate::error::ApiError;
use crate::port::{Documents, Membership};
use crate::reply::{HandlerResult, HttpReply};

/// Lines around a change that are shown with it.
const AROUND: usize = 3;
/// Lines that are shown at most.
const LINES_MAX: usize = 4_000;
/// How long the shortest difference is looked for; a longer one is shown then.
const SEARCH_MAX: Duration = Duration::from_millis(300);

/// The two versions that `?compare=A..B` names.
///
/// # Errors
/// When it names no two versions.
pub(super) fn versions(text: &str) -> Result<(u64, u64), ApiError> {
    let rule = || {
        ApiError::Parameters(format!(
            "compare must name two versions as in ?compare=3..5, not {text:?}"
        ))
    };
    let (first, second) = text.split_once("..").ok_or_else(rule)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| rule());
    Ok((number(first)?, number(second)?))
}

/// `GET /documents/:document?compare=A..B`
pub(super) async fn page(
    call: &Call,
    documents: &dyn Documents,
    membership: &dyn Membership,
    (first, second): (u64, u64),
) -> HandlerResult {
    let name = call.params.text("document");
    let before = documents.text(name, Some(first)).await?;
    let after = documents.text(name, Some(second)).await?;
    let history = documents.history(name).await?;
    let title = format!("From version {first} to version {second}");
    let body = html! {
        h1 { (name) }
        p { a href={ "/documents/" (name) } { "The document" } }
        section.card { h2 { "Compare" } (form(name, &history)) }
        (card(&title, &before.text, &after.text))
    };
    let page = PortalPage {
        section: Section::Settings,
        title: format!("{name}, versions {first} and {second}"),
        refresh_s: None,
        body,
    };
    let reply: HttpReply = page.reply(call, &membership.node_name());
    Ok(reply)
}

/// A link to what each version changed, beside those before it.
pub(super) fn form(name: &str, history: &[VersionView]) -> Markup {
    let numbers: Vec<u64> = history.iter().map(|one| one.version.version).collect();
    html! {
        p { "What changed: "
            @for pair in numbers.windows(2) {
                @if let [newer, older] = pair {
                    a href={ "/documents/" (name) "?compare=" (older) ".." (newer) } { (older) " to " (newer) } " "
                }
            }
        }
    }
}

/// The lines that differ, each with a sign and a colour.
pub(super) fn card(title: &str, before: &str, after: &str) -> Markup {
    let diff = TextDiff::configure()
        .timeout(SEARCH_MAX)
        .diff_lines(before, after);
    let hunks = diff.grouped_ops(AROUND);
    let mut lines = Vec::new();
    for hunk in &hunks {
        if let Some(first) = hunk.first() {
            let (old, new) = (first.old_range().start + 1, first.new_range().start + 1);
            lines.push((None, format!("line {old} before, {new} after\n")));
        }
        let changes = hunk.iter().flat_map(|op| diff.iter_changes(op));
        lines.extend(changes.map(|change| (Some(change.tag()), line(change.value()))));
    }
    let count = |tag| lines.iter().filter(|(it, _)| *it == Some(tag)).count();
    let (gone, come) = (count(ChangeTag::Delete), count(ChangeTag::Insert));
    html! {
        section.card role="status" {
            h2 { (title) }
            @if lines.is_empty() { p { "Nothing differs." } }
            @else {
                p.dim { "Lines added: " (come) ", removed: " (gone) "." }
                div.diff tabindex="0" role="region" aria-label=(title) {
                    @for (tag, text) in lines.iter().take(LINES_MAX) { (shown(*tag, text)) }
                }
                @if lines.len() > LINES_MAX { p.warn { "And " (lines.len() - LINES_MAX) " more lines." } }
            }
        }
    }
}

/// A line with one end of line, so that the next one starts below it.
fn line(text: &str) -> String {
    format!("{}\n", text.trim_end_matches(['\n', '\r']))
}

fn shown(tag: Option<ChangeTag>, text: &str) -> Markup {
    html! {
        @match tag {
            None => { div.hunk { (text) } }
            Some(ChangeTag::Equal) => { div { "  " (text) } }
            Some(ChangeTag::Delete) => { del { "- " (text) } }
            Some(ChangeTag::Insert) => { ins { "+ " (text) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_signs_and_are_no_markup() {
        let before = "a\nb\n<b>\nd\n";
        let after = "a\nB\n<b>\nd";
        let text = card("t", before, after).into_string();
        for part in [
            "<del>- b\n</del>",
            "<ins>+ B\n</ins>",
            "<div>  &lt;b&gt;\n</div>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("<b>"), "{text}");
        assert!(
            card("t", before, before)
                .into_string()
                .contains("Nothing differs.")
        );
    }

    #[test]
    fn two_versions_are_named() {
        assert_eq!(versions("3..5").ok(), Some((3, 5)));
        for wrong in ["", "3", "3..", "..5", "a..b", "3...5", "-1..2"] {
            assert!(versions(wrong).is_err(), "{wrong}");
        }
    }
}

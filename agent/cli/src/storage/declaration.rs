//! The text of the declaration with an entry more or less. All else of the text stays, comments too.
//!
//! What comes of an edit is read again: a text that is written in a way that is not understood here is left to its admin.

use muster_model::storage::ClusterStorages;

/// The list's field.
const FIELD: &str = "storages:";

/// The text with an entry at the end of the list.
///
/// # Errors
/// Why not, and what to do.
pub(super) fn added(text: &str, name: &str, entry: &str) -> Result<String, String> {
    let before = read(text)?;
    if before.find(name).is_some() {
        return Err(format!(
            "storage {name} is declared already: remove it first, or edit what `muster storage show` prints"
        ));
    }
    let alone = format!("{FIELD} [{entry}]");
    let wanted = ClusterStorages::read(&alone).map_err(|problems| lines(&problems))?;
    let mut expected = before;
    expected.storages.extend(wanted.storages);
    checked(with_entry(text, entry), &expected)
}

/// The text without the entry of this name.
///
/// # Errors
/// Why not, and what to do.
pub(super) fn removed(text: &str, name: &str) -> Result<String, String> {
    let mut expected = read(text)?;
    let index = expected
        .storages
        .iter()
        .position(|storage| storage.name == name);
    let index = index.ok_or_else(|| {
        format!("storage {name} is not declared: `muster storage list` shows those that are")
    })?;
    expected.storages.remove(index);
    checked(without_entry(text, index), &expected)
}

fn read(text: &str) -> Result<ClusterStorages, String> {
    ClusterStorages::read(text).map_err(|problems| lines(&problems))
}

fn lines(problems: &[muster_model::cluster_spec::SpecProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

fn checked(text: Option<String>, expected: &ClusterStorages) -> Result<String, String> {
    let is_so = |text: &String| ClusterStorages::read(text).is_ok_and(|read| read == *expected);
    text.filter(is_so).ok_or_else(|| {
        "the declaration is written in a way that this command does not edit: use `muster storage show > FILE`, an \
         editor, and `muster storage apply FILE`"
            .to_owned()
    })
}

/// The line of the field, and what stands behind it there.
fn field(lines: &[&str]) -> Option<(usize, String)> {
    let at = lines.iter().position(|line| line.starts_with(FIELD))?;
    let rest = lines[at][FIELD.len()..].trim();
    Some((at, if rest.starts_with('#') { "" } else { rest }.to_owned()))
}

fn with_entry(text: &str, entry: &str) -> Option<String> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    let (at, rest) = field(&lines)?;
    let is_full_list = rest
        .strip_prefix('[')
        .is_some_and(|open| !open.trim_start().starts_with(']'));
    if is_full_list {
        // Behind the last entry of a list in brackets, which may go over several lines.
        let end = text.rfind(']')?;
        let head = text[..end].trim_end();
        let comma = if head.ends_with(',') { " " } else { ", " };
        return Some(format!("{head}{comma}{entry}{}", &text[end..]));
    }
    if !rest.is_empty() {
        let empty = rest
            .strip_prefix("[]")
            .or_else(|| rest.strip_prefix("null"));
        let tail = empty?.to_owned();
        let line = format!("{FIELD}{tail}\n- {entry}");
        lines[at] = &line;
        return Some(lines.join("\n"));
    }
    let (starts, end) = items(&lines, at)?;
    let indent = starts.first().map_or(0, |start| indent_of(lines[*start]));
    let line = format!("{}- {entry}", " ".repeat(indent));
    lines.insert(end, &line);
    Some(lines.join("\n"))
}

fn without_entry(text: &str, index: usize) -> Option<String> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    let (at, rest) = field(&lines)?;
    if rest.starts_with('[') {
        return without_flow_entry(text, index);
    }
    let (starts, end) = items(&lines, at)?;
    let start = *starts.get(index)?;
    let next = starts.get(index + 1).copied();
    let mut stop = next.unwrap_or(end);
    // Comments before the next entry are of that one.
    while next.is_some() && stop > start + 1 && is_remark(lines[stop - 1]) {
        stop -= 1;
    }
    lines.drain(start..stop);
    let empty;
    if starts.len() == 1 {
        empty = format!("{FIELD} []{}", &lines[at][FIELD.len()..]);
        lines[at] = &empty;
    }
    Some(lines.join("\n"))
}

/// The lines at which the entries of a list begin, and the line behind its last entry.
fn items(lines: &[&str], field: usize) -> Option<(Vec<usize>, usize)> {
    let mut starts = Vec::new();
    let mut end = field + 1;
    let mut indent = None;
    for (number, line) in lines.iter().enumerate().skip(field + 1) {
        if is_remark(line) {
            continue;
        }
        let own = indent_of(line);
        let is_item = line.trim_start().starts_with("- ") || line.trim() == "-";
        match indent {
            None if is_item => indent = Some(own),
            None => return None,
            Some(_) => {}
        }
        match indent {
            Some(wanted) if own == wanted && is_item => starts.push(number),
            Some(wanted) if own > wanted => {}
            _ => break,
        }
        end = number + 1;
    }
    Some((starts, end))
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_remark(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// The text without an entry of a list in brackets.
fn without_flow_entry(text: &str, index: usize) -> Option<String> {
    let open = text.find(FIELD)? + text[text.find(FIELD)?..].find('[')?;
    let mut entries = Vec::new();
    let (mut depth, mut quote, mut start) = (0_usize, None, open + 1);
    for (at, letter) in text.char_indices().skip_while(|(at, _)| *at < open) {
        match (quote, letter) {
            (Some(mark), letter) if mark == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') if depth == 1 => {
                entries.push(start..at);
                break;
            }
            (None, ']' | '}') => depth -= 1,
            (None, ',') if depth == 1 => {
                entries.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
    }
    let own = entries.get(index)?.clone();
    // With the comma behind it, or for the last one the comma before.
    let range = match (index + 1 < entries.len(), index) {
        (true, _) => own.start..own.end + 1,
        (false, 0) => own,
        (false, _) => own.start - 1..own.end,
    };
    let (head, tail) = (&text[..range.start], &text[range.end..]);
    Some(format!(
        "{head}{}",
        if index == 0 { tail.trim_start() } else { tail }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = r#"{name: "new", type: nfs, data: {path: "/p", server: "s"}}"#;
    const BLOCK: &str = "\
# The lab's.
storages:          # all of them
  - name: data
    type: nfs      # fast
    data: {server: s, path: /d}

  # Of the users.
  - name: home
    type: samba
    data:
      address: //s/h
      username: u
      password: sealed:abc
# The end.
";

    #[test]
    fn an_entry_is_added_and_all_else_stays() {
        let text = added(BLOCK, "new", ENTRY).unwrap();
        let line = format!("      password: sealed:abc\n  - {ENTRY}\n# The end.\n");
        assert!(text.ends_with(&line), "{text}");
        assert_eq!(text.replace(&format!("  - {ENTRY}\n"), ""), BLOCK);
        for empty in ["storages: []\n", "# a\nstorages: []  # none\n"] {
            let text = added(empty, "new", ENTRY).unwrap();
            assert!(text.contains(&format!("\n- {ENTRY}\n")), "{text}");
            assert_eq!(text.contains("# none"), empty.contains("# none"));
        }
        let flow = "storages: [{name: a, type: other},\n  {name: b, type: other}]\n# end\n";
        let text = added(flow, "new", ENTRY).unwrap();
        assert!(
            text.ends_with(&format!("type: other}}, {ENTRY}]\n# end\n")),
            "{text}"
        );
        let odd = "{storages: [{name: a, type: other}]}";
        assert!(
            added(odd, "new", ENTRY)
                .unwrap_err()
                .contains("muster storage show")
        );
        assert!(
            added(BLOCK, "home", ENTRY)
                .unwrap_err()
                .contains("declared already")
        );
        let bad = added(BLOCK, "new", "{name: new, type: nfs, data: {server: s}}");
        assert!(bad.unwrap_err().contains("data.path"));
    }

    #[test]
    fn an_entry_is_removed_and_all_else_stays() {
        let text = removed(BLOCK, "data").unwrap();
        assert!(text.contains("# Of the users.\n  - name: home"), "{text}");
        assert!(
            text.starts_with("# The lab's.\nstorages:          # all of them\n\n"),
            "{text}"
        );
        let last = removed(BLOCK, "home").unwrap();
        assert!(last.ends_with("  # Of the users.\n# The end.\n"), "{last}");
        let none = removed(&text, "home").unwrap();
        assert!(
            none.contains("storages: []          # all of them"),
            "{none}"
        );
        let flow = "storages: [{name: a, type: other}, {name: 'b,]', type: other}, {name: c, type: other}]\n";
        for (name, expected) in [
            (
                "a",
                "storages: [{name: 'b', type: other}, {name: c, type: other}]\n",
            ),
            (
                "c",
                "storages: [{name: a, type: other}, {name: 'b', type: other}]\n",
            ),
        ] {
            assert_eq!(removed(&flow.replace(",]'", "'"), name).unwrap(), expected);
        }
        assert_eq!(
            removed("storages: [{name: a, type: other}]", "a").unwrap(),
            "storages: []"
        );
        assert!(
            removed(BLOCK, "nothing")
                .unwrap_err()
                .contains("not declared")
        );
    }
}

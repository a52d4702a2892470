//! Lists of names in one argument: `A,B`, and changes of such lists: `+A,-B`.

use std::fmt::Display;
use std::str::FromStr;

use muster_model::id::{GroupName, VcName};

/// Names, each once, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NameList(pub(super) Vec<String>);

/// How a list of names changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NamesEdit {
    /// Exactly these.
    Exactly(NameList),
    /// These as well, and those no longer.
    By { add: NameList, remove: NameList },
}

impl NameList {
    fn push(&mut self, name: String) {
        if !self.0.contains(&name) {
            self.0.push(name);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl NamesEdit {
    /// What comes of a list by this.
    pub(super) fn applied(&self, before: &[String]) -> Vec<String> {
        let (add, remove) = match self {
            Self::Exactly(names) => return names.0.clone(),
            Self::By { add, remove } => (add, remove),
        };
        let kept = before.iter().filter(|name| !remove.0.contains(name));
        let mut after = NameList(kept.cloned().collect());
        add.0.iter().for_each(|name| after.push(name.clone()));
        after.0
    }
}

/// Reads `A,B`, names of virtual clusters. An empty text means none.
pub(super) fn vcs(text: &str) -> Result<NameList, String> {
    listed(text, ',', checked::<VcName>)
}

/// Reads `A,B`, names of groups.
pub(super) fn groups(text: &str) -> Result<NameList, String> {
    listed(text, ',', checked::<GroupName>)
}

/// Reads `A,B`, names of storages.
pub(super) fn storages(text: &str) -> Result<NameList, String> {
    listed(text, ',', storage)
}

/// Reads `A,B` or `+A,-B`, names of groups.
pub(super) fn groups_edit(text: &str) -> Result<NamesEdit, String> {
    edit(text, checked::<GroupName>)
}

/// Reads `A,B` or `+A,-B`, names of virtual clusters.
pub(super) fn vcs_edit(text: &str) -> Result<NamesEdit, String> {
    edit(text, checked::<VcName>)
}

/// Reads `A,B` or `+A,-B`, names of storages.
pub(super) fn storages_edit(text: &str) -> Result<NamesEdit, String> {
    edit(text, storage)
}

/// Reads names with `separator` between them, each of which `check` accepts.
pub(super) fn listed(
    text: &str,
    separator: char,
    check: fn(&str) -> Result<String, String>,
) -> Result<NameList, String> {
    let mut names = NameList::default();
    let given = text.split(separator).map(str::trim);
    for name in given.filter(|name| !name.is_empty()) {
        names.push(check(name)?);
    }
    Ok(names)
}

/// A name as its kind allows it.
pub(super) fn checked<N>(name: &str) -> Result<String, String>
where
    N: FromStr<Err: Display>,
{
    let valid = name.parse::<N>().map_err(|error| error.to_string());
    valid.map(|_| name.to_owned())
}

fn storage(name: &str) -> Result<String, String> {
    match name.chars().any(|letter| letter.is_control()) {
        true => Err(format!("{name:?} is no name of a storage")),
        false => Ok(name.to_owned()),
    }
}

/// Either every name has a sign or none has.
fn edit(text: &str, check: fn(&str) -> Result<String, String>) -> Result<NamesEdit, String> {
    let given = text.split(',').map(str::trim);
    let given: Vec<&str> = given.filter(|name| !name.is_empty()).collect();
    let signed = given.iter().filter(|name| name.starts_with(['+', '-']));
    match signed.count() {
        0 => Ok(NamesEdit::Exactly(listed(text, ',', check)?)),
        count if count == given.len() => by(&given, check),
        _ => Err(
            "give each name a sign, as in +A,-B, to add and remove, or none, as in A,B, to name all"
                .to_owned(),
        ),
    }
}

fn by(given: &[&str], check: fn(&str) -> Result<String, String>) -> Result<NamesEdit, String> {
    let (mut add, mut remove) = (NameList::default(), NameList::default());
    for signed in given {
        let (list, name) = match signed.strip_prefix('+') {
            Some(name) => (&mut add, name),
            None => (&mut remove, signed.trim_start_matches('-')),
        };
        // `--yes` behind the option is another option, and a name was forgotten.
        if name.is_empty() || signed.starts_with("--") {
            return Err(format!("{signed:?} is no name with a sign; write +A,-B"));
        }
        list.push(check(name)?);
    }
    match add.0.iter().find(|name| remove.0.contains(name)) {
        Some(name) => Err(format!(
            "{name} is both added and removed; name it with one sign"
        )),
        None => Ok(NamesEdit::By { add, remove }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> NameList {
        NameList(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn a_list_is_given_whole_or_as_a_change() {
        for (text, exactly) in [
            ("a,b", &["a", "b"][..]),
            (" a , b,a,", &["a", "b"]),
            ("", &[]),
        ] {
            let expect = NamesEdit::Exactly(names(exactly));
            assert_eq!(groups_edit(text), Ok(expect), "{text:?}");
        }
        let by = groups_edit("+a,-b, +c.d").unwrap();
        let (add, remove) = (names(&["a", "c.d"]), names(&["b"]));
        assert_eq!(by, NamesEdit::By { add, remove });
        let before = ["b", "a", "x"].map(str::to_owned);
        assert_eq!(by.applied(&before), ["a", "x", "c.d"]);
        assert_eq!(groups_edit("y").unwrap().applied(&before), ["y"]);
    }

    #[test]
    fn what_is_no_list_says_how_to_write_one() {
        for (text, told) in [
            ("+a,b", "+A,-B"),
            ("+", "+A,-B"),
            ("--yes", "+A,-B"),
            ("+a,-a", "both added and removed"),
            ("a b", "use letters"),
            ("+ä", "use letters"),
        ] {
            let error = groups_edit(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        assert!(vcs("a.b").is_err() && groups("a.b").is_ok());
        assert!(vcs_edit("+a-b").is_err());
        assert!(storages("nfs one,b").is_ok() && storages("a\tb").is_err());
    }
}

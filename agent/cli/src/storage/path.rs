//! A path in a storage: `data:runs/one`.

use std::fmt;
use std::str::FromStr;

/// A storage, and a path in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoragePath {
    pub(crate) storage: String,
    /// Without slashes around it; empty: the root.
    pub(crate) path: String,
}

impl StoragePath {
    /// The path of something in it.
    pub(crate) fn join(&self, name: &str) -> Self {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}/{name}"),
        };
        Self {
            storage: self.storage.clone(),
            path,
        }
    }

    /// The directory that it is in, and its name there; none for the root.
    pub(super) fn split(&self) -> Option<(Self, &str)> {
        if self.path.is_empty() {
            return None;
        }
        let (above, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let above = Self {
            storage: self.storage.clone(),
            path: above.to_owned(),
        };
        Some((above, name))
    }
}

impl FromStr for StoragePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (storage, path) = text.split_once(':').unwrap_or((text, ""));
        if storage.is_empty() || storage.contains('/') {
            return Err(format!(
                "{text:?} names no storage: write STORAGE:PATH, as data:runs/one"
            ));
        }
        let names = path
            .split('/')
            .filter(|name| !name.is_empty())
            .collect::<Vec<_>>();
        if names.iter().any(|name| matches!(*name, "." | "..")) {
            return Err("a path in a storage has no . and no ..".to_owned());
        }
        Ok(Self {
            storage: storage.to_owned(),
            path: names.join("/"),
        })
    }
}

impl fmt::Display for StoragePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.storage),
            path => write!(f, "{}:{path}", self.storage),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_a_storage_and_what_is_in_it() {
        let read = |text: &str| text.parse::<StoragePath>();
        for (text, storage, path) in [
            ("data", "data", ""),
            ("data:", "data", ""),
            ("data:/runs//one/", "data", "runs/one"),
            ("data:a:b", "data", "a:b"),
        ] {
            let found = read(text).unwrap();
            assert_eq!((&*found.storage, &*found.path), (storage, path), "{text}");
        }
        for text in ["", ":a", "./a:b", "data:a/../b", "data:."] {
            assert!(read(text).is_err(), "{text}");
        }
        let place = read("data:runs/one").unwrap();
        let (above, name) = place.split().unwrap();
        assert_eq!((above.to_string(), name), ("data:runs".to_owned(), "one"));
        assert_eq!(read("data").unwrap().split(), None);
        assert_eq!(above.join("two").to_string(), "data:runs/two");
    }
}

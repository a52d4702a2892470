//! Credentials of storages, sealed: what the cluster keeps and shows of them.

use serde_json::Value;

use super::{SECRETS, Storage};
use crate::protocol::{ValueStep, read_yaml, write_yaml};

/// Begins a credential that is sealed.
pub const SEALED_PREFIX: &str = "sealed:";

/// The text of the storages document with each credential that stands there in clear replaced by what `seal` makes of
/// the storage's name and the credential. What it makes is to begin with [`SEALED_PREFIX`]. The rest of the text stays
/// as it was written as far as possible.
///
/// # Errors
/// Why a credential cannot be sealed, or the text cannot be read.
pub fn seal_credentials(
    text: &str,
    mut seal: impl FnMut(&str, &str) -> Result<String, String>,
) -> Result<String, String> {
    let mut document = read_yaml(text).map_err(|problem| problem.message)?;
    let mut text = text.to_owned();
    let clear = clear_credentials(&document);
    for (index, key, name, secret) in clear {
        let sealed = seal(&name, &secret)?;
        if let Some(place) = document
            .get_mut("storages")
            .and_then(|storages| storages.get_mut(index))
            .and_then(|storage| storage.get_mut("data")?.get_mut(key))
        {
            *place = Value::String(sealed);
        }
        let path = [
            ValueStep::Key("storages".to_owned()),
            ValueStep::Item(index),
            ValueStep::Key("data".to_owned()),
            ValueStep::Key(key.to_owned()),
        ];
        text = write_yaml(&text, &path, &document)?;
    }
    Ok(text)
}

/// The place of each credential in clear, with its storage's name.
fn clear_credentials(document: &Value) -> Vec<(usize, &'static str, String, String)> {
    let storages = document.get("storages").and_then(Value::as_array);
    let mut found = Vec::new();
    for (index, storage) in storages.into_iter().flatten().enumerate() {
        let name = storage.get("name").and_then(Value::as_str);
        for key in SECRETS {
            let secret = storage.pointer(&format!("/data/{key}"));
            let secret = secret.and_then(Value::as_str);
            if let (Some(name), Some(secret)) = (name, secret)
                && !secret.starts_with(SEALED_PREFIX)
            {
                found.push((index, key, name.to_owned(), secret.to_owned()));
            }
        }
    }
    found
}

impl Storage {
    /// The same with each sealed credential replaced by what `open` makes of it.
    /// `None`: one cannot be opened.
    pub fn with_opened(&self, mut open: impl FnMut(&str) -> Option<String>) -> Option<Self> {
        let mut storage = self.clone();
        for key in SECRETS {
            if let Some(value) = storage.data.get_mut(key)
                && value.starts_with(SEALED_PREFIX)
            {
                *value = open(value)?;
            }
        }
        Some(storage)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ClusterStorages;
    use super::*;

    const TEXT: &str = "# The lab's.
storages:
  - name: home
    type: samba   # old
    data:
      address: //files/home
      username: muster
      password: \"p, w\"
  - name: share
    type: azureFile
    data: {shareName: s, accountName: a, accountKey: k12}
  - name: kept
    type: samba
    data: {address: //files/kept, password: 'sealed:abc'}
";

    fn seal(name: &str, secret: &str) -> Result<String, String> {
        Ok(format!("{SEALED_PREFIX}{name}/{}", secret.len()))
    }

    #[test]
    fn credentials_are_sealed_and_the_rest_stays() {
        let text = TEXT;
        let sealed = seal_credentials(text, seal).unwrap();
        let read = ClusterStorages::read(&sealed).unwrap();
        let entry = |name: &str, key: &str| read.find(name).unwrap().data[key].clone();
        assert_eq!(entry("home", "password"), "sealed:home/4");
        assert_eq!(entry("share", "accountKey"), "sealed:share/3");
        assert_eq!(entry("kept", "password"), "sealed:abc");
        assert_eq!(entry("home", "username"), "muster");
        assert!(
            sealed.starts_with("# The lab's.\n") && sealed.contains("samba   # old"),
            "{sealed}"
        );
        assert!(!sealed.contains("p, w"));
        // What is sealed is left alone.
        assert_eq!(
            seal_credentials(&sealed, |_, _| Err("asked".to_owned())).unwrap(),
            sealed
        );
        let failed = seal_credentials(text, |_, _| Err("no key".to_owned()));
        assert_eq!(failed, Err("no key".to_owned()));
    }

    #[test]
    fn sealed_credentials_are_opened() {
        let sealed = seal_credentials(TEXT, seal).unwrap();
        let storages = ClusterStorages::read(&sealed).unwrap();
        let opened = storages
            .find("home")
            .unwrap()
            .with_opened(|text| Some(text.to_uppercase()));
        assert_eq!(opened.unwrap().data["password"], "SEALED:HOME/4");
        assert_eq!(storages.find("home").unwrap().with_opened(|_| None), None);
    }
}

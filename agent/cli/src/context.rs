//! Contexts: clusters that the user has logged in to, in a file that nobody else can read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use muster_model::secret::Hidden;
use muster_tls::Fingerprint;
use serde::{Deserialize, Serialize};

use super::document_file;
use super::endpoint::{AgentEndpoint, KnownCertificate, remote};
use super::error::CliError;

/// Contexts of one file, at most.
const CONTEXTS_MAX: usize = 100;
/// Bytes of the file, at most.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Characters of a name, at most.
const NAME_CHARS_MAX: usize = 255;
/// Who else but its owner may do what with the file.
const OTHERS: u32 = 0o077;

/// A cluster that the user has logged in to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClusterContext {
    /// The address of one of its nodes.
    pub(super) url: String,
    /// Whose token it is.
    pub(super) user: String,
    /// The token.
    pub(super) token: Hidden<String>,
    /// The fingerprint of the node's certificate, if it is known by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fingerprint: Option<String>,
    /// The file of certificates that it is known by, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cacert: Option<PathBuf>,
}

impl ClusterContext {
    /// The place that it names.
    pub(super) fn endpoint(&self) -> Result<AgentEndpoint, CliError> {
        remote(&self.url, Some(self.token.0.clone()), self.known()?)
    }

    fn known(&self) -> Result<KnownCertificate, CliError> {
        match (&self.cacert, &self.fingerprint) {
            (Some(file), _) => Ok(KnownCertificate::File(file.clone())),
            (None, Some(text)) => match text.parse::<Fingerprint>() {
                Ok(fingerprint) => Ok(KnownCertificate::Fingerprint(fingerprint)),
                Err(error) => Err(CliError::Usage(format!(
                    "the fingerprint of the context cannot be used: {error}; log in again"
                ))),
            },
            (None, None) => Ok(KnownCertificate::ByAuthorities),
        }
    }
}

/// All contexts of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Contexts {
    /// The one in use.
    #[serde(default)]
    pub(super) current: Option<String>,
    /// By name.
    #[serde(default)]
    pub(super) contexts: BTreeMap<String, ClusterContext>,
}

impl Contexts {
    /// The context of this name.
    pub(super) fn named(&self, name: &str) -> Result<&ClusterContext, CliError> {
        self.contexts.get(name).ok_or_else(|| {
            CliError::Usage(format!(
                "there is no context {name}; `muster context list` shows those that there are, and \
                 `muster login URL --context {name}` makes one"
            ))
        })
    }

    /// The context in use, with its name.
    pub(super) fn in_use(&self) -> Option<(&String, &ClusterContext)> {
        self.contexts.get_key_value(self.current.as_ref()?)
    }

    /// Puts a context there, and uses it.
    pub(super) fn put(&mut self, name: &str, context: ClusterContext) -> Result<(), CliError> {
        check_name(name)?;
        if !self.contexts.contains_key(name) && self.contexts.len() >= CONTEXTS_MAX {
            return Err(CliError::Usage(format!(
                "there are {CONTEXTS_MAX} contexts, as many as may be; remove some with `muster context remove`"
            )));
        }
        self.contexts.insert(name.to_owned(), context);
        self.current = Some(name.to_owned());
        Ok(())
    }

    /// Removes a context. None is in use after that where it was.
    pub(super) fn remove(&mut self, name: &str) -> Result<(), CliError> {
        self.named(name)?;
        self.contexts.remove(name);
        if self.current.as_deref() == Some(name) {
            self.current = None;
        }
        Ok(())
    }
}

/// Whether a context can be called that.
pub(super) fn check_name(name: &str) -> Result<(), CliError> {
    let is_plain = |c: char| c.is_alphanumeric() || "._-:".contains(c);
    if !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "{name:?} is no name of a context: it has letters, digits and . _ - : only; choose one with --context NAME"
    )))
}

/// Where contexts are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContextFile(pub(super) PathBuf);

impl ContextFile {
    /// The file of this user: `$XDG_CONFIG_HOME/muster/contexts.json`, else below `$HOME/.config`.
    pub(super) fn of(config_home: Option<OsString>, home: Option<OsString>) -> Option<Self> {
        let given = |path: Option<OsString>| path.filter(|it| !it.is_empty()).map(PathBuf::from);
        let directory = given(config_home).or_else(|| Some(given(home)?.join(".config")))?;
        Some(Self(directory.join("muster/contexts.json")))
    }

    /// What it holds; nothing where there is none. One that others can read is refused.
    pub(super) fn read(&self) -> Result<Contexts, CliError> {
        let failed = |source| CliError::Read {
            path: self.0.clone(),
            source,
        };
        let file = match File::open(&self.0) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contexts::default()),
            Err(error) => return Err(failed(error)),
        };
        let mode = file.metadata().map_err(failed)?.mode();
        if mode & OTHERS != 0 {
            let path = self.0.display();
            return Err(CliError::Usage(format!(
                "{path} holds tokens, and others can read it: its mode is {:03o}. Run `chmod 600 {path}`; if \
                 others may have read it, log in again and revoke the tokens until now with `muster token revoke`",
                mode & 0o777
            )));
        }
        let text = document_file::bounded(file, FILE_BYTES_MAX).map_err(failed)?;
        serde_json::from_str(&text).map_err(|error| {
            let why = format!("{error}; move it away and log in again");
            CliError::unusable(&self.0, &[why])
        })
    }

    /// Replaces what it holds.
    pub(super) fn write(&self, contexts: &Contexts) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(contexts).map_err(CliError::unwritable)?;
        self.replace(&text).map_err(|source| CliError::Write {
            path: self.0.clone(),
            source,
        })
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let directory = self.0.parent().unwrap_or_else(|| Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        // Of two that write at a time each has a file of its own.
        let new = self.0.with_extension(format!("{}.new", std::process::id()));
        let written = write_private(&new, text).and_then(|()| fs::rename(&new, &self.0));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn context(url: &str) -> ClusterContext {
        ClusterContext {
            url: url.to_owned(),
            user: "ada".to_owned(),
            token: Hidden("secret".to_owned()),
            fingerprint: None,
            cacert: None,
        }
    }

    #[test]
    fn the_file_is_private_and_refused_where_it_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let file = ContextFile(directory.path().join("a/muster/contexts.json"));
        assert_eq!(file.read().unwrap(), Contexts::default());
        let mut contexts = Contexts::default();
        contexts.put("lab", context("http://n1")).unwrap();
        file.write(&contexts).unwrap();
        file.write(&contexts).unwrap();
        assert_eq!(file.read().unwrap(), contexts);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file.0), 0o600);
        assert_eq!(mode(file.0.parent().unwrap()), 0o700);
        assert_eq!(fs::read_dir(file.0.parent().unwrap()).unwrap().count(), 1);
        for wrong in [0o640, 0o604, 0o622] {
            fs::set_permissions(&file.0, fs::Permissions::from_mode(wrong)).unwrap();
            let error = file.read().unwrap_err().to_string();
            assert!(
                error.contains("chmod 600") && !error.contains("secret"),
                "{error}"
            );
        }
        fs::set_permissions(&file.0, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file.0, "{broken").unwrap();
        let error = file.read().unwrap_err().to_string();
        assert!(error.contains("log in again"), "{error}");
    }

    #[test]
    fn one_context_is_in_use_until_it_is_removed() {
        let mut contexts = Contexts::default();
        contexts.put("lab", context("http://n1")).unwrap();
        contexts.put("home", context("http://n2")).unwrap();
        let in_use = |contexts: &Contexts| contexts.in_use().map(|(name, _)| name.clone());
        assert_eq!(in_use(&contexts).as_deref(), Some("home"));
        contexts.remove("lab").unwrap();
        assert_eq!(in_use(&contexts).as_deref(), Some("home"));
        contexts.remove("home").unwrap();
        assert_eq!(in_use(&contexts), None);
        let error = contexts.remove("home").unwrap_err().to_string();
        assert!(error.contains("muster context list"), "{error}");
        for number in 0..CONTEXTS_MAX {
            contexts
                .put(&format!("c{number}"), context("http://n"))
                .unwrap();
        }
        contexts.put("c0", context("http://other")).unwrap();
        assert!(contexts.put("more", context("http://n")).is_err());
        for name in ["", "a b", "a/b", "a\n"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(!format!("{contexts:?}").contains("secret"));
    }

    #[test]
    fn the_file_lies_where_configuration_does() {
        let path = |xdg: Option<&str>, home: Option<&str>| {
            let file = ContextFile::of(xdg.map(OsString::from), home.map(OsString::from));
            file.map(|file| file.0.display().to_string())
        };
        for (xdg, home, expect) in [
            (Some("/x"), Some("/h"), Some("/x/muster/contexts.json")),
            (
                Some(""),
                Some("/h"),
                Some("/h/.config/muster/contexts.json"),
            ),
            (None, Some("/h"), Some("/h/.config/muster/contexts.json")),
            (None, None, None),
        ] {
            assert_eq!(path(xdg, home).as_deref(), expect);
        }
    }
}

//! How an image came to this machine, noted on the blob of its manifest: it decides who may use the
//! image, and whether it may make room for others.
//!
//! The note is made before the image has its name, so that no image is without. Images under several
//! names share it.

use std::collections::HashMap;

use super::connection::ImageConnection;
use super::{Digest, ImageError, content};

/// Set where it came from an archive, by an admin's hand.
const IMPORTED: &str = "muster.io/imported";
/// Set where it came from a registry: what that wanted.
const PULLED: &str = "muster.io/pulled";
const OPENLY: &str = "openly";
const WITH_LOGIN: &str = "with-login";
const YES: &str = "yes";

/// How an image came to this machine. Both fields are unset where another program brought it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    imported: bool,
    pulled: Option<RegistryAccess>,
}

/// What a registry wanted for an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegistryAccess {
    /// Nothing.
    Open,
    /// A login.
    Login,
}

impl Origin {
    pub(super) async fn of(line: &ImageConnection, manifest: &Digest) -> Result<Self, ImageError> {
        Ok(Self::read(&content::labels(line, manifest).await?))
    }

    fn read(labels: &HashMap<String, String>) -> Self {
        let pulled = labels.get(PULLED).map(|text| match text.as_str() {
            OPENLY => RegistryAccess::Open,
            _ => RegistryAccess::Login,
        });
        Self {
            imported: labels.contains_key(IMPORTED),
            pulled,
        }
    }

    /// Whether a job that uses it has to show a login. An image that an admin imported is for all.
    pub(super) fn wants_login(self) -> bool {
        self.pulled == Some(RegistryAccess::Login) && !self.imported
    }

    /// Whether it can be had again: it came from a registry, and by no other way.
    pub(super) const fn can_be_had_again(self) -> bool {
        self.pulled.is_some() && !self.imported
    }
}

/// Notes an import.
pub(super) async fn note_import(
    line: &ImageConnection,
    manifest: &Digest,
) -> Result<(), ImageError> {
    let label = HashMap::from([(IMPORTED.to_owned(), YES.to_owned())]);
    content::label(line, manifest, label).await
}

/// Notes a pull. What came openly once stays open.
pub(super) async fn note_pull(
    line: &ImageConnection,
    manifest: &Digest,
    access: RegistryAccess,
) -> Result<(), ImageError> {
    let before = Origin::of(line, manifest).await?;
    let text = match access {
        RegistryAccess::Login if before.pulled != Some(RegistryAccess::Open) => WITH_LOGIN,
        RegistryAccess::Login | RegistryAccess::Open => OPENLY,
    };
    let label = HashMap::from([(PULLED.to_owned(), text.to_owned())]);
    content::label(line, manifest, label).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_open_way_counts_and_the_one_that_cannot_be_repeated() {
        for (labels, wants_login, again) in [
            (&[][..], false, false),
            (&[(PULLED, OPENLY)], false, true),
            (&[(PULLED, WITH_LOGIN)], true, true),
            (&[(IMPORTED, YES)], false, false),
            (&[(IMPORTED, YES), (PULLED, WITH_LOGIN)], false, false),
            (&[(IMPORTED, YES), (PULLED, OPENLY)], false, false),
        ] {
            let labels = labels
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            let origin = Origin::read(&labels.collect());
            let found = (origin.wants_login(), origin.can_be_had_again());
            assert_eq!(found, (wants_login, again), "{origin:?}");
        }
    }
}

//! Documents that are the same on all members and in force on all of them at once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use muster_model::cluster_spec::SpecProblem;
use muster_portal_gateway::port::PortError;
use tokio::sync::watch;
use tokio::time::timeout;

use super::kind::{About, DocumentKind, PutInForce, Versioned, lines};

/// How long the answer to an edit waits until this node uses the new version.
const EDITED_LIMIT: Duration = Duration::from_secs(5);

/// What such a document says.
pub(crate) trait PlainDocument: Default + fmt::Debug + Send + Sync + 'static {
    /// Its number and name.
    const ABOUT: About;

    /// Reads a text.
    ///
    /// # Errors
    /// Everything that is wrong, each with the path of the field.
    fn read(text: &str) -> Result<Self, Vec<SpecProblem>>;

    /// The text of the default, which holds before the first edit.
    fn default_text() -> &'static str;
}

/// A version of a document, with its text.
#[derive(Debug)]
pub(crate) struct InForceVersion<T> {
    pub(crate) value: T,
    text: Arc<str>,
    /// The document's version; 0 for the default.
    pub(crate) version: u64,
}

impl<T: PlainDocument> InForceVersion<T> {
    fn first() -> Arc<Self> {
        Arc::new(Self {
            value: T::default(),
            text: T::default_text().into(),
            version: 0,
        })
    }
}

/// The version that this node uses. Cheap to clone.
#[derive(Debug)]
pub(crate) struct InForce<T>(Arc<watch::Sender<Arc<InForceVersion<T>>>>);

impl<T> Clone for InForce<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: PlainDocument> Default for InForce<T> {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(InForceVersion::first())))
    }
}

impl<T: PlainDocument> InForce<T> {
    /// The version now.
    pub(crate) fn here(&self) -> Arc<InForceVersion<T>> {
        Arc::clone(&self.0.borrow())
    }

    /// Changes whenever another version is put in force.
    pub(crate) fn changes(&self) -> watch::Receiver<Arc<InForceVersion<T>>> {
        self.0.subscribe()
    }
}

#[async_trait]
impl<T: PlainDocument> DocumentKind for InForce<T> {
    fn about(&self) -> About {
        T::ABOUT
    }

    fn read(&self, text: &str, version: u64) -> Result<PutInForce, Vec<String>> {
        let value = T::read(text).map_err(|problems| lines(&problems))?;
        let version = Arc::new(InForceVersion {
            value,
            text: text.into(),
            version,
        });
        let now = Arc::clone(&self.0);
        Ok(Box::new(move || drop(now.send_replace(version))))
    }

    fn reset(&self) {
        self.0.send_replace(InForceVersion::first());
    }

    fn first_text(&self) -> Arc<str> {
        T::default_text().into()
    }

    async fn text_here(&self, version: Option<u64>) -> Result<Option<Versioned>, PortError> {
        let here = self.0.borrow();
        let is_asked = version.is_none_or(|asked| asked == here.version);
        Ok(is_asked.then(|| (here.version, Arc::clone(&here.text))))
    }

    /// Waits until this node uses the version, so that the next request here finds it.
    async fn edited(&self, version: u64) {
        let mut versions = self.0.subscribe();
        let here = versions.wait_for(|here| here.version >= version);
        if timeout(EDITED_LIMIT, here).await.is_err() {
            let name = T::ABOUT.name;
            tracing::warn!(name, version, "this node does not use the new version yet");
        }
    }
}

//! Listings that were written before: pages that are open ask for the same one again and again.
//!
//! An answer is kept with the revision that the jobs had before it was written. At each request the leader tells the
//! present revision, and the kept answer is sent only if the two are equal: no client gets a stale list.

use bytes::Bytes;
use http::HeaderMap;
use moka::sync::Cache;
use muster_model::sight::JobSight;

use crate::listing::Listing;
use crate::port::JobsRevision;
use crate::reply::{HttpReply, ReplyContent};

/// Bytes of all bodies that are kept.
const BYTES_MAX: u64 = 4 << 20;
/// Longer bodies are not kept.
const BODY_BYTES_MAX: usize = 256 << 10;

/// Which list is asked for, and by a user of which sight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AskedList {
    pub(crate) sight: JobSight,
    pub(crate) listing: Listing,
}

#[derive(Clone, Debug)]
struct KeptList {
    revision: JobsRevision,
    headers: HeaderMap,
    body: Bytes,
}

/// The lists that were asked for lately.
#[derive(Debug)]
pub(crate) struct ListCache(Cache<AskedList, KeptList>);

impl Default for ListCache {
    fn default() -> Self {
        let bytes = |_: &AskedList, kept: &KeptList| u32::try_from(kept.body.len());
        let cache = Cache::builder()
            .max_capacity(BYTES_MAX)
            .weigher(move |asked, kept| bytes(asked, kept).unwrap_or(u32::MAX))
            .build();
        Self(cache)
    }
}

impl ListCache {
    /// The answer, if one is kept of this revision.
    pub(crate) fn get(&self, asked: &AskedList, revision: &JobsRevision) -> Option<HttpReply> {
        let kept = self.0.get(asked)?;
        (kept.revision == *revision).then(|| HttpReply {
            status: http::StatusCode::OK,
            headers: kept.headers,
            content: ReplyContent::Whole(kept.body),
            is_conditional: true,
        })
    }

    /// Keeps an answer that was written after the jobs had this revision.
    pub(crate) fn keep(&self, asked: AskedList, revision: JobsRevision, reply: &HttpReply) {
        let ReplyContent::Whole(body) = &reply.content else {
            return;
        };
        if body.len() > BODY_BYTES_MAX || !reply.is_conditional {
            return;
        }
        let kept = KeptList {
            revision,
            headers: reply.headers.clone(),
            body: body.clone(),
        };
        self.0.insert(asked, kept);
    }
}

#[cfg(test)]
mod tests {
    use muster_model::policy::{AccessPolicy, JobVisibility};

    use super::*;
    use crate::query::Query;

    fn asked(query: &str) -> AskedList {
        AskedList {
            sight: JobSight::All,
            listing: Listing::parse(&Query::parse(query)).unwrap(),
        }
    }

    fn revision(applied: u64) -> JobsRevision {
        JobsRevision([("default".parse().unwrap(), (1, applied))].into())
    }

    #[test]
    fn a_list_is_kept_for_its_query_and_revision_alone() {
        let cache = ListCache::default();
        let reply = HttpReply::json(&["a job"]).unwrap().tagged();
        cache.keep(asked("limit=1"), revision(5), &reply);
        let kept = cache.get(&asked("limit=1"), &revision(5)).unwrap();
        assert_eq!(kept.headers, reply.headers);
        assert!(matches!(kept.content, ReplyContent::Whole(body) if body == r#"["a job"]"#));
        assert!(cache.get(&asked("limit=1"), &revision(6)).is_none());
        assert!(cache.get(&asked("limit=2"), &revision(5)).is_none());
        let limited = AskedList {
            sight: JobSight::of(None, [].into(), &policy()),
            ..asked("limit=1")
        };
        assert!(cache.get(&limited, &revision(5)).is_none());

        let long = HttpReply::json(&"x".repeat(BODY_BYTES_MAX))
            .unwrap()
            .tagged();
        cache.keep(asked("limit=3"), revision(5), &long);
        assert!(cache.get(&asked("limit=3"), &revision(5)).is_none());
    }

    fn policy() -> AccessPolicy {
        AccessPolicy {
            jobs: JobVisibility::Private,
            vcs: [].into(),
        }
    }
}

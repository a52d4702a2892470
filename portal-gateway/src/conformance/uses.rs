use muster_model::id::AttemptUid;

use crate::port::Uses;

/// Uses, where this attempt has at least one point.
pub async fn uses(uses: &dyn Uses, uid: &AttemptUid) {
    let other = "no-such-attempt".parse().unwrap();
    assert!(uses.of(&other).await.is_none());
    let used = uses.of(uid).await.unwrap();
    assert!(!used.points.is_empty());
    assert!(used.points.is_sorted_by_key(|point| point.at_ms));
}

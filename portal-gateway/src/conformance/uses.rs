use muster_model::id::AttemptUid;

use crate::port::Uses;

/// Uses, where this attempt has at least one point, and a device with one.
pub async fn uses(uses: &dyn Uses, uid: &AttemptUid) {
    let other = "no-such-attempt".parse().unwrap();
    assert!(uses.of(&other).await.is_none());
    let used = uses.of(uid).await.unwrap();
    assert!(!used.points.is_empty());
    assert!(used.points.is_sorted_by_key(|point| point.at_ms));
    assert!(!used.devices.is_empty());
    let now = uses.now(uid).await.unwrap();
    assert_eq!(used.points.last(), Some(&now.point));
    assert!(uses.now(&other).await.is_none());
    for device in &used.devices {
        assert!(!device.points.is_empty());
        assert!(device.points.is_sorted_by_key(|point| point.at_ms));
    }
}

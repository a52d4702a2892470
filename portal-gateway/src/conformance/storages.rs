use std::collections::BTreeSet;

use crate::port::Storages;

/// Storages, of which these are declared, in this order.
pub async fn storages(storages: &dyn Storages, names: &[&str]) {
    let list = storages.list().await.unwrap();
    let found: Vec<_> = list.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(found, names);
    let distinct: BTreeSet<_> = found.iter().collect();
    assert_eq!(distinct.len(), found.len());
    assert!(list.iter().all(|one| !one.volume_name.is_empty()));
}

use std::collections::BTreeSet;

use crate::port::Figures;

/// Figures of a machine with at least one, and with a device.
pub async fn figures(figures: &dyn Figures) {
    let families = figures.machine().await;
    let names: BTreeSet<_> = families.iter().map(|family| &family.name).collect();
    assert_eq!(names.len(), families.len(), "a name stands twice");
    assert!(!families.is_empty());
    for family in &families {
        assert!(
            !family.help.is_empty() && !family.samples.is_empty(),
            "{}",
            family.name
        );
        let labels: BTreeSet<_> = family.samples.iter().map(|it| &it.labels).collect();
        assert_eq!(
            labels.len(),
            family.samples.len(),
            "{}: labels stand twice",
            family.name
        );
    }
    let devices = figures.devices().await;
    let ids: BTreeSet<_> = devices.iter().map(|device| &device.id).collect();
    assert!(!ids.is_empty());
    assert_eq!(ids.len(), devices.len(), "a device stands twice");
}

//! Which virtual clusters a node has for itself while it is in no cluster, as its disk remembers it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result};
use muster_control::cluster::VCS_MAX;
use muster_model::id::VcName;

use crate::key_file;

/// These virtual clusters, and all that this file names: what the configuration does not describe any
/// more may have jobs still. The file is brought up to date.
///
/// # Errors
/// When the file cannot be used.
pub(crate) fn named(path: &Path, configured: BTreeSet<VcName>) -> Result<BTreeSet<VcName>> {
    let known: BTreeSet<VcName> = match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
            format!(
                "{} does not list the virtual clusters that this node has had; put a backup of it \
                 there, or remove it: only those of cluster.file are served then",
                path.display()
            )
        })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeSet::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let all = &known | &configured;
    anyhow::ensure!(
        all.len() <= VCS_MAX,
        "cluster.file names virtual clusters beyond the {VCS_MAX} that a node has in its life; use names \
         again that {} lists, or take those out of it that have no jobs",
        path.display()
    );
    if all != known {
        let text = serde_json::to_vec(&all)?;
        key_file::write_private(path, &text)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<VcName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn what_was_named_once_is_named_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("virtual-clusters.json");
        let two = names(&["a", "default"]);
        assert_eq!(named(&path, two.clone()).unwrap(), two);
        let three = names(&["a", "b", "default"]);
        assert_eq!(named(&path, names(&["b", "default"])).unwrap(), three);
        assert_eq!(named(&path, BTreeSet::new()).unwrap(), three);
    }

    #[test]
    fn a_file_that_is_damaged_is_no_missing_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("virtual-clusters.json");
        std::fs::write(&path, "[").unwrap();
        let error = named(&path, names(&["a"])).unwrap_err();
        assert!(error.to_string().contains("virtual-clusters.json"));
    }
}

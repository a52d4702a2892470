//! Reads the description of a cluster, and checks that its promises can be kept.

use muster_model::cluster_spec::{ClusterSpec, SpecProblem};

use crate::cells::{Bins, Cells};

/// Reads a description, and checks whether cells can be made of it. It need not name machines:
/// without any, the cells are made of those that are found.
///
/// # Errors
/// Everything that is wrong, each with the path of the field.
pub fn read(text: &str) -> Result<ClusterSpec, Vec<SpecProblem>> {
    let spec = ClusterSpec::from_hived_yaml(text)?;
    if spec.virtual_clusters.is_empty() {
        let message = "promises nothing to anybody; name one virtual cluster at least";
        return Err(vec![SpecProblem::new("virtualClusters", message)]);
    }
    if !spec.cells.is_empty() {
        Cells::new(&spec, Bins::default())?;
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        for (text, problem) in [
            ("{}", "virtualClusters: promises nothing"),
            ("virtualClusters: 3", "expected mapping"),
            (
                "physicalCluster:
  cellTypes: {N: {childCellType: G, childCellNumber: 2, isNodeLevel: true}}
  physicalCells: [{cellType: N, cellAddress: n1}]
virtualClusters: {a: {virtualCells: [{cellType: N, cellNumber: 2}]}}",
                "virtualClusters.a.virtualCells[0].cellNumber",
            ),
        ] {
            let problems = read(text).unwrap_err();
            assert!(problems[0].to_string().contains(problem), "{problems:?}");
        }
    }
}

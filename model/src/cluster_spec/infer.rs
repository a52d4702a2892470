//! What HiveD's text may leave out of a physical cell: types, addresses, children.
//!
//! A missing address is the cell's number among those of its type: counted from the top within
//! the chain's entry, and from 0 again inside each machine.

use super::hived::RawCell;
use super::{CellSpec, CellType, ClusterSpec, LEAVES_MAX, SpecProblem};

/// Fills in, and remembers what cannot be.
pub(super) struct Inference<'a> {
    spec: &'a ClusterSpec,
    problems: &'a mut Vec<SpecProblem>,
    leaves: u64,
}

/// Where a cell stands.
struct CellLocation<'a> {
    cell_type: &'a str,
    /// The number it is called by when it has no address.
    number: u64,
    /// Whether it lies below a machine that spells out its inside.
    in_node: bool,
    path: String,
}

impl<'a> Inference<'a> {
    pub(super) fn new(spec: &'a ClusterSpec, problems: &'a mut Vec<SpecProblem>) -> Self {
        Self {
            spec,
            problems,
            leaves: 0,
        }
    }

    pub(super) fn top_cells(mut self, raw: &[RawCell]) -> Vec<CellSpec> {
        let mut cells = Vec::new();
        for (at, cell) in raw.iter().enumerate() {
            let path = format!("physicalCluster.physicalCells[{at}]");
            match self.spec.path_down(&cell.cell_type) {
                Err(message) => self.problem(format!("{path}.cellType"), message),
                Ok(types) => {
                    if self.shape_holds(&types, &path) {
                        let place = CellLocation {
                            cell_type: types[0],
                            number: at as u64,
                            in_node: false,
                            path,
                        };
                        cells.push(self.cell(cell, &place));
                    }
                }
            }
        }
        cells
    }

    fn problem(&mut self, path: String, message: impl Into<String>) {
        self.problems.push(SpecProblem::new(path, message));
    }

    /// Whether exactly one level is a machine and the devices stay countable.
    fn shape_holds(&mut self, types: &[&str], path: &str) -> bool {
        let kinds = || {
            types
                .iter()
                .filter_map(|name| self.spec.cell_types.get(*name))
        };
        let machines = kinds().filter(|kind| kind.node_level).count();
        let size = kinds().try_fold(1u64, |size, kind| size.checked_mul(u64::from(kind.count)));
        self.leaves = self.leaves.saturating_add(size.unwrap_or(u64::MAX));
        let path = format!("{path}.cellType");
        if machines != 1 {
            let list = types.join(", ");
            let message =
                format!("{machines} of the types {list} have isNodeLevel: true; exactly one must");
            self.problem(path, message);
            return false;
        }
        if self.leaves > u64::from(LEAVES_MAX) {
            self.problem(path, format!("more than {LEAVES_MAX} devices in all"));
            return false;
        }
        true
    }

    fn cell(&mut self, raw: &RawCell, place: &CellLocation<'_>) -> CellSpec {
        if !raw.cell_type.is_empty() && raw.cell_type != place.cell_type {
            let message = format!(
                "is {}, but its parent has children of type {}",
                raw.cell_type, place.cell_type
            );
            self.problem(format!("{}.cellType", place.path), message);
        }
        CellSpec {
            cell_type: place.cell_type.to_owned(),
            address: match &*raw.cell_address {
                "" => place.number.to_string(),
                address => address.to_owned(),
            },
            pinned: Some(raw.pinned_cell_id.clone()).filter(|id| !id.is_empty()),
            children: match self.spec.cell_types.get(place.cell_type) {
                Some(kind) => self.children(raw, kind, place),
                None => self.no_children(raw, place),
            },
        }
    }

    fn no_children(&mut self, raw: &RawCell, place: &CellLocation<'_>) -> Vec<CellSpec> {
        if !raw.cell_children.is_empty() {
            let message = format!("{} is a device, it has no children", place.cell_type);
            self.problem(format!("{}.cellChildren", place.path), message);
        }
        Vec::new()
    }

    fn children(
        &mut self,
        raw: &RawCell,
        kind: &CellType,
        place: &CellLocation<'_>,
    ) -> Vec<CellSpec> {
        let given = raw.cell_children.len();
        if given == 0 && kind.node_level {
            return Vec::new();
        }
        if given != 0 && given as u64 != u64::from(kind.count) {
            let message = format!(
                "has {given} cells, but a {} has {}",
                place.cell_type, kind.count
            );
            self.problem(format!("{}.cellChildren", place.path), message);
            return Vec::new();
        }
        let number = if kind.node_level { 0 } else { place.number };
        let default = RawCell::default();
        let count = usize::try_from(kind.count).unwrap_or(0);
        (0..count)
            .map(|at| {
                let child = CellLocation {
                    cell_type: &kind.child,
                    number: number
                        .saturating_mul(u64::from(kind.count))
                        .saturating_add(at as u64),
                    in_node: place.in_node || kind.node_level,
                    path: format!("{}.cellChildren[{at}]", place.path),
                };
                self.cell(raw.cell_children.get(at).unwrap_or(&default), &child)
            })
            .collect()
    }
}

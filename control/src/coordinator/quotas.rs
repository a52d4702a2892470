//! What each virtual cluster is promised and uses, in plain amounts.

use muster_model::cluster_spec::Sku;
use muster_model::id::VcName;
use muster_model::vc::{Amount, VcView};
use muster_placement::cells::Cells;
use muster_placement::explain::{Shortfall, shortfalls};

use super::Coordinator;

impl Coordinator {
    /// Every virtual cluster that the administrator's description names; none where the cluster
    /// is as it was found.
    pub fn virtual_clusters(&self) -> Option<Vec<VcView>> {
        self.options.cluster.as_ref()?;
        let cells = self.inventory.cells()?;
        let names = self.inventory.spec().virtual_clusters.keys();
        Some(
            names
                .map(|name| self.virtual_cluster(cells, name))
                .collect(),
        )
    }

    /// What virtual clusters are short of, as sentences for people.
    pub(super) fn shortfalls(&self) -> Vec<String> {
        let described = self.options.cluster.as_ref();
        let cells = described.and_then(|_| self.inventory.cells());
        let all = cells.map(shortfalls).unwrap_or_default();
        let line = |short: &Shortfall| {
            format!("virtual cluster {} is short: {}", short.vc, problem(short))
        };
        all.iter().map(line).collect()
    }

    fn virtual_cluster(&self, cells: &Cells, name: &VcName) -> VcView {
        let mut view = VcView::new(name.clone());
        let short = shortfalls(cells).into_iter();
        let short = short.filter(|short| short.vc == name.as_str());
        view.problems = short.map(|short| problem(&short)).collect();
        for leaf in cells.promised_leaves(name.as_str()) {
            let leaf_type = cells.leaf_type(leaf);
            let brings = self.brings(leaf_type);
            view.total = view.total.plus(brings);
            if cells.is_usable(leaf) {
                view.guaranteed = view.guaranteed.plus(brings);
            }
            if cells.is_held_by(leaf, name.as_str()) {
                view.used = view.used.plus(brings);
            }
            if self.inventory.spec().sku_types.contains_key(leaf_type) {
                view.skus.insert(leaf_type.to_owned(), brings);
            }
        }
        view
    }

    /// What one leaf of a type brings along: a device, unless something else is stated.
    fn brings(&self, leaf_type: &str) -> Amount {
        let stated = self.inventory.spec().sku_types.get(leaf_type);
        let stated = stated.copied().unwrap_or_else(|| Sku {
            gpu: 1,
            ..Sku::default()
        });
        Amount {
            cpu: stated.cpu,
            memory_mb: stated.memory_mb,
            gpu: stated.gpu,
        }
    }
}

fn problem(short: &Shortfall) -> String {
    let why = if short.is_cordoned {
        "cordoned"
    } else {
        "sick or away"
    };
    format!(
        "{} {} on {} cannot be used: {why}, and nothing stands in",
        short.leaves, short.leaf_type, short.node
    )
}

//! Names of images that are on nodes already, for the field that asks for one.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use maud::{Markup, html};
use muster_model::vc_cells::PromisedCell;
use tokio::time::timeout;

use crate::call::Call;
use crate::port::{Jobs, Nodes};

/// The id of the list.
pub(super) const LIST: &str = "images";
/// Virtual clusters that are asked which nodes they use.
const VCS_MAX: usize = 8;
/// Nodes that are asked which images they have.
const NODES_MAX: usize = 6;
/// How long a page waits for a node.
const WAIT: Duration = Duration::from_millis(200);
/// Names of a list.
const NAMES_MAX: usize = 200;

/// The list: images on some of the nodes that these virtual clusters use. Nodes that do not answer at once are left
/// out: it only suggests.
pub(super) async fn list(
    call: &Call,
    (jobs, nodes): (&dyn Jobs, &dyn Nodes),
    vcs: &[String],
) -> Markup {
    let used = used(call, (jobs, nodes), vcs).await;
    let asked = used.iter().take(NODES_MAX);
    let asked = asked.map(|node| timeout(WAIT, nodes.images_on(node)));
    let found = join_all(asked).await.into_iter().flatten().flatten();
    let names: BTreeSet<String> = found.flatten().map(|image| image.name).collect();
    html! {
        datalist id=(LIST) { @for name in names.iter().take(NAMES_MAX) { option value=(name) {} } }
    }
}

/// The nodes of these virtual clusters.
async fn used(
    call: &Call,
    (jobs, nodes): (&dyn Jobs, &dyn Nodes),
    vcs: &[String],
) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let Ok(sight) = call.sight(jobs) else {
        return used;
    };
    for vc in vcs.iter().take(VCS_MAX) {
        let Ok(cells) = nodes.cells(&sight, vc).await else {
            continue;
        };
        for cell in cells.pools.iter().flat_map(|pool| &pool.cells) {
            add(cell, &mut used);
        }
        let users = cells.users.iter().flat_map(|user| &user.places);
        used.extend(users.map(|place| place.node.clone()));
    }
    used
}

fn add(cell: &PromisedCell, used: &mut BTreeSet<String>) {
    used.extend(cell.node.clone());
    for part in &cell.parts {
        add(part, used);
    }
}

//! Whether the machine's InfiniBand reaches anybody.

use std::fs;
use std::path::{Path, PathBuf};

const ADAPTERS: &str = "sys/class/infiniband";
/// What the kernel writes of a port that carries data: `4: ACTIVE`.
const ACTIVE: &str = "ACTIVE";

/// Whether any port of any adapter is active on the machine whose file tree is at `root`. A port that cannot
/// be read is not.
pub fn has_active_infiniband(root: &Path) -> bool {
    let adapters = entries(&root.join(ADAPTERS));
    let mut ports = adapters.flat_map(|adapter| entries(&adapter.join("ports")));
    ports.any(|port| is_active(&port))
}

fn is_active(port: &Path) -> bool {
    let state = fs::read_to_string(port.join("state")).unwrap_or_default();
    let name = state.split_once(':').map(|(_, name)| name.trim());
    name == Some(ACTIVE)
}

/// What is in a directory; nothing if there is none.
fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_active_port_is_enough() {
        for (states, expect) in [
            (vec![], false),
            (vec!["1: DOWN\n"], false),
            (vec!["2: INIT\n", "5: ACTIVE_DEFER\n"], false),
            (vec!["1: DOWN\n", "4: ACTIVE\n"], true),
        ] {
            let root = tempfile::tempdir().unwrap();
            for (number, state) in states.iter().enumerate() {
                let adapter = root.path().join(ADAPTERS).join(format!("mlx5_{number}"));
                fs::create_dir_all(adapter.join("ports/1")).unwrap();
                fs::write(adapter.join("ports/1/state"), state).unwrap();
            }
            assert_eq!(has_active_infiniband(root.path()), expect, "{states:?}");
        }
    }
}

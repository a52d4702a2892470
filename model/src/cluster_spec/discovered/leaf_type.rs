//! What types of devices are called.

use super::{PLAIN_LEAF, PLAIN_NODE};
use crate::cluster_spec::Level;
use crate::inventory::AcceleratorKind;

/// Longest name of a device's model in a type, in characters.
const NAME_LENGTH_MAX: usize = 64;

/// How the types of devices begin that are no GPUs.
const PREFIXES: [(&str, AcceleratorKind); 4] = [
    ("NPU-", AcceleratorKind::Npu),
    ("VECTOR-", AcceleratorKind::Vector),
    ("FPGA-", AcceleratorKind::Fpga),
    ("OTHER-", AcceleratorKind::Other),
];
const GPU_PREFIX: &str = "GPU-";

/// What sort of devices the leaf cells of a type are, by its name: those of other sorts than GPUs
/// are called `FPGA-Alveo-U200`.
pub fn kind_of_leaf(leaf_type: &str) -> AcceleratorKind {
    let is_called = |(prefix, _): &&(&str, _)| leaf_type.starts_with(prefix);
    let found = PREFIXES.iter().find(is_called);
    found.map_or(AcceleratorKind::Gpu, |(_, kind)| *kind)
}

/// The type of a device: its model as a plain word, with the sort before it if it is no GPU.
/// `Tesla V100-SXM2-16GB` is `Tesla-V100-SXM2-16GB`.
pub(super) fn leaf_name(kind: AcceleratorKind, model: &str) -> String {
    let name = plain_name(model);
    let prefix = match PREFIXES.iter().find(|(_, own)| *own == kind) {
        Some((prefix, _)) => prefix,
        None => GPU_PREFIX,
    };
    if kind_of_leaf(&name) == kind {
        return name;
    }
    format!("{prefix}{name}")
}

/// Never the name of a type that is made of it or of plain CPU.
fn plain_name(model: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = model.split(|c: char| !is_plain(c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let name: String = words.join("-").chars().take(NAME_LENGTH_MAX).collect();
    let is_level = |word: &&str| {
        let level = word.to_ascii_lowercase().parse::<Level>();
        level.is_ok()
    };
    let looks_made = match name.split('-').collect::<Vec<_>>()[..] {
        [.., level, size] => is_level(&level) && size.bytes().all(|b| b.is_ascii_digit()),
        _ => false,
    };
    match &*name {
        "" => "DEVICE".to_owned(),
        PLAIN_LEAF | PLAIN_NODE => format!("{name}-DEVICE"),
        _ if looks_made => format!("{name}-DEVICE"),
        _ => name,
    }
}

//! Names of AMD's cards for computing by their PCI numbers: the kernel tells none since it reads
//! what a card has from the card itself, and the tables of older systems lack the newer cards.

/// A card's name, and how its memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmdModel {
    /// As AMD sells it.
    pub name: &'static str,
    /// Whether its memory is the machine's own.
    pub is_unified: bool,
}

const MODELS: &[(u32, &str)] = &[
    (0x6860, "Instinct MI25"),
    (0x6863, "Radeon Vega Frontier Edition"),
    (0x66a0, "Instinct MI50"),
    (0x66a1, "Instinct MI50 32GB"),
    (0x738c, "Instinct MI100"),
    (0x738e, "Instinct MI100"),
    (0x7408, "Instinct MI250X"),
    (0x740c, "Instinct MI250X / MI250"),
    (0x740f, "Instinct MI210"),
    (0x74a0, UNIFIED),
    (0x74a1, "Instinct MI300X"),
    (0x74a2, "Instinct MI308X"),
    (0x74a5, "Instinct MI325X"),
    (0x74a8, "Instinct MI308X HF"),
    (0x74a9, "Instinct MI300X HF"),
    (0x74b5, "Instinct MI300X VF"),
    (0x74b6, "Instinct MI308X VF"),
    (0x74bd, "Instinct MI300X HF VF"),
    (0x75a0, "Instinct MI350X"),
    (0x75a3, "Instinct MI355X"),
    (0x75b0, "Instinct MI350X VF"),
    (0x75b3, "Instinct MI355X VF"),
];

/// A processor with CPU cores and GPU on one memory.
const UNIFIED: &str = "Instinct MI300A";

/// The card with a PCI device number of AMD's; none if the table does not have it.
pub fn model(device: u32) -> Option<AmdModel> {
    let (_, name) = MODELS.iter().find(|(number, _)| *number == device)?;
    let is_unified = *name == UNIFIED;
    Some(AmdModel { name, is_unified })
}

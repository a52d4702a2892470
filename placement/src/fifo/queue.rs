//! What waits to be placed.

/// Gangs in the order of their turn: higher priority first, then first come, first served.
/// The caller keeps the order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// The gangs.
    pub gangs: Vec<Gang>,
}

/// Tasks that are placed all together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gang {
    /// What to call it: `user~job`.
    pub name: String,
    /// Its tasks, grouped by what they need.
    pub groups: Vec<Group>,
}

/// Equal tasks of a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// How many.
    pub tasks: u32,
    /// What each needs of one node.
    pub need: Need,
}

/// What a task needs of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Cores.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Devices.
    pub gpu: u32,
    /// Ports.
    pub ports: u32,
}

//! What a machine has beside leaf cells, and what a pod takes of it.

/// Cores, memory and ports of a machine or of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineAmount {
    /// Cores.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Ports.
    pub ports: u32,
}

/// What there can be too little of on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Cores.
    Cpu,
    /// Memory in MiB.
    Memory,
    /// Ports.
    Ports,
}

impl MachineAmount {
    /// Nothing.
    pub const NONE: Self = Self {
        cpu: 0,
        memory_mb: 0,
        ports: 0,
    };

    /// Whether nothing is asked for.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Whether `has` is enough for it.
    pub const fn fits_in(&self, has: &Self) -> bool {
        self.cpu <= has.cpu && self.memory_mb <= has.memory_mb && self.ports <= has.ports
    }

    /// Both together; as much as can be counted if that is too much to count.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            memory_mb: self.memory_mb.saturating_add(other.memory_mb),
            ports: self.ports.saturating_add(other.ports),
        }
    }

    /// What is left of it; nothing where `other` is more.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(other.cpu),
            memory_mb: self.memory_mb.saturating_sub(other.memory_mb),
            ports: self.ports.saturating_sub(other.ports),
        }
    }

    /// What is left of it; none where `other` is more.
    pub fn checked_minus(self, other: Self) -> Option<Self> {
        Some(Self {
            cpu: self.cpu.checked_sub(other.cpu)?,
            memory_mb: self.memory_mb.checked_sub(other.memory_mb)?,
            ports: self.ports.checked_sub(other.ports)?,
        })
    }

    /// So many times as much, as far as it can be counted.
    #[must_use]
    pub fn times(self, count: u32) -> Self {
        Self {
            cpu: self.cpu.saturating_mul(count),
            memory_mb: self.memory_mb.saturating_mul(u64::from(count)),
            ports: self.ports.saturating_mul(count),
        }
    }

    /// How often `other` goes into it: the largest number of times that fits.
    pub fn count_of(&self, other: &Self) -> u32 {
        let times = |what: &Resource| {
            let times = self.of(*what).checked_div(other.of(*what))?;
            Some(u32::try_from(times).unwrap_or(u32::MAX))
        };
        let times = Resource::ALL.iter().filter_map(times);
        times.min().unwrap_or(u32::MAX)
    }

    /// How much of one resource.
    pub fn of(&self, what: Resource) -> u64 {
        match what {
            Resource::Cpu => u64::from(self.cpu),
            Resource::Memory => self.memory_mb,
            Resource::Ports => u64::from(self.ports),
        }
    }
}

impl Resource {
    /// As it is said of many.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU cores",
            Self::Memory => "MiB of memory",
            Self::Ports => "ports",
        }
    }

    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Ports];

    /// So much of it, as it is said: `4 CPU cores`.
    pub fn count(self, number: u64) -> String {
        let name = match (self, number) {
            (Self::Cpu, 1) => "CPU core",
            (Self::Cpu, _) => "CPU cores",
            (Self::Memory, _) => "MiB of memory",
            (Self::Ports, 1) => "port",
            (Self::Ports, _) => "ports",
        };
        format!("{number} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn amount(cpu: u32, memory_mb: u64, ports: u32) -> MachineAmount {
        MachineAmount {
            cpu,
            memory_mb,
            ports,
        }
    }

    #[test]
    fn amounts_never_wrap() {
        let most = amount(u32::MAX, u64::MAX, u32::MAX);
        assert_eq!(most.plus(amount(1, 1, 1)), most);
        assert_eq!(most.times(2), most);
        assert_eq!(amount(1, 5, 0).minus(amount(2, 3, 1)), amount(0, 2, 0));
        assert_eq!(amount(1, 5, 0).checked_minus(amount(1, 6, 0)), None);
        assert_eq!(amount(7, 9, 0).count_of(&amount(2, 3, 0)), 3);
        assert_eq!(amount(7, 9, 0).count_of(&amount(0, 0, 1)), 0);
        assert_eq!(amount(0, 0, 0).count_of(&MachineAmount::NONE), u32::MAX);
        assert!(amount(1, 5, 0).fits_in(&amount(1, 5, 0)));
        assert!(!amount(1, 5, 1).fits_in(&amount(1, 5, 0)));
    }
}

//! The names that this machine is known by. What anybody may read is told only to who reached it by
//! one of them: a browser inside the network would read it out for a page from outside, whose own
//! name was made to lead here.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// Names without a port. Addresses and `localhost` always count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames(BTreeSet<String>);

impl HostNames {
    /// These names, in any case.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().map(|name| normal(&name)).collect())
    }

    /// Whether a `Host` header, with or without a port, names this machine.
    pub(crate) fn has(&self, header: &str) -> bool {
        if let Some(address) = header.strip_prefix('[') {
            let address = address.split(']').next().unwrap_or_default();
            return address.parse::<IpAddr>().is_ok();
        }
        let name = header.split(':').next().unwrap_or_default();
        let name = normal(name);
        name.parse::<IpAddr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.0.contains(&name)
    }
}

fn normal(name: &str) -> String {
    name.trim().trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_and_addresses_are_known() {
        let names = HostNames::new(["N1".to_owned(), "n1.lab.example".to_owned()]);
        for known in [
            "n1:7741",
            "n1",
            "N1.Lab.Example.:7741",
            "localhost:80",
            "a.localhost",
            "10.0.0.1:7741",
            "[::1]:7741",
            "[fd00::1]",
        ] {
            assert!(names.has(known), "{known}");
        }
        for strange in ["evil.example:7741", "n1.evil.example", "", "[x]:1", "n1x"] {
            assert!(!names.has(strange), "{strange}");
        }
    }
}

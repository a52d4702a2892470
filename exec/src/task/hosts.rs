//! The hosts file of a task's container: what machines' names mean there.
//!
//! Debian's and Ubuntu's installers give a machine's own name a loopback address. A program that tells
//! its peers where it is by looking up its own name (gloo, Ray, Dask, MPI) tells them nonsense then. So
//! the names of the machines of a task's gang come first, with the addresses that the others reach them
//! at, and the host's file follows without what it says of its own name on loopback.

use std::fmt::Write as _;
use std::net::IpAddr;

/// Used where the host has no file.
const DEFAULT: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// A machine with its address and its names, best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEntry {
    /// Where other machines reach it.
    pub address: IpAddr,
    /// What it is called: letters, digits, `-`, `_` and `.`; others are left out.
    pub names: Vec<String>,
}

/// The file for a container on the first of `machines`. `host` is the host's own file.
pub(super) fn text(machines: &[HostEntry], host: &str) -> String {
    let mut text = String::new();
    let mut told: Vec<&str> = Vec::new();
    let host = if host.trim().is_empty() {
        DEFAULT
    } else {
        host
    };
    let own = machines.first().filter(|own| !own.address.is_loopback());
    let own_names: Vec<&str> = own.iter().flat_map(|own| valid_names(own)).collect();
    // A longer name of its own, as `vm.example.org`, comes first there: it is the canonical one.
    let aliases = host
        .lines()
        .filter_map(|line| loopback_names(line).filter(|names| name_any(names, &own_names)))
        .flatten()
        .filter(|name| !is_localhost(name));
    let own_all: Vec<&str> = aliases.chain(own_names.iter().copied()).collect();
    let peers = machines.iter().skip(1);
    let peers = peers.map(|peer| (peer.address, valid_names(peer).collect::<Vec<_>>()));
    let own = own.map(|own| (own.address, own_all.clone()));
    for (address, names) in own.into_iter().chain(peers) {
        let mut new = Vec::new();
        for name in names {
            if !told.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                told.push(name);
                new.push(name);
            }
        }
        if !new.is_empty() {
            let _ = writeln!(text, "{address}\t{}", new.join(" "));
        }
    }
    for line in host.lines() {
        match loopback_names(line) {
            Some(names) if name_any(&names, &own_all) => {
                let rest: Vec<&str> = names
                    .into_iter()
                    .filter(|name| is_localhost(name))
                    .collect();
                if !rest.is_empty() {
                    let address = line.split_whitespace().next().unwrap_or_default();
                    let _ = writeln!(text, "{address}\t{}", rest.join(" "));
                }
            }
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// The names that a line of a hosts file gives a loopback address.
fn loopback_names(line: &str) -> Option<Vec<&str>> {
    let mut words = line
        .split('#')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let address: IpAddr = words.next()?.parse().ok()?;
    address.is_loopback().then(|| words.collect())
}

fn name_any(names: &[&str], wanted: &[&str]) -> bool {
    let is_wanted = |name: &&str| wanted.iter().any(|own| own.eq_ignore_ascii_case(name));
    names
        .iter()
        .any(|name| !is_localhost(name) && is_wanted(name))
}

fn is_localhost(name: &str) -> bool {
    name.to_ascii_lowercase()
        .split(['.', '-'])
        .any(|part| part == "localhost" || part == "loopback")
}

/// Names that cannot end a line or begin a remark.
fn valid_names(machine: &HostEntry) -> impl Iterator<Item = &str> {
    let is_valid = |name: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !name.is_empty() && name.chars().all(plain) && !is_localhost(name)
    };
    machine.names.iter().map(String::as_str).filter(is_valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(address: &str, names: &[&str]) -> HostEntry {
        HostEntry {
            address: address.parse().unwrap(),
            names: names.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn a_machines_own_name_means_the_address_that_others_reach_it_at() {
        let vm = || machine("192.0.2.2", &["vm"]);
        let debian = "127.0.0.1\tlocalhost\n127.0.1.1\tvm.example.org\tvm\n\n::1 localhost # six\n";
        for (machines, host, expect) in [
            (
                vec![vm()],
                debian,
                "192.0.2.2\tvm.example.org vm\n127.0.0.1\tlocalhost\n\n::1 localhost # six\n",
            ),
            (
                vec![vm()],
                "127.0.0.1 localhost VM\n10.0.0.1 vm\n",
                "192.0.2.2\tVM\n127.0.0.1\tlocalhost\n10.0.0.1 vm\n",
            ),
            (
                vec![
                    vm(),
                    machine("192.0.2.3", &["b"]),
                    machine("2001:db8::1", &["c", "b"]),
                ],
                "127.0.0.1 localhost",
                "192.0.2.2\tvm\n192.0.2.3\tb\n2001:db8::1\tc\n127.0.0.1 localhost\n",
            ),
            // Nothing better is known.
            (vec![machine("127.0.0.1", &["vm"])], debian, debian),
            (Vec::new(), debian, debian),
            (vec![vm()], "", &format!("192.0.2.2\tvm\n{DEFAULT}")),
            (
                vec![machine(
                    "192.0.2.2",
                    &["localhost", "a b", "x\n9.9.9.9 y", "ok"],
                )],
                "127.0.0.1 localhost\n",
                "192.0.2.2\tok\n127.0.0.1 localhost\n",
            ),
        ] {
            assert_eq!(text(&machines, host), expect, "{machines:?}");
        }
    }
}

//! Names of machines, for forwarding.
//!
//! A static program cannot load the modules by which the image's C library looks names up. So the image's own
//! `getent` is asked, after the hosts file.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(10);

/// The addresses of a name, the best first; none if it is not known.
pub(crate) async fn addresses(name: &str) -> Vec<IpAddr> {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse() {
        return vec![address];
    }
    if name.eq_ignore_ascii_case("localhost") {
        return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let known = in_hosts(&hosts, name);
    if !known.is_empty() {
        return known;
    }
    for database in ["ahosts", "hosts"] {
        let found = by_getent(database, name).await;
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Lines of a hosts file: an address and its names.
fn in_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let lines = text.lines().filter_map(|line| {
        let line = line.split('#').next()?;
        let (address, names) = line.split_once(|c: char| c.is_ascii_whitespace())?;
        let is_named = names
            .split_ascii_whitespace()
            .any(|known| known.eq_ignore_ascii_case(name));
        is_named.then(|| address.parse().ok())?
    });
    lines.collect()
}

async fn by_getent(database: &str, name: &str) -> Vec<IpAddr> {
    if name.is_empty() || name.starts_with('-') {
        return Vec::new();
    }
    let mut command = Command::new("getent");
    command
        .args([database, name])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    match timeout(LIMIT, command.output()).await {
        Ok(Ok(output)) => first_words(&String::from_utf8_lossy(&output.stdout)),
        _ => Vec::new(),
    }
}

fn first_words(text: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for line in text.lines() {
        let address = line.split_ascii_whitespace().next();
        let address = address.and_then(|word| word.parse().ok());
        found.extend(address.filter(|address| !found.contains(address)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(addresses: &[IpAddr]) -> Vec<String> {
        addresses.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn names_have_addresses() {
        assert_eq!(texts(&addresses("192.0.2.7").await), ["192.0.2.7"]);
        assert_eq!(texts(&addresses("[::1]").await), ["::1"]);
        assert_eq!(texts(&addresses("Localhost").await), ["127.0.0.1", "::1"]);
        assert!(addresses("--help").await.is_empty());
    }

    #[test]
    fn hosts_and_answers_are_read() {
        let hosts = "# x\n10.0.0.1 gpu-1 n1 # own\n10.0.0.2\tGPU-2\n";
        assert_eq!(texts(&in_hosts(hosts, "n1")), ["10.0.0.1"]);
        assert_eq!(texts(&in_hosts(hosts, "gpu-2")), ["10.0.0.2"]);
        assert!(in_hosts(hosts, "own").is_empty());
        let said = "10.0.0.1 STREAM x\n10.0.0.1 DGRAM\n::1 STREAM\n";
        assert_eq!(texts(&first_words(said)), ["10.0.0.1", "::1"]);
    }
}

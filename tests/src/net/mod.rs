//! Networks of this machine alone: a namespace for each node, joined by a bridge that can lose,
//! cut and delay what it carries. What happens on one is seen by nobody else, so that tests run
//! side by side.
//!
//! Nothing has a name outside: a namespace ends with the last process in it. What a test process
//! that was killed left running is ended by the next one, see [`sweep`].

pub mod cluster;
pub mod faults;
pub mod lan;
pub mod namespace;
pub mod node;
pub mod sweep;
pub mod view;

use std::process::Command;

pub use self::faults::Faults;
pub use self::lan::Lan;
pub use self::namespace::Namespace;
pub use self::node::BareNode;
pub use self::view::{View, Watch};

/// Why the tests that need network namespaces cannot run here, if they cannot. In CI that is a
/// failure, not a reason to skip.
pub fn missing() -> Option<String> {
    let found = |program: &str, argument: &str| {
        let output = Command::new(program).arg(argument).output();
        output.is_ok_and(|output| output.status.success())
    };
    let reason = if !nix::unistd::geteuid().is_root() {
        "not root".to_owned()
    } else if !found("ip", "-V") {
        "iproute2 is not installed".to_owned()
    } else if !found("nft", "-v") {
        "nftables is not installed".to_owned()
    } else if let Err(error) = Namespace::new() {
        format!("no network namespace can be made: {error:#}")
    } else {
        return None;
    };
    Some(skipped(reason))
}

/// The same for tests that need IPv6, too.
pub fn missing_ipv6() -> Option<String> {
    let there = std::path::Path::new("/proc/net/if_inet6").exists();
    let reason = "the kernel has no IPv6, or it was disabled at boot";
    missing().or_else(|| (!there).then(|| skipped(reason.to_owned())))
}

fn skipped(reason: String) -> String {
    assert!(
        std::env::var_os("CI").is_none(),
        "in CI nothing is skipped: {reason}"
    );
    eprintln!("SKIPPED: {reason}; see deploy/test.sh");
    reason
}

//! Whether the container engine answers, and is one that Muster knows.

use std::time::{Duration, Instant};

use muster_exec::engine::Engine;
use muster_model::finding::{Finding, Grade};

use crate::causes::causes;
use crate::known_faults;

/// The oldest containerd whose API is used.
const OLDEST: (u32, u32) = (1, 6);
/// It says its version at once, or something is wrong with it.
const SLOW: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(5);

const REMEDY: &str =
    "see systemctl status containerd and journalctl -u containerd, then restart it";

/// Asks the engine how it is. Known faults of its version follow in the list.
pub(super) async fn check(engine: &dyn Engine) -> Vec<Finding> {
    let begin = Instant::now();
    match tokio::time::timeout(LIMIT, engine.version()).await {
        Ok(Ok(version)) => {
            let mut findings = vec![judged(&version, begin.elapsed())];
            findings.extend(known_faults::of(&version));
            findings
        }
        Ok(Err(error)) => vec![failed(causes(&error))],
        Err(_) => vec![failed(format!("no answer within {} s", LIMIT.as_secs()))],
    }
}

fn failed(evidence: String) -> Finding {
    Finding::ok("engine", "containerd", evidence).but(Grade::Fail, REMEDY)
}

fn judged(version: &str, took: Duration) -> Finding {
    let evidence = format!("{version}, answers in {} ms", took.as_millis());
    let finding = Finding::ok("engine", "containerd", evidence);
    match number(version) {
        Some(number) if number < OLDEST => {
            finding.but(Grade::Fail, "install containerd 1.6 or later")
        }
        _ if took > SLOW => finding.but(Grade::Warn, REMEDY),
        _ => finding,
    }
}

/// The first two numbers of `containerd v1.6.20~ds1 with runc`; none if it says something else.
fn number(version: &str) -> Option<(u32, u32)> {
    let number = version.split(' ').nth(1)?.trim_start_matches('v');
    let mut parts = number.split('.').map(|part| part.parse::<u32>().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_slow_engines_are_told() {
        let quick = Duration::from_millis(3);
        for (version, took, grade) in [
            ("containerd 1.6.20~ds1 with crun", quick, Grade::Ok),
            ("containerd v2.1.0 with runc", quick, Grade::Ok),
            ("containerd 1.5.9 with runc", quick, Grade::Fail),
            ("something else", quick, Grade::Ok),
            (
                "containerd 1.7.1 with runc",
                Duration::from_secs(2),
                Grade::Warn,
            ),
        ] {
            assert_eq!(judged(version, took).grade, grade, "{version}");
        }
    }
}

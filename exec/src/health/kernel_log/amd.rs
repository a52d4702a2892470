//! Lines of AMD's driver: errors that its RAS counts, resets, hangs, faults of programs.

use muster_model::health::HealthSubject;

use super::{KernelFact, driver_line, leading_number};

/// Words of a line, all of which it has, and its code. The first that fits applies.
const CODES: [(&[&str], &str); 15] = [
    (
        &["uncorrectable hardware errors detected"],
        "amd-uncorrectable",
    ),
    (&["deferred hardware errors detected"], "amd-deferred"),
    (&["correctable hardware errors detected"], "amd-correctable"),
    (&["GPU reset begin"], "amd-reset-begun"),
    (&["GPU reset(", "succeeded"], "amd-reset-done"),
    (&["GPU reset(", "failed"], "amd-reset-failed"),
    (&["GPU reset end with ret = -"], "amd-reset-failed"),
    (&["GPU Recovery Failed"], "amd-reset-failed"),
    (&["unsuccessful queues preemption"], "amd-queues-stuck"),
    (&["page fault (src_id"], "amd-page-fault"),
    (&["oison", "consum"], "amd-poison"),
    (&["ring ", " timeout, signaled seq"], "amd-ring-timeout"),
    (&["Fatal error during GPU init"], "amd-init-failed"),
    (&["bad page", "threshold"], "amd-bad-pages"),
    (&["Accelerator Check Architecture events logged"], "amd-aca"),
];

/// What a line of amdgpu says. None for other lines.
pub(super) fn fact(line: &str) -> Option<KernelFact> {
    if !line.contains("amdgpu") {
        return None;
    }
    let (subject, rest) = driver_line(line, "amdgpu").unwrap_or((HealthSubject::Machine, line));
    let has = |words: &[&str]| words.iter().all(|word| rest.contains(word));
    let (_, code) = CODES.into_iter().find(|(words, _)| has(words))?;
    if rest.contains("hardware errors detected") && counts_none(rest) {
        return None;
    }
    Some(KernelFact::new(subject, code).at_place(block(rest)))
}

/// Of `in umc block` the block.
fn block(rest: &str) -> Option<String> {
    let (before, _) = rest.split_once(" block")?;
    Some(before.rsplit(' ').next()?.to_owned())
}

/// Whether the number before the kind of errors is 0.
fn counts_none(rest: &str) -> bool {
    let before = rest.split("correctable").next().unwrap_or_default();
    // The number of the event may stand right before it: `{7}0 uncorrectable`.
    let words = before.split(|c: char| c.is_whitespace() || c == '}');
    let number = words.rev().find_map(leading_number);
    number == Some(0)
}

//! The way to the other members and back: round trips, clocks, packet sizes.

use async_trait::async_trait;
use muster_model::finding::{Finding, Grade};

use crate::mesh::{AFTER_EXPULSION, EXPELLED};

/// Clocks that differ by more make times in listings hard to compare, ms.
const SKEW_WARN_MS: u64 = 500;
/// Clocks that differ by more make tokens look expired or not yet valid, ms.
const SKEW_FAIL_MS: u64 = 60_000;
/// Every packet of this size must pass, bytes.
const PACKET_BYTES: u16 = 1_400;
/// A round trip within one site, ms. Longer ones make the mesh slow, not wrong.
const RTT_WARN_US: u64 = 50_000;

/// The other members, as whoever holds the connections to them knows them.
#[async_trait]
pub(crate) trait Peers: std::fmt::Debug + Send + Sync {
    /// Members of the cluster, this one included.
    async fn count(&self) -> u64;
    /// UDP and TCP port of the mesh; none while it does not run.
    async fn port(&self) -> Option<u16>;
    /// Whether the cluster has expelled this node: the others do not talk with it.
    async fn is_expelled(&self) -> bool {
        false
    }
    /// Asks every member that is not known to have left, all at once, each for a few seconds at
    /// most.
    async fn examine(&self) -> Vec<ContactReport>;
}

/// A node on its own whose mesh ought to listen.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoPeers;

#[cfg(test)]
#[async_trait]
impl Peers for NoPeers {
    async fn count(&self) -> u64 {
        1
    }

    async fn port(&self) -> Option<u16> {
        Some(7740)
    }

    async fn examine(&self) -> Vec<ContactReport> {
        Vec::new()
    }
}

/// What was found out about one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContactReport {
    /// Its name.
    pub(crate) member: String,
    /// The answer, or why there is none.
    pub(crate) contact: Result<Contact, String>,
}

/// What a member's answer tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contact {
    /// Round trip, in microseconds.
    pub(crate) rtt_us: u64,
    /// The member's wall clock when it answered, ms since the epoch.
    pub(crate) their_clock_ms: u64,
    /// This node's wall clock when the answer came, ms since the epoch.
    pub(crate) our_clock_ms: u64,
    /// The largest packet that the link found to pass; none where there is no link.
    pub(crate) path_mtu: Option<u16>,
    /// Whether one of 1,400 bytes passes; none where that is not known.
    pub(crate) packet_passed: Option<bool>,
    /// Whether the member reached this node when it was asked to, over a connection of its own;
    /// else why not.
    pub(crate) back: Result<(), String>,
}

/// Asks the members and judges what they say.
pub(super) async fn check(peers: &dyn Peers) -> Vec<Finding> {
    if peers.is_expelled().await {
        let expelled = Finding::ok("members", "network", EXPELLED);
        return vec![expelled.but(Grade::Fail, AFTER_EXPULSION)];
    }
    let reports = peers.examine().await;
    if reports.is_empty() {
        let evidence = "there are no other members";
        return vec![Finding::ok("members", "network", evidence)];
    }
    judged(&reports)
}

/// What is wrong one by one; what is well in one finding for each check.
fn judged(reports: &[ContactReport]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut well: Vec<(&'static str, usize)> = Vec::new();
    for finding in reports.iter().flat_map(of_member) {
        match finding {
            Ok(check) => match well.iter_mut().find(|(known, _)| *known == check) {
                Some((_, count)) => *count += 1,
                None => well.push((check, 1)),
            },
            Err(trouble) => findings.push(trouble),
        }
    }
    findings.extend(well.into_iter().map(|(check, count)| summary(check, count)));
    findings
}

fn summary(check: &'static str, count: usize) -> Finding {
    let evidence = match check {
        "reach" => "they answer",
        "back" => "they reach this node",
        "clock" => "their clocks agree with this one's",
        _ => "packets of full size pass",
    };
    let subject = match count {
        1 => "1 member".to_owned(),
        count => format!("{count} members"),
    };
    Finding::ok(check, subject, evidence)
}

/// The checks of one member: the name of one that went well, or what is wrong.
fn of_member(report: &ContactReport) -> Vec<Result<&'static str, Finding>> {
    let name = &report.member;
    let contact = match &report.contact {
        Ok(contact) => contact,
        Err(why) => return vec![Err(unreached(name, why))],
    };
    [
        ("reach", round_trip(name, contact.rtt_us)),
        ("back", back(name, &contact.back)),
        ("clock", clock(name, contact)),
        ("mtu", packets(name, contact)),
    ]
    .map(|(check, trouble)| trouble.map_or(Ok(check), Err))
    .into()
}

fn unreached(name: &str, why: &str) -> Finding {
    Finding::ok("reach", name, why).but(
        Grade::Fail,
        format!("see whether {name} runs; let UDP and TCP port 7740 pass between the two"),
    )
}

fn round_trip(name: &str, rtt_us: u64) -> Option<Finding> {
    let evidence = format!("a round trip of {} ms", rtt_us / 1000);
    let remedy = "the members of a cluster belong into one site";
    (rtt_us > RTT_WARN_US).then(|| Finding::ok("reach", name, evidence).but(Grade::Warn, remedy))
}

fn back(name: &str, back: &Result<(), String>) -> Option<Finding> {
    let why = back.as_ref().err()?;
    let evidence = format!("it answers, but does not reach this node: {why}");
    let remedy = "let UDP and TCP port 7740 pass from there to here; compare node.advertise with \
                  this machine's address";
    Some(Finding::ok("back", name, evidence).but(Grade::Fail, remedy))
}

/// How far a member's clock is ahead of ours, ms. Its answer was half a round trip under way.
fn skew_ms(contact: &Contact) -> i64 {
    let under_way_ms = contact.rtt_us / 2000;
    let theirs = contact.their_clock_ms.saturating_add(under_way_ms);
    i64::try_from(theirs)
        .unwrap_or(i64::MAX)
        .saturating_sub(i64::try_from(contact.our_clock_ms).unwrap_or(i64::MAX))
}

fn clock(name: &str, contact: &Contact) -> Option<Finding> {
    let skew = skew_ms(contact);
    // What the round trip leaves open is not held against the clock.
    let sure = skew.unsigned_abs().saturating_sub(contact.rtt_us / 2000);
    let grade = match sure {
        SKEW_FAIL_MS.. => Grade::Fail,
        SKEW_WARN_MS.. => Grade::Warn,
        _ => return None,
    };
    let side = if skew > 0 { "ahead of" } else { "behind" };
    let evidence = format!("its clock is {} ms {side} this one's", skew.unsigned_abs());
    let remedy = "see timedatectl on both; keep clocks with chrony or systemd-timesyncd";
    Some(Finding::ok("clock", name, evidence).but(grade, remedy))
}

fn packets(name: &str, contact: &Contact) -> Option<Finding> {
    if contact.packet_passed != Some(false) {
        return None;
    }
    let passes = contact.path_mtu.unwrap_or(0);
    let evidence =
        format!("packets of {PACKET_BYTES} bytes vanish on the way; {passes} bytes pass");
    let remedy = "set one MTU on all interfaces and switches between the two, and let ICMP pass";
    Some(Finding::ok("mtu", name, evidence).but(Grade::Fail, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> Contact {
        Contact {
            rtt_us: 400,
            their_clock_ms: 1_000_000,
            our_clock_ms: 1_000_000,
            path_mtu: Some(1452),
            packet_passed: Some(true),
            back: Ok(()),
        }
    }

    fn told(change: impl FnOnce(&mut Contact)) -> Vec<(String, String, Grade)> {
        let mut contact = well();
        change(&mut contact);
        let report = |member: &str, contact| ContactReport {
            member: member.to_owned(),
            contact,
        };
        let reports = [report("n2", Ok(contact)), report("n3", Ok(well()))];
        judged(&reports)
            .into_iter()
            .filter(Finding::is_trouble)
            .map(|one| (one.check, one.subject, one.grade))
            .collect()
    }

    #[test]
    fn what_is_wrong_with_a_member_is_told_by_its_name() {
        let n2 = |check: &str, grade| vec![(check.to_owned(), "n2".to_owned(), grade)];
        assert_eq!(told(|_| {}), []);
        assert_eq!(told(|c| c.rtt_us = 50_001), n2("reach", Grade::Warn));
        assert_eq!(
            told(|c| c.back = Err("timed out".into())),
            n2("back", Grade::Fail)
        );
        assert_eq!(
            told(|c| c.packet_passed = Some(false)),
            n2("mtu", Grade::Fail)
        );
        assert_eq!(told(|c| (c.path_mtu, c.packet_passed) = (None, None)), []);
    }

    #[test]
    fn clocks_are_compared_less_what_the_round_trip_leaves_open() {
        for (their_ms, rtt_us, grade) in [
            (1_000_499, 0, None),
            (1_000_500, 0, Some(Grade::Warn)),
            (999_500, 0, Some(Grade::Warn)),
            // Half of 40 ms under way, and unsure by as much.
            (1_000_499, 40_000, None),
            (1_000_500, 40_000, Some(Grade::Warn)),
            (999_461, 40_000, None),
            (999_460, 40_000, Some(Grade::Warn)),
            (1_060_000, 0, Some(Grade::Fail)),
        ] {
            let contact = Contact {
                their_clock_ms: their_ms,
                rtt_us,
                ..well()
            };
            let told = clock("n2", &contact).map(|one| one.grade);
            assert_eq!(told, grade, "{their_ms} {rtt_us}: {}", skew_ms(&contact));
        }
    }

    #[test]
    fn what_is_well_is_told_in_one_line_for_each_check() {
        let reports: Vec<ContactReport> = (0..100)
            .map(|at| ContactReport {
                member: format!("n{at}"),
                contact: if at == 7 {
                    Err("no answer within 5 s".to_owned())
                } else {
                    Ok(well())
                },
            })
            .collect();
        let told: Vec<String> = judged(&reports)
            .iter()
            .map(|one| format!("{} {} {}", one.check, one.subject, one.grade))
            .collect();
        assert_eq!(
            told,
            [
                "reach n7 fail",
                "reach 99 members ok",
                "back 99 members ok",
                "clock 99 members ok",
                "mtu 99 members ok",
            ]
        );
    }

    #[derive(Debug)]
    struct Outcast;

    #[async_trait]
    impl Peers for Outcast {
        async fn count(&self) -> u64 {
            3
        }

        async fn port(&self) -> Option<u16> {
            Some(7740)
        }

        async fn is_expelled(&self) -> bool {
            true
        }

        async fn examine(&self) -> Vec<ContactReport> {
            panic!("nobody talks with it")
        }
    }

    #[tokio::test]
    async fn an_expelled_node_is_told_to_leave_and_no_port_is_blamed() {
        let findings = check(&Outcast).await;
        let [finding] = &findings[..] else {
            panic!("{findings:?}");
        };
        assert_eq!(finding.grade, Grade::Fail);
        let told = format!("{finding:?}");
        assert!(
            told.contains("expelled") && told.contains("cluster leave"),
            "{told}"
        );
    }

    #[tokio::test]
    async fn alone_nobody_is_asked() {
        let findings = check(&NoPeers).await;
        assert_eq!(findings.len(), 1);
        assert!(!findings[0].is_trouble());
    }
}

//! The addresses at which a cluster may be entered, and trying one after the other.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use muster_gossip::net::join::Questions;
use muster_gossip::net::quic;
use tokio::time::{Instant, sleep};

use super::error::MeshError;

/// In the place of an address: whoever is found in the local network.
pub(crate) const NEARBY: &str = "mdns";
/// How long to look for somebody in the local network.
const NEARBY_LIMIT: Duration = Duration::from_secs(8);
/// Others answer about when the first one does.
const NEARBY_REST: Duration = Duration::from_millis(300);
const NEARBY_PAUSE: Duration = Duration::from_millis(50);
/// Addresses found in the local network that are tried.
const NEARBY_MAX: usize = 16;

/// The addresses that a user's text stands for; the mesh's port if none is named.
///
/// # Errors
/// [`MeshError::Invalid`] for a name that nobody knows.
pub(super) async fn resolve(text: &str) -> Result<Vec<SocketAddr>, MeshError> {
    let bad = |error: std::io::Error| {
        MeshError::Invalid(format!("address: {text:?} cannot be resolved: {error}"))
    };
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, quic::QuicConfig::PORT)]);
    }
    let with_port = if text
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
    {
        text.to_owned()
    } else {
        format!("{text}:{}", quic::QuicConfig::PORT)
    };
    Ok(tokio::net::lookup_host(with_port)
        .await
        .map_err(bad)?
        .collect())
}

/// The members of whatever cluster that multicast finds.
///
/// # Errors
/// [`MeshError::NotNow`] when nobody answers.
pub(super) async fn nearby(questions: &Questions) -> Result<Vec<SocketAddr>, MeshError> {
    let start = Instant::now();
    while questions.found().is_empty() {
        if start.elapsed() > NEARBY_LIMIT {
            return Err(MeshError::NotNow(format!(
                "no member answered in the local network within {} s: set mdns = true under \
                 [mesh] in a member's agent.toml, let UDP port 5353 pass, or name a member's \
                 address",
                NEARBY_LIMIT.as_secs()
            )));
        }
        sleep(NEARBY_PAUSE).await;
    }
    sleep(NEARBY_REST).await;
    let found = questions.found().into_iter().map(|(address, _)| address);
    Ok(found.take(NEARBY_MAX).collect())
}

/// Talks at one address after the other until the cluster lets this node in or refuses it. Who
/// is busy, or of another cluster, may have a neighbour who is not.
///
/// # Errors
/// The refusal, or of all that went wrong what tells most.
pub(super) async fn one_by_one<T, F: Future<Output = Result<T, MeshError>>>(
    addresses: &[SocketAddr],
    talk: impl Fn(SocketAddr) -> F,
) -> Result<T, MeshError> {
    let mut last = MeshError::Invalid("the address names no host".to_owned());
    for address in addresses {
        match talk(*address).await {
            Ok(joined) => return Ok(joined),
            // The cluster is the same one at all of its addresses.
            Err(refused @ MeshError::Refused(_)) => return Err(refused),
            Err(error) if news(&error) < news(&last) => {
                tracing::debug!(%address, %error, "this address is of no help either");
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// How much an error tells: that somebody is there, more than that nobody is.
const fn news(error: &MeshError) -> u8 {
    match error {
        MeshError::Busy(_) => 2,
        MeshError::Elsewhere(_) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What an address has to say.
    fn answer(address: SocketAddr) -> Result<SocketAddr, MeshError> {
        let text = address.to_string();
        match address.port() {
            1 => Err(MeshError::NotNow(text)),
            2 => Err(MeshError::Elsewhere(text)),
            3 => Err(MeshError::Busy(text)),
            4 => Err(MeshError::Refused(text)),
            _ => Ok(address),
        }
    }

    /// What becomes of a try of these, and how many were asked.
    async fn tried(ports: &[u16]) -> (String, usize) {
        let addresses: Vec<SocketAddr> = ports
            .iter()
            .enumerate()
            .map(|(at, port)| ([10, 0, 0, u8::try_from(at).unwrap()], *port).into())
            .collect();
        let asked = Mutex::new(0);
        let talk = |address| {
            *asked.lock().unwrap() += 1;
            async move { answer(address) }
        };
        let ended = one_by_one(&addresses, talk).await;
        let text = match ended {
            Ok(address) => address.to_string(),
            Err(error) => format!("{error:?}"),
        };
        let asked = *asked.lock().unwrap();
        (text, asked)
    }

    #[tokio::test]
    async fn dead_addresses_are_passed_over_and_the_first_that_works_is_taken() {
        for (ports, taken, asked) in [
            (&[9][..], "10.0.0.0:9", 1),
            (&[1, 1, 9, 9], "10.0.0.2:9", 3),
            (&[1, 2, 3, 9], "10.0.0.3:9", 4),
        ] {
            assert_eq!(tried(ports).await, (taken.to_owned(), asked), "{ports:?}");
        }
    }

    #[tokio::test]
    async fn a_refusal_ends_it_and_else_what_tells_most_is_told() {
        for (ports, told, asked) in [
            (&[4, 9][..], "Refused(\"10.0.0.0:4\")", 1),
            (&[1, 3, 4, 9], "Refused(\"10.0.0.2:4\")", 3),
            (&[1, 1], "NotNow(\"10.0.0.1:1\")", 2),
            (&[3, 2, 1], "Busy(\"10.0.0.0:3\")", 3),
            (&[1, 2, 1], "Elsewhere(\"10.0.0.1:2\")", 3),
            (&[2, 3, 1], "Busy(\"10.0.0.1:3\")", 3),
            (&[], "Invalid(\"the address names no host\")", 0),
        ] {
            assert_eq!(tried(ports).await, (told.to_owned(), asked), "{ports:?}");
        }
    }

    #[tokio::test]
    async fn an_address_is_a_name_or_a_number_with_or_without_a_port() {
        for (text, expect) in [
            ("10.0.0.1", "10.0.0.1:7740"),
            ("10.0.0.1:8", "10.0.0.1:8"),
            ("fd77::1", "[fd77::1]:7740"),
            ("[fd77::1]:8", "[fd77::1]:8"),
        ] {
            let found = resolve(text).await.unwrap();
            assert_eq!(found, [expect.parse().unwrap()], "{text}");
        }
        assert!(matches!(resolve("").await, Err(MeshError::Invalid(_))));
    }
}

//! Network ports for tasks: which range is safe to hand out, and whether one is taken.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};

/// Below these live well-known services.
const FIRST_DEFAULT: u16 = 10_000;
/// A shorter range would run out before the GPUs do.
const LENGTH_MIN: u16 = 1000;

/// Why no range can be handed out.
#[derive(Debug, thiserror::Error)]
pub enum PortRangeError {
    /// The kernel does not say which ports it takes for outgoing connections.
    #[error("the kernel's own port range at {path}", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file holds something else than two ports.
    #[error("the kernel's own port range is {0:?}, not two ports")]
    Malformed(String),
    /// The range that was asked for meets the kernel's own.
    #[error(
        "ports {first}-{last} overlap {kernel_first}-{kernel_last}, which the kernel uses itself"
    )]
    Overlap {
        /// As asked for.
        first: u16,
        /// As asked for.
        last: u16,
        /// First of the kernel's.
        kernel_first: u16,
        /// Last of the kernel's.
        kernel_last: u16,
    },
    /// The range that was asked for is empty.
    #[error("ports {first}-{last} are none")]
    Empty {
        /// As asked for.
        first: u16,
        /// As asked for.
        last: u16,
    },
    /// The kernel's range leaves too little room on either side.
    #[error("the kernel uses ports {kernel_first}-{kernel_last} itself, which leaves too few")]
    NoRoom {
        /// First of the kernel's.
        kernel_first: u16,
        /// Last of the kernel's.
        kernel_last: u16,
    },
}

/// Ports from first to last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// The range for tasks on the machine whose file tree is at `root`: `wanted` if it stays clear
/// of the ports that the kernel takes for outgoing connections, else the larger room from
/// 10000 up that does. A port of the kernel's range may be gone when the task binds it.
pub fn range(root: &Path, wanted: Option<PortRange>) -> Result<PortRange, PortRangeError> {
    let kernel = kernel_range(root)?;
    match wanted {
        Some(range) if range.first == 0 || range.first > range.last => Err(PortRangeError::Empty {
            first: range.first,
            last: range.last,
        }),
        Some(range) if range.first <= kernel.last && kernel.first <= range.last => {
            Err(PortRangeError::Overlap {
                first: range.first,
                last: range.last,
                kernel_first: kernel.first,
                kernel_last: kernel.last,
            })
        }
        Some(range) => Ok(range),
        None => roomiest(kernel).ok_or(PortRangeError::NoRoom {
            kernel_first: kernel.first,
            kernel_last: kernel.last,
        }),
    }
}

fn roomiest(kernel: PortRange) -> Option<PortRange> {
    let below = PortRange {
        first: FIRST_DEFAULT,
        last: kernel.first.saturating_sub(1),
    };
    let above = PortRange {
        first: kernel.last.saturating_add(1).max(FIRST_DEFAULT),
        last: u16::MAX,
    };
    let length = |range: &PortRange| range.last.saturating_sub(range.first);
    [below, above]
        .into_iter()
        .filter(|range| length(range) >= LENGTH_MIN)
        .max_by_key(length)
}

fn kernel_range(root: &Path) -> Result<PortRange, PortRangeError> {
    let path = root.join("proc/sys/net/ipv4/ip_local_port_range");
    let text = std::fs::read_to_string(&path)
        .map_err(|source| PortRangeError::Unreadable { path, source })?;
    let ports: Vec<u16> = text.split_whitespace().flat_map(str::parse).collect();
    match ports[..] {
        [first, last] => Ok(PortRange { first, last }),
        _ => Err(PortRangeError::Malformed(text)),
    }
}

/// Whether nobody on this machine listens on `port`, by TCP or UDP, on any address. A port in
/// use for an outgoing connection counts as taken too.
pub fn is_free(port: u16) -> bool {
    let bindable = |address: SocketAddr| {
        TcpListener::bind(address)
            .and_then(|_| UdpSocket::bind(address))
            .is_ok()
    };
    let six: SocketAddr = (Ipv6Addr::UNSPECIFIED, port).into();
    // Most machines bind both families through ::, but one may have IPv6 switched off.
    bindable((Ipv4Addr::UNSPECIFIED, port).into()) && (bindable(six) || !has_ipv6())
}

fn has_ipv6() -> bool {
    UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_stay_clear_of_the_kernels() {
        let range_of = |kernel: &str, wanted: Option<(u16, u16)>| {
            let root = tempfile::tempdir().unwrap();
            let dir = root.path().join("proc/sys/net/ipv4");
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("ip_local_port_range"), kernel).unwrap();
            let wanted = wanted.map(|(first, last)| PortRange { first, last });
            range(root.path(), wanted)
                .map(|range| (range.first, range.last))
                .map_err(|error| error.to_string().split(' ').next().unwrap().to_owned())
        };
        for (kernel, wanted, expect) in [
            ("32768\t60999\n", None, Ok((10_000, 32_767))),
            ("15000\t30000\n", None, Ok((30_001, 65_535))),
            ("1024\t65535\n", None, Err("the")),
            (
                "32768\t60999\n",
                Some((20_000, 20_010)),
                Ok((20_000, 20_010)),
            ),
            (
                "32768\t60999\n",
                Some((61_000, 61_999)),
                Ok((61_000, 61_999)),
            ),
            ("32768\t60999\n", Some((30_000, 40_000)), Err("ports")),
            ("32768\t60999\n", Some((20_010, 20_000)), Err("ports")),
            ("none\n", None, Err("the")),
        ] {
            let expect = expect.map_err(str::to_owned);
            assert_eq!(range_of(kernel, wanted), expect, "{kernel} {wanted:?}");
        }
    }

    #[test]
    fn a_port_somebody_holds_is_not_free() {
        let tcp = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let udp = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let six = TcpListener::bind(("::1", 0));
        assert!(!is_free(tcp.local_addr().unwrap().port()));
        assert!(!is_free(udp.local_addr().unwrap().port()));
        assert!(six.is_err() || !is_free(six.unwrap().local_addr().unwrap().port()));
        let port = {
            let short = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            short.local_addr().unwrap().port()
        };
        assert!(is_free(port));
    }
}

//! The TCP sockets on which processes listen, by the kernel's tables.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListeningSocket {
    /// On which address; unspecified for all.
    pub(super) address: IpAddr,
    /// On which port.
    pub(super) port: u16,
}

/// The state of a socket that listens, in the kernel's tables.
const LISTEN: &str = "0A";

/// The sockets on which one of these processes listens. Processes that end meanwhile have none.
pub(super) fn listening(pids: &[u32]) -> io::Result<Vec<ListeningSocket>> {
    let held: BTreeSet<u64> = pids.iter().flat_map(|pid| inodes(*pid)).collect();
    let mut found = Vec::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        let text = match fs::read_to_string(table) {
            Ok(text) => text,
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let sockets = text.lines().filter_map(socket);
        let own = sockets.filter(|(inode, _)| held.contains(inode));
        found.extend(own.map(|(_, socket)| socket));
    }
    Ok(found)
}

/// The sockets that a process holds, by their numbers.
fn inodes(pid: u32) -> Vec<u64> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter();
    let links = files
        .flatten()
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok());
    let numbers = links.filter_map(|link| {
        let number = link.to_str()?.strip_prefix("socket:[")?;
        number.strip_suffix(']')?.parse().ok()
    });
    numbers.collect()
}

/// A line of a table, if its socket listens: the number of the socket, and where.
fn socket(line: &str) -> Option<(u64, ListeningSocket)> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?.parse().ok()?;
    if state != LISTEN {
        return None;
    }
    let (address, port) = local.split_once(':')?;
    let socket = ListeningSocket {
        address: address_of(address)?,
        port: u16::from_str_radix(port, 16).ok()?,
    };
    Some((inode, socket))
}

/// An address as the kernel writes it: 32-bit words in hexadecimal digits, each in the byte order of the machine.
fn address_of(text: &str) -> Option<IpAddr> {
    let word = |index: usize| {
        let digits = text.get(index * 8..index * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_tables_are_read() {
        let line = |local: &str, state: &str| {
            format!(
                "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0"
            )
        };
        let v4 = socket(&line("0100007F:1F90", "0A")).unwrap();
        let expected = ListeningSocket {
            address: Ipv4Addr::LOCALHOST.into(),
            port: 8080,
        };
        // The digits are those of a machine whose lowest byte comes first.
        if cfg!(target_endian = "little") {
            assert_eq!(v4, (4711, expected));
        }
        let any = line("00000000000000000000000000000000:0016", "0A");
        let (_, any) = socket(&any).unwrap();
        assert_eq!((any.address, any.port), (Ipv6Addr::UNSPECIFIED.into(), 22));
        assert_eq!(
            socket(&line("0100007F:1F90", "01")),
            None,
            "it is connected"
        );
        assert_eq!(socket("  sl  local_address rem_address   st"), None);
    }

    #[test]
    fn a_socket_is_its_process_s_alone() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = listening(&[std::process::id()]).unwrap();
        assert!(own.iter().any(|socket| socket.port == port), "{own:?}");
        assert_eq!(listening(&[]).unwrap(), []);
    }
}

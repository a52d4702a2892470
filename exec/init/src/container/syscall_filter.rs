//! The filter of system calls that a task runs under.
//!
//! Compiled by `build/` and put on this process before it starts any other: what it starts
//! inherits the filter and cannot lift it.

use std::{fmt, fs};

use seccompiler::{BpfProgram, sock_filter};

/// The program as the kernel takes it: 8 bytes an instruction, in this machine's byte order.
static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/syscalls.bpf"));
/// The same with packet sockets.
static PROGRAM_RAW: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/syscalls-raw.bpf"));

/// The number of the capability to open raw sockets, CAP_NET_RAW.
const NET_RAW: u32 = 13;

/// The filter could not be installed; nothing may be run without it.
#[derive(Clone, Debug)]
pub(crate) struct Unfiltered(String);

impl fmt::Display for Unfiltered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot restrict the system calls: {}", self.0)
    }
}

/// Restricts this process, and all it will start, for good. It must have one thread.
///
/// Packet sockets are left where the container was granted raw ones.
pub(crate) fn install() -> Result<(), Unfiltered> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    apply(if has_raw_sockets(&status) {
        PROGRAM_RAW
    } else {
        PROGRAM
    })
}

fn apply(program: &[u8]) -> Result<(), Unfiltered> {
    seccompiler::apply_filter(&decode(program)).map_err(|error| Unfiltered(error.to_string()))
}

/// Whether some process here may hold the capability for raw sockets, by the kernel's account of one.
fn has_raw_sockets(status: &str) -> bool {
    let bound = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    let bound = bound.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bound.is_some_and(|bits| bits >> NET_RAW & 1 == 1)
}

fn decode(program: &[u8]) -> BpfProgram {
    let (instructions, _) = program.as_chunks::<8>();
    instructions.iter().map(instruction).collect()
}

fn instruction(bytes: &[u8; 8]) -> sock_filter {
    let [code0, code1, jt, jf, k @ ..] = *bytes;
    sock_filter {
        code: u16::from_ne_bytes([code0, code1]),
        jt,
        jf,
        k: u32::from_ne_bytes(k),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;
    use std::process::{Command, Stdio};
    use std::thread;

    use super::*;

    /// The number of a call's error, 0 where it worked.
    fn error_of(result: libc::c_long) -> i32 {
        match result {
            -1 => Error::last_os_error().raw_os_error().unwrap_or(-1),
            _ => 0,
        }
    }

    fn call(number: libc::c_long, first: libc::c_long) -> i32 {
        call_with(number, [first, 0, 0])
    }

    #[allow(unsafe_code)]
    fn call_with(number: libc::c_long, [first, second, third]: [libc::c_long; 3]) -> i32 {
        // SAFETY: none of the calls below takes a pointer in its first three arguments where they
        // are not zero, and all other arguments are zero.
        error_of(unsafe { libc::syscall(number, first, second, third, 0, 0) })
    }

    /// A filter is on a thread and what it starts, so that a test can put it on one of its own.
    fn filtered<T: Send + 'static>(check: impl FnOnce() -> T + Send + 'static) -> T {
        filtered_by(PROGRAM, check)
    }

    fn filtered_by<T: Send + 'static>(
        program: &'static [u8],
        check: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let on_it = move || {
            apply(program).unwrap();
            check()
        };
        thread::spawn(on_it).join().unwrap()
    }

    #[test]
    fn what_reaches_outside_a_container_is_denied() {
        let errors = filtered(|| {
            [
                call(libc::SYS_getppid, 0),
                call(libc::SYS_socket, libc::AF_UNIX.into()),
                call(libc::SYS_socket, libc::AF_VSOCK.into()),
                call(libc::SYS_unshare, 0),
                call(libc::SYS_add_key, 0),
                call(libc::SYS_io_uring_setup, 0),
                call(libc::SYS_clone3, 0),
                call(libc::SYS_clone, libc::CLONE_NEWUSER.into()),
                call(libc::SYS_personality, 0xFFFF_FFFF),
                call(libc::SYS_personality, 0x0040_0000),
            ]
        });
        let denied = libc::EPERM;
        // A socket needs a type, which is refused by the kernel itself.
        let of_kernel = libc::ESOCKTNOSUPPORT;
        assert_eq!(
            errors,
            [
                0,
                of_kernel,
                denied,
                denied,
                denied,
                denied,
                libc::ENOSYS,
                denied,
                0,
                denied
            ]
        );
    }

    /// The family is an int: bits above it are dropped by the kernel, and must be by the filter.
    const ABOVE: libc::c_long = 1 << 32;

    #[test]
    fn sockets_that_hear_other_programs_are_denied_unless_granted() {
        let sockets = || {
            let families = [
                libc::AF_PACKET,
                libc::AF_XDP,
                libc::AF_VSOCK,
                libc::AF_NETLINK,
            ];
            families.map(|family| {
                let plain = call(libc::SYS_socket, family.into());
                assert_eq!(
                    call(libc::SYS_socket, libc::c_long::from(family) | ABOVE),
                    plain,
                    "{family}"
                );
                plain == libc::EPERM
            })
        };
        assert_eq!(filtered(sockets), [true, true, true, false]);
        // Without a type the kernel takes none of them; its refusal is another.
        let granted = filtered_by(PROGRAM_RAW, sockets);
        assert_eq!(granted, [false, false, true, false]);
    }

    #[test]
    fn what_needs_no_raw_socket_is_left_to_the_kernel() {
        let (stream, datagram) = (libc::SOCK_STREAM.into(), libc::SOCK_DGRAM.into());
        let sockets = [
            [libc::AF_INET.into(), stream, 0],
            [libc::AF_INET6.into(), datagram, 0],
            // An echo request, as `ping` sends it without rights.
            [libc::AF_INET.into(), datagram, libc::IPPROTO_ICMP.into()],
            [libc::AF_NETLINK.into(), libc::SOCK_RAW.into(), 0],
        ];
        let open = move || sockets.map(|arguments| call_with(libc::SYS_socket, arguments));
        assert_eq!(filtered(open), open());
    }

    #[test]
    fn raw_sockets_are_granted_by_the_bounding_set() {
        let status = |bits: &str| format!("Name:\tx\nCapEff:\t{bits}0\nCapBnd:\t{bits}\n");
        for (bits, granted) in [
            ("00000000a80425fb", true),
            ("00000000a80405fb", false),
            ("nonsense", false),
        ] {
            assert_eq!(has_raw_sockets(&status(bits)), granted, "{bits}");
        }
        assert!(!has_raw_sockets(""));
    }

    #[test]
    fn programs_run_under_it() {
        let status = filtered(|| {
            Command::new("sh")
                .args(["-c", "ls / | sort | head -n 1 >/dev/null; exit 7"])
                .stdin(Stdio::null())
                .status()
                .unwrap()
        });
        assert_eq!(status.code(), Some(7));
    }
}

//! The filter of system calls that a task runs under.
//!
//! Compiled by `build/` and put on this process before it starts any other: what it starts
//! inherits the filter and cannot lift it.

use std::fmt;

use seccompiler::{BpfProgram, sock_filter};

/// The program as the kernel takes it: 8 bytes an instruction, in this machine's byte order.
static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/syscalls.bpf"));

/// The filter could not be installed; nothing may be run without it.
#[derive(Clone, Debug)]
pub(super) struct Unfiltered(String);

impl fmt::Display for Unfiltered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot restrict the system calls: {}", self.0)
    }
}

/// Restricts this process, and all it will start, for good. It must have one thread.
pub(super) fn install() -> Result<(), Unfiltered> {
    seccompiler::apply_filter(&program()).map_err(|error| Unfiltered(error.to_string()))
}

fn program() -> BpfProgram {
    let (instructions, _) = PROGRAM.as_chunks::<8>();
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

    #[allow(unsafe_code)]
    fn call(number: libc::c_long, first: libc::c_long) -> i32 {
        // SAFETY: none of the calls below takes a pointer in its first argument, and all other
        // arguments are zero.
        error_of(unsafe { libc::syscall(number, first, 0, 0, 0, 0) })
    }

    /// A filter is on a thread and what it starts, so that a test can put it on one of its own.
    fn filtered<T: Send + 'static>(check: impl FnOnce() -> T + Send + 'static) -> T {
        let on_it = move || {
            install().unwrap();
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

//! Passwords typed on a terminal, which does not show them.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};

use muster_model::secret::Hidden;
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

use super::console::Console;
use super::error::CliError;

const INTERRUPT: u8 = 0x03;
const END: u8 = 0x04;
const ERASE: u8 = 0x7f;
const BACKSPACE: u8 = 0x08;
const KILL: u8 = 0x15;

/// What was typed.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupted,
}

/// Asks for a line that is not shown. Only where stdin is a terminal.
pub(super) fn ask(question: &str, console: &Console) -> Result<Hidden<String>, CliError> {
    console.err(format!("{question}: "))?;
    let typed = silently(io::stdin().as_fd(), || line(io::stdin().lock().bytes()));
    // The end of the line was not shown either.
    console.err("\n")?;
    match typed {
        Ok(Typed::Line(line)) => Ok(Hidden(line)),
        Ok(Typed::Interrupted) => Err(CliError::Usage(
            "interrupted; nothing was changed".to_owned(),
        )),
        Err(source) => Err(CliError::Read {
            path: "the terminal".into(),
            source,
        }),
    }
}

/// Reads with a terminal that shows nothing, and gives every byte at once. It also leaves Ctrl-C to
/// the reader: the signal would end this process and leave the terminal as it is.
fn silently<T>(terminal: BorrowedFd<'_>, read: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = tcgetattr(terminal)?;
    let mut silent = before.clone();
    silent
        .local_flags
        .remove(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG);
    tcsetattr(terminal, SetArg::TCSADRAIN, &silent)?;
    let _restore = TerminalRestore { terminal, before };
    read()
}

/// Gives the terminal its settings back when dropped.
struct TerminalRestore<'t> {
    terminal: BorrowedFd<'t>,
    before: Termios,
}

impl Drop for TerminalRestore<'_> {
    fn drop(&mut self) {
        // There is nobody to tell if it fails.
        let _ = tcsetattr(self.terminal, SetArg::TCSADRAIN, &self.before);
    }
}

/// A line from the bytes that keys send.
fn line(bytes: impl Iterator<Item = io::Result<u8>>) -> io::Result<Typed> {
    let mut line = Vec::new();
    for byte in bytes {
        match byte? {
            INTERRUPT => return Ok(Typed::Interrupted),
            b'\n' | b'\r' | END => break,
            KILL => line.clear(),
            ERASE | BACKSPACE => erase(&mut line),
            byte => line.push(byte),
        }
    }
    String::from_utf8(line)
        .map(Typed::Line)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Takes the last character away, which may be several bytes.
fn erase(line: &mut Vec<u8>) {
    while let Some(byte) = line.pop() {
        let continues = byte & 0xc0 == 0x80;
        if !continues {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_shows_nothing_while_it_is_read_and_is_as_before_afterwards() {
        let pty = nix::pty::openpty(None, None).unwrap();
        let terminal = pty.slave.as_fd();
        let flags = || tcgetattr(terminal).unwrap().local_flags;
        let before = flags();
        assert!(before.contains(LocalFlags::ECHO));
        let during = silently(terminal, || Ok(flags())).unwrap();
        assert!(!during.intersects(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG));
        assert_eq!(flags(), before);
        silently(terminal, || Err::<(), _>(io::ErrorKind::BrokenPipe.into())).unwrap_err();
        assert_eq!(flags(), before);
        let no_terminal = std::fs::File::open("/dev/null").unwrap();
        assert!(silently(no_terminal.as_fd(), || Ok(())).is_err());
    }

    #[test]
    fn keys_make_a_line() {
        let typed = |text: &str| line(text.bytes().map(Ok)).unwrap();
        for (keys, expect) in [
            ("secret\nrest", "secret"),
            ("secret\r", "secret"),
            ("secret", "secret"),
            ("se\u{4}", "se"),
            ("sü\u{7f}ecret\n", "secret"),
            ("\u{7f}\u{8}a\n", "a"),
            ("wrong\u{15}right\n", "right"),
        ] {
            assert_eq!(typed(keys), Typed::Line(expect.to_owned()), "{keys:?}");
        }
        assert_eq!(typed("sec\u{3}ret\n"), Typed::Interrupted);
        assert!(line([Ok(0xff), Ok(b'\n')].into_iter()).is_err());
    }
}

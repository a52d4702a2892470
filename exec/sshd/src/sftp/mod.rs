//! The subsystem for files, version 3 (draft-ietf-secsh-filexfer-02) with OpenSSH's extensions that its own client and
//! others use. One process for each session: a request after the other, with plain calls of the system.
//!
//! Paths are bytes, as in the file system. Relative ones begin at the working directory of the task's commands.

mod attributes;
mod extended;
mod handles;
mod listing;
mod packet;
mod paths;
mod requests;

use std::io::{self, BufReader, Read, Write};

use self::packet::{Fields, Reply};
use self::requests::FileServer;

/// Longest request, in bytes, as with OpenSSH.
const REQUEST_BYTES_MAX: usize = 256 << 10;
/// The version that is spoken.
const VERSION: u32 = 3;

/// Serves stdin and stdout until the client has closed them.
///
/// # Errors
/// When a request is no request.
pub(crate) fn run() -> Result<(), String> {
    let requests = BufReader::with_capacity(REQUEST_BYTES_MAX, io::stdin().lock());
    let served = serve(requests, io::stdout().lock());
    served.map_err(|error| format!("sftp: {error}"))
}

fn serve(mut requests: impl Read, mut replies: impl Write) -> io::Result<()> {
    let mut server = FileServer::default();
    while let Some(request) = next(&mut requests)? {
        let reply = answer(&mut server, &request)?;
        replies.write_all(&reply.packet())?;
        replies.flush()?;
    }
    Ok(())
}

/// The next request without its length; none at the end.
fn next(requests: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match requests.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        done => done?,
    }
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length == 0 || length > REQUEST_BYTES_MAX {
        let message = format!("a request of {length} bytes, and {REQUEST_BYTES_MAX} is the most");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mut request = vec![0; length];
    requests.read_exact(&mut request)?;
    Ok(Some(request))
}

fn answer(server: &mut FileServer, request: &[u8]) -> io::Result<Reply> {
    let mut fields = Fields::new(request);
    let cut = || io::Error::new(io::ErrorKind::InvalidData, "a request is cut short");
    let kind = fields.byte().ok_or_else(cut)?;
    let number = fields.u32().ok_or_else(cut)?;
    Ok(match kind {
        packet::INIT => extended::version(),
        // What has a number can be told what is wrong with it.
        _ => match server.answer(kind, number, &mut fields) {
            Ok(reply) => reply,
            Err(error) => Reply::status(number, &error),
        },
    })
}

#[cfg(test)]
mod tests;

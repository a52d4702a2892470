//! Bytes on a stream, up to a bound: one question or one answer.

use std::io;

use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use libp2p::StreamProtocol;
use libp2p::request_response::Codec;

use super::protocol::QuestionProtocol;

/// Reads and writes the questions and answers of one protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuestionCodec(pub(super) QuestionProtocol);

async fn read(io: impl AsyncRead + Unpin, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io.take(most as u64 + 1).read_to_end(&mut bytes).await?;
    if bytes.len() > most {
        let text = format!("longer than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(bytes)
}

impl Codec for QuestionCodec {
    type Protocol = StreamProtocol;
    type Request = Vec<u8>;
    type Response = Vec<u8>;

    async fn read_request<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Vec<u8>>
    where
        T: AsyncRead + Unpin + Send,
    {
        read(io, self.0.request_bytes_max()).await
    }

    async fn read_response<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Vec<u8>>
    where
        T: AsyncRead + Unpin + Send,
    {
        // A stream that ends without a word is a question that nobody answered.
        match read(io, self.0.reply_bytes_max()).await? {
            bytes if bytes.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => Ok(bytes),
        }
    }

    async fn write_request<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        bytes: Vec<u8>,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        io.write_all(&bytes).await
    }

    async fn write_response<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        bytes: Vec<u8>,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        io.write_all(&bytes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_letter_is_read_up_to_its_bound() {
        for (protocol, most) in [
            (
                QuestionProtocol::Join,
                QuestionProtocol::Join.request_bytes_max(),
            ),
            (
                QuestionProtocol::Echo,
                QuestionProtocol::Echo.request_bytes_max(),
            ),
        ] {
            let name = protocol.name();
            let bytes = vec![7; most + 1];
            let mut letter = QuestionCodec(protocol);
            let fits = letter.read_request(&name, &mut &bytes[..most]).await;
            assert_eq!(fits.unwrap(), bytes[..most]);
            let long = letter.read_request(&name, &mut &bytes[..]).await;
            assert_eq!(long.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}

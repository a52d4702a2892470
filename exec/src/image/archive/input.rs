//! The bytes of an archive: counted, and unpacked if they are packed.

use std::io::Cursor;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use tokio::io::{AsyncRead, AsyncReadExt, BufReader, ReadBuf};

use super::tar::read_error;
use crate::image::ImageError;
use crate::image::progress::Reporter;

/// Input read at once.
const BUFFER_BYTES: usize = 64 << 10;
/// Largest window that unpacking zstd may take, as a power of two: 32 MiB. Only `--ultra` and
/// `--long` ask for more.
const ZSTD_WINDOW_LOG_MAX: u32 = 25;
const MAGIC_BYTES: usize = 4;

/// How files begin that tar is packed in elsewhere, what packs them, and what unpacks them.
const NOT_READ: [(&[u8], &str, &str); 5] = [
    (b"\xfd7zX", "xz", "unxz"),
    (b"BZh", "bzip2", "bunzip2"),
    (b"\x04\x22\x4d\x18", "lz4", "unlz4"),
    (b"LZIP", "lzip", "lzip -d"),
    (b"PK\x03\x04", "zip", "unzip"),
];

pub(in crate::image) type ArchiveStream = Box<dyn AsyncRead + Send + Unpin>;

/// Plain tar from what may be gzip or zstd.
pub(super) async fn plain(
    mut raw: ArchiveStream,
    reporter: Reporter,
) -> Result<ArchiveStream, ImageError> {
    let mut magic = [0; MAGIC_BYTES];
    let mut filled = 0;
    while filled < MAGIC_BYTES {
        match raw.read(&mut magic[filled..]).await.map_err(read_error)? {
            0 => break,
            count => filled += count,
        }
    }
    if let Some((_, packer, unpacker)) =
        NOT_READ.iter().find(|(start, ..)| magic.starts_with(start))
    {
        let reason = format!(
            "it is compressed with {packer}: decompress it first ({unpacker}); gzip and zstd are read as they are"
        );
        return Err(ImageError::BadArchive { reason });
    }
    let start = Cursor::new(magic[..filled].to_vec());
    let counted = CountedReader {
        inner: start.chain(raw),
        reporter,
    };
    let buffered = BufReader::with_capacity(BUFFER_BYTES, counted);
    Ok(match magic {
        [0x1f, 0x8b, ..] => {
            let mut decoder = GzipDecoder::new(buffered);
            decoder.multiple_members(true);
            Box::new(decoder)
        }
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let window = DParameter::window_log_max(ZSTD_WINDOW_LOG_MAX);
            let mut decoder = ZstdDecoder::with_params(buffered, &[window]);
            decoder.multiple_members(true);
            Box::new(decoder)
        }
        _ => Box::new(buffered),
    })
}

struct CountedReader<R> {
    inner: R,
    reporter: Reporter,
}

impl<R: AsyncRead + Unpin> AsyncRead for CountedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        let count = buffer.filled().len() - before;
        if count > 0 {
            self.reporter.moved(count as u64);
        }
        polled
    }
}

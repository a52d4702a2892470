//! Reads a tar stream entry by entry in bounded memory.
//!
//! The `tar` crate knows the header; the walk is our own because the crate's reads extension
//! records of any length into memory, and is not async. Nothing of an entry's path ever
//! becomes a path on this machine: it is only compared with what the image's documents say.

use std::collections::VecDeque;
use std::io;

use tar::{EntryType, Header, PaxExtensions};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::image::ImageError;

const BLOCK_BYTES: u64 = 512;
/// Longest extension record; image archives need paths of about 80 bytes.
const EXTENSION_BYTES_MAX: u64 = 64 << 10;
/// Most entries of an archive; every layer has up to four.
const ENTRIES_MAX: u32 = 100_000;
const SKIP_BYTES: usize = 64 << 10;

/// An entry that matters.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TarEntry {
    /// A file, whose bytes follow.
    File { path: String, bytes: u64 },
    /// Another name of a file.
    Link { path: String, target: String },
}

/// What extension records say about the entry after them.
#[derive(Default)]
struct Extension {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    bytes: Option<u64>,
}

pub(super) struct Tar<R> {
    reader: R,
    /// Bytes of the current file not read yet.
    left: u64,
    padding: u64,
    entries: u32,
}

impl<R: AsyncRead + Unpin> Tar<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            left: 0,
            padding: 0,
            entries: 0,
        }
    }

    /// The next entry, past what was not read of the last; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<TarEntry>, ImageError> {
        let mut extension = Extension::default();
        loop {
            self.skip().await?;
            let Some(header) = self.header().await? else {
                return Ok(None);
            };
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Err(bad(format!("it has more than {ENTRIES_MAX} entries")));
            }
            let size = header
                .entry_size()
                .map_err(|e| bad(format!("a size is broken: {e}")))?;
            let kind = header.entry_type();
            let bytes = match extension.bytes {
                Some(bytes) if !is_extension(kind) => bytes,
                _ => size,
            };
            self.left = bytes;
            self.padding = (BLOCK_BYTES - bytes % BLOCK_BYTES) % BLOCK_BYTES;
            if is_extension(kind) {
                self.extend(kind, bytes, &mut extension).await?;
            } else if let Some(entry) = entry(&header, std::mem::take(&mut extension), bytes)? {
                return Ok(Some(entry));
            }
        }
    }

    /// Bytes of the current file; 0 at its end.
    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ImageError> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let count = self
            .reader
            .read(&mut buffer[..most])
            .await
            .map_err(read_error)?;
        if count == 0 {
            return Err(bad("it ends in the middle of a file".to_owned()));
        }
        self.left -= count as u64;
        Ok(count)
    }

    /// The current file as a whole.
    pub(super) async fn read_whole(&mut self, what: &str, max: u64) -> Result<Vec<u8>, ImageError> {
        if self.left > max {
            return Err(ImageError::TooLarge {
                what: what.to_owned(),
                bytes: self.left,
                max,
            });
        }
        let mut data = vec![0; usize::try_from(self.left).unwrap_or(0)];
        let mut filled = 0;
        while filled < data.len() {
            filled += self.read(&mut data[filled..]).await?;
        }
        Ok(data)
    }

    async fn extend(
        &mut self,
        kind: EntryType,
        bytes: u64,
        extension: &mut Extension,
    ) -> Result<(), ImageError> {
        if kind.is_pax_global_extensions() {
            return Ok(());
        }
        if bytes > EXTENSION_BYTES_MAX {
            return Err(bad(format!("an extension record has {bytes} bytes")));
        }
        let data = self
            .read_whole("an extension record", EXTENSION_BYTES_MAX)
            .await?;
        let text = || data.split(|b| *b == 0).next().unwrap_or_default().to_vec();
        if kind.is_gnu_longname() {
            extension.path = Some(text());
        } else if kind.is_gnu_longlink() {
            extension.link = Some(text());
        } else {
            read_pax(&data, extension)?;
        }
        Ok(())
    }

    async fn skip(&mut self) -> Result<(), ImageError> {
        let mut rest = self.left.saturating_add(self.padding);
        (self.left, self.padding) = (0, 0);
        let mut sink = [0; SKIP_BYTES];
        while rest > 0 {
            let most = usize::try_from(rest).unwrap_or(usize::MAX).min(SKIP_BYTES);
            match self
                .reader
                .read(&mut sink[..most])
                .await
                .map_err(read_error)?
            {
                0 => return Err(bad("it ends in the middle of a file".to_owned())),
                count => rest -= count as u64,
            }
        }
        Ok(())
    }

    /// `None` at the closing zero block, or where the stream ends between entries.
    async fn header(&mut self) -> Result<Option<Header>, ImageError> {
        let mut header = Header::new_old();
        let block = header.as_mut_bytes();
        let mut filled = 0;
        while filled < block.len() {
            match self
                .reader
                .read(&mut block[filled..])
                .await
                .map_err(read_error)?
            {
                0 if filled == 0 => return Ok(None),
                0 => return Err(bad("it ends in the middle of a header".to_owned())),
                count => filled += count,
            }
        }
        if block.iter().all(|b| *b == 0) {
            return Ok(None);
        }
        check_sum(&header)?;
        Ok(Some(header))
    }
}

fn is_extension(kind: EntryType) -> bool {
    kind.is_gnu_longname()
        || kind.is_gnu_longlink()
        || kind.is_pax_local_extensions()
        || kind.is_pax_global_extensions()
}

fn read_pax(data: &[u8], extension: &mut Extension) -> Result<(), ImageError> {
    for record in PaxExtensions::new(data) {
        let record = record.map_err(|e| bad(format!("an extension record is broken: {e}")))?;
        let value = record.value_bytes();
        match record.key_bytes() {
            b"path" => extension.path = Some(value.to_vec()),
            b"linkpath" => extension.link = Some(value.to_vec()),
            b"size" => {
                let bytes = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
                extension.bytes = Some(bytes.ok_or_else(|| bad("a size is broken".to_owned()))?);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The sum of the header's bytes, its own field counted as spaces.
fn check_sum(header: &Header) -> Result<(), ImageError> {
    let bytes = header.as_bytes();
    let others = bytes[..148].iter().chain(&bytes[156..]);
    let sum = others.map(|b| u32::from(*b)).sum::<u32>() + 8 * u32::from(b' ');
    match header.cksum() {
        Ok(told) if told == sum => Ok(()),
        _ => Err(bad("this is not a tar archive, or it is damaged".to_owned())),
    }
}

fn entry(
    header: &Header,
    extension: Extension,
    bytes: u64,
) -> Result<Option<TarEntry>, ImageError> {
    let kind = header.entry_type();
    let path = extension
        .path
        .unwrap_or_else(|| header.path_bytes().into_owned());
    let path = resolve("", &text(path)?)?;
    if kind.is_file() || kind.is_contiguous() {
        return Ok(Some(TarEntry::File { path, bytes }));
    }
    if kind.is_gnu_sparse() {
        return Err(bad(format!(
            "`{path}` is a sparse file, which images have no use for"
        )));
    }
    let link = extension
        .link
        .or_else(|| header.link_name_bytes().map(|l| l.into_owned()));
    let Some(link) = link.filter(|l| !l.is_empty()) else {
        return Ok(None);
    };
    let base = if kind.is_symlink() { parent(&path) } else { "" };
    let target = resolve(base, &text(link)?)?;
    let is_link = kind.is_symlink() || kind.is_hard_link();
    Ok(is_link.then_some(TarEntry::Link { path, target }))
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn text(bytes: Vec<u8>) -> Result<String, ImageError> {
    String::from_utf8(bytes).map_err(|e| {
        bad(format!(
            "`{}` is not a readable path",
            String::from_utf8_lossy(e.as_bytes())
        ))
    })
}

/// The path within the archive that `path` means when it is said in the folder `base`.
pub(super) fn resolve(base: &str, path: &str) -> Result<String, ImageError> {
    let outside = || bad(format!("the entry `{path}` points outside of it"));
    if path.starts_with('/') {
        return Err(outside());
    }
    let mut parts: VecDeque<&str> = VecDeque::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop_back().ok_or_else(outside)?),
            part => parts.push_back(part),
        }
    }
    Ok(Vec::from(parts).join("/"))
}

pub(super) fn bad(reason: String) -> ImageError {
    ImageError::BadArchive { reason }
}

pub(super) fn read_error(error: io::Error) -> ImageError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => bad("it ends before its end".to_owned()),
        io::ErrorKind::InvalidData => bad(format!("its compression is broken: {error}")),
        _ => ImageError::Read(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(path: &[u8], kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path);
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_cksum();
        header
    }

    fn archive(entries: &[(Header, &[u8])]) -> Vec<u8> {
        let mut all = Vec::new();
        for (header, data) in entries {
            all.extend_from_slice(header.as_bytes());
            all.extend_from_slice(data);
            all.resize(all.len().next_multiple_of(512), 0);
        }
        all
    }

    async fn walk(bytes: &[u8]) -> Result<Vec<(TarEntry, Vec<u8>)>, ImageError> {
        let mut tar = Tar::new(bytes);
        let mut found = Vec::new();
        while let Some(entry) = tar.next().await? {
            let data = tar.read_whole("entry", 1 << 20).await?;
            found.push((entry, data));
        }
        Ok(found)
    }

    #[tokio::test]
    async fn reads_what_the_tar_crate_writes() {
        let long = format!("{}/layer.tar", "d".repeat(150));
        let mut builder = tar::Builder::new(Vec::new());
        for (path, data) in [("./a/b", &b"hello"[..]), (&long, &[7; 600])] {
            let mut header = header(b"", EntryType::Regular, data.len() as u64);
            builder.append_data(&mut header, path, data).unwrap();
        }
        builder
            .append_pax_extensions([("size", &b"3"[..]), ("path", b"p/x")])
            .unwrap();
        builder
            .append(&header(b"short", EntryType::Regular, 3), &b"abc"[..])
            .unwrap();
        let mut link = header(b"", EntryType::Symlink, 0);
        builder
            .append_link(&mut link, "c/layer.tar", "../a/b")
            .unwrap();
        let found = walk(&builder.into_inner().unwrap()).await.unwrap();
        let file = |path: &str, bytes| TarEntry::File {
            path: path.to_owned(),
            bytes,
        };
        let link = TarEntry::Link {
            path: "c/layer.tar".into(),
            target: "a/b".into(),
        };
        let expected = vec![
            (file("a/b", 5), b"hello".to_vec()),
            (file(&long, 600), vec![7; 600]),
            (file("p/x", 3), b"abc".to_vec()),
            (link, vec![]),
        ];
        assert_eq!(found, expected);
    }

    #[tokio::test]
    async fn hostile_archives_are_refused() {
        let file = |path: &[u8], size| header(path, EntryType::Regular, size);
        let mut damaged = archive(&[(file(b"a", 1), b"x")]);
        damaged[0] = b'b';
        let long = header(b"x", EntryType::GNULongName, 1 << 40);
        let mut up = header(b"a", EntryType::Symlink, 0);
        up.set_link_name_literal("../../etc/passwd").unwrap();
        up.set_cksum();
        let table = [
            (archive(&[(file(b"../../etc/passwd", 1), b"x")]), "outside"),
            (archive(&[(file(b"/etc/passwd", 1), b"x")]), "outside"),
            (archive(&[(up, b"")]), "outside"),
            (archive(&[(long, b"x")]), "extension record"),
            (
                archive(&[(header(b"s", EntryType::GNUSparse, 0), b"")]),
                "sparse",
            ),
            (archive(&[(file(b"\xff", 1), b"x")]), "not a readable path"),
            (archive(&[(file(b"a", 5000), b"x")]), "middle of a file"),
            (vec![1; 100], "middle of a header"),
            (vec![b'#'; 1024], "not a tar archive"),
            (damaged, "not a tar archive"),
        ];
        for (bytes, told) in table {
            let error = walk(&bytes).await.unwrap_err().to_string();
            assert!(error.contains(told), "{told}: {error}");
        }
    }
}

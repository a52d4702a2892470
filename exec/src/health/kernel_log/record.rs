//! One record of `/dev/kmsg`, in the form that the kernel's Documentation/ABI describes.

/// A record: `4,1234,56789000,-;text`, and lines of `KEY=value` that begin with a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KmsgRecord {
    /// How urgent, 0 to 7; 7 is for debugging.
    pub(super) level: u8,
    /// The record's number since boot.
    pub(super) sequence: u64,
    /// When, microseconds since boot.
    pub(super) at_us: u64,
    /// Whether it goes on with the line of the record before it.
    pub(super) is_continuation: bool,
    /// The message, with its escapes resolved. It may have several lines.
    pub(super) text: String,
    /// The PCI device that the kernel notes beside the message.
    pub(super) device: Option<String>,
}

impl KmsgRecord {
    /// None if the bytes are no record.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let record = String::from_utf8_lossy(bytes);
        let (prefix, body) = record.split_once(';')?;
        let mut fields = prefix.split(',');
        let priority: u32 = fields.next()?.parse().ok()?;
        let sequence = fields.next()?.parse().ok()?;
        let at_us = fields.next()?.parse().ok()?;
        // More fields may follow in later kernels.
        let flags = fields.next().unwrap_or("-");
        let mut lines = body.lines();
        let text = unescape(lines.next().unwrap_or_default());
        let mut notes = lines.map(str::trim_start);
        let device = notes.find_map(|note| note.strip_prefix("DEVICE=+pci:"));
        Some(Self {
            level: u8::try_from(priority & 7).unwrap_or(7),
            sequence,
            at_us,
            is_continuation: matches!(flags, "c" | "+"),
            text,
            device: device.and_then(super::kernel_form),
        })
    }
}

/// Resolves `\x0a` and the like.
fn unescape(text: &str) -> String {
    if !text.contains("\\x") {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\x") {
        bytes.extend_from_slice(before.as_bytes());
        let byte = after
            .get(..2)
            .and_then(|it| u8::from_str_radix(it, 16).ok());
        match byte {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(b"\\x"),
        }
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

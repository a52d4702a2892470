//! A failure as it is kept: a line of JSON, then the ends of both logs, compressed with a checksum.

use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use muster_model::exit::{Evidence, RawExit};
use muster_model::health::DeviceEvent;
use muster_model::id::AttemptUid;
use muster_model::rule_test::JudgedAs;
use serde::{Deserialize, Serialize};

use super::mask::SecretMask;
use super::notes::FailureNote;
use crate::documents::failure_rules::RulesDigest;

/// Bytes of the user's and the runtime's log that are kept: the first size from which the rules draw the verdict that
/// they drew from the whole logs.
const TAILS: [(usize, usize); 2] = [(64 << 10, 16 << 10), (USER_LOG_MAX, PLATFORM_LOG_MAX)];
/// Most bytes of the user log that are looked at.
pub(super) const USER_LOG_MAX: usize = 1 << 20;
/// The same of the runtime's log.
pub(super) const PLATFORM_LOG_MAX: usize = 64 << 10;
/// Most bytes of a record that is read. Damage may say anything of its length.
const RECORD_BYTES_MAX: u64 = 4 << 20;
/// What is left of a line without an end, whose beginning may hold a part of a secret, in bytes.
const LINE_SKIP: usize = 4 << 10;

/// A failure of a task of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailureRecord {
    /// The attempt of the task.
    pub(crate) uid: AttemptUid,
    /// `user~job`.
    pub(crate) job: String,
    /// `role:index`.
    pub(crate) task: String,
    /// How it ended.
    pub(crate) exit: RawExit,
    /// What was reported of its devices.
    pub(crate) device_events: Vec<DeviceEvent>,
    /// The verdict.
    pub(crate) judged: JudgedAs,
    /// The version of the rules that it was made by.
    pub(crate) rules_version: u64,
    /// Which rules those are.
    pub(crate) rules: RulesDigest,
    /// Whether those rules draw the same verdict from what is kept.
    pub(crate) is_whole: bool,
    /// The end of the user log.
    #[serde(skip)]
    pub(crate) user_log: Vec<u8>,
    /// The end of the runtime's log.
    #[serde(skip)]
    pub(crate) platform_log: Vec<u8>,
}

/// The first line of a record.
#[derive(Serialize, Deserialize)]
struct RecordHead<R> {
    user_log_bytes: usize,
    platform_log_bytes: usize,
    failure: R,
}

impl FailureRecord {
    /// What is kept of a failure, without secrets.
    pub(crate) fn of(note: FailureNote, mask: &SecretMask) -> Self {
        let FailureNote {
            uid,
            job,
            task,
            evidence,
            rules,
            judged,
        } = note;
        let mut exit = evidence.exit;
        exit.message = mask.text(&exit.message);
        // Before they are cut: what hides a secret may begin before the cut.
        let user_log = mask.bytes(&evidence.user_log);
        let platform_log = mask.bytes(&evidence.platform_log);
        let at = |(user_max, platform_max): (usize, usize)| Self {
            uid: uid.clone(),
            job: job.clone(),
            task: task.clone(),
            exit: exit.clone(),
            device_events: evidence.device_events.clone(),
            judged: judged.clone(),
            rules_version: rules.version,
            rules: rules.digest.clone(),
            is_whole: true,
            user_log: tail(&user_log, user_max).to_vec(),
            platform_log: tail(&platform_log, platform_max).to_vec(),
        };
        let is_whole =
            |record: &Self| JudgedAs::from(&rules.set.classify(&record.evidence())) == judged;
        let whole = TAILS.into_iter().map(at).find(is_whole);
        whole.unwrap_or_else(|| Self {
            is_whole: false,
            ..at(TAILS[0])
        })
    }

    /// What rules look at.
    pub(crate) fn evidence(&self) -> Evidence {
        Evidence {
            exit: self.exit.clone(),
            user_log: self.user_log.clone(),
            user_log_from: 0,
            platform_log: self.platform_log.clone(),
            device_events: self.device_events.clone(),
        }
    }

    /// As a file.
    ///
    /// # Errors
    /// When the encoder fails, which means a bug.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let head = RecordHead {
            user_log_bytes: self.user_log.len(),
            platform_log_bytes: self.platform_log.len(),
            failure: self,
        };
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        serde_json::to_writer(&mut file, &head)?;
        file.write_all(b"\n")?;
        file.write_all(&self.user_log)?;
        file.write_all(&self.platform_log)?;
        file.finish()
    }

    /// From a file.
    ///
    /// # Errors
    /// When it is damaged, or of a release that keeps something else.
    pub(crate) fn decode(file: &[u8]) -> io::Result<Self> {
        let mut text = Vec::new();
        let read = GzDecoder::new(file)
            .take(RECORD_BYTES_MAX + 1)
            .read_to_end(&mut text)?;
        let damaged = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
        if read as u64 > RECORD_BYTES_MAX {
            return Err(damaged("it is longer than any record"));
        }
        let line = text.iter().position(|byte| *byte == b'\n');
        let line = line.ok_or_else(|| damaged("it has no first line"))?;
        let (head, logs) = text.split_at(line);
        let head: RecordHead<Self> = serde_json::from_slice(head)?;
        let logs = &logs[1..];
        if head.user_log_bytes.checked_add(head.platform_log_bytes) != Some(logs.len()) {
            return Err(damaged("its logs are not as long as its first line says"));
        }
        let (user_log, platform_log) = logs.split_at(head.user_log_bytes);
        Ok(Self {
            user_log: user_log.to_vec(),
            platform_log: platform_log.to_vec(),
            ..head.failure
        })
    }
}

/// The last bytes of a log, from the beginning of a line.
fn tail(log: &[u8], bytes_max: usize) -> &[u8] {
    let from = log.len().saturating_sub(bytes_max);
    if from == 0 {
        return log;
    }
    let end = &log[from..];
    let line = end.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
    let skip = line.map_or(LINE_SKIP, |at| at + 1);
    &end[skip.min(end.len())..]
}

/// Cuts a log down to what a record looks at, in place.
pub(super) fn shorten(log: &mut Vec<u8>, bytes_max: usize) {
    if log.len() > bytes_max {
        *log = tail(log, bytes_max).to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_begins_with_a_line() {
        for (log, max, expect) in [
            ("", 3, ""),
            ("abc", 3, "abc"),
            ("a\nbc\nde", 4, "de"),
            ("a\rbc\rde", 4, "de"),
            ("a\nbc", 3, "bc"),
        ] {
            let found = tail(log.as_bytes(), max);
            assert_eq!(String::from_utf8_lossy(found), expect, "{log:?} {max}");
        }
        let line = vec![b'x'; 10_000];
        assert_eq!(tail(&line, 9_000).len(), 9_000 - LINE_SKIP);
        assert_eq!(tail(&line, 100), b"");
    }
}

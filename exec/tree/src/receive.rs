//! Reads records of a tree and makes files of them.

use std::fs::{File, FileTimes};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::TreeError;
use super::beneath::{Beneath, BeneathPlace, PARTIAL_PREFIX};
use super::record::{TreeRecord, TreeRecordKind, broken};

/// What becomes of a record.
#[derive(Debug)]
pub struct TreeReceiver<'a> {
    /// Where the tree goes.
    root: &'a Beneath,
    /// Whether each file is on the disk before it has its name.
    is_durable: bool,
    /// Tells files apart that are not whole yet.
    token: String,
}

impl<'a> TreeReceiver<'a> {
    /// One that makes files below `root`. `token` tells its partial files from those of others.
    pub const fn new(root: &'a Beneath, is_durable: bool, token: String) -> Self {
        Self {
            root,
            is_durable,
            token,
        }
    }

    /// Reads records up to the last, and makes what they are of. Each file is there as a whole or not at all; one that
    /// was there is replaced. `each` hears of each record once it is made.
    ///
    /// # Errors
    /// [`TreeError`]; what was made until then stays.
    pub fn receive(
        &self,
        from: &mut impl Read,
        mut each: impl FnMut(&TreeRecord),
    ) -> Result<(), TreeError> {
        loop {
            let record = TreeRecord::read(from)?;
            if record.kind == TreeRecordKind::End {
                return Ok(());
            }
            self.make(&record, from)?;
            each(&record);
        }
    }

    fn make(&self, record: &TreeRecord, from: &mut impl Read) -> Result<(), TreeError> {
        let path = PathBuf::from(&record.path);
        let failed = |error: io::Error| TreeError::of(&path)(error);
        let text = record.path.to_str().ok_or_else(|| {
            failed(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the name is not UTF-8",
            ))
        })?;
        if matches!(
            record.kind,
            TreeRecordKind::Large | TreeRecordKind::Other | TreeRecordKind::End
        ) {
            return Ok(());
        }
        let BeneathPlace { directory, name } = self.root.place(text).map_err(failed)?;
        let name = name.ok_or_else(|| TreeError::Nameless(path.clone()))?;
        match record.kind {
            TreeRecordKind::Directory => {
                directory.make_directory(&name, record.mode).map_err(failed)
            }
            _ if directory.has_directory(&name) => Err(failed(io::ErrorKind::IsADirectory.into())),
            TreeRecordKind::Link => self.link(&directory, &name, record).map_err(failed),
            _ => self.file((&directory, &name), record, from),
        }
    }

    fn partial_name(&self) -> String {
        format!("{PARTIAL_PREFIX}{}", self.token)
    }

    fn link(&self, directory: &Beneath, name: &str, record: &TreeRecord) -> io::Result<()> {
        let partial = self.partial_name();
        let _ = directory.remove(&partial);
        directory.make_link(&partial, &record.target)?;
        directory.rename(&partial, name)
    }

    fn file(
        &self,
        (directory, name): (&Beneath, &str),
        record: &TreeRecord,
        from: &mut impl Read,
    ) -> Result<(), TreeError> {
        let partial = self.partial_name();
        let _ = directory.remove(&partial);
        let written = self.content((directory, &partial), record, from);
        let renamed = written.and_then(|()| {
            directory
                .rename(&partial, name)
                .map_err(TreeError::of(&record.path))
        });
        if renamed.is_err() {
            let _ = directory.remove(&partial);
        }
        renamed
    }

    fn content(
        &self,
        (directory, partial): (&Beneath, &str),
        record: &TreeRecord,
        from: &mut impl Read,
    ) -> Result<(), TreeError> {
        let failed = |error| TreeError::of(&record.path)(error);
        let mut file = directory.partial(partial, true).map_err(failed)?;
        let mut left = record.bytes;
        let mut part = vec![0; usize::try_from(left.min(256 << 10)).unwrap_or(256 << 10)];
        while left > 0 {
            let count = usize::try_from(left).map_or(part.len(), |left| left.min(part.len()));
            from.read_exact(&mut part[..count]).map_err(broken)?;
            io::Write::write_all(&mut file, &part[..count]).map_err(failed)?;
            left -= count as u64;
        }
        finish(&file, record.mode, Some(record.changed_s)).map_err(failed)?;
        match self.is_durable {
            true => file.sync_all().map_err(failed),
            false => Ok(()),
        }
    }
}

/// Gives a file its permissions and the time of its last change.
///
/// # Errors
/// Those of fchmod(2) and futimens(3).
pub fn finish(file: &File, mode: u32, changed_s: Option<i64>) -> io::Result<()> {
    let permissions = std::fs::Permissions::from_mode(mode & 0o777);
    match file.set_permissions(permissions) {
        // Servers that keep no permissions refuse others.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        done => done?,
    }
    let Some(seconds) = changed_s.and_then(|seconds| u64::try_from(seconds).ok()) else {
        return Ok(());
    };
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    match at {
        Some(at) => file.set_times(FileTimes::new().set_modified(at)),
        None => Ok(()),
    }
}

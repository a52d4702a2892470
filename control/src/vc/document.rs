//! What of a job is needed only to start its tasks and to show it, packed.
//!
//! It is most of what a job is: the document as it was submitted and what its tasks run, which are the
//! same words twice. Whoever takes the job in packs it, once: so it lies in the log, at every voter and in
//! snapshots. Whoever launches its tasks, or shows it, unpacks it.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use muster_model::job::{JobSpec, JobStorage, RoleSpec};
use muster_model::launch::RegistryAuth;
use muster_model::ssh::SshAccess;
use serde::{Deserialize, Serialize};

/// Words that documents are full of. Part of the layout: what was packed with it can be read with it alone.
const WORDS: &[u8] = include_bytes!("document.words");
/// First byte of what is packed. Other words, or another layout, take the next number.
const VERSION: u8 = 1;
/// A document unpacks to no more than this.
const UNPACKED_BYTES_MAX: usize = 64 << 20;

/// A job's document and what its tasks run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDocument(#[serde(with = "serde_bytes")] Box<[u8]>);

#[derive(Debug, Serialize, Deserialize)]
struct DocumentContents {
    config_json: String,
    /// In the order of the roles.
    runs: Vec<RoleCommands>,
}

/// What the tasks of a role run.
#[derive(Debug, Serialize, Deserialize)]
struct RoleCommands {
    image_auth: Option<RegistryAuth>,
    storages: Vec<JobStorage>,
    ssh: Option<SshAccess>,
    pre_commands: Vec<String>,
    entrypoint: String,
    post_commands: Vec<String>,
}

impl RoleCommands {
    fn take(role: &mut RoleSpec) -> Self {
        Self {
            image_auth: role.image_auth.take(),
            storages: std::mem::take(&mut role.storages),
            ssh: role.ssh.take(),
            pre_commands: std::mem::take(&mut role.pre_commands),
            entrypoint: std::mem::take(&mut role.entrypoint),
            post_commands: std::mem::take(&mut role.post_commands),
        }
    }

    fn give(self, role: &mut RoleSpec) {
        role.image_auth = self.image_auth;
        role.storages = self.storages;
        role.ssh = self.ssh;
        role.pre_commands = self.pre_commands;
        role.entrypoint = self.entrypoint;
        role.post_commands = self.post_commands;
    }
}

impl JobDocument {
    /// Packs a document, and takes out of the job what it says of what tasks run.
    pub fn take(spec: &mut JobSpec, config_json: String) -> Self {
        let contents = DocumentContents {
            config_json,
            runs: spec.roles.iter_mut().map(RoleCommands::take).collect(),
        };
        // Encoding plain data into a Vec cannot fail.
        let bytes = postcard::to_stdvec(&contents).unwrap_or_default();
        Self(pack(&bytes).into_boxed_slice())
    }

    /// The document as it was submitted, as JSON.
    pub(crate) fn config_json(&self) -> Option<String> {
        Some(self.contents()?.config_json)
    }

    /// The job as it was before something was taken out of it.
    pub(crate) fn whole(&self, spec: &JobSpec) -> Option<JobSpec> {
        let mut spec = spec.clone();
        if self.0.is_empty() {
            return Some(spec);
        }
        let contents = self.contents()?;
        for (role, runs) in spec.roles.iter_mut().zip(contents.runs) {
            runs.give(role);
        }
        Some(spec)
    }

    fn contents(&self) -> Option<DocumentContents> {
        postcard::from_bytes(&unpack(&self.0)?).ok()
    }
}

fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut compress = Compress::new(Compression::best(), false);
    // Nothing was packed yet, which is all that it could object to.
    let _checksum = compress.set_dictionary(WORDS);
    // As long as what cannot be made shorter becomes at most.
    let mut packed = Vec::with_capacity(bytes.len() + bytes.len() / 64 + 128);
    packed.push(VERSION);
    // Encoding a number into a Vec cannot fail.
    let mut packed = postcard::to_extend(&bytes.len(), packed).unwrap_or_default();
    let status = compress.compress_vec(bytes, &mut packed, FlushCompress::Finish);
    debug_assert!(matches!(status, Ok(Status::StreamEnd)), "{status:?}");
    packed
}

fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let [VERSION, packed @ ..] = packed else {
        return None;
    };
    let (length, packed) = postcard::take_from_bytes::<usize>(packed).ok()?;
    if length > UNPACKED_BYTES_MAX {
        return None;
    }
    let mut decompress = Decompress::new(false);
    decompress.set_dictionary(WORDS).ok()?;
    let mut bytes = Vec::with_capacity(length);
    let status = decompress.decompress_vec(packed, &mut bytes, FlushDecompress::Finish);
    let is_whole = matches!(status, Ok(Status::StreamEnd)) && bytes.len() == length;
    is_whole.then_some(bytes)
}

#[cfg(test)]
mod tests;

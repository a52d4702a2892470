//! What is read and written of containerd's messages, by the field numbers of its API. Fields that are
//! not named here are passed over.

use std::collections::HashMap;

use prost::Message;

/// All messages that begin with a name, a digest or a version, and nothing else of them is read.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Named {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

/// A container's record, without its specification.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerRecord {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(map = "string, string", tag = "2")]
    pub(super) labels: HashMap<String, String>,
    #[prost(string, tag = "3")]
    pub(super) image: String,
}

/// The request that makes a record, and the answers that show one.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OneRecord {
    #[prost(message, optional, tag = "1")]
    pub(super) record: Option<ContainerRecord>,
}

/// All records.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Records {
    #[prost(message, repeated, tag = "1")]
    pub(super) records: Vec<ContainerRecord>,
}

/// The request that makes a process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CreateProcess {
    #[prost(string, tag = "1")]
    pub(super) container: String,
    #[prost(string, tag = "5")]
    pub(super) stdout: String,
}

/// A process that was made or removed; the latter with its exit status.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Made {
    #[prost(string, tag = "1")]
    pub(super) container: String,
    #[prost(uint32, tag = "2")]
    pub(super) pid: u32,
    #[prost(uint32, tag = "3")]
    pub(super) exit_status: u32,
}

/// The pid of a process that was started, or the exit status of one that has ended.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Number {
    #[prost(uint32, tag = "1")]
    pub(super) number: u32,
}

/// The request that signals a process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Kill {
    #[prost(string, tag = "1")]
    pub(super) container: String,
    #[prost(uint32, tag = "3")]
    pub(super) signal: u32,
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Status {
    Unknown = 0,
    Created = 1,
    Running = 2,
    Stopped = 3,
}

/// A process as it is shown.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Shown {
    #[prost(string, tag = "2")]
    pub(super) id: String,
    #[prost(uint32, tag = "3")]
    pub(super) pid: u32,
    #[prost(enumeration = "Status", tag = "4")]
    pub(super) status: i32,
    #[prost(uint32, tag = "9")]
    pub(super) exit_status: u32,
}

/// One or all of them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct WireProcesses {
    #[prost(message, repeated, tag = "1")]
    pub(super) processes: Vec<Shown>,
}

/// What an image's name points at.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Target {
    #[prost(string, tag = "2")]
    pub(super) digest: String,
}

/// An image's record.
#[derive(Clone, PartialEq, Message)]
pub(super) struct WireImage {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(map = "string, string", tag = "2")]
    pub(super) labels: HashMap<String, String>,
    #[prost(message, optional, tag = "3")]
    pub(super) target: Option<Target>,
}

/// The request that changes an image, and the answers that show one.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OneImage {
    #[prost(message, optional, tag = "1")]
    pub(super) image: Option<WireImage>,
}

/// A part of a stored document.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Content {
    #[prost(bytes = "vec", tag = "2")]
    pub(super) data: Vec<u8>,
}

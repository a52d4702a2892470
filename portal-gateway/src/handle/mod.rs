//! What each route does, one file a subject. Handlers know neither warp nor the socket: a
//! `Call` comes in, a `Reply` goes out.

pub(crate) mod audit;
pub(crate) mod backchannel;
pub(crate) mod clusters;
pub(crate) mod device;
pub(crate) mod documents;
pub(crate) mod figures;
pub(crate) mod groups;
pub(crate) mod images;
pub(crate) mod info;
pub(crate) mod jobs;
pub(crate) mod kubernetes;
pub(crate) mod listings;
pub(crate) mod logs;
pub(crate) mod membership;
pub(crate) mod metrics;
pub(crate) mod missing;
pub(crate) mod nodes;
pub(crate) mod oidc;
pub(crate) mod own;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod stacks;
pub(crate) mod storage_files;
pub(crate) mod storages;
pub(crate) mod task_port;
pub(crate) mod tasks;
pub(crate) mod tokens;
pub(crate) mod usage;
pub(crate) mod users;
pub(crate) mod uses;

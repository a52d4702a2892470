//! Imports, pulls and removals on a containerd and registries of the tests' own.

mod archive;
mod fixture;
mod node;
mod pull;
mod registry;
mod removal;
mod session;

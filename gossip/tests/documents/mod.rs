//! Documents cores in a small lossy network.

mod bodies;
mod bounds;
mod coverage;
mod network;
mod poison;
mod spread;
mod staging;
mod trouble;

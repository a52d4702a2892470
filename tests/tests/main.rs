//! Checks over the whole workspace, and the product run as users run it.

mod browser;
mod disks;
mod draining;
mod failures;
mod gangs;
mod images;
mod jobs;
mod leases;
mod licences;
mod limits;
mod mesh;
mod names;
mod nemesis;
mod nodes;
mod one_node;
mod placement;
mod recovery;
mod secrets;
mod sim;
mod slurm;
mod stage;
mod star;
mod submissions;
mod survival;
mod usage;
mod virtual_clusters;

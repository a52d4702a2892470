//! Admins that describe the cluster anew.

use muster_control::coordinator;
use muster_model::cluster_spec::ClusterSpec;

use super::{World, WorldEvent};

/// A machine for each of two virtual clusters; the third is nobody's.
const SHARES: &str = "virtualClusters: {
    default: {virtualCells: [
        {cellType: V100-NODE-3, cellNumber: 1}, {cellType: CPU-NODE, cellNumber: 1}]},
    other: {virtualCells: [
        {cellType: V100-NODE-3, cellNumber: 1}, {cellType: CPU-NODE, cellNumber: 1}]}}";

/// A machine as it is found; a part of it, and none of the others; more than there is; what no
/// machine has; machines by name, one of which is nowhere.
const DESCRIPTIONS: [&str; 5] = [
    "{}",
    "virtualClusters: {default: {virtualCells: [
        {cellType: V100-NODE-3, cellNumber: 1}, {cellType: CPU-NODE, cellNumber: 1}]}}",
    "virtualClusters: {default: {virtualCells: [
        {cellType: V100-NODE-3, cellNumber: 3}, {cellType: A100-NODE-2.A100, cellNumber: 1}]}}",
    "virtualClusters: {
        other: {virtualCells: [{cellType: V100-NODE-3, cellNumber: 2}]},
        default: {virtualCells: [{cellType: H100-NODE, cellNumber: 1}]}}",
    "physicalCluster:
        cellTypes: {N: {childCellType: V100, childCellNumber: 3, isNodeLevel: true}}
        physicalCells: [{cellType: N, cellAddress: n1}, {cellType: N, cellAddress: n9}]
virtualClusters: {default: {virtualCells: [{cellType: N, cellNumber: 2}]}}",
];

impl World {
    /// At the end of the faults the cluster is what is found.
    pub(super) fn plan_descriptions(&mut self, faults_ms: u64) {
        for _ in 0..self.chance.below(4) {
            let at = self.chance.below(faults_ms);
            let which = self.chance.below(DESCRIPTIONS.len() as u64) as usize;
            let description = ClusterSpec::from_hived_yaml(DESCRIPTIONS[which]).unwrap();
            self.at(at, WorldEvent::Describe(Box::new(description)));
            let at = self.chance.below(faults_ms);
            let vc = self.any_vc();
            self.at(at, WorldEvent::Undescribed(vc));
        }
        let shares = self.shares();
        self.at(faults_ms, WorldEvent::Describe(Box::new(shares)));
    }

    /// What all jobs can run with: all for one, or a share for each.
    pub(super) fn shares(&self) -> ClusterSpec {
        match self.reigns.len() {
            1 => ClusterSpec::default(),
            _ => ClusterSpec::from_hived_yaml(SHARES).unwrap(),
        }
    }

    pub(super) fn describe(&mut self, description: ClusterSpec) {
        self.description = description;
        for vc in self.vcs() {
            self.tell_description(vc);
        }
    }

    /// The leader hears that there is another description, and not for a while how it is.
    pub(super) fn undescribed(&mut self, vc: usize) {
        self.lead(vc, coordinator::CoordinatorInput::Described(None));
        let long = self.chance.below(5_000);
        self.at(long, WorldEvent::Described(vc));
    }

    /// A leader is told no sooner than it leads.
    pub(super) fn tell_description(&mut self, vc: usize) {
        let description = Box::new(self.description.clone());
        self.lead(
            vc,
            coordinator::CoordinatorInput::Described(Some(description)),
        );
    }
}

//! How far the machines of a gang are that has its places.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::explanation::Launch;
use muster_model::id::NodeId;
use muster_model::pull::Pull;

use super::jobs::LocalJobs;

impl LocalJobs {
    /// Asks those that are not ready which of their images are on their way.
    pub(super) async fn add_pulls(&self, launches: &mut [Launch]) {
        let asked = launches.iter().filter(|launch| !launch.is_ready);
        let asked: BTreeSet<NodeId> = asked.map(|launch| launch.node.clone()).collect();
        if asked.is_empty() {
            return;
        }
        let mut heard = self.vc.pulls_of(&asked).await;
        heard.insert(
            self.node.identity.node.clone(),
            self.node.images.pulls().list(),
        );
        add(launches, heard);
    }
}

fn add(launches: &mut [Launch], mut heard: BTreeMap<NodeId, Vec<Pull>>) {
    for launch in launches.iter_mut().filter(|launch| !launch.is_ready) {
        let pulls = heard.remove(&launch.node);
        launch.is_heard = pulls.is_some();
        let pulls = pulls.into_iter().flatten();
        launch.pulls = pulls
            .filter(|pull| launch.images.contains(&pull.image))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_is_told_of_its_own_images_alone() {
        let launch = |node: &str, is_ready| Launch {
            node: node.parse().unwrap(),
            is_ready,
            images: BTreeSet::from(["a:1".to_owned()]),
            pulls: Vec::new(),
            is_heard: false,
        };
        let pull = |image: &str| Pull {
            image: image.to_owned(),
            bytes: 1,
            bytes_total: None,
            layers: 0,
            layers_total: 0,
            for_ms: 1,
        };
        let mut launches = [launch("n1", true), launch("n2", false), launch("n3", false)];
        let heard =
            ["n1", "n2"].map(|node| (node.parse().unwrap(), vec![pull("a:1"), pull("b:1")]));
        add(&mut launches, heard.into());
        let told = launches.map(|launch| {
            let images = launch.pulls.into_iter().map(|pull| pull.image);
            (launch.is_heard, images.collect::<Vec<_>>())
        });
        let none = Vec::new;
        let expected = [
            (false, none()),
            (true, vec!["a:1".to_owned()]),
            (false, none()),
        ];
        assert_eq!(told, expected);
    }
}

//! Whether a job could ever start, as far as the leader knows the machines.

use super::*;
use crate::coordinator::UnplaceableJob;

fn spec(cpu: u32) -> JobSpec {
    let VcEntry::Accept(job) = job("x", 1, cpu) else {
        panic!("a job is accepted by an entry");
    };
    job.spec
}

fn judged(bench: &Bench, spec: &JobSpec, unheard: usize) -> Result<Option<String>, UnplaceableJob> {
    let user = "alice".parse().unwrap();
    bench.coordinator.judge(spec, &user, unheard)
}

#[test]
fn what_no_machine_could_run_is_refused_unless_some_have_not_been_heard() {
    let mut bench = Bench::new();
    assert_eq!(judged(&bench, &spec(CPU), 0), Ok(None));
    let large = spec(CPU + 1);
    let refused = judged(&bench, &large, 0).unwrap_err();
    assert_eq!(refused.path, ".taskRoles.w.resourcePerInstance.cpu");
    let why = "role w asks for 5 CPU cores, but the largest node has 4";
    assert!(refused.why.starts_with(why), "{refused:?}");
    // A machine that cannot be reached has what it has.
    let gone = [node("n1"), node("n2")].into();
    bench.input(CoordinatorInput::Unreachable(gone));
    assert_eq!(judged(&bench, &spec(CPU), 0), Ok(None));
    assert!(judged(&bench, &large, 0).is_err());
    // One that was not heard yet may have more.
    let remark = judged(&bench, &large, 3).unwrap().unwrap();
    assert!(remark.contains("largest node has 4"), "{remark}");
    assert!(remark.contains("3 more may be able to"), "{remark}");
    // A new leader knows nothing yet.
    bench.elect();
    assert_eq!(judged(&bench, &large, 0), Ok(None));
}

#[test]
fn a_virtual_cluster_that_is_not_described_is_refused() {
    let mut bench = Bench::new();
    let text = "virtualClusters: {other: {virtualCells: [{cellType: CPU-NODE, cellNumber: 2}]}}";
    bench.description = ClusterSpec::from_hived_yaml(text).unwrap();
    bench.input(CoordinatorInput::Described(Some(Box::new(
        bench.description.clone(),
    ))));
    let refused = judged(&bench, &spec(1), 0).unwrap_err();
    assert_eq!(refused.path, ".defaults.virtualCluster");
    // Also by a new leader, who knows no machine yet.
    bench.elect();
    assert_eq!(judged(&bench, &spec(1), 0), Err(refused));
}

//! What nodes are told to run.

use super::*;

#[test]
fn a_task_is_launched_with_what_its_document_holds() {
    let mut bench = Bench::new();
    let VcEntry::Accept(mut accepted) = job("x", 1, CPU) else {
        panic!("no job");
    };
    accepted.spec.roles[0].entrypoint = "python train.py".to_owned();
    accepted.document = JobDocument::take(&mut accepted.spec, "{}".to_owned());
    bench.commit(&VcEntry::Accept(accepted));
    let heard = bench.heard();
    let (name, _) = heard.split_once(' ').unwrap();
    bench.grant(name);
    match &bench.orders[&node(name)].command {
        GangCommand::Launch { tasks, .. } => assert_eq!(tasks[0].entrypoint, "python train.py"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_placed_gang_says_which_of_its_machines_are_not_ready() {
    let mut bench = Bench::placed();
    let told = |bench: &Bench| -> Vec<(String, bool)> {
        let told =
            bench
                .coordinator
                .explanation(bench.now, &bench.state, (&key("x"), &JobSight::All));
        let launches = told.unwrap().launches.into_iter();
        let told = launches.map(|launch| (launch.node.to_string(), launch.is_ready));
        told.collect()
    };
    let of = |told: [(&str, bool); 2]| told.map(|(node, is_ready)| (node.to_owned(), is_ready));
    bench.stands("n1", &TaskStanding::Starting);
    assert_eq!(told(&bench), of([("n1", false), ("n2", false)]));
    bench.stands("n1", &TaskStanding::Ready);
    assert_eq!(
        told(&bench),
        of([("n2", false), ("n1", true)]),
        "those first that are not"
    );
    bench.stands("n2", &TaskStanding::Ready);
    assert_eq!(told(&bench), [], "it has started");
}

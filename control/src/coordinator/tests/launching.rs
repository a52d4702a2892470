//! What nodes are told to run.

use super::*;

#[test]
fn a_task_is_launched_with_what_its_document_holds() {
    let mut bench = Bench::new();
    let Entry::Accept(mut accepted) = job("x", 1, CPU) else {
        panic!("no job");
    };
    accepted.spec.roles[0].entrypoint = "python train.py".to_owned();
    accepted.document = Document::take(&mut accepted.spec, "{}".to_owned());
    bench.commit(&Entry::Accept(accepted));
    let heard = bench.heard();
    let (name, _) = heard.split_once(' ').unwrap();
    bench.grant(name);
    match &bench.orders[&node(name)].command {
        Command::Launch { tasks, .. } => assert_eq!(tasks[0].entrypoint, "python train.py"),
        other => panic!("{other:?}"),
    }
}

use super::*;
use muster_model::known_node::{Has, Share};

fn node(name: &str, free: (u32, u32), closed: &[&str]) -> SlurmNode {
    let amount = |cpu, gpu| Amount {
        cpu,
        memory_mb: 1_024,
        gpu,
    };
    let known = KnownNode {
        id: name.parse().unwrap(),
        has: Some(Has {
            share: Share {
                total: amount(8, 2),
                healthy: amount(8, 2),
                free: amount(free.0, free.1),
            },
            devices: Vec::new(),
            levels: Vec::new(),
            silent_ms: 0,
        }),
        closed: closed.iter().map(|why| (*why).to_owned()).collect(),
    };
    SlurmNode::of(&known, None)
}

fn lines(nodes: &[SlurmNode], format: &str, is_apart: bool, is_whole: bool) -> Vec<String> {
    let vc = VcView::new("default".parse().unwrap());
    let format = FieldFormat::read(format, FIELDS).unwrap();
    let rows = rows(&[&vc], nodes, is_apart, is_whole);
    let rows = rows
        .iter()
        .map(|row| format.line(|letter| row.value(letter)));
    rows.collect()
}

#[test]
fn nodes_are_told_by_state() {
    let nodes = [
        node("n1", (8, 2), &[]),
        node("n2", (4, 1), &[]),
        node("n3", (4, 0), &[]),
        node("n4", (8, 2), &["new fans"]),
        node("n5", (4, 1), &["new fans"]),
        node("n6", (8, 2), &[]),
    ];
    let states: Vec<&str> = nodes.iter().map(|node| node.state.names().0).collect();
    assert_eq!(states, ["idle", "mix", "alloc", "drain", "drng", "idle"]);
    assert_eq!(
        lines(&nodes, FORMAT, false, false),
        [
            "default*   up      infinite      1 drng   n5",
            "default*   up      infinite      1 drain  n4",
            "default*   up      infinite      1 mix    n2",
            "default*   up      infinite      1 alloc  n3",
            "default*   up      infinite      2 idle   n1,n6",
        ]
    );
    assert_eq!(
        lines(&nodes, FORMAT_SUMMARY, false, true),
        ["default*   up      infinite 2/2/2/6          n1,n2,n3,n4,n5,n6"]
    );
    assert_eq!(
        lines(&nodes[1..2], "%N %D %t %C %G %m %E", true, false),
        ["n2 1 mix 4/4/0/8 gpu:2 1024 none"]
    );
}

#[test]
fn a_node_that_was_not_heard_is_down() {
    let known = KnownNode {
        id: "n1".parse().unwrap(),
        has: None,
        closed: vec!["it was not heard yet".to_owned()],
    };
    let node = SlurmNode::of(&known, None);
    assert_eq!(node.state, SlurmNodeState::Down);
    assert!(SlurmNodeState::read("maint").is_err());
    assert_eq!(
        SlurmNodeState::read("MIXED").unwrap(),
        SlurmNodeState::Mixed
    );
}

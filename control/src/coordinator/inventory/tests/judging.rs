//! Jobs that can never start on the machines as they were found are told so, with the field.

use muster_model::cluster_spec::Level;
use muster_model::job::NearSpec;
use muster_model::state::PriorityClass;

use super::*;

/// Two machines of 8 cores, 1024 MiB and four devices each.
fn found() -> Bench {
    let mut bench = Bench::new(None);
    for node in ["n1", "n2"] {
        bench.hear(node, &[0, 1, 2, 3], &[0, 1, 2, 3]);
    }
    bench
}

/// One task that asks for this.
fn asking(cpu: u32, memory_mb: u64, gpu: u32) -> JobSpec {
    let mut spec = job("x", 1).spec;
    spec.roles[0].resources = Resources {
        cpu,
        memory_mb,
        gpu,
        ports: vec![("http".to_owned(), 1)],
    };
    spec
}

fn judged(spec: &JobSpec) -> Result<(), (String, String)> {
    let policy = DecisionPolicy::default();
    let user = "ada".parse().unwrap();
    let judged = found().inventory.layout().judge(spec, &user, &policy);
    judged.map_err(|refused| (refused.path, refused.why))
}

#[track_caller]
fn refused(spec: &JobSpec, path: &str, words: &[&str]) {
    let (found, why) = judged(spec).unwrap_err();
    assert_eq!(found, path, "{why}");
    for word in words {
        assert!(why.contains(word), "{word}: {why}");
    }
}

#[test]
fn what_asks_for_more_than_there_is_is_refused_with_its_field() {
    assert_eq!(judged(&asking(8, 1024, 4)), Ok(()));
    let resources = ".taskRoles.w.resourcePerInstance";
    for (spec, field, words) in [
        (
            asking(1, 1, 5),
            ".gpu",
            ["role w asks for 5 V100", "largest node has 4"],
        ),
        (
            asking(9, 1, 1),
            ".cpu",
            ["role w asks for 9 CPU", "largest node has 8"],
        ),
        (
            asking(9, 1, 0),
            ".cpu",
            ["role w asks for 9 CPU", "largest node has 8"],
        ),
        (
            asking(1, 1025, 0),
            ".memoryMB",
            ["role w asks for 1025", "largest node has 1024"],
        ),
    ] {
        refused(&spec, &format!("{resources}{field}"), &words);
    }
    let mut ports = asking(1, 1, 0);
    ports.roles[0].resources.ports[0].1 = 11;
    refused(
        &ports,
        &format!("{resources}.ports"),
        &["role w asks for 11 ports", "10"],
    );
}

#[test]
fn how_many_there_are_of_a_role_is_told_apart_from_what_each_asks_for() {
    let mut spec = asking(1, 1, 4);
    spec.roles[0].instances = 2;
    assert_eq!(judged(&spec), Ok(()));
    spec.roles[0].instances = 3;
    refused(
        &spec,
        ".taskRoles.w.instances",
        &["role w asks for 12 V100", "has 8"],
    );
    // Each for itself they have their turn.
    spec.gang = false;
    assert_eq!(judged(&spec), Ok(()));
    spec.gang = true;
    spec.roles[0].instances = 2;
    spec.roles.push(spec.roles[0].clone());
    spec.roles[1].name = "ps".parse().unwrap();
    refused(&spec, ".taskRoles", &["it asks for 16 V100", "has 8"]);
}

#[test]
fn a_type_a_pin_and_a_nearness_that_there_is_not_are_told() {
    let mut spec = asking(1, 1, 1);
    spec.roles[0].sku = Some("A100".to_owned());
    let sku = ".extras.hivedScheduler.taskRoles.w.skuType";
    refused(
        &spec,
        sku,
        &[
            "role w: no leaf cell of type \"A100\"",
            "there are CPU, V100",
        ],
    );
    spec.priority = Some(PriorityClass::Oppo);
    refused(&spec, sku, &["A100", "there are CPU, V100"]);
    let mut spec = asking(1, 1, 1);
    spec.roles[0].pinned = Some("mine".to_owned());
    let pin = ".extras.hivedScheduler.taskRoles.w.pinnedCellId";
    refused(&spec, pin, &["mine"]);
    let mut spec = asking(1, 1, 1);
    spec.roles[0].near = Some(NearSpec {
        level: Level::Rack,
        required: true,
    });
    refused(&spec, ".extras.muster.taskRoles.w.topology", &["rack"]);
}

//! Jobs that can never start on the machines as they were found are told so, with the field.

use muster_model::cluster_spec::Level;
use muster_model::inventory::AcceleratorKind;
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
    judged_on(&found(), spec)
}

fn judged_on(bench: &Bench, spec: &JobSpec) -> Result<(), (String, String)> {
    let policy = DecisionPolicy::default();
    let user = "ada".parse().unwrap();
    let judged = bench.inventory.layout().judge(spec, &user, &policy);
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

#[test]
fn a_rack_can_be_required_where_machines_were_told_theirs() {
    let pair = || {
        let mut spec = asking(1, 1, 4);
        spec.roles[0].instances = 2;
        spec.roles[0].near = Some(NearSpec {
            level: Level::Rack,
            required: true,
        });
        spec
    };
    let racks = |second: &str| {
        let told = [("n1", "r1"), ("n2", second)];
        let told = told.map(|(id, rack)| (id.parse().unwrap(), rack.to_owned()));
        BTreeMap::from(told)
    };
    let mut bench = found();
    assert!(bench.inventory.layout_mut().stand(racks("r1")));
    assert!(!bench.inventory.layout_mut().stand(racks("r1")));
    assert_eq!(judged_on(&bench, &pair()), Ok(()));
    // Cells that are made anew know it as well, of a new leader too.
    bench.inventory.clear();
    bench.hear("n1", &[0, 1, 2, 3], &[0, 1, 2, 3]);
    assert_eq!(judged_on(&bench, &pair()), Ok(()));
    assert!(bench.inventory.layout_mut().stand(racks("r2")));
    let (path, why) = judged_on(&bench, &pair()).unwrap_err();
    assert_eq!(path, ".extras.muster.taskRoles.w.topology");
    assert!(why.contains("the largest has room for 1"), "{why}");
}

/// A machine with a GPU, an FPGA and an NPU, or without the GPU.
fn mixed(has_gpu: bool) -> Bench {
    let of = |index: u32, kind, model: &str| Device {
        kind,
        model: model.to_owned(),
        ..device(index)
    };
    let mut devices = vec![
        of(1, AcceleratorKind::Fpga, "Alveo U200"),
        of(2, AcceleratorKind::Npu, "Ascend 910"),
    ];
    if has_gpu {
        devices.push(device(0));
    }
    let mut bench = Bench::new(None);
    bench.hear_of("n1", devices, Vec::new(), &[0, 1, 2]);
    bench
}

#[test]
fn a_job_that_names_no_type_gets_gpus_and_nothing_else() {
    let gpus = |gpus: u32, sku: Option<&str>| {
        let mut spec = asking(1, 1, gpus);
        spec.roles[0].sku = sku.map(str::to_owned);
        spec
    };
    let of = |bench: &Bench, spec: &JobSpec| judged_on(bench, spec).map_err(|(path, _)| path);
    let too_many = Err(".taskRoles.w.resourcePerInstance.gpu".to_owned());
    assert_eq!(of(&mixed(true), &gpus(1, None)), Ok(()));
    assert_eq!(of(&mixed(true), &gpus(2, None)), too_many);
    for sku in ["FPGA-Alveo-U200", "NPU-Ascend-910"] {
        assert_eq!(of(&mixed(true), &gpus(1, Some(sku))), Ok(()), "{sku}");
        assert_eq!(of(&mixed(true), &gpus(2, Some(sku))), too_many, "{sku}");
        assert_eq!(of(&mixed(false), &gpus(1, Some(sku))), Ok(()), "{sku}");
    }
    let (path, why) = judged_on(&mixed(false), &gpus(1, None)).unwrap_err();
    assert_eq!(path, ".taskRoles.w.resourcePerInstance.gpu");
    assert!(why.contains("asks for 1 devices in all"), "{why}");
    assert_eq!(of(&mixed(false), &gpus(0, None)), Ok(()));
}

#[test]
fn a_plain_job_is_placed_on_the_gpu_of_a_machine_with_other_devices() {
    let mut bench = mixed(true);
    let mut job = job("x", 1);
    job.spec.roles[0].resources.gpu = 1;
    let run = bench.place(job);
    let number = bench.inventory.number(&run).unwrap();
    let placement = bench.inventory.layout().placement(number).unwrap();
    let cells = bench.inventory.cells().unwrap();
    let devices: Vec<u32> = placement
        .leaves()
        .map(|leaf| cells.address(leaf).1)
        .collect();
    assert_eq!(devices, [0]);
}

#[test]
fn nearness_holds_in_groups_of_unequal_size() {
    let mut bench = Bench::new(None);
    let groups = vec![vec![0, 1, 2], vec![3], vec![4, 5, 6], vec![7]];
    let numa = DeviceLevel {
        level: Level::Numa,
        groups,
    };
    let free: Vec<u32> = (0..8).collect();
    bench.hear_of("n1", (0..8).map(device).collect(), vec![numa], &free);
    let near = |gpus: u32, instances: u32| {
        let mut spec = asking(1, 1, gpus);
        spec.roles[0].instances = instances;
        spec.roles[0].near = Some(NearSpec {
            level: Level::Numa,
            required: true,
        });
        spec
    };
    assert_eq!(judged_on(&bench, &near(3, 2)), Ok(()));
    assert_eq!(judged_on(&bench, &near(1, 8)), Ok(()));
    let (path, why) = judged_on(&bench, &near(4, 1)).unwrap_err();
    assert_eq!(path, ".extras.muster.taskRoles.w.topology");
    assert!(why.contains("numa"), "{why}");
    // A job that asks for no nearness gets all of the machine.
    assert_eq!(judged_on(&bench, &asking(1, 1, 8)), Ok(()));
    let mut job = job("x", 2);
    job.spec.roles[0] = near(3, 2).roles[0].clone();
    let run = bench.place(job);
    let number = bench.inventory.number(&run).unwrap();
    let placement = bench.inventory.layout().placement(number).unwrap();
    let cells = bench.inventory.cells().unwrap();
    let pods = placement.pods.iter().map(|pod| {
        let mut devices: Vec<u32> = pod.iter().map(|leaf| cells.address(*leaf).1).collect();
        devices.sort_unstable();
        devices
    });
    let mut pods: Vec<Vec<u32>> = pods.collect();
    pods.sort();
    assert_eq!(pods, [[0, 1, 2], [4, 5, 6]]);
}

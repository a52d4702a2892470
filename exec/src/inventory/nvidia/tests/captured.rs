//! The cards of real machines.

use std::fs;

use crate::testing::capture_dir;

use super::*;

/// A machine whose driver answers as a captured one did.
fn captured(capture: &str, file: &str, more: &str) -> Machine {
    let text = fs::read_to_string(capture_dir(capture).join(file)).unwrap();
    Machine::new(&(text + more))
}

/// Drivers up to 470 have neither of these calls.
const OLD_DRIVER: &str = "absent = nvmlDeviceGetMemoryInfo_v2 nvmlDeviceGetMigMode\n";

#[test]
fn cards_of_each_kind() {
    let k80 = ["1580", "2df7", "4968", "f8d6"].map(|at| format!("Tesla K80 {at}:00:00.0 11441"));
    for (file, expect, minors) in [
        ("nvml-k80-out-of-order.txt", k80.to_vec(), vec![1, 2, 3, 0]),
        (
            "nvml-t4.txt",
            vec!["Tesla T4 0000:00:1e.0 15360".to_owned()],
            vec![0],
        ),
        (
            "nvml-a10g.txt",
            vec!["NVIDIA A10G 0000:00:1e.0 23028".to_owned()],
            vec![0],
        ),
        // Its driver tells no memory.
        (
            "nvml-gt730.txt",
            vec!["GeForce GT 730 0000:01:00.0 0".to_owned()],
            vec![0],
        ),
    ] {
        for more in ["", OLD_DRIVER] {
            let machine = captured("nvidia-smi-xml", file, more);
            let inventory = machine.read();
            assert_eq!(lines(&inventory), expect);
            assert_eq!((inventory.levels, inventory.problems), (vec![], vec![]));
            let found = machine.look().gpus;
            let numbers = found.iter().map(|gpu| (gpu.index, gpu.minor));
            let expect: Vec<(u32, u32)> = (0..).zip(minors.iter().copied()).collect();
            assert_eq!(numbers.collect::<Vec<_>>(), expect, "{file}");
        }
    }
}

#[test]
fn an_a100_with_four_instances() {
    let machine = captured("nvidia-smi-xml", "nvml-a100.txt", "");
    let inventory = machine.read();
    let part = "NVIDIA A100-SXM4-80GB MIG 1g.20gb 0000:01:00.0 19968";
    assert_eq!(lines(&inventory), [part; 4]);
    assert_eq!(names(&inventory), [] as [&str; 0]);
    let look = machine.look();
    let gpu = &look.gpus[0];
    assert_eq!((gpu.index, gpu.minor, gpu.memory_mb), (0, 1, 81_920));
    let instances = gpu.instances.as_ref().unwrap();
    let ids = instances
        .iter()
        .map(|part| (part.gpu_instance, part.compute_instance));
    assert_eq!(ids.collect::<Vec<_>>(), [(3, 0), (4, 0), (5, 0), (6, 0)]);
}

#[test]
fn a_dgx2_has_sixteen_gpus_behind_nvswitches() {
    let machine = captured("nvidia-dgx2-16xV100", "nvml.txt", "");
    let inventory = machine.read();
    let buses = [
        "34", "36", "39", "3b", "57", "59", "5c", "5e", "b7", "b9", "bc", "be", "e0", "e2", "e5",
        "e7",
    ];
    let expect = buses.map(|bus| format!("Tesla V100-SXM3-32GB-H 0000:{bus}:00.0 0"));
    assert_eq!(lines(&inventory), expect);
    let all = DeviceLevel {
        level: Level::Nvlink,
        groups: vec![(0..16).collect()],
    };
    assert_eq!((inventory.levels, inventory.problems), (vec![all], vec![]));
    let uuids: BTreeSet<String> = machine
        .look()
        .gpus
        .into_iter()
        .map(|gpu| gpu.uuid)
        .collect();
    assert_eq!(uuids.len(), 16);
    assert!(uuids.contains("GPU-bb4648d3-e72b-4bac-a32f-4c9f3e4eb547"));
}

#[test]
fn a_gpu_that_shares_the_machines_memory_has_none() {
    let gpu = "devices = 1\ngpu.0.uuid = GPU-1\ngpu.0.name = NVIDIA GB10\n";
    let inventory = Machine::new(&format!("{gpu}gpu.0.pci = 0000000F:01:00.0\n")).read();
    assert_eq!(lines(&inventory), ["NVIDIA GB10 000f:01:00.0 0"]);
    assert_eq!(names(&inventory), [] as [&str; 0]);
}

#[test]
fn power9_nodes_have_pairs_with_links_to_their_cpu() {
    let buses = ["0004:04", "0004:05", "0035:03", "0035:04"];
    let cpu = "0006:00:00.0 04ea1014";
    let mut text = "devices = 4\nabsent = nvmlDeviceGetP2PStatus\n".to_owned();
    for (index, bus) in buses.iter().enumerate() {
        let name = "Tesla V100-SXM2-16GB";
        let peer = buses[index ^ 1];
        text += &gpu_lines(index, name, 0, 16_160, &format!("0000{bus}:00.0"));
        text += &format!("gpu.{index}.links = 6\n");
        for link in 0..3 {
            text += &format!("gpu.{index}.link.{link} = {peer}:00.0 1db110de\n");
            text += &format!("gpu.{index}.link.{} = {cpu}\n", link + 3);
        }
    }
    let inventory = Machine::new(&text).read();
    let expect = buses.map(|bus| format!("Tesla V100-SXM2-16GB {bus}:00.0 16160"));
    assert_eq!(lines(&inventory), expect);
    assert_eq!(inventory.levels[0].groups, [[0, 1], [2, 3]]);
}

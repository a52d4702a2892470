mod captured;
mod sampler;

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use crate::testing::FakeNvml;

use super::look::look_within;
use super::*;

/// A machine whose driver answers as a text says.
struct Machine {
    root: tempfile::TempDir,
    driver: FakeNvml,
}

impl Machine {
    fn new(text: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let driver = FakeNvml::new(root.path(), text).unwrap();
        Self { root, driver }
    }

    fn read(&self) -> VendorInventory {
        read(self.root.path(), Some(self.driver.library()))
    }

    fn look(&self) -> NvidiaLook {
        look(self.root.path(), Some(self.driver.library())).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// The driver's lines of one GPU.
fn gpu_lines(index: usize, name: &str, minor: u32, memory: u32, pci: &str) -> String {
    format!(
        "gpu.{index}.uuid = GPU-{index}\ngpu.{index}.name = {name}\ngpu.{index}.minor = {minor}\n\
         gpu.{index}.memory = {memory}\ngpu.{index}.pci = {pci}\n"
    )
}

/// Devices in a line each: `Tesla T4 0000:00:1e.0 15360`.
fn lines(inventory: &VendorInventory) -> Vec<String> {
    let line = |device: &Accelerator| {
        let pci = device.pci.as_deref().unwrap_or("-");
        format!("{} {pci} {}", device.model, device.memory_mb)
    };
    let listed = inventory.devices.iter().filter(|device| device.is_listed());
    listed.map(|device| line(&device.accelerator)).collect()
}

fn names(inventory: &VendorInventory) -> Vec<&str> {
    let problems = inventory.problems.iter();
    problems.map(|problem| &*problem.name).collect()
}

#[test]
fn device_files_are_by_the_minor_number() {
    let gpus: String = [(0, 1), (1, 2), (2, 3), (3, 0)]
        .map(|(index, minor)| gpu_lines(index, "Tesla K80", minor, 11_441, "0:1:0.0"))
        .concat();
    let machine = Machine::new(&format!("devices = 4\n{gpus}"));
    for file in ["nvidia0", "nvidia1", "nvidia3", "nvidiactl", "nvidia-uvm"] {
        machine.write(&format!("dev/{file}"), "");
    }
    let found = machine.look().gpus;
    let found: Vec<GpuFiles> = found
        .iter()
        .map(|gpu| files(machine.root.path(), gpu, None))
        .collect();
    assert_eq!(
        found[0].paths,
        ["/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"]
    );
    assert_eq!(
        found[1].fault.as_deref(),
        Some("/dev/nvidia2 does not exist")
    );
    assert_eq!(found[1].paths, ["/dev/nvidiactl", "/dev/nvidia-uvm"]);
    assert_eq!(found[3].paths[0], "/dev/nvidia0");
    assert_eq!(found[3].fault, None);
}

/// An A100 with four instances and another one without MIG.
fn two_a100() -> String {
    let name = "NVIDIA A100-SXM4-80GB";
    let mut text = "devices = 2\n".to_owned();
    text += &gpu_lines(0, name, 1, 81_920, "00000000:01:00.0");
    text += &gpu_lines(1, name, 0, 81_920, "00000000:41:00.0");
    text += "gpu.0.mig = 1\ngpu.1.mig = 0\n";
    // The driver has slots of which some may be empty.
    for (slot, instance) in [(0, 3), (1, 4), (2, 5), (5, 6)] {
        let own = format!("gpu.0.mig.{slot}");
        text += &format!(
            "{own}.uuid = MIG-{instance}\n{own}.name = {name} MIG 2g.20gb\n\
             {own}.memory = 19968\n{own}.gi = {instance}\n{own}.ci = 0\n"
        );
    }
    text
}

#[test]
fn a_card_in_mig_mode_lists_its_instances() {
    let machine = Machine::new(&two_a100());
    let inventory = machine.read();
    let part = "NVIDIA A100-SXM4-80GB MIG 2g.20gb 0000:01:00.0 19968";
    let whole = "NVIDIA A100-SXM4-80GB 0000:41:00.0 81920";
    assert_eq!(lines(&inventory), [part, part, part, part, whole]);
    let cards = inventory
        .devices
        .iter()
        .map(|d| d.accelerator.partition_of.as_deref());
    let card = Some("0000:01:00.0");
    assert_eq!(cards.collect::<Vec<_>>(), [card, card, card, card, None]);
    let of_card = DeviceLevel {
        level: Level::Pcie,
        groups: vec![vec![0, 1, 2, 3]],
    };
    assert_eq!(inventory.levels, [of_card]);
    assert_eq!(names(&inventory), [] as [&str; 0]);
    let look = machine.look();
    let instances = look.gpus[0].instances.as_ref().unwrap();
    let ids = instances
        .iter()
        .map(|i| (&*i.uuid, i.gpu_instance, i.compute_instance));
    let expect = [
        ("MIG-3", 3, 0),
        ("MIG-4", 4, 0),
        ("MIG-5", 5, 0),
        ("MIG-6", 6, 0),
    ];
    assert_eq!(ids.collect::<Vec<_>>(), expect);
}

#[test]
fn an_instance_needs_the_files_of_its_parts() {
    let machine = Machine::new(&two_a100());
    let mig = "proc/driver/nvidia/capabilities/gpu1/mig/gi3";
    machine.write(
        &format!("{mig}/access"),
        "DeviceFileMinor: 30\nDeviceFileMode: 292\n",
    );
    machine.write(
        &format!("{mig}/ci0/access"),
        "DeviceFileMinor: 31\nDeviceFileMode: 292\n",
    );
    for file in [
        "nvidia1",
        "nvidiactl",
        "nvidia-caps/nvidia-cap30",
        "nvidia-caps/nvidia-cap31",
    ] {
        machine.write(&format!("dev/{file}"), "");
    }
    let look = machine.look();
    let gpu = &look.gpus[0];
    let [first, second, ..] = &gpu.instances.as_ref().unwrap()[..] else {
        panic!("{gpu:?}")
    };
    let well = files(machine.root.path(), gpu, Some(first));
    let caps = "/dev/nvidia-caps/nvidia-cap";
    let expect = [
        "/dev/nvidia1".to_owned(),
        format!("{caps}30"),
        format!("{caps}31"),
        "/dev/nvidiactl".to_owned(),
    ];
    assert_eq!((well.paths, well.fault), (expect.to_vec(), None));
    fs::remove_file(machine.root.path().join("dev/nvidia-caps/nvidia-cap31")).unwrap();
    let fault = files(machine.root.path(), gpu, Some(first)).fault;
    assert_eq!(fault, Some(format!("{caps}31 does not exist")));
    let fault = files(machine.root.path(), gpu, Some(second)).fault.unwrap();
    assert!(fault.contains("gi4/ci0/access does not name"), "{fault}");
}

#[test]
fn a_card_in_mig_mode_without_instances_is_a_problem() {
    let gpu = gpu_lines(0, "A100", 0, 1, "00000000:01:00.0");
    let machine = Machine::new(&format!("devices = 1\n{gpu}gpu.0.mig = 1\n"));
    let inventory = machine.read();
    assert_eq!(lines(&inventory), ["A100 0000:01:00.0 1"]);
    assert_eq!(names(&inventory), ["mig-empty"]);
    assert_eq!(
        inventory.problems[0].subject.as_deref(),
        Some("0000:01:00.0")
    );
}

/// GPUs at buses 1, 2, ... with lines of their own.
fn linked(gpus: &[String], before: &str) -> String {
    let mut text = format!("{before}\ndevices = {}\n", gpus.len());
    for (index, lines) in gpus.iter().enumerate() {
        let pci = format!("00000000:{:02x}:00.0", index + 1);
        text += &gpu_lines(index, "V100", u32::try_from(index).unwrap(), 1, &pci);
        text += lines;
    }
    text
}

/// The peers of each GPU, as the driver tells them of pairs.
fn by_pairs(peers: &[&str]) -> String {
    let line = |(index, peers): (usize, &&str)| format!("gpu.{index}.nvlink = {peers}\n");
    let gpus: Vec<String> = peers.iter().enumerate().map(line).collect();
    linked(&gpus, "")
}

/// The other ends of the links of each GPU, with a driver that does not tell of pairs.
fn by_ends(ends: &[&[&str]]) -> String {
    let lines = |(index, ends): (usize, &&[&str])| {
        let count = format!("gpu.{index}.links = 6\n");
        let line = |(link, end): (usize, &&str)| format!("gpu.{index}.link.{link} = {end}\n");
        count + &ends.iter().enumerate().map(line).collect::<String>()
    };
    let gpus: Vec<String> = ends.iter().enumerate().map(lines).collect();
    linked(&gpus, "absent = nvmlDeviceGetP2PStatus")
}

#[test]
fn gpus_that_nvlink_links_are_groups() {
    // DGX-2: sixteen behind NVSwitches. The bridges of class 0680 are no GPUs for the driver.
    let all: Vec<String> = (0..16).map(|number: u32| number.to_string()).collect();
    let all = all.join(" ");
    let dgx2 = vec![&*all; 16];
    let sixteen: Vec<u32> = (0..16).collect();
    let gpu = |bus| format!("0:{bus}:0.0 1db510de");
    let (one, two, three, four) = (gpu(1), gpu(2), gpu(3), gpu(4));
    let cpu = "6:0:0.0 04ea1014";
    let switch = "0:b0:0.0 1ac210de";
    for (text, expect) in [
        (by_pairs(&dgx2), vec![sixteen]),
        // DGX-1: a mesh in which each GPU is linked to four others.
        (
            by_pairs(&[
                "1 2 3 4", "0 2 3 5", "0 1 3 6", "0 1 2 7", "0 5 6 7", "1 4 6 7", "2 4 5 7",
                "3 4 5 6",
            ]),
            vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]],
        ),
        // Bridges between pairs of cards, and one card without.
        (
            by_pairs(&["3", "2", "1", "0", ""]),
            vec![vec![0, 3], vec![1, 2]],
        ),
        (by_pairs(&["", ""]), vec![]),
        (by_pairs(&[""]), vec![]),
        // POWER9: pairs, each with a link to its CPU as well.
        (
            by_ends(&[&[&two, cpu], &[&one, cpu], &[&four, cpu], &[&three, cpu]]),
            vec![vec![0, 1], vec![2, 3]],
        ),
        (
            by_ends(&[&[switch], &[switch], &[], &[switch]]),
            vec![vec![0, 1, 3]],
        ),
        (by_ends(&[&[], &[]]), vec![]),
    ] {
        let inventory = Machine::new(&text).read();
        let level = |groups| DeviceLevel {
            level: Level::Nvlink,
            groups,
        };
        let expect: Vec<DeviceLevel> = Some(expect)
            .filter(|g| !g.is_empty())
            .map(level)
            .into_iter()
            .collect();
        assert_eq!(inventory.levels, expect, "{text}");
        assert_eq!(names(&inventory), [] as [&str; 0]);
    }
}

#[test]
fn groups_name_devices_by_their_place() {
    // Instances come before the linked cards in the list.
    let mut text = two_a100().replace("devices = 2", "devices = 3");
    text += &gpu_lines(2, "A100", 2, 1, "00000000:42:00.0");
    text += "gpu.1.nvlink = 0 2\ngpu.2.nvlink = 0 1\n";
    let levels = Machine::new(&text).read().levels;
    let groups: Vec<_> = levels.into_iter().map(|level| level.groups).collect();
    assert_eq!(groups, [[vec![4, 5]], [vec![0, 1, 2, 3]]]);
}

#[test]
fn a_missing_driver_is_no_problem_and_a_broken_one_is() {
    let machine = Machine::new("");
    assert_eq!(machine.read(), VendorInventory::default());
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("libnvidia-ml.so.1");
    assert_eq!(read(dir.path(), Some(&library)), VendorInventory::default());
    fs::write(&library, "no library").unwrap();
    let broken = read(dir.path(), Some(&library));
    assert_eq!(
        (lines(&broken), names(&broken)),
        (vec![], vec!["driver-unusable"])
    );
    assert!(
        broken.problems[0]
            .evidence
            .starts_with("The GPU driver cannot load: ")
    );
    for (text, expect) in [
        ("devices = 1\nerror.nvmlInit_v2 = 18", "driver-mismatch"),
        ("devices = 1\nerror.nvmlInit_v2 = 999", "driver-unusable"),
        (
            "devices = 1\nerror.nvmlDeviceGetCount_v2 = 999",
            "driver-unusable",
        ),
    ] {
        machine.driver.answer(text).unwrap();
        assert_eq!(names(&machine.read()), [expect], "{text}");
    }
    machine
        .driver
        .answer("devices = 1\nerror.nvmlInit_v2 = 9")
        .unwrap();
    assert_eq!(machine.read(), VendorInventory::default());
}

#[test]
fn a_gpu_that_does_not_answer_is_a_problem() {
    let gpus = [1, 2, 3].map(|bus| format!("00000000:0{bus}:00.0"));
    let gpus = gpus
        .iter()
        .enumerate()
        .map(|(at, pci)| gpu_lines(at, "V100", 0, 1, pci));
    let text = format!("devices = 3\n{}", gpus.collect::<String>());
    let lost = format!("{text}error.nvmlDeviceGetHandleByIndex_v2.1 = 15\n");
    let machine = Machine::new(&lost);
    let inventory = machine.read();
    assert_eq!(
        lines(&inventory),
        ["V100 0000:01:00.0 1", "V100 0000:03:00.0 1"]
    );
    assert_eq!(names(&inventory), ["device-silent"]);
    let problem = &inventory.problems[0];
    assert_eq!(problem.subject, None);
    assert!(problem.evidence.contains("GPU 1 "), "{problem:?}");
    for pci in ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"] {
        machine.write(&format!("proc/driver/nvidia/gpus/{pci}/information"), "");
    }
    let subject = machine.read().problems[0].subject.clone();
    assert_eq!(subject.as_deref(), Some("0000:02:00.0"));
    // The driver is asked anew each time.
    machine.driver.answer(&text).unwrap();
    let inventory = machine.read();
    assert_eq!((lines(&inventory).len(), names(&inventory).len()), (3, 0));
}

/// A machine whose driver hangs in one call: how many GPUs a look then gives, if it gives any,
/// and how many it does not hear of.
fn check_hang(call: &str, gpus: Option<usize>, silent: usize) {
    let (limit, hang) = (Duration::from_secs(1), Duration::from_secs(4));
    let text = by_pairs(&["1", "0"]);
    let machine = Machine::new(&format!("{text}hang.{call} = {}\n", hang.as_millis()));
    let ask = || look_within(machine.root.path(), Some(machine.driver.library()), limit);
    let start = Instant::now();
    let found = ask();
    assert!(start.elapsed() < hang, "{call}");
    let heard = found.as_ref().ok().map(|look| look.gpus.len());
    assert_eq!(heard, gpus, "{call}");
    if let Ok(look) = &found {
        assert_eq!((look.silent.len(), look.hangs.is_some()), (silent, true));
        let told = inventory(machine.root.path(), look);
        assert!(names(&told).contains(&"driver-hangs"));
    }
    // It is not asked again before it has come back.
    machine.driver.answer(&text).unwrap();
    let again = ask().unwrap_err();
    assert!(
        matches!(again, NvidiaError::NoAnswer { .. }),
        "{call} {again}"
    );
    assert!(start.elapsed() < hang, "{call}");
    std::thread::sleep((hang + limit).saturating_sub(start.elapsed()));
    assert_eq!(ask().unwrap().links, BTreeSet::from([(0, 1)]), "{call}");
}

#[test]
fn a_driver_that_hangs_holds_nothing_up() {
    std::thread::scope(|scope| {
        for (call, gpus, silent) in [
            ("nvmlInit_v2", None, 0),
            ("nvmlDeviceGetCount_v2", None, 0),
            ("nvmlDeviceGetName.1", Some(1), 1),
            ("nvmlDeviceGetP2PStatus", Some(2), 0),
        ] {
            scope.spawn(move || check_hang(call, gpus, silent));
        }
    });
}

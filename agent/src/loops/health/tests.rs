use std::fs;
use std::io::Write as _;

use muster_exec::health::reading::{GpuReading, PortReading};
use muster_model::health::PersonMark;
use muster_model::inventory::LinkLayer;
use muster_model::node::Device;
use tokio::sync::watch;

use super::*;
use crate::hardware::Probed;
use crate::loops;

const GPU: &str = "0000:1a:00.0";

/// A loop over a machine that a directory plays.
struct PlayedMachine {
    root: tempfile::TempDir,
    health: HealthLoop,
    hardware: HardwareState,
    node: NodeHandle,
    lines: u32,
}

impl PlayedMachine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let random = root.path().join("proc/sys/kernel/random");
        fs::create_dir_all(&random).unwrap();
        fs::write(random.join("boot_id"), "first\n").unwrap();
        fs::write(root.path().join("proc/stat"), "btime 1700000000\n").unwrap();
        fs::write(root.path().join("kmsg"), "").unwrap();
        let config = HealthConfig {
            root: root.path().to_owned(),
            kernel_log: root.path().join("kmsg"),
            file: root.path().join("health.json"),
            cgroup_parent: "muster".to_owned(),
        };
        let capacity = Capacity {
            cpu: 1,
            memory_mb: 1,
            devices: Vec::new(),
            levels: Vec::new(),
            port_first: 1,
            port_last: 1,
        };
        let (_, health) = open(config, capacity.clone(), Arc::default()).unwrap();
        let (_, hardware) = watch::channel(Probed {
            capacity,
            problems: Vec::new(),
            inventory: None,
        });
        // Its loop has ended: nobody is known to use a device.
        let (node, _) = loops::node::queue();
        Self {
            root,
            health,
            hardware,
            node,
            lines: 0,
        }
    }

    /// The kernel reports something of the GPU.
    fn log(&mut self, xid: &str) {
        let path = self.root.path().join("kmsg");
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        self.lines += 1;
        writeln!(
            file,
            "3,{0},{0}000000,-;NVRM: Xid (PCI:{GPU}): {xid}",
            self.lines
        )
        .unwrap();
    }

    async fn read_log(&mut self) {
        self.health.read_log(&self.hardware, &self.node).await;
    }

    async fn repaired(&mut self) {
        self.does(|done| HealthRequest::Mark {
            subject: HealthSubject::at(GPU),
            mark: PersonMark::Repaired,
            done,
        })
        .await;
    }

    /// Does a request, and returns when it is on disk.
    async fn does(&mut self, request: impl FnOnce(oneshot::Sender<()>) -> HealthRequest) {
        let (done, is_done) = oneshot::channel();
        self.health
            .answer(request(done), &self.hardware, &self.node)
            .await;
        is_done.await.unwrap();
    }

    fn checks(&self) -> Vec<String> {
        let checks = self.health.judge.checks().into_iter();
        checks.map(|check| check.name).collect()
    }
}

/// A look at a GPU that is too hot.
fn hot(degrees: u32) -> HealthInput {
    HealthInput::Gpu {
        pci: GPU.to_owned(),
        reading: GpuReading {
            temperature_c: Some(degrees),
            slowdown_c: Some(90),
            ..GpuReading::default()
        },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_that_changes_alone_is_shown_at_once_and_not_written() {
    let mut machine = PlayedMachine::new();
    let file = machine.root.path().join("health.json");
    let mut tell = |input| {
        machine.health.feed(input);
        machine.health.settle();
        let shown = machine.health.ends.now.borrow().checks.clone();
        let hot = shown.into_iter().find(|check| check.name == "temperature");
        (hot.unwrap().evidence, fs::read(&file).unwrap())
    };
    let (evidence, first) = tell(hot(91));
    assert!(evidence.contains("91"), "{evidence}");
    let (evidence, second) = tell(hot(92));
    assert!(evidence.contains("92"), "{evidence}");
    assert!(second == first, "it was written again");
    machine.health.written -= EVIDENCE_PAUSE;
    machine.health.settle();
    let late = fs::read_to_string(&file).unwrap();
    assert!(late.contains(&evidence), "{late}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_read_anew_when_their_file_changes() {
    let mut machine = PlayedMachine::new();
    let root = machine.root.path().to_owned();
    let file = root.join(OVERLAY_FILE);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let mut text = rules_text(&root);
    assert!(changed_rules(&root, &mut text).is_none());
    machine.log("48, pid=4711, name=python, DBE (double bit error)");
    machine.read_log().await;
    let mut shown = |content: &str| {
        fs::write(&file, content).unwrap();
        let rules = changed_rules(&root, &mut text).unwrap();
        assert!(changed_rules(&root, &mut text).is_none());
        machine.health.take_rules(rules);
        machine.health.settle();
        let now = machine.health.ends.now.borrow().clone();
        (now.checks[0].shadow, now.problems)
    };
    let shadow = "[rule.\"xid 48\"]\nshadow = true\n";
    assert_eq!(shown(shadow), (true, vec![]));
    let (is_shadow, problems) = shown("[rule.\"xid 48\"]\nshadows = true\n");
    assert!(is_shadow, "the last good rules stay");
    let [problem] = &problems[..] else {
        panic!("{problems:?}")
    };
    assert!(
        problem.starts_with("the health rules of before are used: ") && problem.contains("shadows"),
        "{problem}"
    );
    assert_eq!(shown(""), (false, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_logged_before_a_person_s_mark_lies_before_it() {
    let mut machine = PlayedMachine::new();
    machine.log("48, pid=4711, name=python, DBE (double bit error)");
    machine.read_log().await;
    assert_eq!(machine.checks(), ["xid 48"]);
    // Logged before the person says so, and not read yet.
    machine.log("64, pid=4711, name=python, Row Remapper");
    machine.repaired().await;
    machine.read_log().await;
    assert_eq!(machine.checks(), [] as [&str; 0]);
    // What is logged after it counts.
    machine.log("64, pid=4711, name=python, Row Remapper");
    machine.read_log().await;
    assert_eq!(machine.checks(), ["xid 64"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_that_a_person_does_not_miss_are_forgotten_on_disk_too() {
    let mut machine = PlayedMachine::new();
    let port = PortReading {
        device: "mlx5_0".to_owned(),
        port: 1,
        link_layer: LinkLayer::InfiniBand,
        state: "ACTIVE".to_owned(),
        link_up: Some(true),
        link_downed: None,
    };
    machine.health.feed(HealthInput::Ports(vec![port]));
    machine.health.feed(HealthInput::Ports(Vec::new()));
    assert_eq!(machine.health.judge.lost_ports().len(), 1);
    let subject = HealthSubject::FabricPort {
        device: "mlx5_0".to_owned(),
        port: 1,
    };
    let has_port = |machine: &PlayedMachine| {
        let kept = fs::read_to_string(machine.root.path().join("health.json")).unwrap();
        kept.contains("mlx5_0")
    };
    for (ports, is_kept) in [(vec![subject], true), (Vec::new(), false)] {
        let accepts = |done| HealthRequest::PortsAccepted { ports, done };
        machine.does(accepts).await;
        let is_lost = !machine.health.judge.lost_ports().is_empty();
        assert_eq!((is_lost, has_port(&machine)), (is_kept, is_kept));
    }
}

/// A process of a task of the test's agent, or of something else.
fn add_process(root: &Path, pid: u32, cgroup: &str, file: &str) {
    let dir = root.join(format!("proc/{pid}"));
    write_process(&dir, 'S', cgroup);
    open_file(&dir, file);
}

/// A process that has ended, while a thread of it has not.
fn add_zombie(root: &Path, pid: u32, cgroup: &str, file: &str) {
    let dir = root.join(format!("proc/{pid}"));
    write_process(&dir, 'Z', cgroup);
    open_file(&dir.join(format!("task/{}", pid + 1)), file);
}

fn write_process(dir: &Path, state: char, cgroup: &str) {
    fs::create_dir_all(dir).unwrap();
    let zeros = "0 ".repeat(18);
    let stat = format!("1 (python) {state} {zeros}4711 0\n");
    fs::write(dir.join("stat"), stat).unwrap();
    fs::write(dir.join("cgroup"), format!("0::{cgroup}\n")).unwrap();
}

fn open_file(dir: &Path, file: &str) {
    fs::create_dir_all(dir.join("fd")).unwrap();
    std::os::unix::fs::symlink(file, dir.join("fd/3")).unwrap();
}

/// The processes that hold the first of these devices, as its gate finds them.
async fn left(machine: &PlayedMachine, devices: &[Device]) -> Vec<u32> {
    let (looks, mut looked) = mpsc::channel(1);
    let (_sender, gpus) = watch::channel(Arc::default());
    let gate = DeviceGate {
        config: machine.health.config.clone(),
        gpus,
        sample: Arc::default(),
        looks,
    };
    let capacity = Capacity {
        devices: devices.to_vec(),
        ..machine.health.capacity.clone()
    };
    gate.look(devices[..1].to_vec(), capacity, oneshot::channel().0)
        .await;
    let Some(HealthLook::Gate(look)) = looked.recv().await else {
        panic!("no look")
    };
    look.left.iter().map(|process| process.pid).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_asks_who_holds_the_device_s_own_files() {
    let machine = PlayedMachine::new();
    let root = machine.root.path();
    let device = |file: &str| Device {
        paths: vec!["/dev/kfd".to_owned(), file.to_owned()],
        ..granted(file)
    };
    let devices = [device("/dev/dri/renderD128"), device("/dev/dri/renderD129")];
    // The file of KFD is both devices', the third process is of no task.
    add_process(root, 1, "/muster/a", "/dev/kfd");
    add_process(root, 2, "/muster/b", "/dev/dri/renderD129");
    add_process(root, 3, "/system.slice/x", "/dev/dri/renderD128");
    assert_eq!(left(&machine, &devices).await, [] as [u32; 0]);
    add_process(root, 4, "/muster/c", "/dev/dri/renderD128");
    add_zombie(root, 5, "/system.slice/x", "/dev/dri/renderD128");
    assert_eq!(left(&machine, &devices).await, [4, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_has_two_seconds_to_let_go_of_a_device() {
    let machine = PlayedMachine::new();
    let root = machine.root.path().to_owned();
    let devices = [granted("/dev/nvidia0")];
    add_process(&root, 1, "/muster/a", "/dev/nvidia0");
    let begun = Instant::now();
    assert_eq!(left(&machine, &devices).await, [1]);
    let waited = begun.elapsed();
    assert!(waited > Duration::from_secs(2), "{waited:?}");
    let ends = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        fs::remove_dir_all(root.join("proc/1")).unwrap();
    });
    assert_eq!(left(&machine, &devices).await, [] as [u32; 0]);
    ends.await.unwrap();
}

/// A device that is granted, at the played GPU's place.
fn granted(path: &str) -> Device {
    Device {
        pci: Some(GPU.to_owned()),
        paths: vec![path.to_owned()],
        simulated: false,
        ..Device::simulated("GPU-0", 0, "A100")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_a_process_of_an_ended_task_holds_is_not_granted() {
    let mut machine = PlayedMachine::new();
    let root = machine.root.path().to_owned();
    let device = granted("/dev/nvidia0");
    machine.health.capacity.devices = vec![device.clone()];
    let known = known(&machine.health.capacity);
    machine.health.feed(HealthInput::Devices(known));
    let pass = async |machine: &mut PlayedMachine| {
        let (sender, mut looks) = mpsc::channel(1);
        let (_gpus_sender, gpus) = watch::channel(Arc::default());
        let gate = DeviceGate {
            config: machine.health.config.clone(),
            gpus,
            sample: Arc::default(),
            looks: sender,
        };
        let (reply, answer) = oneshot::channel();
        let capacity = machine.health.capacity.clone();
        gate.look(vec![device.clone()], capacity, reply).await;
        let Some(HealthLook::Gate(look)) = looks.recv().await else {
            panic!("no look")
        };
        machine.health.pass(*look);
        answer.await.unwrap()
    };
    add_process(&root, 1, "/system.slice/dcgm", "/dev/nvidia0");
    add_process(&root, 2, "/muster/a", "/dev/nvidia1");
    assert_eq!(pass(&mut machine).await, Ok(()));
    add_process(&root, 3, "/muster/b", "/dev/nvidia0");
    let why = pass(&mut machine).await.unwrap_err();
    let begin = "device GPU-0 is sick: zombie-user: python (process 3).";
    assert!(why.starts_with(begin), "{why}");
    assert_eq!(machine.checks(), ["zombie-user"]);
    // It stays so until the process lets go.
    machine
        .health
        .feed(HealthInput::Processes(processes(&root, |group| {
            machine.health.config.is_task(group)
        })));
    let checks = machine.health.judge.checks();
    let left = checks.iter().find(|check| check.name == "zombie-user");
    assert_eq!(left.map(|check| check.state), Some(HealthState::Bad));
    fs::remove_dir_all(root.join("proc/3")).unwrap();
    let found = processes(&root, |group| machine.health.config.is_task(group));
    machine.health.feed(HealthInput::Processes(found));
    assert_eq!(pass(&mut machine).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_waits_for_a_round_of_samples_that_began_after_it_asked() {
    const A_MOMENT: Duration = Duration::from_millis(100);
    let machine = PlayedMachine::new();
    let round = |began| {
        Arc::new(NewestSamples {
            at: Some(Instant::now()),
            began: Some(began),
            ..NewestSamples::default()
        })
    };
    let before = Instant::now();
    let (sender, gpus) = watch::channel(round(before));
    let (looks, mut looked) = mpsc::channel(1);
    let gate = DeviceGate {
        config: machine.health.config.clone(),
        gpus,
        sample: Arc::default(),
        looks,
    };
    let wanted = Arc::clone(&gate.sample);
    let ask = || {
        let (reply, _) = oneshot::channel();
        let capacity = machine.health.capacity.clone();
        tokio::spawn(gate.clone().look(Vec::new(), capacity, reply))
    };
    ask();
    wanted.notified().await;
    // A round that was under way ends, then the one that was wanted.
    sender.send_replace(round(before));
    let early = timeout(A_MOMENT, looked.recv()).await;
    assert!(early.is_err(), "it began before it was asked for");
    sender.send_replace(round(Instant::now()));
    assert!(timeout(A_MOMENT * 10, looked.recv()).await.is_ok());
    // A driver that hangs keeps no task from its start for longer than some seconds.
    let asked = Instant::now();
    ask();
    assert!(looked.recv().await.is_some());
    let waited = asked.elapsed();
    assert!((3..6).contains(&waited.as_secs()), "{waited:?}");
    // Where no GPU was ever sampled nothing is waited for.
    sender.send_replace(Arc::default());
    ask();
    assert!(timeout(A_MOMENT * 10, looked.recv()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_left_the_bus_is_not_granted() {
    let mut machine = PlayedMachine::new();
    let device = granted("/dev/nvidia0");
    let capacity = Capacity {
        devices: vec![device.clone()],
        ..machine.health.capacity.clone()
    };
    machine.health.capacity = capacity;
    let pass_of = |machine: &mut PlayedMachine, device: &Device| {
        let (reply, mut answer) = oneshot::channel();
        let look = GateLook {
            devices: vec![device.clone()],
            left: Vec::new(),
            reply,
        };
        machine.health.pass(look);
        answer.try_recv().unwrap()
    };
    let pass = |machine: &mut PlayedMachine| pass_of(machine, &device);
    let place = machine.root.path().join(PCI_DEVICES).join(GPU);
    fs::create_dir_all(&place).unwrap();
    assert_eq!(pass(&mut machine), Ok(()));
    fs::remove_dir(&place).unwrap();
    let why = pass(&mut machine).unwrap_err();
    assert_eq!(
        why,
        "device GPU-0 is sick: it is not on the PCI bus any more"
    );
    // So are the instances of a card, and no device elsewhere.
    let instance = Device {
        pci: None,
        partition_of: device.pci.clone(),
        ..device.clone()
    };
    assert!(pass_of(&mut machine, &instance).is_err());
    let other = Device {
        pci: Some("0000:3b:00.0".to_owned()),
        ..device.clone()
    };
    assert_eq!(pass_of(&mut machine, &other), Ok(()));
    fs::create_dir(&place).unwrap();
    assert_eq!(pass(&mut machine), Ok(()));
}

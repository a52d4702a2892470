//! Looks at GPUs, ports and processes.

use muster_model::inventory::LinkLayer;

use super::*;

fn look(change: impl FnOnce(&mut GpuReading)) -> GpuReading {
    let mut reading = GpuReading::default();
    change(&mut reading);
    reading
}

/// One look, and what comes of it.
#[test]
fn what_a_figure_is_a_sign_of() {
    let cases: Vec<(GpuReading, &[&str])> = vec![
        (GpuReading::default(), &[]),
        (
            look(|it| it.ecc_uncorrected = Some(2)),
            &["0000:1a:00.0 ecc-uncorrected bad Device ResetDevice"],
        ),
        (
            look(|it| {
                it.ecc_uncorrected = Some(2);
                it.rows_pending = Some(false);
            }),
            &["0000:1a:00.0 ecc-contained warn None ResetDevice"],
        ),
        (
            look(|it| it.rows_pending = Some(true)),
            &["0000:1a:00.0 rows-pending warn None ResetDevice"],
        ),
        (
            look(|it| it.rows_failed = Some(true)),
            &["0000:1a:00.0 rows-failed bad Device ReplaceDevice"],
        ),
        (
            look(|it| it.recovery_action = Some(1)),
            &["0000:1a:00.0 recovery-action bad Device ResetDevice"],
        ),
        (
            look(|it| (it.temperature_c, it.slowdown_c) = (Some(87), Some(87))),
            &["0000:1a:00.0 temperature warn None Inspect"],
        ),
        (
            look(|it| (it.temperature_c, it.slowdown_c) = (Some(86), Some(87))),
            &[],
        ),
        (
            look(|it| (it.power_mw, it.power_limit_mw) = (Some(771_000), Some(700_000))),
            &["0000:1a:00.0 power warn None Inspect"],
        ),
        (
            look(|it| (it.power_mw, it.power_limit_mw) = (Some(769_000), Some(700_000))),
            &[],
        ),
        (
            look(|it| (it.nvlinks_active, it.nvlinks_inactive) = (Some(0), Some(18))),
            &[],
        ),
        (
            look(|it| (it.utilisation_percent, it.processes) = (Some(100), Some(0))),
            &[],
        ),
    ];
    for (reading, expect) in cases {
        let mut bench = Bench::new();
        bench.look(reading.clone());
        assert_eq!(bench.troubles(), expect, "{reading:?}");
    }
}

#[test]
fn a_look_that_finds_it_well_clears() {
    let mut bench = Bench::new();
    bench.look(look(|it| it.rows_pending = Some(true)));
    bench.look(GpuReading::default());
    bench.check(&["0000:1a:00.0 rows-pending warn None ResetDevice"]);
    bench.look(look(|it| it.rows_pending = Some(false)));
    bench.check(&[]);
}

#[test]
fn a_gpu_is_cool_again_some_degrees_lower_and_after_a_time() {
    let mut bench = Bench::new();
    let at = |degrees| look(|it| (it.temperature_c, it.slowdown_c) = (Some(degrees), Some(87)));
    let hot = ["0000:1a:00.0 temperature warn None Inspect"];
    bench.look(at(88));
    bench.wait(1000);
    bench.look(at(83));
    bench.check(&hot);
    bench.wait(200);
    bench.look(at(70));
    bench.check(&hot);
    bench.wait(200);
    bench.look(at(70));
    bench.check(&[]);
}

#[test]
fn a_silent_driver_is_bad_after_a_time() {
    let mut bench = Bench::new();
    bench.look(look(|it| it.rows_pending = Some(false)));
    bench.check(&[]);
    let silent = HealthInput::GpuSilent {
        pci: GPU.to_owned(),
    };
    bench.tell(silent.clone());
    bench.check(&[
        "0000:1a:00.0 driver-silent unknown None Nothing",
        "0000:1a:00.0 rows-pending unknown None Nothing",
    ]);
    bench.wait(41);
    bench.tell(silent);
    bench.check(&[
        "0000:1a:00.0 driver-silent bad Device RebootMachine",
        "0000:1a:00.0 rows-pending unknown None Nothing",
    ]);
    bench.look(look(|it| it.rows_pending = Some(false)));
    bench.check(&[]);
}

#[test]
fn links_that_were_active_have_to_be() {
    let mut bench = Bench::new();
    let links = |active| {
        look(|it| (it.nvlinks_active, it.nvlinks_inactive) = (Some(active), Some(18 - active)))
    };
    bench.look(links(18));
    bench.look(links(17));
    bench.check(&["0000:1a:00.0 nvlinks-inactive bad Links ResetDevice"]);
    bench.look(links(18));
    bench.check(&[]);
    let pci = OTHER.to_owned();
    let reading = links(16);
    bench.tell(HealthInput::Gpu { pci, reading });
    bench.check(&["0000:1b:00.0 nvlinks-fewer warn None Inspect"]);
}

#[test]
fn what_counts_is_how_often_a_gpu_is_slowed_down() {
    let mut bench = Bench::new();
    let slow = |hot| look(|it| (it.slow_thermal, it.slow_power) = (Some(hot), Some(false)));
    for hot in [true, true, true, true] {
        bench.look(slow(hot));
        bench.check(&[]);
        bench.wait(30);
    }
    bench.look(slow(false));
    bench.check(&["0000:1a:00.0 slowdown-thermal warn None Inspect"]);
    for _ in 0..5 {
        bench.wait(30);
        bench.look(slow(false));
    }
    bench.check(&[]);
}

/// A sign has to last for some looks, or for a time.
#[test]
fn one_moment_is_no_sign() {
    let cases: Vec<(GpuReading, usize, &str)> = vec![
        (
            look(|it| (it.pcie_width, it.pcie_width_max) = (Some(8), Some(16))),
            2,
            "0000:1a:00.0 pcie-width warn None Inspect",
        ),
        (
            look(|it| (it.utilisation_percent, it.processes) = (Some(100), Some(0))),
            5,
            "0000:1a:00.0 ghost-utilisation warn None ResetDevice",
        ),
        (
            look(|it| (it.p_state, it.clock_reason) = (Some(8), Some(false))),
            6,
            "0000:1a:00.0 p-state warn None ResetDevice",
        ),
    ];
    for (reading, looks, expect) in cases {
        let mut bench = Bench::new();
        for _ in 1..looks {
            bench.look(reading.clone());
            bench.check(&[]);
            bench.wait(60);
        }
        bench.look(reading);
        bench.check(&[expect]);
    }
}

#[test]
fn work_and_idleness_are_no_signs() {
    let mut bench = Bench::new();
    for _ in 0..20 {
        bench.look(look(|it| {
            (it.utilisation_percent, it.processes) = (Some(100), Some(1));
            (it.p_state, it.clock_reason) = (Some(8), Some(true));
            (it.pcie_width, it.pcie_width_max) = (Some(16), Some(16));
        }));
        bench.wait(60);
    }
    bench.check(&[]);
}

fn port(device: &str, state: &str) -> PortReading {
    PortReading {
        device: device.to_owned(),
        port: 1,
        link_layer: LinkLayer::InfiniBand,
        state: state.to_owned(),
        link_up: Some(state != "DOWN"),
        link_downed: None,
    }
}

#[test]
fn a_port_that_was_never_up_has_no_cable() {
    let mut bench = Bench::new();
    let ports = vec![
        port("mlx5_0", "ACTIVE"),
        port("mlx5_1", "DOWN"),
        port("mlx5_2", "DOWN"),
    ];
    for _ in 0..5 {
        bench.tell(HealthInput::Ports(ports.clone()));
        bench.wait(600);
    }
    bench.check(&[]);
}

#[test]
fn the_only_port_that_was_never_up_is_told() {
    let mut bench = Bench::new();
    let mut ports: Vec<PortReading> = ["mlx5_0", "mlx5_1", "mlx5_2"]
        .map(|device| port(device, "ACTIVE"))
        .into();
    ports.push(port("mlx5_3", "DOWN"));
    bench.tell(HealthInput::Ports(ports.clone()));
    bench.check(&["mlx5_3/1 port-not-up warn None Inspect"]);
    // Two such ports are rather two without a cable.
    ports.push(port("mlx5_4", "DOWN"));
    bench.tell(HealthInput::Ports(ports));
    bench.check(&[]);
}

#[test]
fn a_port_that_was_up_may_be_down_for_a_while() {
    let mut bench = Bench::new();
    bench.tell(HealthInput::Ports(vec![port("mlx5_0", "ACTIVE")]));
    let down = HealthInput::Ports(vec![port("mlx5_0", "DOWN")]);
    bench.tell(down.clone());
    bench.wait(239);
    bench.tell(down.clone());
    bench.check(&[]);
    bench.wait(1);
    bench.tell(down);
    let is_down = ["mlx5_0/1 port-down bad Links Inspect"];
    bench.check(&is_down);
    bench.wait(60);
    bench.tell(HealthInput::Ports(vec![port("mlx5_0", "ACTIVE")]));
    bench.check(&is_down);
    bench.wait(600);
    bench.tell(HealthInput::Ports(vec![port("mlx5_0", "ACTIVE")]));
    bench.check(&[]);
}

#[test]
fn a_port_without_a_link_is_told_at_once_and_only_while_it_has_none() {
    let mut bench = Bench::new();
    let look = |first: &str| {
        // The second one never had a cable.
        HealthInput::Ports(vec![port("mlx5_0", first), port("mlx5_1", "DOWN")])
    };
    bench.tell(look("ACTIVE"));
    assert_eq!(bench.judge.lost_ports(), []);
    bench.wait(10);
    let lost_ms = bench.now_ms;
    bench.tell(look("DOWN"));
    bench.wait(10);
    bench.tell(look("DOWN"));
    let lost = bench.judge.lost_ports();
    let [event] = &lost[..] else {
        panic!("{lost:?}")
    };
    assert_eq!(
        (event.subject.to_string(), event.at_ms, event.class),
        ("mlx5_0/1".to_owned(), lost_ms, EventClass::Link)
    );
    bench.tell(look("INIT"));
    assert_eq!(bench.judge.lost_ports(), [], "the fabric's fault");
    bench.tell(look("DOWN"));
    bench.tell(look("ACTIVE"));
    assert_eq!(bench.judge.lost_ports(), []);
    let mut bench = Bench::with("[rule.port-down]\nshadow = true\n");
    bench.tell(look("ACTIVE"));
    bench.tell(look("DOWN"));
    assert_eq!(bench.judge.lost_ports()[0].class, EventClass::Information);
}

#[test]
fn an_adapter_that_is_gone_takes_its_port_down() {
    let mut bench = Bench::new();
    bench.tell(HealthInput::Ports(vec![port("mlx5_0", "ACTIVE")]));
    for _ in 0..3 {
        bench.tell(HealthInput::Ports(Vec::new()));
        bench.wait(120);
    }
    bench.tell(HealthInput::Ports(Vec::new()));
    bench.check(&["mlx5_0/1 port-down bad Links Inspect"]);
}

#[test]
fn a_port_that_a_person_does_not_miss_is_forgotten_and_one_that_is_down_is_not() {
    let mut bench = Bench::new();
    let subject = |device: &str| HealthSubject::FabricPort {
        device: device.to_owned(),
        port: 1,
    };
    let hold = |bench: &mut Bench, device: &str| {
        let subject = subject(device);
        let (by, why) = ("ann".to_owned(), "odd".to_owned());
        let mark = PersonMark::Held { by, why };
        bench.tell(HealthInput::Person { subject, mark });
    };
    bench.log("xid 48");
    hold(&mut bench, "mlx5_3");
    let names = ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"];
    let all = names.map(|device| port(device, "ACTIVE"));
    bench.tell(HealthInput::Ports(all.into()));
    // The first one goes on, the second one is down, the others are taken out.
    let left = HealthInput::Ports(vec![port("mlx5_0", "ACTIVE"), port("mlx5_1", "DOWN")]);
    bench.tell(left.clone());
    bench.wait(240);
    bench.tell(left.clone());
    let gpu = "0000:1a:00.0 xid 48 bad Device ResetDevice";
    let held = "mlx5_3/1 held bad Links Inspect";
    let is_down = |device: &str| format!("{device}/1 port-down bad Links Inspect");
    let before = [
        gpu.to_owned(),
        is_down("mlx5_3"),
        held.to_owned(),
        is_down("mlx5_1"),
        is_down("mlx5_2"),
    ];
    bench.check(&before.each_ref().map(|line| &**line));
    let accepted = ["mlx5_0", "mlx5_1"].map(subject);
    bench.tell(HealthInput::PortsAccepted(accepted.into()));
    bench.check(&[gpu, held, &is_down("mlx5_1")]);
    assert_eq!(bench.judge.lost_ports().len(), 1, "the one that is down");
    bench.tell(left);
    bench.check(&[gpu, held, &is_down("mlx5_1")]);
    // One that is put in again is known from then on.
    let back = |state| HealthInput::Ports(vec![port("mlx5_2", state)]);
    bench.tell(back("ACTIVE"));
    bench.tell(back("DOWN"));
    let lost = bench.judge.lost_ports();
    assert!(lost.iter().any(|event| event.subject == subject("mlx5_2")));
}

#[test]
fn a_port_without_a_manager_is_the_fabric_s_fault() {
    let mut bench = Bench::new();
    bench.tell(HealthInput::Ports(vec![port("mlx5_0", "ACTIVE")]));
    for state in ["INIT", "ARMED"] {
        bench.wait(1000);
        bench.tell(HealthInput::Ports(vec![port("mlx5_0", state)]));
        bench.check(&["mlx5_0/1 port-fabric warn None MendFabric"]);
    }
}

#[test]
fn outages_that_come_again_are_flaps() {
    let flaps = ["mlx5_0/1 port-flaps bad Links Inspect"];
    let mut bench = Bench::new();
    let outage = |bench: &mut Bench, seconds| {
        bench.tell(HealthInput::Ports(vec![port("mlx5_0", "ACTIVE")]));
        bench.tell(HealthInput::Ports(vec![port("mlx5_0", "DOWN")]));
        bench.wait(seconds);
        bench.tell(HealthInput::Ports(vec![port("mlx5_0", "ACTIVE")]));
    };
    for _ in 0..5 {
        outage(&mut bench, 24);
    }
    outage(&mut bench, 25);
    outage(&mut bench, 25);
    bench.check(&[]);
    outage(&mut bench, 25);
    bench.check(&flaps);
    bench.wait(43_201);
    bench.tell(HealthInput::Ports(vec![port("mlx5_0", "ACTIVE")]));
    bench.check(&[]);
}

#[test]
fn outages_between_looks_are_counted_and_the_top_of_a_counter_is_not() {
    let counted = |downed| {
        let mut port = port("mlx5_0", "ACTIVE");
        port.link_downed = downed;
        HealthInput::Ports(vec![port])
    };
    let mut bench = Bench::new();
    bench.tell(counted(Some(7)));
    bench.tell(counted(Some(9)));
    bench.check(&[]);
    bench.tell(counted(Some(10)));
    bench.check(&["mlx5_0/1 port-flaps bad Links Inspect"]);
    let mut top = Bench::new();
    for downed in [Some(200), None, None, Some(0), Some(1)] {
        top.tell(counted(downed));
    }
    top.check(&[]);
}

fn process(state: char, devices: &[&str], is_task: bool) -> ProcessReading {
    ProcessReading {
        pid: 77,
        start: 4711,
        name: "python3".to_owned(),
        state,
        is_task,
        devices: devices.iter().map(|path| (*path).to_owned()).collect(),
    }
}

#[test]
fn a_process_that_hangs_look_after_look_is_told() {
    let mut bench = Bench::new();
    let stuck = HealthInput::Processes(vec![process('D', &[], true)]);
    for _ in 0..4 {
        bench.tell(stuck.clone());
    }
    bench.tell(HealthInput::Processes(Vec::new()));
    for _ in 0..4 {
        bench.tell(stuck.clone());
    }
    bench.check(&[]);
    bench.tell(stuck);
    bench.check(&["machine stuck-process warn None Inspect"]);
    bench.tell(HealthInput::Processes(Vec::new()));
    bench.check(&[]);
}

#[test]
fn a_number_that_is_used_again_is_another_process() {
    let mut bench = Bench::new();
    for start in 0..10 {
        let mut reading = process('D', &[], true);
        reading.start = start;
        bench.tell(HealthInput::Processes(vec![reading]));
    }
    bench.check(&[]);
}

/// Who may hold a device.
#[test]
fn holders_of_devices() {
    let foreign = "0000:1a:00.0 foreign-holder warn Device EndProcess";
    let zombie = "0000:1a:00.0 zombie-holder bad Device ResetDevice";
    let mut watcher = process('S', &["/dev/nvidia0"], false);
    watcher.name = "nv-hostengine".to_owned();
    let cases = [
        (process('S', &["/dev/nvidia0"], true), None),
        (
            process('S', &["/dev/nvidia0", "/dev/kfd"], false),
            Some(foreign),
        ),
        (process('Z', &["/dev/nvidia0"], true), Some(zombie)),
        (process('Z', &["/dev/nvidia0"], false), Some(zombie)),
        (process('S', &["/dev/kfd"], false), None),
        (process('S', &["/dev/nvidia7"], false), None),
        (watcher, None),
    ];
    for (reading, expect) in cases {
        let mut bench = Bench::new();
        let users = vec![(GPU.to_owned(), "alice".to_owned())];
        bench.tell(HealthInput::Users(users));
        let input = HealthInput::Processes(vec![reading.clone()]);
        bench.tell(input.clone());
        bench.tell(input.clone());
        bench.check(&[]);
        bench.tell(input);
        assert_eq!(bench.troubles(), Vec::from_iter(expect), "{reading:?}");
        bench.tell(HealthInput::Processes(Vec::new()));
        bench.check(&[]);
    }
}

#[test]
fn a_process_whose_task_has_ended_keeps_the_device_from_others() {
    let left = ["0000:1a:00.0 zombie-user bad Device EndProcess"];
    let mut bench = Bench::new();
    let holds = HealthInput::Processes(vec![process('S', &["/dev/nvidia0"], true)]);
    let users = |pci: &str| HealthInput::Users(vec![(pci.to_owned(), "alice".to_owned())]);
    // While its task has the device it may.
    bench.tell(users(GPU));
    for _ in 0..4 {
        bench.tell(holds.clone());
    }
    bench.check(&[]);
    // A task may begin or end between two looks.
    bench.tell(users(OTHER));
    bench.tell(holds.clone());
    bench.check(&[]);
    bench.tell(holds.clone());
    bench.check(&left);
    bench.tell(HealthInput::Processes(Vec::new()));
    bench.check(&[]);
    // Before another task gets the device it is known at once.
    let reading = process('S', &["/dev/nvidia0"], true);
    bench.tell(HealthInput::LeftBehind(vec![reading]));
    bench.check(&left);
    bench.tell(holds);
    bench.check(&left);
    bench.tell(HealthInput::Processes(Vec::new()));
    bench.check(&[]);
}

fn card(in_kfd: bool, uncorrected: u64, corrected: u64) -> HealthInput {
    let blocks = vec![("umc".to_owned(), uncorrected)];
    HealthInput::Amd(vec![AmdReading {
        pci: GPU.to_owned(),
        in_kfd,
        uncorrected: blocks.into_iter().filter(|(_, it)| *it > 0).collect(),
        corrected: Some(corrected),
    }])
}

#[test]
fn cards_of_amd() {
    let mut bench = Bench::new();
    bench.tell(card(false, 0, 0));
    bench.check(&[]);
    bench.tell(card(true, 0, 50));
    bench.check(&[]);
    bench.tell(card(false, 0, 50));
    bench.check(&["0000:1a:00.0 kfd-gone bad Device RebootMachine"]);
    bench.tell(card(true, 3, 50));
    bench.check(&["0000:1a:00.0 ras-uncorrected bad Device ResetDevice"]);
    bench.reset();
    bench.tell(card(true, 0, 0));
    bench.check(&[]);
    bench.tell(card(true, 0, 100));
    bench.check(&[]);
    bench.tell(card(true, 0, 101));
    bench.check(&["0000:1a:00.0 ras-correctable warn None Inspect"]);
}

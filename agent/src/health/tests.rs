use muster_model::health::{EventClass, HealthState, Remedy};
use muster_model::node::DeviceId;

use super::*;

fn device(index: u32, pci: &str) -> Device {
    Device {
        pci: Some(pci.to_owned()),
        simulated: false,
        ..Device::simulated(format!("GPU-{index}"), index, "V100")
    }
}

fn capacity(devices: Vec<Device>) -> Capacity {
    Capacity {
        cpu: 1,
        memory_mb: 1,
        devices,
        levels: Vec::new(),
        port_first: 1,
        port_last: 1,
    }
}

fn check(subject: HealthSubject, quarantine: Quarantine, since_ms: u64) -> HealthCheck {
    HealthCheck {
        name: format!("rule-{since_ms}"),
        subject,
        state: HealthState::Bad,
        evidence: "It was seen.".to_owned(),
        since_ms,
        clears: String::new(),
        shadow: false,
        remedy: Remedy::Nothing,
        advice: "Reset it.".to_owned(),
        quarantine,
        held_back: None,
    }
}

fn faults(checks: &[HealthCheck], devices: Vec<Device>) -> Vec<Option<String>> {
    let shown = with_faults(capacity(devices), checks);
    shown.devices.into_iter().map(|one| one.fault).collect()
}

#[test]
fn what_a_check_quarantines_is_not_granted() {
    let two = || vec![device(0, "0000:1a:00.0"), device(1, "0000:3b:00.0")];
    let first = || HealthSubject::at("0000:1a:00.0");
    let told = |since: u32| Some(format!("rule-{since}: It was seen. Reset it."));
    let device_of = |subject, quarantine| check(subject, quarantine, 5);
    for (checks, expect) in [
        (vec![], [None, None]),
        (
            vec![device_of(first(), Quarantine::Device)],
            [told(5), None],
        ),
        (vec![device_of(first(), Quarantine::Links)], [told(5), None]),
        (
            vec![device_of(
                HealthSubject::at("0000:5e:00.0"),
                Quarantine::Links,
            )],
            [None, None],
        ),
        (
            vec![device_of(HealthSubject::Machine, Quarantine::Node)],
            [told(5), told(5)],
        ),
        // The earliest is what began it.
        (
            vec![
                check(first(), Quarantine::Device, 9),
                check(first(), Quarantine::Device, 7),
            ],
            [told(7), None],
        ),
        (
            vec![HealthCheck {
                shadow: true,
                ..device_of(first(), Quarantine::Device)
            }],
            [None, None],
        ),
        (
            vec![HealthCheck {
                held_back: Some("the breaker".to_owned()),
                ..device_of(first(), Quarantine::Device)
            }],
            [None, None],
        ),
    ] {
        assert_eq!(faults(&checks, two()), expect, "{checks:?}");
    }
}

#[test]
fn a_fault_of_the_driver_stays_and_partitions_share_the_fault_of_their_card() {
    let silent = Device {
        fault: Some("silent".to_owned()),
        ..device(0, "0000:1a:00.0")
    };
    let part = Device {
        partition_of: Some("0000:1a:00.0".to_owned()),
        ..device(1, "0000:1a:00.1")
    };
    let checks = [check(
        HealthSubject::at("0000:1a:00.0"),
        Quarantine::Device,
        5,
    )];
    let faults = faults(&checks, vec![silent, part]);
    assert_eq!(faults[0].as_deref(), Some("silent"));
    assert!(faults[1].as_deref().unwrap().starts_with("rule-5"));
}

#[test]
fn failed_links_of_a_switch_take_all_gpus_that_have_links() {
    let switch = HealthCheck {
        name: "sxid 20034".to_owned(),
        ..check(HealthSubject::at("0000:c1:00.0"), Quarantine::Links, 5)
    };
    let mut instance = device(1, "0000:3b:00.0");
    instance.id.0 = "MIG-0".to_owned();
    let mut other = device(2, "0000:5e:00.0");
    other.vendor = "nec".to_owned();
    let devices = vec![device(0, "0000:1a:00.0"), instance.clone(), other];
    let faults_now = faults(&[switch], devices);
    let is_faulty: Vec<bool> = faults_now.iter().map(Option::is_some).collect();
    assert_eq!(is_faulty, [true, false, false], "{faults_now:?}");
    // The card's links are not the instance's.
    let card = check(HealthSubject::at("0000:3b:00.0"), Quarantine::Links, 5);
    assert_eq!(faults(&[card], vec![instance]), [None]);
}

#[test]
fn ports_that_are_kept_from_tasks_are_told() {
    let capacity = capacity(vec![device(0, "0000:1a:00.0")]);
    let port = HealthSubject::FabricPort {
        device: "mlx5_0".to_owned(),
        port: 1,
    };
    let checks = [
        check(port.clone(), Quarantine::Links, 1),
        check(HealthSubject::at("0000:1a:00.0"), Quarantine::Links, 2),
        check(HealthSubject::at("0000:5e:00.0"), Quarantine::Links, 3),
        check(port, Quarantine::None, 4),
    ];
    let kept = |part: &str, since: u32| {
        format!(
            "{part} is kept from tasks that ask for InfiniBand: rule-{since}: It was seen. Reset \
             it."
        )
    };
    let expect = [kept("mlx5_0/1", 1), kept("0000:5e:00.0", 3)];
    assert_eq!(fabric_problems(&capacity, &checks), expect);
}

fn event(subject: HealthSubject, at_ms: u64) -> DeviceEvent {
    DeviceEvent {
        subject,
        at_ms,
        code: "xid 79".to_owned(),
        class: EventClass::Hardware,
        pid: None,
        text: String::new(),
    }
}

#[tokio::test]
async fn a_task_is_told_of_events_of_its_own_devices_and_time() {
    let (health, mut ends) = NodeHealth::new(HealthNow::default());
    let port = || HealthSubject::FabricPort {
        device: "mlx5_0".to_owned(),
        port: 1,
    };
    let by_id = HealthSubject::Device {
        pci: None,
        id: Some(DeviceId("GPU-0".to_owned())),
    };
    let all = vec![
        event(HealthSubject::at("0000:1a:00.0"), 9),
        event(HealthSubject::at("0000:1a:00.0"), 10),
        event(HealthSubject::at("0000:3b:00.0"), 11),
        event(by_id, 12),
        event(port(), 13),
        event(HealthSubject::Machine, 14),
    ];
    tokio::spawn(async move {
        while let Some(HealthRequest::Events { reply, .. }) = ends.requests.recv().await {
            reply.send(all.clone()).unwrap();
        }
    });
    let held = |infiniband| DevicesHeld {
        devices: vec![device(0, "0000:1a:00.0")],
        infiniband,
        since_ms: 10,
    };
    let times = async |infiniband| {
        let events = health.events(&held(infiniband)).await;
        events.into_iter().map(|it| it.at_ms).collect::<Vec<_>>()
    };
    assert_eq!(times(false).await, [10, 12]);
    assert_eq!(times(true).await, [10, 12, 13]);
}

#[test]
fn what_is_kept_survives_and_a_damaged_file_is_put_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("health.json");
    let (store, mut kept, problem) = HealthStore::open(path.clone()).unwrap();
    assert_eq!((kept.events.len(), problem), (0, None));
    kept.note(event(HealthSubject::Machine, 1));
    store.write(&kept).unwrap();
    let (_, again, problem) = HealthStore::open(path.clone()).unwrap();
    assert_eq!((again.events, problem), (kept.events, None));
    std::fs::write(&path, "{").unwrap();
    let (_, empty, problem) = HealthStore::open(path.clone()).unwrap();
    assert!(empty.events.is_empty() && !path.exists());
    let problem = problem.unwrap();
    assert!(problem.contains("health.json.damaged"), "{problem}");
}

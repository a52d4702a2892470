//! Events of the kernel's log: what they do, what clears them, what repeats.

use super::*;

const XID_48: &str = "0000:1a:00.0 xid 48 bad Device ResetDevice";

#[test]
fn an_event_stands_until_a_reset() {
    let mut bench = Bench::new();
    bench.log("xid 48");
    bench.check(&[XID_48]);
    assert_eq!(bench.classes(), [EventClass::Hardware]);
    bench.wait(10 * DAY_MS / 1000);
    bench.check(&[XID_48]);
    bench.reset();
    bench.check(&[]);
    let cleared = bench.said.last().unwrap();
    assert!(matches!(cleared, HealthOutput::Cleared(check) if check.name == "xid 48"));
}

#[test]
fn a_program_s_fault_leaves_the_device_well() {
    let mut bench = Bench::new();
    for code in ["xid 13", "xid 31", "xid 43", "xid 94", "xid 63", "xid 4711"] {
        bench.log(code);
    }
    bench.check(&[]);
    use EventClass::{Application, ContainedEcc, Information};
    let expect = [
        Application,
        Application,
        Application,
        ContainedEcc,
        Information,
        Information,
    ];
    assert_eq!(bench.classes(), expect);
}

#[test]
fn an_event_names_the_device_as_it_is_granted() {
    let mut bench = Bench::new();
    bench.log("xid 48");
    let HealthOutput::Event(event) = &bench.said[bench.said.len() - 2] else {
        panic!("no event: {:?}", bench.said);
    };
    let expect = HealthSubject::Device {
        pci: Some(GPU.to_owned()),
        id: Some(DeviceId("GPU-0".to_owned())),
    };
    assert_eq!(event.subject, expect);
    assert_eq!(bench.judge.checks()[0].subject, expect);
}

/// What a boundary does not clear.
#[test]
fn what_clears_which_fault() {
    let cases = [
        ("xid 48", true, true),
        ("xid 79", false, true),
        ("xid 64", false, false),
        ("xid 74", true, true),
        ("gpu-gone", false, true),
    ];
    for (code, by_reset, by_reboot) in cases {
        let mut bench = Bench::new();
        bench.log(code);
        bench.reset();
        assert_eq!(bench.troubles().is_empty(), by_reset, "{code}, reset");
        bench.wait(60);
        bench.boot("second");
        assert_eq!(bench.troubles().is_empty(), by_reboot, "{code}, restart");
        bench.mark(PersonMark::Repaired);
        assert_eq!(bench.troubles(), Vec::<String>::new(), "{code}, repair");
    }
}

#[test]
fn one_event_cancels_another() {
    let mut bench = Bench::new();
    bench.log("xid 163");
    bench.check(&["0000:1a:00.0 xid 163 warn None Inspect"]);
    bench.log("xid 162");
    bench.check(&[]);
    bench.log_fact(fact("nfs-silent"));
    bench.check(&["machine nfs-silent warn None MendFabric"]);
    bench.log_fact(fact("nfs-answers"));
    bench.check(&[]);
}

#[test]
fn a_warning_is_cleared_by_time() {
    let mut bench = Bench::new();
    bench.log_fact(fact("hung-task"));
    bench.check(&["machine hung-task warn None Inspect"]);
    let deadline = bench.judge.deadline().unwrap();
    assert_eq!(deadline, bench.now_ms + 3_600_000);
    bench.wait(3599);
    bench.check(&["machine hung-task warn None Inspect"]);
    bench.wait(1);
    bench.check(&[]);
    assert_eq!(bench.judge.deadline(), None);
}

#[test]
fn an_error_of_a_link_that_is_not_fatal_is_a_warning() {
    let mut bench = Bench::new();
    let link = |fatal| KernelFact {
        subject: HealthSubject::at(GPU),
        fatal: Some(fatal),
        ..fact("xid 149")
    };
    bench.log_fact(link(false));
    bench.check(&["0000:1a:00.0 xid 149 warn None Nothing"]);
    bench.log_fact(link(true));
    bench.check(&["0000:1a:00.0 xid 149 bad Links ResetDevice"]);
    bench.log_fact(link(false));
    bench.check(&["0000:1a:00.0 xid 149 bad Links ResetDevice"]);
    use EventClass::{Information, Link};
    assert_eq!(bench.classes(), [Information, Link, Information]);
}

#[test]
fn the_driver_s_word_decides_the_remedy() {
    let mut bench = Bench::new();
    bench.log("xid 48");
    bench.log("xid 64");
    bench.recovery(0, 2);
    bench.check(&[
        "0000:1a:00.0 recovery-action bad Device RebootMachine",
        "0000:1a:00.0 xid 48 bad Device RebootMachine",
        "0000:1a:00.0 xid 64 bad Device ReplaceDevice",
    ]);
    bench.recovery(2, 3);
    bench.check(&[
        "0000:1a:00.0 recovery-action bad Links DrainLinks",
        "0000:1a:00.0 xid 48 bad Device DrainLinks",
        "0000:1a:00.0 xid 64 bad Device ReplaceDevice",
    ]);
    bench.recovery(3, 4);
    bench.recovery(4, 0);
    bench.check(&["0000:1a:00.0 xid 64 bad Device ReplaceDevice"]);
}

#[test]
fn a_look_that_is_older_than_the_log_clears_nothing() {
    let mut bench = Bench::new();
    bench.recovery(0, 1);
    let look = |action| GpuReading {
        recovery_action: Some(action),
        ..GpuReading::default()
    };
    let reset = ["0000:1a:00.0 recovery-action bad Device ResetDevice"];
    bench.look(look(0));
    bench.check(&reset);
    bench.look(look(1));
    bench.look(look(0));
    bench.check(&reset);
    bench.look(look(0));
    bench.check(&[]);
}

#[test]
fn programs_that_fail_at_one_place_make_the_gpu_suspect() {
    let suspect = "0000:1a:00.0 suspect-place bad Device Inspect";
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.check(&[]);
        // One incident has several lines.
        bench.log_at("xid 13", "GPC 1, TPC 2");
        bench.log_at("xid 13", "GPC 1, TPC 2");
        bench.wait(600);
    }
    bench.check(&[suspect]);
    bench.reset();
    bench.check(&[suspect]);
    bench.mark(PersonMark::Repaired);
    bench.check(&[]);
    let mut other = Bench::new();
    for place in [
        "GPC 1, TPC 2",
        "GPC 1, TPC 2",
        "GPC 3, TPC 2",
        "GPC 1, TPC 2",
    ] {
        other.log_at("xid 13", place);
        other.wait(600);
    }
    other.check(&[]);
}

#[test]
fn incidents_of_long_ago_do_not_count() {
    let mut bench = Bench::new();
    for _ in 0..6 {
        bench.log_at("xid 31", "GPC 1, TPC 2");
        bench.wait(DAY_MS / 2000 + 1);
    }
    bench.check(&[]);
}

#[test]
fn programs_of_three_users_make_the_gpu_suspect() {
    let mut bench = Bench::new();
    for user in ["ann", "bob", "ann", "bob"] {
        bench.used_by(user);
        bench.log("xid 31");
        bench.wait(600);
    }
    bench.check(&[]);
    bench.used_by("cid");
    bench.log("xid 13");
    bench.check(&["0000:1a:00.0 suspect-users warn Device Inspect"]);
}

#[test]
fn users_who_share_a_card_are_not_counted() {
    let mut bench = Bench::new();
    let user = |name: &str| (GPU.to_owned(), name.to_owned());
    bench.tell(HealthInput::Users(vec![
        user("ann"),
        user("bob"),
        user("cid"),
    ]));
    bench.log("xid 31");
    bench.check(&[]);
}

#[test]
fn a_reset_that_did_not_help_is_told() {
    let mut bench = Bench::new();
    bench.log("xid 119");
    bench.log("xid 46");
    bench.check(&[
        "0000:1a:00.0 xid 119 bad Device ResetDevice",
        "0000:1a:00.0 xid 46 bad Device ResetDevice",
    ]);
    bench.wait(3600);
    bench.reset();
    bench.wait(3600);
    bench.log("xid 119");
    bench.check(&[
        "0000:1a:00.0 resets-repeated bad Device Inspect",
        "0000:1a:00.0 xid 119 bad Device ResetDevice",
    ]);
}

#[test]
fn five_fatal_incidents_in_a_day_are_the_vendor_s() {
    let mut bench = Bench::new();
    for _ in 0..5 {
        let troubles = bench.troubles();
        assert!(!troubles.iter().any(|it| it.contains("fatal-repeated")));
        for _ in 0..20 {
            bench.log("xid 119");
        }
        bench.reset();
        bench.wait(3600);
    }
    bench.check(&[
        "0000:1a:00.0 fatal-repeated bad Device CallVendor",
        "0000:1a:00.0 resets-repeated bad Device Inspect",
    ]);
}

#[test]
fn what_lay_before_a_repair_does_not_count() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        bench.log("xid 119");
        bench.log_at("xid 13", "GPC 1, TPC 2");
        bench.reset();
        bench.wait(1000);
    }
    bench.mark(PersonMark::Repaired);
    bench.check(&[]);
    bench.log("xid 119");
    bench.log_at("xid 13", "GPC 1, TPC 2");
    bench.check(&["0000:1a:00.0 xid 119 bad Device ResetDevice"]);
}

#[test]
fn programs_that_failed_before_a_reset_do_not_count() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        bench.log_at("xid 13", "GPC 1, TPC 2");
        bench.wait(600);
        bench.log_at("xid 13", "GPC 1, TPC 2");
        bench.wait(600);
        bench.reset();
    }
    bench.check(&[]);
}

#[test]
fn the_log_of_another_boot_counts_from_its_first_record() {
    let mut bench = Bench::new();
    bench.log("xid 13");
    bench.log("xid 13");
    bench.boot("second");
    bench.log("xid 48");
    bench.check(&[XID_48]);
}

#[test]
fn a_drain_of_links_is_no_reset() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.recovery(0, 3);
        bench.check(&["0000:1a:00.0 recovery-action bad Links DrainLinks"]);
        bench.recovery(3, 0);
        bench.check(&[]);
    }
}

#[test]
fn a_fault_of_no_known_device_is_the_node_s() {
    let mut bench = Bench::new();
    bench.log_fact(fact("amd-queues-stuck"));
    bench.check(&["machine amd-queues-stuck bad Node ResetDevice"]);
    bench.log_fact(fact("amd-reset-done"));
    bench.check(&[]);
}

#[test]
fn a_person_s_hold_ends_by_a_person_alone() {
    let held = "0000:1a:00.0 held bad Device Inspect";
    let mut bench = Bench::new();
    bench.mark(PersonMark::Held {
        by: "ann".to_owned(),
        why: "noise".to_owned(),
    });
    bench.check(&[held]);
    bench.reset();
    bench.boot("second");
    bench.mark(PersonMark::Repaired);
    bench.wait(DAY_MS);
    bench.check(&[held]);
    bench.mark(PersonMark::Released);
    bench.check(&[]);
}

#[test]
fn a_hold_by_the_granted_name_is_one_of_the_device() {
    let mut bench = Bench::new();
    let subject = HealthSubject::Device {
        pci: None,
        id: Some(DeviceId("GPU-1".to_owned())),
    };
    let mark = PersonMark::Held {
        by: "ann".to_owned(),
        why: "test".to_owned(),
    };
    bench.tell(HealthInput::Person { subject, mark });
    bench.check(&["0000:1b:00.0 held bad Device Inspect"]);
}

#[test]
fn nothing_follows_from_a_rule_in_shadow() {
    let mut bench = Bench::with("[rule.\"xid 48\"]\nshadow = true\n");
    for _ in 0..6 {
        bench.log("xid 48");
        bench.check(&["0000:1a:00.0 xid 48 bad None ResetDevice"]);
        bench.reset();
        bench.wait(3600);
    }
    assert!(
        bench
            .classes()
            .iter()
            .all(|it| *it == EventClass::Information)
    );
    let HealthOutput::Changed(check) = &bench.said[1] else {
        panic!("no check: {:?}", bench.said);
    };
    assert!(check.shadow);
    assert_eq!(check.quarantine, Quarantine::Device);
    assert_eq!(check.remedy, Remedy::ResetDevice);
}

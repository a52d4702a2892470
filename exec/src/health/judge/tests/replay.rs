//! Restarts of the agent, and histories made by chance.

use proptest::prelude::*;

use super::*;

#[test]
fn an_event_that_is_read_again_counts_once() {
    let mut bench = Bench::new();
    let event = bench.event(KernelFact {
        subject: HealthSubject::at(GPU),
        ..fact("xid 48")
    });
    bench.tell(HealthInput::Kernel(event.clone()));
    bench.reset();
    bench.wait(1);
    bench.tell(HealthInput::Kernel(event));
    bench.check(&[]);
    assert_eq!(bench.classes().len(), 1);
}

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    Log(&'static str, Option<&'static str>),
    Recovery(u32),
    Look(u64, bool, u32),
    Silent,
    Reset,
    Reboot,
    Wait(u64),
    User(&'static str),
    Mark(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let codes = prop::sample::select(vec![
        "xid 13", "xid 31", "xid 48", "xid 79", "xid 64", "xid 163", "xid 162", "xid 145",
    ]);
    let places = prop::sample::select(vec![None, Some("GPC 1, TPC 1"), Some("GPC 2, TPC 1")]);
    prop_oneof![
        4 => (codes, places).prop_map(|(code, place)| Step::Log(code, place)),
        1 => (0_u32..6).prop_map(Step::Recovery),
        2 => (0_u64..2, any::<bool>(), 0_u32..3).prop_map(|(a, b, c)| Step::Look(a, b, c)),
        1 => Just(Step::Silent),
        1 => Just(Step::Reset),
        1 => Just(Step::Reboot),
        3 => (1_u64..40_000).prop_map(Step::Wait),
        1 => prop::sample::select(vec!["ann", "bob", "cid"]).prop_map(Step::User),
        1 => (0_u8..3).prop_map(Step::Mark),
    ]
}

fn take(bench: &mut Bench, step: &Step, number: usize) {
    match *step {
        Step::Log(code, place) => match place {
            Some(place) => bench.log_at(code, place),
            None => bench.log(code),
        },
        Step::Recovery(to) => bench.recovery(0, to),
        Step::Look(errors, pending, links) => bench.look(GpuReading {
            ecc_uncorrected: Some(errors),
            rows_pending: Some(pending),
            nvlinks_active: Some(links),
            recovery_action: Some(0),
            ..GpuReading::default()
        }),
        Step::Silent => bench.tell(HealthInput::GpuSilent {
            pci: GPU.to_owned(),
        }),
        Step::Reset => bench.reset(),
        Step::Reboot => bench.boot(&format!("boot {number}")),
        Step::Wait(seconds) => bench.wait(seconds),
        Step::User(user) => bench.used_by(user),
        Step::Mark(0) => bench.mark(PersonMark::Repaired),
        Step::Mark(1) => bench.mark(PersonMark::Released),
        Step::Mark(_) => bench.mark(PersonMark::Held {
            by: "ann".to_owned(),
            why: "test".to_owned(),
        }),
    }
}

/// Ends the agent and starts another one, which goes on from what was kept.
fn restart(bench: &mut Bench) {
    let kept = serde_json::to_string(bench.judge.memory()).unwrap();
    let memory = serde_json::from_str(&kept).unwrap();
    let HealthJudge {
        rules,
        devices,
        users,
        ..
    } = bench.judge.clone();
    bench.judge = HealthJudge::new(rules, memory);
    bench.tell(HealthInput::Devices(devices));
    bench.judge.users = users;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A judge that is restarted at every step says what one says that is not.
    #[test]
    fn a_restart_changes_nothing(steps in prop::collection::vec(step(), 1..60)) {
        let (mut steady, mut restarted) = (Bench::new(), Bench::new());
        for (number, step) in steps.iter().enumerate() {
            take(&mut steady, step, number);
            restart(&mut restarted);
            take(&mut restarted, step, number);
            prop_assert_eq!(steady.judge.checks(), restarted.judge.checks());
        }
        prop_assert_eq!(steady.classes(), restarted.classes());
    }

    /// What users of the judge may rely on, whatever happens.
    #[test]
    fn checks_are_consistent(steps in prop::collection::vec(step(), 1..60)) {
        let mut bench = Bench::new();
        let mut is_held = false;
        for (number, step) in steps.iter().enumerate() {
            take(&mut bench, step, number);
            match step {
                Step::Mark(1) => is_held = false,
                Step::Mark(2..) => is_held = true,
                _ => {}
            }
            let checks = bench.judge.checks();
            let names: std::collections::BTreeSet<&str> =
                checks.iter().map(|check| check.name.as_str()).collect();
            prop_assert_eq!(names.len(), checks.len(), "a check is there twice");
            prop_assert_eq!(names.contains("held"), is_held);
            for check in &checks {
                prop_assert!(check.since_ms <= bench.now_ms);
                prop_assert!(!check.evidence.is_empty() && !check.clears.is_empty());
                let is_trouble = check.state > HealthState::Unknown;
                prop_assert!(is_trouble || check.effect() == Quarantine::None);
            }
            if matches!(step, Step::Mark(0)) {
                prop_assert!(checks.iter().all(|check| check.name == "held"));
            }
            if let Some(deadline) = bench.judge.deadline() {
                prop_assert!(deadline > bench.now_ms);
            }
        }
    }
}
